"""The app from a clone: `streamlit run app.py`. Installed, `pagedviz app` starts the same."""

from pagedviz.ui.router import main

main()
