"""Text for places where Streamlit would read Markdown."""

_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]()#+-!|~$:<>&"})


def plain(text: str) -> str:
    """Shown as it is: no emphasis, no link, no icon, no HTML."""
    return text.translate(_SIGNS)
