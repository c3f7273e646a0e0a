"""The Step screen alone: `streamlit run pages/step.py`."""

from pagedviz.ui.router import alone

alone("step")
