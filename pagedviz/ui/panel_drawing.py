"""The parts of panels and screens that are HTML: shaded text, page cards, stories, tables.

Invariants: every text that is not ours is escaped here; what a colour says is also written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pagedviz.engine.state_hash import state_hash_hex
from pagedviz.ui.marks import decorate
from pagedviz.views.attention_view import AttentionShares
from pagedviz.views.memory import Amount
from pagedviz.views.page_view import PageReport, Slot
from pagedviz.views.theme import letter
from pagedviz.views.words import TokenText, sequence_name, visible

_BAR = 14
_MOST_TOKENS = 600


def draw_sentence(html: str) -> str:
    """A sentence whose HTML is ready, as `decorate` gives it."""
    return f'<div class="panel"><p class="said">{html}</p></div>'


def draw_attended_text(
    shares: AttentionShares, token_ids: Sequence[int | None], token_text: TokenText, hue: int
) -> str:
    """The text up to the token that looked, a bar under each token as high as its share, page by
    page; the highest bar is as high as they go."""
    highest = max(float(shares.tokens.max(initial=0)), 1e-9)
    pages = []
    for page in shares.pages:
        if page.first >= _MOST_TOKENS:
            break
        tokens = "".join(
            f'<span class="t" style="--bar:{_BAR * float(shares.tokens[i]) / highest:.1f}px"'
            f' title="token {i}: {100 * float(shares.tokens[i]):.1f} %">'
            f"{_text(token_ids[i], token_text)}</span>"
            for i in range(page.first, min(page.last + 1, len(shares.tokens)))
        )
        pages.append(
            f'<span class="attended-page"><span class="tokens">{tokens}</span>'
            f'<span class="at">{page.logical_index} \u2192 {page.label}'
            f" \u00b7 {100 * page.share:.0f} %</span></span>"
        )
    return f'<div class="panel attended h{hue}" tabindex="0">{"".join(pages)}</div>'


def draw_page_card(report: PageReport, num_hues: int) -> str:
    """State, owners, slots with their tokens, hash chain."""
    owners = "".join(
        f'<li><b class="badge h{owner.place % num_hues}">{letter(owner.place)}</b> '
        f"{escape(sequence_name(owner.seq_id, owner.name))} as its page {owner.logical_index}</li>"
        for owner in report.owners
    )
    held = f"<ul>{owners}</ul>" if owners else f"<p>{_unowned(report)}</p>"
    slots = "".join(_slot(slot) for slot in report.slots)
    return (
        '<div class="panel card" data-testid="page-card" tabindex="0"'
        f' data-page="{report.page_id:d}">'
        f"<h2><b>{report.label}</b> \u00b7 {report.state} \u00b7 {report.fill} of "
        f"{len(report.slots)} slots filled</h2>"
        f'<h3>Owners</h3>{held}<h3>Slots</h3><ol class="slotlist" start="0">{slots}</ol>'
        f"<h3>Hash chain</h3>{_chain(report)}</div>"
    )


def _unowned(report: PageReport) -> str:
    if report.queue_place is None:
        return "Nobody"
    ahead = "next to be taken" if report.queue_place == 0 else f"{report.queue_place} before it"
    if report.state == "cached":
        return f"Nobody, but a prompt that starts like it can find it; in the free queue {ahead}"
    return f"Nobody; in the free queue {ahead}"


def _slot(slot: Slot) -> str:
    position = "" if slot.position is None else f' title="token {slot.position}"'
    if slot.text is None:
        return '<li class="void">empty</li>'
    state = "" if slot.is_filled else ' class="todo"'
    return f"<li{state}{position}><code>{escape(slot.text) or '&nbsp;'}</code></li>"


def _chain(report: PageReport) -> str:
    if not report.chain:
        return "<p>None: only a full page has a hash and can be found</p>"
    links = "".join(
        f'<li><b>{link.label}</b> <code title="{state_hash_hex(link.page_hash)}">'
        f"{state_hash_hex(link.page_hash)[:8]}</code> covers {link.num_tokens} tokens</li>"
        for link in report.chain
    )
    return f'<ol class="chain">{links}</ol>'


def draw_story(report: PageReport, places: dict[int, int], num_hues: int) -> str:
    """What happened to the page, the latest last."""
    if not report.story:
        return (
            '<div class="panel card"><h2>Life story</h2>'
            "<p>Nobody has used this page yet: step on, or choose another</p></div>"
        )
    earlier = (
        f'<li class="quiet">{report.num_earlier} earlier ones are not shown</li>'
        if report.num_earlier
        else ""
    )
    lines = "".join(
        f"<li><span>{line.moment.step}.{line.moment.event}</span>"
        f"<span>{decorate(line.text, places, num_hues)}</span></li>"
        for line in reversed(report.story)
    )
    return (
        '<div class="panel card story" data-testid="story" tabindex="0">'
        "<h2>Life story up to now, the latest first \u00b7 step.event</h2>"
        f"<ol>{lines}{earlier}</ol></div>"
    )


def draw_table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """A plain table of texts; the last `numbers` columns are set to the right."""
    aligned = [len(heads) - i <= numbers for i in range(len(heads))]
    head = "".join(
        f'<th scope="col"{_right(is_right)}>{escape(text)}</th>' if text else "<td></td>"
        for text, is_right in zip(heads, aligned, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_right(is_right)}>{escape(text)}</td>"
            for text, is_right in zip(row, aligned, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="panel tablebox" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def draw_amounts(title: str, amounts: Iterable[Amount]) -> str:
    """Memory arithmetic: what, why, the formula with its numbers, the result."""
    rows = [(amount.name, amount.meaning, amount.formula, amount.value) for amount in amounts]
    table = draw_table(("", "that is", "from", "makes"), rows, numbers=1)
    return f'<div class="panel"><h2>{escape(title)}</h2></div>{table}'


def _right(is_right: bool) -> str:
    return ' class="right"' if is_right else ""


def _text(token_id: int | None, token_text: TokenText) -> str:
    return "?" if token_id is None else escape(visible(token_text(token_id)))


def draw_tokens(token_ids: Sequence[int], token_text: TokenText, block_size: int) -> str:
    """Tokens with their numbers, cut where pages of `block_size` slots would be."""
    pages = []
    for start in range(0, len(token_ids), block_size):
        tokens = "".join(
            f'<span class="tok"><code>{_text(token_id, token_text)}</code>{token_id}</span>'
            for token_id in token_ids[start : start + block_size]
        )
        pages.append(
            f'<span class="attended-page"><span class="toks">{tokens}</span>'
            f'<span class="at">page {start // block_size}</span></span>'
        )
    num_pages = -(-len(token_ids) // block_size)
    return (
        f'<div class="panel" data-testid="tokens"><p>{len(token_ids)} tokens, in pages of '
        f"{block_size} slots as in this run: {num_pages}</p>"
        f'<div class="attended" tabindex="0">{"".join(pages)}</div></div>'
    )
