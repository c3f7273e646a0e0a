"""The Trace screen alone: `streamlit run pages/trace.py`."""

from pagedviz.ui.router import alone

alone("trace")
