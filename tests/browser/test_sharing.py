"""Forks, copies and swaps on the board: both pages, every owner, and what waits on the host."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from pagedviz.engine.events import PageCopied, SwappedIn, SwappedOut
from pagedviz.trace.trace import Moment, Trace
from tests.browser.test_board import trace_of
from tests.browser.test_step import moment, open_link


def moment_of(trace: Trace, kind: type) -> Moment:
    """Right after the first event of a kind."""
    return next(
        Moment(step, number)
        for step in range(trace.num_steps)
        for number, event in enumerate(trace.events(step), start=1)
        if isinstance(event, kind)
    )


def cell(root: Locator, page_id: int) -> Locator:
    return root.locator(f'.page[data-p="{page_id}"]')


def card(root: Locator, seq_id: int) -> Locator:
    return root.locator(f'.seq[data-s="{seq_id}"]')


def test_stepping_over_a_copy_on_write_shows_the_copy_and_both_owners(
    page: Page, app_url: str
) -> None:
    trace = trace_of("samples")
    here = moment_of(trace, PageCopied)
    assert here == (1, 1)
    event = trace.events(1)[0]
    assert isinstance(event, PageCopied)
    source, copy = event.source_id, event.page_id
    for _ in range(2):  # there, back, and there again
        root = open_link(page, app_url, scenario="samples", step="1", event="0")
        # Before: one half-filled page, held by all three.
        assert moment(page)[2] == f"{trace.state_hash(1, 0):016x}"
        expect(cell(root, source).locator(".refs")).to_have_text("\u00d73")
        expect(cell(root, source).locator(".owners")).to_have_text("ABC")
        expect(cell(root, source).locator(".slots .f")).to_have_count(event.num_slots)
        expect(cell(root, copy).locator(".owners")).to_have_text("")
        expect(root.locator(".page.now")).to_have_count(0)

        page.keyboard.press("Shift+ArrowRight")
        expect(root).to_have_attribute("data-event", "1")
        assert moment(page)[2] == f"{trace.state_hash(*here):016x}"
        # After: the writer has a page of its own with the same slots; the others keep theirs.
        expect(root.locator(".page.now")).to_have_count(2)
        expect(cell(root, source)).to_have_class("page active h1 now source")
        expect(cell(root, copy)).to_have_class("page active h0 now")
        expect(cell(root, source).locator(".refs")).to_have_text("\u00d72")
        expect(cell(root, source).locator(".owners")).to_have_text("BC")
        expect(cell(root, copy).locator(".owners")).to_have_text("A")
        for page_id in (source, copy):
            expect(cell(root, page_id).locator(".slots .f.now")).to_have_count(event.num_slots)
        for owner in (0, 1, 2):
            expect(root.locator(f'.seq.now[data-s="{owner}"]')).to_be_visible()
        expect(card(root, 0).locator(f'.group.now[data-p="{copy}"]')).to_be_visible()
        expect(card(root, 1).locator(f'.group.now[data-p="{source}"]')).to_contain_text("\u00d72")

        # Over it: the next event leaves the pages as they are now.
        page.keyboard.press("Shift+ArrowRight")
        expect(root).to_have_attribute("data-event", "2")
        expect(root.locator(".page.now")).to_have_count(0)
        expect(cell(root, copy).locator(".owners")).to_have_text("A")
        page.keyboard.press("Shift+ArrowLeft")
        expect(root).to_have_attribute("data-event", "1")
        page.keyboard.press("Shift+ArrowLeft")
        expect(root).to_have_attribute("data-step", "0")
        expect(root).to_have_attribute("data-event", str(trace.num_events(0)))


def test_a_fork_names_its_parent_and_pointing_at_the_name_shows_it(
    page: Page, app_url: str
) -> None:
    root = open_link(page, app_url, scenario="samples", step="1")
    chip = card(root, 1).locator(".fork")
    expect(chip).to_have_text("fork of seq:0")
    expect(card(root, 0).locator(".fork")).to_have_count(0)
    chip.hover()
    expect(root.locator(".seq.lit")).to_have_count(1)
    expect(root.locator('.seq.lit[data-s="0"]')).to_be_visible()
    page.keyboard.press("t")
    table = page.get_by_test_id("table-panel")
    expect(table.get_by_role("columnheader", name="fork of")).to_be_visible()
    # A run without a host pool shows none.
    expect(table.get_by_role("columnheader", name="host pages")).to_have_count(0)
    expect(page.get_by_test_id("host")).to_be_hidden()


def test_what_was_swapped_out_is_said_on_its_card_and_in_the_host_pool(
    page: Page, app_url: str
) -> None:
    trace = trace_of("swap")
    out, back = moment_of(trace, SwappedOut), moment_of(trace, SwappedIn)
    event = trace.events(out.step)[(out.event or 0) - 1]
    assert isinstance(event, SwappedOut)
    held = len(event.host_page_ids)
    link = {"scenario": "swap", "step": str(out.step), "event": str((out.event or 0) - 1)}
    root = open_link(page, app_url, **link)
    host = page.get_by_test_id("host")
    expect(host).to_have_text("host: 0 of 64 pages")
    page.get_by_test_id("until").select_option("swap")
    page.keyboard.press("n")
    expect(root).to_have_attribute("data-event", str(out.event))
    expect(host).to_have_text(f"host: {held} of 64 pages")
    mine = card(root, event.seq_id)
    expect(mine).to_contain_text(f"{event.num_tokens} tokens on the host, {held} pages")
    page.get_by_test_id("by-token").click()
    expect(root).to_have_attribute("data-event", "end")
    expect(mine.locator(".chip")).to_have_text("swapped out")
    expect(mine.locator(".group.hosted")).to_have_count(held)
    expect(root.get_by_role("region", name="Occupancy")).to_contain_text(f"host: {held} of 64")
    page.keyboard.press("t")
    table = page.get_by_test_id("table-panel")
    expect(table.get_by_role("columnheader", name="host pages")).to_be_visible()
    page.keyboard.press("Escape")

    for step in (27, back.step):  # somebody else goes out, then the first comes back
        page.keyboard.press("n")
        expect(root).to_have_attribute("data-step", str(step))
    expect(root).to_have_attribute("data-event", str(back.event))
    assert moment(page)[2] == f"{trace.state_hash(*back):016x}"
