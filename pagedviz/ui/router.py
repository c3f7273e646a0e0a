"""Which screens there are."""

import streamlit as st


def main() -> None:
    st.set_page_config(page_title="pagedviz", page_icon="📄", layout="wide")
    st.navigation([st.Page(step, title="Step", url_path="step")], position="top").run()


def step() -> None:
    st.title("pagedviz")
