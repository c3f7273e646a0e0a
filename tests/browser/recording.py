"""Which of the addresses a browser asked for lie outside this machine."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

LOCAL = {"localhost", "127.0.0.1", "::1"}
# Schemes that never leave the browser.
INSIDE = {"data", "blob", "about", "chrome"}


def left_this_machine(urls: Iterable[str]) -> list[str]:
    parts = [(url, urlsplit(url)) for url in urls]
    return [url for url, p in parts if p.scheme not in INSIDE and p.hostname not in LOCAL]
