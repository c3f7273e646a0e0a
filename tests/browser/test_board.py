"""The board in the running app: every press counts, nothing is asked of the server meanwhile, and
what it shows is what Python knows."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, WebSocket, expect

from pagedviz.model import load_tiny
from pagedviz.scenarios import ScenarioRun, load_scenario
from pagedviz.trace.trace import Trace
from pagedviz.views.frames import chunk, encode
from pagedviz.views.overview import overview
from pagedviz.views.words import numbered
from tests.browser.test_step import board, open_link, settled
from tests.folding import every_hash

# A run of more than 200 steps: nothing happens until somebody comes late.
LATE = {"prompt": "Once upon a time", "max_new_tokens": 4, "arrival_step": 210}
LONG = {"requests": json.dumps({"late": LATE})}

BURST = """number => new Promise(done => {
    let sent = 0;
    const timer = setInterval(() => {
        document.body.dispatchEvent(new KeyboardEvent("keydown", {
            key: "ArrowRight", bubbles: true, composed: true, repeat: sent > 0 }));
        sent += 1;
        if (sent === number) { clearInterval(timer); done(sent); }
    }, 1000 / 30);
})"""


def trace_of(name: str) -> Trace:
    return ScenarioRun(load_scenario(name), load_tiny()).run()


def all_loaded(page: Page, chunks: int) -> None:
    expect(board(page)).to_have_attribute("data-loaded", str(chunks))
    page.wait_for_timeout(300)
    settled(page)


def test_keys_held_down_for_five_seconds_advance_by_as_many_steps_as_were_sent(
    page: Page, app_url: str
) -> None:
    frames: list[str] = []

    def watch(socket: WebSocket) -> None:
        socket.on("framesent", lambda data: frames.append(str(data)[:80]))

    page.on("websocket", watch)
    shown = {"charts": "on", "panel": "attention"}
    root = open_link(page, app_url, scenario="growing", step="3", **LONG, **shown)
    all_loaded(page, 4)
    # Until a second has gone by without a message: what was opened has then said all it had to.
    said = None
    while said != len(frames):
        said = len(frames)
        page.wait_for_timeout(1000)
    frames.clear()
    sent = page.evaluate(BURST, 150)
    assert frames == []
    expect(root).to_have_attribute("data-step", str(3 + sent))
    # It rests, and says so once.
    page.wait_for_url(re.compile(f"step={3 + sent}"))
    assert len(frames) == 1


def test_each_press_is_one_step_however_fast(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="growing", step="3", **LONG)
    all_loaded(page, 4)
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-step", "43")
    button = page.get_by_role("button", name="Back", exact=True)
    for _ in range(15):
        button.click(no_wait_after=True)
    expect(root).to_have_attribute("data-step", "28")


# Presses a key as often as asked, each time when the frame of the one before is painted, and tells
# the moment and the hash that the board shows after each.
WALK = """async ([key, number]) => {
    const deep = (root) => [...root.querySelectorAll("*")].flatMap(
        (e) => [e, ...(e.shadowRoot ? deep(e.shadowRoot) : [])]);
    const board = deep(document).find((e) => e.dataset.testid === "board");
    const shown = () => [board.dataset.step, board.dataset.event, board.dataset.stateHash];
    const found = [];
    while (found.length < number) {
        const before = shown().join();
        document.body.dispatchEvent(new KeyboardEvent("keydown", {
            key, shiftKey: true, bubbles: true, composed: true }));
        const late = performance.now() + 60_000;
        while (shown().join() === before) {
            if (performance.now() > late) throw new Error(`nothing follows ${before}`);
            await new Promise(requestAnimationFrame);
        }
        found.push(shown());
    }
    return found;
}"""


@pytest.mark.parametrize(
    ("scenario", "first", "last"),
    [("thrash", 2, 4), ("samples", 1, 2), ("swap", 6, 6), ("swap", 38, 38)],
)
def test_the_board_shows_the_state_that_python_knows_at_every_event(
    page: Page, app_url: str, scenario: str, first: int, last: int
) -> None:
    trace = trace_of(scenario)
    expected = [
        [str(moment.step), str(moment.event), f"{value:016x}"]
        for moment, _, value in every_hash(trace)
        if first <= moment.step <= last and moment.event
    ]
    assert len(expected) > 10
    open_link(page, app_url, scenario=scenario, step=str(first), event="0")
    assert page.evaluate(WALK, ["ArrowRight", len(expected)]) == expected
    back = expected[-2::-1]
    assert page.evaluate(WALK, ["ArrowLeft", len(back)]) == back


def test_run_until_leads_to_the_next_of_a_kind_and_back(page: Page, app_url: str) -> None:
    trace = trace_of("thrash")
    found = [
        (str(step), str(number))
        for step in range(trace.num_steps)
        for number, event in enumerate(trace.events(step), start=1)
        if type(event).__name__ == "SequencePreempted"
    ]
    assert len(found) >= 2
    root = open_link(page, app_url, scenario="thrash", step="0")
    page.get_by_test_id("until").select_option("preemption")
    page.get_by_test_id("until-on").click()
    for step, event in found[:2]:
        expect(root).to_have_attribute("data-step", step)
        expect(root).to_have_attribute("data-event", event)
        page.keyboard.press("n")
    page.keyboard.press("p")
    expect(root).to_have_attribute("data-step", found[1][0])
    page.get_by_test_id("until").select_option("copy")
    page.get_by_test_id("until-on").click()
    expect(root.get_by_text("No copy after this moment")).to_be_visible()


def test_a_watched_page_can_be_run_to(page: Page, app_url: str) -> None:
    trace = trace_of("growing")
    changed = [
        step
        for step in range(6, trace.num_steps)
        for event in trace.events(step)
        if getattr(event, "page_id", None) == 16
    ]
    root = open_link(page, app_url, scenario="growing", step="5")
    root.locator(".page").nth(16).click()
    expect(page.get_by_test_id("until")).to_have_value("page")
    page.keyboard.press("n")
    expect(root).to_have_attribute("data-step", str(changed[0]))


def test_search_finds_words_pages_and_sequences(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="thrash", step="0")
    page.keyboard.press("/")
    page.get_by_test_id("query").fill("is preempted")
    found = root.locator(".found button")
    expect(found.first).to_contain_text("is preempted")
    where = (found.first.locator("b").text_content() or "").split(".")
    found.first.click()
    expect(root).to_have_attribute("data-step", where[0])
    expect(root).to_have_attribute("data-event", where[1])
    page.keyboard.press("/")
    page.get_by_test_id("query").fill("p1")
    expect(found.first).to_be_visible()
    assert all(re.search(r"\bp1(\.\d+)?\b", text) for text in found.all_inner_texts()[:20])


def test_search_tells_where_a_token_is_and_watches_its_page(page: Page, app_url: str) -> None:
    trace = trace_of("shared_prompt")
    view = trace.at(16, 6)
    (tom,) = [seq for seq in view.sequences if seq.seq_id == 1]
    page_id = tom.page_ids[20 // 8]
    place = f"page 2 of its table, p{page_id}.1 slot 4"
    root = open_link(page, app_url, scenario="shared_prompt", step="16", event="6")
    page.keyboard.press("/")
    panel = page.get_by_test_id("search-panel")
    expect(panel.get_by_role("status")).to_contain_text("token 20")
    answers = page.get_by_test_id("token")
    page.get_by_test_id("query").fill("token 20")
    expect(answers).to_have_count(4)
    expect(answers.nth(1)).to_contain_text(f"16.6 token 20 of seq:1 tom: {place}")
    expect(answers.nth(3)).to_contain_text("token 20 of seq:3 max: in no page")
    page.get_by_test_id("query").fill("token 68")
    expect(answers).to_have_count(2)
    events = panel.locator(".found li").filter(has_not=answers)
    expect(events.first).to_contain_text("token 68")
    page.get_by_test_id("query").fill("seq:1 token 999")
    expect(panel.get_by_role("status")).to_contain_text("Nothing found")
    page.get_by_test_id("query").fill("seq:1 token 20")
    expect(answers).to_have_count(1)
    expect(answers).to_contain_text(place)
    answers.press("Enter")
    expect(panel).to_be_hidden()
    expect(page.get_by_test_id("until").locator("option:checked")).to_have_text(
        f"change of p{page_id}"
    )
    # Chosen again, it stays watched.
    page.keyboard.press("/")
    answers.click()
    expect(page.get_by_test_id("until")).to_have_value("page")
    expect(root.locator(".page.lit")).to_have_attribute("data-p", str(page_id))


def test_a_bookmark_has_a_name_and_is_in_the_address(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="growing", step="7")
    page.keyboard.press("b")
    page.get_by_test_id("bookmark-name").fill("<b>here</b> it grows")
    page.get_by_test_id("bookmark-keep").click()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("bookmarks="))
    other = page.context.new_page()
    other.goto(page.url.replace("step=7", "step=2"))
    expect(board(other)).to_have_attribute("data-step", "2")
    other.get_by_role("button", name="Go to bookmark <b>here</b> it grows").click()
    expect(board(other)).to_have_attribute("data-step", "7")
    expect(root.locator("b", has_text="here")).to_have_count(0)


# Of each card whose sequence has pages: its height, what it says is cut off, and the pages before
# and after what can be seen, those included that are not drawn.
CUT = """root => [...root.querySelectorAll('.seq')].flatMap((card) => {
    const groups = [...card.querySelectorAll('.group[data-p]')];
    if (!groups.length) return [];
    const box = card.querySelector('.text').getBoundingClientRect();
    const at = groups.map((e) => e.getBoundingClientRect());
    const first = parseInt(groups[0].querySelector('.at').textContent);
    const before = at.filter((b) => b.top < box.top - 5 || b.left < box.left - 5).length;
    const after = at.filter((b) => b.bottom > box.bottom + 5 || b.right > box.right + 5).length;
    return [[card.offsetHeight, card.querySelector('.cut').textContent,
        before ? first + before : first, after]];
})"""


@pytest.mark.parametrize("presenter", ["off", "on"])
def test_a_strip_says_what_is_cut_off_and_no_card_changes_its_height(
    page: Page, app_url: str, presenter: str
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    for scenario, step in (("shared_prompt", 15), ("samples", 6)):
        link = {"scenario": scenario, "step": str(step), "presenter": presenter}
        root = open_link(page, app_url, **link)
        heights, told = set(), 0
        for number in range(step, step + 7):
            expect(root).to_have_attribute("data-step", str(number))
            for height, words, before, after in root.evaluate(CUT):
                heights.add(height)
                found = re.search(r"… (\d+) pages? before", words)
                assert (int(found[1]) if found else 0) == before, words
                assert (" after" in words) == (after > 0), words
                told += before > 0
            page.keyboard.press("ArrowRight")
        assert len(heights) == 1
        assert told > 6


def test_what_others_share_is_counted_where_it_is_cut_off(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    root = open_link(page, app_url, scenario="shared_prompt", step="16", event="6")
    cut = root.locator(".seq .cut")
    expect(cut.first).to_have_text("… 5 pages before, 5 shared")
    # Scrolled to its start, the text is cut at its end.
    root.locator(".seq .text").first.evaluate("e => e.scrollTo(0, -1000)")
    expect(cut.first).to_have_text(re.compile(r"^\d pages after …$"))


def test_pointing_at_a_token_lights_its_slot_and_page(page: Page, app_url: str) -> None:
    root = open_link(page, app_url, scenario="shared_prompt", step="12")
    token = root.locator(".seq .group:not(.todo) .t").last
    token.hover()
    page_id = token.locator("xpath=ancestor::*[@data-p]").get_attribute("data-p")
    lit = root.locator(".page.lit")
    expect(lit).to_have_count(1)
    expect(lit).to_have_attribute("data-p", str(page_id))
    expect(root.locator(".slots .lit")).to_have_count(1)
    words = r"token \d+ of seq:\d+ \w+: page \d+ of its table, p\d+\.\d+ slot \d"
    expect(token).to_have_attribute("title", re.compile(words))


def test_everything_is_reached_by_keyboard_and_the_key_sheet_tells_how(
    page: Page, app_url: str
) -> None:
    root = open_link(page, app_url, scenario="growing", step="5")
    page.keyboard.press("?")
    sheet = page.get_by_test_id("key-sheet")
    expect(sheet).to_be_visible()
    page.keyboard.press("ArrowRight")  # the sheet is open: nothing behind it moves
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(root).to_have_attribute("data-step", "5")
    # Space on a focused button presses that button, it does not play.
    page.get_by_role("button", name="Back", exact=True).focus()
    page.keyboard.press("Space")
    expect(root).to_have_attribute("data-step", "4")
    expect(page.get_by_test_id("play")).to_have_text("Play")
    page.get_by_test_id("slider").focus()
    page.keyboard.press("ArrowRight")
    expect(root).to_have_attribute("data-step", "5")
    page.keyboard.press("t")
    table = page.get_by_test_id("table-panel")
    expect(table.get_by_role("row")).not_to_have_count(0)
    expect(table).to_contain_text("p0.1")


def test_the_charts_follow_where_the_board_rests(page: Page, app_url: str) -> None:
    open_link(page, app_url, scenario="growing", step="5", charts="on")
    line = page.locator(".st-key-states .cursor .line")
    expect(line).to_be_attached()
    before = line.evaluate("e => getComputedStyle(e).left")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("step=11"))
    settled(page)
    assert line.evaluate("e => getComputedStyle(e).left") != before


OVERTAKEN = """async ([address, data]) => {
    const { default: board } = await import(address);
    const parentElement = document.body.appendChild(document.createElement("div"));
    const call = (data) => board({ data, parentElement, setStateValue() {} });
    const there = async () => {
        for (let i = 0; i < 200 && !parentElement.querySelector("[data-step]"); i++) {
            await new Promise((done) => setTimeout(done, 20));
        }
        return parentElement.querySelector("[data-testid=board]");
    };
    const takeBack = call(data);
    const first = await there();
    takeBack();
    call({ ...data });
    const second = await there();
    parentElement.remove();
    takeBack();
    const last = parentElement.querySelector("[data-testid=board]");
    return [first !== null, first === second, last === null];
}"""


def test_a_call_that_was_overtaken_does_not_take_the_board_away(page: Page, app_url: str) -> None:
    """Streamlit takes such a call back while the newer one is on its way."""
    trace = trace_of("growing")
    data = {
        "run": "growing",
        "overview": encode(overview(trace, is_complete=True)),
        "chunk": encode(chunk(trace, 0, numbered)),
        "go": {"id": 0, "step": 2, "event": None, "by_event": False},
        "hints": [],
        "bookmarks": [],
        "presenter": False,
    }
    open_link(page, app_url, scenario="growing")  # a server knows the component from then on
    address = f"{app_url}/_stcore/bidi-components/pagedviz.board/streamlit.js"
    assert page.evaluate(OVERTAKEN, [address, data]) == [True, True, True]
