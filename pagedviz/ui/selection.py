"""What a visitor looks at beside the moment: a page, a sequence, a layer and a head, a panel, a
fault; and whether as a presenter, large and without what a lecture does not need; and with which
settings the run on screen is compared.

    ?page=3&seq=1&layer=2&head=0&panel=page&charts=off&presenter=on&with={"block_size":16}&past=2
    &fault=wiped-hash&workload=books

Invariants: only what differs from the defaults is in the address; reading never fails; whether such
a page, sequence or fault exists is for whoever shows it, since that changes with the moment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagedviz.ui.server_limits import limits

MAX_WITH_CHARS = 2_000
PANELS = ("attention", "page", "what if", "proof", "none")
WORKLOADS = ("words", "books")
_MOST_CHARS = 40


@dataclass
class Selection:
    """None: nothing was chosen, show what suits the moment. head None: the mean of all heads.
    charts None: what the server starts with. other: settings of the run to compare with, on top of
    those of the run on screen. past_end: steps past the end of the run on screen, where the other
    one still goes on."""

    page: int | None = None
    sequence: int | None = None
    layer: int = 0
    head: int | None = None
    panel: str = PANELS[0]
    charts: bool | None = None
    presenter: bool = False
    other: dict[str, Any] | None = None
    past_end: int = 0
    fault: str | None = None
    workload: str = WORKLOADS[0]

    @property
    def shows_charts(self) -> bool:
        """Whether whoever draws a chart may: without one the browser loads no library for it."""
        return limits().charts if self.charts is None else self.charts

    def parameters(self) -> dict[str, str]:
        """For the address."""
        numbers = {"page": self.page, "seq": self.sequence, "head": self.head}
        found = {key: str(value) for key, value in numbers.items() if value is not None}
        if self.layer:
            found["layer"] = str(self.layer)
        if self.panel != PANELS[0]:
            found["panel"] = self.panel.replace(" ", "-")
        if self.charts is not None and self.charts != limits().charts:
            found["charts"] = "on" if self.charts else "off"
        if self.presenter:
            found["presenter"] = "on"
        if self.other is not None:
            found["with"] = json.dumps(self.other, ensure_ascii=False, separators=(",", ":"))
        if self.past_end:
            found["past"] = str(self.past_end)
        if self.fault is not None:
            found["fault"] = self.fault
        if self.workload != WORKLOADS[0]:
            found["workload"] = self.workload
        return found

    @classmethod
    def read(cls, parameters: Mapping[str, str]) -> Selection:
        """What an address asks for; what does not make sense is left out."""
        panel = parameters.get("panel", "").replace("-", " ")
        workload = parameters.get("workload", "")
        return cls(
            _number(parameters.get("page")),
            _number(parameters.get("seq")),
            _number(parameters.get("layer")) or 0,
            _number(parameters.get("head")),
            panel if panel in PANELS else PANELS[0],
            {"on": True, "off": False}.get(parameters.get("charts", "")),
            parameters.get("presenter") == "on",
            _table(parameters.get("with")),
            _number(parameters.get("past")) or 0,
            parameters.get("fault", "")[:_MOST_CHARS] or None,
            workload if workload in WORKLOADS else WORKLOADS[0],
        )


def _table(text: str | None) -> dict[str, Any] | None:
    if text is None or len(text) > MAX_WITH_CHARS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _number(text: str | None) -> int | None:
    if text is None or len(text) > 9 or not (text.isascii() and text.isdecimal()):
        return None
    return int(text)
