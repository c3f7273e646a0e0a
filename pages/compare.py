"""The Compare screen alone: `streamlit run pages/compare.py`."""

from pagedviz.ui.router import alone

alone("compare")
