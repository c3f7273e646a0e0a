"""The script that `pagedviz app` serves; Streamlit runs it from the top for every interaction."""

from pagedviz.ui.router import main

main()
