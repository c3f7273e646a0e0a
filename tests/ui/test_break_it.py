"""The Break it screen without a browser: every fault opens, is named, and stays in the address."""

from __future__ import annotations

import re

import pytest

from pagedviz.faults import FAULTS, SCENARIOS, Fault
from pagedviz.model import ModelError
from pagedviz.ui import examinations
from pagedviz.ui.broken_run import life_lines, parting_word, step_pairs
from pagedviz.ui.examinations import examined
from tests.ui.test_screens import html, opened, query, words


@pytest.mark.parametrize("workload", SCENARIOS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_opens_and_names_its_rule(fault: Fault, workload: str) -> None:
    app = opened("break_it", fault=fault.name, workload=workload)
    assert not app.error and not app.warning
    assert query(app, "fault") == fault.name
    shown = words(app)
    rule = fault.rules_for(fault.workloads[workload])[0]
    assert f"What finds it: rule {rule}, " in shown
    examination = examined(fault.name, workload)
    step = examination.damage
    assert f"Damage in step {step}, found in step {step}" in shown
    assert f"Stopped at the violation: rule {rule}, step {step}" in shown
    if examination.difference is not None:
        assert 'data-testid="wrong-answer"' in html(app)
    assert len(app.code) == 1 + len(fault.right)
    assert app.code[0].value.startswith(f"class {fault.part.__name__}(")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_steps_shown_end_with_the_violation(fault: Fault) -> None:
    examination = examined(fault.name, "words")
    pairs = step_pairs(examination)
    assert examination.caught is not None
    assert pairs[-1].number == examination.caught.number and pairs[-1].is_found
    assert [pair.number for pair in pairs if pair.is_damage] == [examination.damage]
    assert not any(pair.differs for pair in pairs if pair.number < (examination.damage or 0))
    damaged = pairs[-1]
    assert damaged.differs or not damaged.is_same


def test_the_life_of_the_page_is_that_of_the_one_read_by_a_stranger() -> None:
    examination = examined("narrow-hash", "words")
    assert examination.page_id == 0
    lines = life_lines(examination, 0)
    assert [line.text for line in lines[:3]] == [
        "seq:0 takes p0.1 as its page 0",
        "p0.1 becomes findable",
        "seq:0 writes keys and values into slots 0 to 15 of p0.1",
    ]
    assert lines[-1].text == "seq:1 shares p0.1 as its page 0"


@pytest.mark.parametrize(
    ("wrong", "right", "at"),
    [
        ("'The kite was green.'", "'The kite was red.'", 3),
        ("'The kite'", "'The kite was'", 2),
        ("'CD'", "'CD', aborted", 1),
        ("no answer, it waits", "'It was Mia.'", None),
        ("2 tokens computed", "6 tokens computed", None),
        ("'same'", "'same'", None),
    ],
)
def test_the_first_word_that_differs(wrong: str, right: str, at: int | None) -> None:
    assert parting_word(wrong, right) == at


def test_a_choice_is_kept_in_the_address() -> None:
    app = opened("break_it")
    assert "fault" not in app.query_params
    app.selectbox(key="fault").select("wiped-hash").run()
    app.radio(key="workload").set_value("books").run()
    assert not app.exception
    assert (query(app, "fault"), query(app, "workload")) == ("wiped-hash", "books")
    assert "rule 9" in words(app)


def test_a_number_is_a_name_too_and_nonsense_is_a_sentence() -> None:
    assert 'data-fault="wiped-hash"' in html(opened("break_it", fault="5"))
    app = opened("break_it", fault="<b>x</b>", workload="<i>")
    assert 'data-fault="narrow-hash"' in html(app)
    assert re.search("there is no fault", app.warning[0].value)
    assert "<b>x" not in app.warning[0].value


def test_a_model_that_cannot_be_loaded_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ModelError("the weights are cut off after 12 bytes")

    examined.clear()
    monkeypatch.setattr(examinations, "bundled_model", fail)
    app = opened("break_it")
    assert "the weights are cut off after 12 bytes" in app.error[0].value
    assert not app.code
