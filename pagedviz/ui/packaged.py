"""Makes the components that come with the package known to the server.

Streamlit finds assets of installed packages only. From a clone nothing is installed, so the
manifest that lies in the package is handed over as an installed one would be.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

PACKAGE = Path(__file__).resolve().parents[1]


def register_packaged(name: str) -> None:
    """All of the manifest, unless `name`, one of them, is known to the server that runs now."""
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(name) is not None:
        return
    manifest = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))
    tables = manifest["tool"]["streamlit"]["component"]["components"]
    components = [ComponentConfig.from_dict(table) for table in tables]
    manager.register_from_manifest(
        ComponentManifest(manifest["project"]["name"], "0", components), PACKAGE
    )
