"""The commands: what they print, and that every failure is one sentence and an exit code."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pagedviz import __version__
from pagedviz.cli import main
from pagedviz.cli.trace_commands import ranges
from pagedviz.engine import Engine, EngineConfig
from pagedviz.scenarios import load_scenario, load_workload, replay, scenario_names
from pagedviz.trace.codec import read_trace, write_trace
from pagedviz.trace.header import TraceHeader
from pagedviz.trace.recorder import Recorder
from pagedviz.trace.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = ROOT / "pagedviz" / "model" / "tiny" / "adapters"


@pytest.fixture(scope="module")
def small_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sequences in seven pages of two slots, without a model: hits and preemptions."""
    config = EngineConfig(num_pages=7, block_size=2)
    recorder = Recorder(TraceHeader(7, 2, producer="tests", settings=config))
    engine = Engine(config, emit=recorder.emit)
    for number in range(3):
        engine.submit([1, 2, 3, number], max_new_tokens=6, forced_ids=[5] * 6)
    while engine.has_unfinished:
        engine.step()
        recorder.end_step()
    path = tmp_path_factory.mktemp("traces") / "small.jsonl"
    write_trace(recorder.trace, path)
    return path


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pagedviz", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The sentence a command fails with, and nothing else."""
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("pagedviz: ") and error.count("\n") == 1
    return error.removeprefix("pagedviz: ").rstrip("\n")


# ---- run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", scenario_names())
def test_run_prints_a_line_a_step_then_the_texts(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", name]) == 0
    out = capsys.readouterr().out
    scenario = load_scenario(name)
    assert out.startswith(scenario.title)
    steps = [line for line in out.splitlines() if line.startswith("step ")]
    assert [int(line.split()[1]) for line in steps] == list(range(len(steps)))
    assert f"{len(steps)} steps, " in out
    for request in scenario.requests:
        assert f"\n{request.name}: " in out


def test_run_writes_through_a_link_and_not_over_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    os.mkfifo(pipe)
    assert main(["run", "growing", "--steps", "1", "--out", str(link)]) == 0
    assert link.is_symlink() and read_trace(target).num_steps == 1
    assert "not a regular file" in fails(capsys, "run", "growing", "--out", str(pipe))
    assert pipe.is_fifo()
    assert "name of a file" in fails(capsys, "run", "growing", "--out", "")


def adapted(tmp_path: Path, adapter: str) -> str:
    """A scenario file with one request under an adapter."""
    path = tmp_path / "own.toml"
    path.write_text(
        'title = "t"\ndescription = "d"\n[engine]\nnum_pages = 16\nblock_size = 8\n'
        f'[[requests]]\nname = "one"\nadapter = "{adapter}"\nmax_new_tokens = 8\n'
        'prompt = "Lily had a kite. The kite was red.\\nQ: What colour was the kite?\\nA:"\n'
    )
    return str(path)


def test_run_takes_adapters_by_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ADAPTERS / "golden", tmp_path / "my lora")
    option = f"--adapter=mine={tmp_path / 'my lora'}"
    path = adapted(tmp_path, "mine")
    assert main(["run", path, option]) == 0
    out = capsys.readouterr().out
    assert "adapter mine" in out and "The kite was golden." in out
    said = "the model has no adapter 'mine'; it has brief, golden, or none"
    assert said in fails(capsys, "run", path)
    assert "there is no adapter folder" in fails(capsys, "run", path, "--adapter", "mine=nowhere")
    with pytest.raises(SystemExit) as caught:
        main(["run", path, "--adapter", "mine"])
    assert caught.value.code == 2
    assert "'mine' is not NAME=FOLDER" in capsys.readouterr().err


def test_app_does_not_start_with_an_adapter_that_cannot_be_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = fails(capsys, "app", "--port", "0", "--adapter", f"mine={ROOT}")
    assert said.startswith("adapter 'mine': ") and "adapter_config.json" in said


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_or_closed_output_is_no_traceback(small_trace: Path) -> None:
    check = [sys.executable, "-m", "pagedviz", "check", str(small_trace)]
    with open("/dev/full", "w") as full:
        result = subprocess.run(check, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("pagedviz: cannot print: ")
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *check], capture_output=True, text=True)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_run_says_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "thrash"])
    out = capsys.readouterr().out
    for word in (
        "submitted",
        "scheduled",
        "cached)",
        "took p",
        "evicted p",
        "preempted",
        "waiting",
    ):
        assert word in out
    assert "preemptions: " in out and "prefix hits: " in out


def test_run_can_speak_json_and_stop_early(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "shared_prompt", "--json", "--steps", "4"]) == 0
    *steps, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [step["step"] for step in steps] == [0, 1, 2, 3]
    num_pages = load_scenario("shared_prompt").engine.num_pages
    for step in steps:
        assert step["active"] + step["cached"] + step["free"] == num_pages
    first, second = steps[0]["scheduled"][:2]
    assert first["num_cached"] == 0 < second["num_cached"] == second["start"]
    assert all(sampled["text"] for sampled in steps[0]["sampled"])
    assert last["summary"]["steps"] == 4 and not last["summary"]["is_done"]


def test_what_run_keeps_can_be_checked_and_inspected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "trace.jsonl")
    assert main(["run", "growing", "--out", path]) == 0
    assert f"trace written to {path}" in capsys.readouterr().out
    trace = read_trace(path)
    assert trace.header.scenario == "growing" and trace.header.model == "tiny"
    assert main(["check", path]) == 0
    expected = f"ok: {trace.num_steps} steps, {trace.total_events} events, rules 1-7, 9-12\n"
    assert capsys.readouterr().out == expected
    assert main(["inspect", path, "--step", "3"]) == 0
    assert "decoding" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "thrsh"], "there is no scenario 'thrsh' (did you mean thrash?)"),
        (["run", "none.toml"], "cannot read none.toml: No such file"),
        (["run", "growing", "--out", "/nowhere/x.jsonl"], "there is no folder /nowhere"),
        (["run", "growing", "--out", "."], "cannot write .: it is a folder"),
        (["check", "none.jsonl"], "cannot read none.jsonl: No such file"),
        (["check", "."], "cannot read .: "),
        (["inspect", "none.jsonl", "--step", "0"], "cannot read none.jsonl: No such file"),
        (["schedule", "none.json"], "cannot read none.json: No such file"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in fails(capsys, *arguments)


def test_a_scenario_file_that_cannot_run_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "big.toml"
    path.write_text(
        'title = "t"\ndescription = "d"\nengine = { num_pages = 999 }\n'
        '[[requests]]\nname = "a"\nprompt = "Once"\nmax_new_tokens = 600\n',
        encoding="utf-8",
    )
    sentence = fails(capsys, "run", str(path))
    assert "600 new ones make" in sentence and "the model's context holds 512" in sentence


# ---- inspect ----------------------------------------------------------------------------------


def test_inspect_shows_the_moment(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = read_trace(small_trace)
    step = next(i for i, r in enumerate(trace.steps) if "SequencePreempted" in repr(r.events))
    for event in range(trace.num_events(step) + 1):
        arguments = ["--step", str(step), "--event", str(event)]
        assert main(["inspect", str(small_trace), *arguments]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert f"after event {event} of {trace.num_events(step)}" in lines[0]
        cursor = [line.split()[1] for line in lines if line.startswith(">")]
        assert cursor == ([str(event + 1)] if event < trace.num_events(step) else [])
        snapshot = trace.at(step, event)
        for sequence in snapshot.sequences:
            start = f"  seq:{sequence.seq_id} {sequence.name}: {sequence.state}, "
            assert any(line.startswith(start) for line in lines)
        for page in snapshot.pages:
            shown = any(line.startswith(f"  {page.label} ") for line in lines)
            assert shown == (page.state != "free" or page.fill > 0)


def test_inspect_speaks_json(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = read_trace(small_trace)
    assert main(["inspect", str(small_trace), "--step", "2", "--json"]) == 0
    item = json.loads(capsys.readouterr().out)
    snapshot = trace.at(2)
    assert (item["step"], item["event"]) == (2, trace.num_events(2))
    assert item["state_hash"] == f"{trace.state_hash(2):016x}"
    assert item["free_queue"] == list(snapshot.free_queue)
    assert [page["state"] for page in item["pages"]] == [page.state for page in snapshot.pages]
    assert [tuple(s["page_ids"]) for s in item["sequences"]] == [
        s.page_ids for s in snapshot.sequences
    ]
    assert [event["type"] for event in item["events"]] == [
        type(event).__name__ for event in trace.events(2)
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--step", "999"], "step 999 is not recorded: the trace has steps 0 to "),
        (["--step", "-1"], "step -1 is not recorded"),
        (["--step", "0", "--event", "999"], "step 0 has no event 999: its moments are 0 to "),
        (["--step", "0", "--event", "-1"], "step 0 has no event -1"),
    ],
)
def test_a_moment_that_is_not_there_is_one_sentence(
    arguments: list[str], sentence: str, small_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in fails(capsys, "inspect", str(small_trace), *arguments)


# ---- check ------------------------------------------------------------------------------------


def foreign(to: Path, lines: list[dict[str, Any]]) -> str:
    """A foreign file: no checksum, no footer."""
    header = {"format": "pagedviz-trace", "version": 1, "num_pages": 4, "block_size": 2}
    to.write_text("\n".join(json.dumps(item) for item in [header, *lines]), encoding="utf-8")
    return str(to)


SUBMITTED = {"submitted": {"seq": 0, "name": "a", "num_prompt_tokens": 3, "max_new_tokens": 2}}


def test_check_says_which_rule_breaks_first_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    idle = {"step": 0, "events": []}
    stuck = {"step": 1, "events": [SUBMITTED]}
    path = foreign(tmp_path / "stuck.jsonl", [idle, stuck, {"step": 2, "events": []}])
    sentence = fails(capsys, "check", path)
    assert "step 1 breaks rule 7 (something makes progress): " in sentence
    # What comes later is not called the first.
    moving = {"step": 2, "events": [{"submitted": {**SUBMITTED["submitted"], "seq": 1}}]}
    path = foreign(tmp_path / "later.jsonl", [idle, stuck, moving])
    assert "step 2 breaks rule 7" in fails(capsys, "check", path)


def test_check_names_the_line_of_a_bad_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = foreign(tmp_path / "bad.jsonl", [{"step": 0, "events": [{"nonsense": {}}]}])
    sentence = fails(capsys, "check", path)
    assert sentence.startswith(f"{path}: line 2: unknown event")


@pytest.mark.random
def test_a_mutated_trace_is_one_sentence_or_a_trace(
    small_trace: Path, tmp_path: Path, soak: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(22)
    original = small_trace.read_bytes()
    unsealed = b"\n".join(original.replace(b',"checksum":"crc32"', b"").splitlines()[:-1])
    codes = {0: 0, 1: 0}
    for number in range(500 if soak else 50):
        data = bytearray(original if number % 2 else unsealed)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place : place + rng.randint(1, 50)]
                case 2:
                    data[place:place] = rng.choice([b"9", b"-", b"null", b"[", b'"', b"\n", b"{}"])
                case _:
                    del data[place:]
            if not data:
                data += b"\n"
        path = tmp_path / "mutated.jsonl"
        path.write_bytes(data)
        for arguments in (["check", str(path)], ["inspect", str(path), "--step", "1"]):
            code = main(arguments)
            error = capsys.readouterr().err
            assert error.count("\n") == code and (not code or error.startswith("pagedviz: "))
            codes[code] += 1
    assert codes[1] > 0


def test_nothing_in_a_file_reaches_the_terminal_as_a_control_character(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "\x1b[2J\x07 name"
    events = [{"submitted": {**SUBMITTED["submitted"], "name": name}}]
    path = foreign(tmp_path / "x.jsonl", [{"step": 0, "events": events}])
    assert main(["inspect", path, "--step", "0"]) == 0
    out = capsys.readouterr().out
    assert "x1b[2J" in out and out.replace("\n", "").isprintable()


def test_rule_numbers_are_shown_as_ranges() -> None:
    assert ranges((1, 2, 3, 5, 8, 9)) == "1-3, 5, 8-9"
    assert ranges((4,)) == "4"


# ---- schedule ---------------------------------------------------------------------------------


def write_workload(path: Path, prompt: int = 3, name: str = "w") -> str:
    item = {
        "id": "a",
        "arrival_step": 1,
        "prompt_token_ids": list(range(prompt)),
        "output_token_ids": [1, 2],
    }
    values = {
        "name": name,
        "num_blocks": 4,
        "block_size": 2,
        "max_num_batched_tokens": 8,
        "max_num_seqs": 4,
        "enable_prefix_caching": True,
        "requests": [item],
    }
    path.write_text(json.dumps(values), encoding="utf-8")
    return str(path)


def test_schedule_prints_a_json_line_a_step_of_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write_workload(tmp_path / f"{name}.json", name=name) for name in ("one", "two")]
    assert main(["schedule", *paths]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed == [record for path in paths for record in replay(load_workload(path))]
    assert [(record["workload"], record["step"]) for record in printed] == [
        (name, step) for name in ("one", "two") for step in range(3)
    ]


def test_the_example_workload_shares_a_prefix_and_preempts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = ROOT / "docs" / "workload.json"
    assert main(["schedule", str(path)]) == 0
    steps = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    # [tokens, start, tokens found in the prefix cache, pages]
    assert steps[1]["scheduled"]["b"] == [1, 8, 8, [0, 1, 3]]
    assert [step["preempted"] for step in steps if step["preempted"]] == [["c"]]
    assert [name for step in steps for name in step["finished"]] == ["a", "b", "c"]


def test_schedule_of_the_recorded_workloads_is_theirs(oracle_dir: Path) -> None:
    path = oracle_dir / "schedulers" / "workloads" / "w5_preempt.json"
    result = command("schedule", str(path))
    assert result.returncode == 0 and result.stderr == ""
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    assert printed == list(replay(load_workload(path)))
    assert any(record["preempted"] for record in printed)


def test_schedule_shows_a_stall_and_exits_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_workload(tmp_path / "w.json", prompt=9)
    assert main(["schedule", path]) == 1
    out, err = capsys.readouterr()
    assert [json.loads(line)["waiting"] for line in out.splitlines()] == [[], ["a"]]
    assert err == (
        "pagedviz: w: stalled at step 1: request 'a' needs 5 pages of 2 slots, the pool has 3; "
        "enlarge it or shorten the request\n"
    )


def test_schedule_stops_at_a_bad_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write_workload(tmp_path / "good.json"), tmp_path / "bad.json"
    bad.write_text("{", encoding="utf-8")
    assert main(["schedule", good, str(bad), good]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert err.startswith(f"pagedviz: {bad}: not JSON") and err.count("\n") == 1


# ---- the program ------------------------------------------------------------------------------


def test_the_version_is_the_packages() -> None:
    result = command("--version")
    assert (result.returncode, result.stdout) == (0, f"pagedviz {__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["run"],
        ["run", "growing", "--steps", "0"],
        ["run", "growing", "--steps", "x"],
        ["inspect", "trace.jsonl"],
        ["inspect", "trace.jsonl", "--step", "x"],
        ["schedule"],
        ["app", "--port", "x"],
    ],
)
def test_wrong_usage_exits_with_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: pagedviz" in capsys.readouterr().err


def test_a_port_that_does_not_exist_is_one_sentence() -> None:
    result = command("app", "--port", "99999")
    assert result.returncode == 1
    assert result.stderr == (
        "pagedviz: port 99999 does not exist: ports are 0 (pick a free one) to 65535\n"
    )


def write_endless_workload(path: Path) -> str:
    """One whose replay prints a million idle steps first."""
    item = json.loads(Path(write_workload(path)).read_text(encoding="utf-8"))
    item["requests"][0]["arrival_step"] = 1_000_000
    path.write_text(json.dumps(item), encoding="utf-8")
    return str(path)


@pytest.mark.skipif(os.name == "nt", reason="pipes and signals end programs otherwise there")
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = write_endless_workload(tmp_path / "w.json")
    pipe = f"{sys.executable} -m pagedviz schedule {path} | head -c 5; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", pipe], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert (result.stdout, result.stderr) == ('{"wor141\n', "")


@pytest.mark.skipif(os.name == "nt", reason="pipes and signals end programs otherwise there")
def test_ctrl_c_ends_a_command_without_a_word(tmp_path: Path) -> None:
    path = write_endless_workload(tmp_path / "w.json")
    with subprocess.Popen(
        [sys.executable, "-m", "pagedviz", "schedule", path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b'{"workload": "w", "step": 0')
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


def test_a_trace_without_steps_can_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "empty.jsonl")
    write_trace(Trace(TraceHeader(4, 2)), path)
    assert main(["check", path]) == 0
    assert capsys.readouterr().out == "ok: 0 steps, 0 events, rules 1-7, 9-12\n"
    assert "the trace is empty" in fails(capsys, "inspect", path, "--step", "0")
