"""The Pages screen alone: `streamlit run pages/pages.py`."""

from pagedviz.ui.router import alone

alone("pages")
