"""One HTML file with the board and a whole run in it, which opens from disk and steps as the app.

Invariants: the file asks nobody for anything; the code in it is the app's own; what comes with a
run is in it as data only. It opens at the moment it was made for, or at `#step=14&event=3`.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pagedviz.trace.trace import Moment, Trace
from pagedviz.views.frames import chunk, encode, num_chunks
from pagedviz.views.overview import overview
from pagedviz.views.theme import DARK, LIGHT
from pagedviz.views.words import TokenText

_BYTES_PER_EVENT = 60
_IMPORT = re.compile(r'from "\./([a-z_]+\.js)"')

_START = """
import { mount } from "board/board.js";
import { unpack } from "board/run.js";
const data = JSON.parse(document.getElementById("run").textContent);
const asked = new URLSearchParams(location.hash.slice(1));
const number = (name, other) => {
  const text = asked.get(name) ?? "";
  return /^\\d{1,9}$/.test(text) ? Number(text) : other;
};
const overview = await unpack(data.overview);
const step = Math.min(number("step", data.moment[0]), overview.num_steps - 1);
const event = asked.has("step") ? number("event", null) : data.moment[1];
const moment = { step, event };
let isPresenting = asked.get("presenter") === "on";
let here = asked.has("step") ? moment : undefined;
const note = () => {
  const parts = here ? [`step=${here.step}`] : [];
  if (here && here.event !== null) parts.push(`event=${here.event}`);
  if (isPresenting) parts.push("presenter=on");
  history.replaceState(null, "", `#${parts.join("&")}`);
};
const board = mount(document.getElementById("place"), {
  overview,
  moment,
  byEvent: event !== null,
  hints: data.hints,
  bookmarks: data.bookmarks,
  isPresenting,
  calls: {
    want: async (wanted) => board.addChunk(await unpack(data.chunks[wanted])),
    rested: (moment) => {
      here = moment;
      note();
    },
    presented: (on) => {
      isPresenting = on;
      note();
    },
  },
});
board.addChunk(await unpack(data.chunks[Math.floor(step / overview.chunk_steps)]));
"""

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ margin: 6px 20px 10px; background: {light}; --above: 50px; }}
h1 {{ font: 600 15px/34px system-ui, sans-serif; margin: 0; color: {light_text}; }}
body:has(.presenter) h1 {{ display: none; }}
@media (prefers-color-scheme: dark) {{
  body {{ background: {dark}; }} h1 {{ color: {dark_text}; }}
}}
{style}
</style>
<h1>{title}</h1>
<div id="place"></div>
<script id="run" type="application/json">{data}</script>
<script type="importmap">{modules}</script>
<script type="module">{start}</script>
</html>
"""


def export_html(
    trace: Trace,
    token_text: TokenText,
    title: str,
    assets: Mapping[str, str],
    moment: Moment | None = None,
    bookmarks: Sequence[Mapping[str, Any]] = (),
    hints: Sequence[tuple[int, str]] = (),
) -> str:
    """assets: file name -> text, the modules of the board and board.css. moment: where it opens,
    None = the end. hints: (step, why it is worth a look). The trace must have a step."""
    moment = Moment(trace.num_steps - 1) if moment is None else moment
    data = {
        "overview": encode(overview(trace)),
        "chunks": [encode(chunk(trace, n, token_text)) for n in range(num_chunks(trace))],
        "moment": moment,
        "bookmarks": list(bookmarks),
        "hints": list(hints),
    }
    modules = {
        f"board/{name}": _module(text) for name, text in assets.items() if name.endswith(".js")
    }
    return _PAGE.format(
        title=escape(title),
        style=assets["board.css"],
        data=_json(data),
        modules=_json({"imports": modules}),
        start=_START,
        light=LIGHT.background,
        light_text=LIGHT.text,
        dark=DARK.background,
        dark_text=DARK.text,
    )


def about_bytes(trace: Trace, assets: Mapping[str, str]) -> int:
    """An estimate of the file's size, since only making it tells: the board's code, in base64, and
    what the events of the bundled scenarios take on average."""
    return sum(map(len, assets.values())) * 4 // 3 + _BYTES_PER_EVENT * trace.total_events


def _module(text: str) -> str:
    """A module as an address. In such an address there is no "beside", so imports go by name."""
    named = _IMPORT.sub(r'from "board/\1"', text)
    return "data:text/javascript;base64," + base64.b64encode(named.encode()).decode("ascii")


def _json(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
