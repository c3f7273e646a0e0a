"""The Break it screen alone: `streamlit run pages/break_it.py`."""

from pagedviz.ui.router import alone

alone("break_it")
