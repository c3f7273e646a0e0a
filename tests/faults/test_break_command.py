"""`pagedviz break` prints what was caught, fails when something was not, and says what it wants."""

from __future__ import annotations

import pytest

from pagedviz.cli import break_command, main
from pagedviz.engine.live_checker import LiveChecker
from pagedviz.faults import FAULTS, find_fault


def test_break_all_prints_a_row_for_each_fault_and_scenario(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["break", "--all"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    for fault in FAULTS:
        [books] = [n for n, line in enumerate(lines) if line.startswith(f"{fault.number:2}  ")]
        rows = [line for line in lines[books:] if " books " in line or " words " in line][:2]
        assert fault.name in rows[0]
        for row in rows:
            step = row.split("step ")[1].split()[0]
            assert f"step {step}: rule {fault.rules[0]} (" in row
    assert "lily gets   'The kite was green. Who had the kite? It was Clara. What was'" in out
    assert "instead of  'The kite was red. Who went to the park? It was Lily. What'" in out
    assert lines[-2].startswith("ok: 12 faults caught")
    assert lines[-1].startswith("live: the rules that the engine's own check names")
    [row] = [line for line in lines if line.startswith(" 8  unwritten-slots")]
    assert "step 0   11          step 0: rule 11 (" in row


def test_break_one_shows_steps_violation_life_and_both_sources(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["break", "stale-entry"]) == 0
    out = capsys.readouterr().out
    assert "nano-vllm before f64d821" in out
    assert "lily again gets  'pink. Who" in out and "instead of       'yellow. Who" in out
    assert "step   2  submitted ben; scheduled ben 0+64; took p2.2, p3.1, p4.1, p1.2" in out
    assert "rule 5 (hashes tell the content): p1 is findable by" in out
    assert "rule 8 (truth): after 41 tokens the paged logits of seq:2 differ from" in out
    assert "life of p1\n  step   0  PageAllocated page_id=1" in out
    assert "pagedviz/faults/stale_entry.py, line" in out
    assert "pagedviz/engine/prefix_cache.py, line" in out


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_can_be_shown_in_its_books(
    fault: object, capsys: pytest.CaptureFixture[str]
) -> None:
    number = str(FAULTS.index(fault) + 1)  # type: ignore[arg-type]
    assert main(["break", number, "--scenario", "books"]) == 0
    out = capsys.readouterr().out
    assert "\nlife of p" in out and "the lines that are right" in out


def test_a_fault_that_nothing_catches_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = find_fault("orphans")
    blind = orphans._replace(rules=(3,))
    monkeypatch.setattr(break_command, "FAULTS", (blind,))
    assert main(["break", "--all"]) == 1
    printed = capsys.readouterr()
    assert "not caught in the step of the damage: orphans (books), orphans (words)" in printed.err
    assert "ok:" not in printed.out
    monkeypatch.setattr(break_command, "find_fault", lambda name: blind)
    assert main(["break", "orphans", "--scenario", "books"]) == 1


def test_a_fault_that_the_live_check_does_not_see_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(break_command, "FAULTS", (find_fault("orphans"),))
    monkeypatch.setattr(LiveChecker, "after_step", lambda checker, engine: [])
    assert main(["break", "--all"]) == 1
    printed = capsys.readouterr()
    assert "not caught live in the step of the damage: orphans (books), orphans (words)" in (
        printed.err
    )
    assert "step 2   nothing     step 2: rule 12 (" in printed.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["narow"], "there is no fault 'narow'; there are narrow-hash, "),
        ([], "break needs the name of a fault, or --all; there are narrow-hash, "),
        (["orphans", "--all"], "break needs either a fault or --all, not both; there are "),
    ],
)
def test_a_wrong_name_gets_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["break", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pagedviz: {sentence}") and printed.err.count("\n") == 1
