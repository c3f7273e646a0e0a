"""The Prefix cache screen alone: `streamlit run pages/prefix_cache.py`."""

from pagedviz.ui.router import alone

alone("prefix_cache")
