"""The Model screen alone: `streamlit run pages/model.py`."""

from pagedviz.ui.router import alone

alone("model")
