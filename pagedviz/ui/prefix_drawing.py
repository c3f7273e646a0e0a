"""The prefix tree and an explained lookup as HTML.

Invariants: every text that is not ours is escaped here; what a colour says is also written.
"""

from __future__ import annotations

from html import escape

from pagedviz.ui.marks import badges
from pagedviz.views.lookup_view import AlignedPage, AlignedToken, LookupReport
from pagedviz.views.prefix_tree import TreePage, TreeRow

_MOST_ROWS = 200


def draw_tree(rows: tuple[TreeRow, ...], num_hues: int, is_off: bool) -> str:
    """Rows indented by how often the text has branched before them."""
    num_pages = sum(bool(page.labels) for row in rows for page in row.pages)
    head = f"<h2>Prefixes that can be found now \u00b7 {num_pages}</h2>"
    if not rows:
        why = (
            "Prefix caching is off in this run: switch it on in Set up"
            if is_off
            else "No page is full yet, and only full pages can be found: step on"
        )
        return f'<div class="panel">{head}<p class="quiet">{why}</p></div>'
    drawn = "".join(_row(row, num_hues) for row in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    rest = f'<p class="quiet">and {more} more branches</p>' if more > 0 else ""
    return (
        f'<div class="panel">{head}<p class="quiet">A text that goes on in two ways branches; a '
        "letter is who holds the page now, none: it is cached and may be evicted</p>"
        f'<div class="tree" data-testid="tree" tabindex="0">{drawn}{rest}</div></div>'
    )


def _row(row: TreeRow, num_hues: int) -> str:
    pages = "".join(_page(page, num_hues) for page in row.pages)
    adapter = f" \u00b7 adapter {escape(row.adapter)}" if row.adapter else ""
    return (
        f'<div class="branch" style="--depth:{min(row.depth, 12)}">'
        f'<span class="from">from token {row.first}{adapter}</span>{pages}</div>'
    )


def _page(page: TreePage, num_hues: int) -> str:
    who = badges(page.owners, num_hues) if page.owners else ""
    first, *twins = page.labels or ("evicted",)
    copies = f' <span title="found first of {len(twins) + 1} equal pages">+{len(twins)}</span>'
    return (
        f'<span class="treepage {page.state}"><code>{escape(page.text)}</code>'
        f'<span class="at">{first}{copies if twins else ""} {who}</span></span>'
    )


def draw_lookup(report: LookupReport) -> str:
    """Page by page, the prompt above and what the cache holds below it where they were compared."""
    pages = "".join(_aligned(page) for page in report.pages)
    rest = (
        f'<p class="quiet">and {report.num_hidden} more pages behind the end</p>'
        if report.num_hidden
        else ""
    )
    return (
        f'<div class="panel aligned" data-testid="lookup" tabindex="0"><ol>{pages}</ol>{rest}</div>'
    )


def _aligned(page: AlignedPage) -> str:
    is_found = page.verdict == "found"
    kind = "found" if is_found else "computed"
    is_compared = any(not token.is_same for token in page.tokens)
    lines = f'<div class="line"><i>prompt</i>{_line(page.tokens, False)}</div>'
    if is_compared:
        lines += f'<div class="line"><i>cached</i>{_line(page.tokens, True)}</div>'
    where = f" in {page.label}" if page.label and is_found else ""
    where = f"; nearest is {page.label}" if page.label and not is_found else where
    verdict = ("\u2713 " if is_found else "\u2717 ") + escape(page.verdict)
    return (
        f'<li class="{kind}"><span class="at">page {page.logical_index} \u00b7 '
        f"{verdict}{where}</span>{lines}</li>"
    )


def _line(tokens: tuple[AlignedToken, ...], is_cached: bool) -> str:
    cells = []
    for token in tokens:
        text = (token.cached or "") if is_cached else token.prompt
        other = "" if token.is_same else ' class="other"'
        cells.append(f'<span{other} title="token {token.position}">{escape(text)}</span>')
    return f"<code>{''.join(cells)}</code>"
