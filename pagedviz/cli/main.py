"""Reads the command line, runs one command, and turns every failure into one sentence.

Invariants: exit 0 = done, 1 = `pagedviz: <sentence>` on stderr, 2 = wrong usage; no traceback for
anything a user can do; a reader that goes away (`| head`) and Ctrl-C end a command without a word.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from pagedviz import __version__
from pagedviz.cli import break_command, run_command, schedule_command, trace_commands
from pagedviz.engine.config import PROFILE_NAMES
from pagedviz.engine.errors import PagedVizError
from pagedviz.faults import FAULTS, SCENARIOS
from pagedviz.model import ModelError
from pagedviz.scenarios import scenario_names

# What a shell reports for a program that SIGPIPE or SIGINT has ended.
EXIT_PIPE = 141
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code. argparse raises SystemExit for --help (0) and wrong usage (2)."""
    arguments = vars(build_parser().parse_args(argv))
    command: Callable[..., None] = arguments.pop("command_function")
    try:
        _never_fail_to_print()
        command(**arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (PagedVizError, ModelError) as error:
        _flush_quietly()
        print(f"pagedviz: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _print_nowhere()
        return EXIT_PIPE
    except OSError as error:
        # Files are opened where their own sentence is made: what is left is the output itself.
        _print_nowhere()
        print(f"pagedviz: cannot print: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pagedviz",
        description="Step a real paged KV cache one token at a time, forwards and backwards.",
    )
    parser.add_argument("--version", action="version", version=f"pagedviz {__version__}")
    commands = parser.add_subparsers(required=True)

    app = commands.add_parser("app", help="start the app and print its address")
    app.add_argument("--host", help="address to listen on (localhost; 0.0.0.0 for a workshop)")
    app.add_argument("--port", type=int, help="port; 0 picks a free one (first free from 8501)")
    app.add_argument(
        "--workshop",
        action="store_true",
        help="for a room: listen on the local network, charts off, limits on people and steps",
    )
    app.add_argument(
        "--sessions", type=_positive, metavar="N", help="most people at a time (60 in a workshop)"
    )
    _add_adapter_option(app)
    app.set_defaults(command_function=start_app)

    run = commands.add_parser("run", help="run a scenario and print what happens in each step")
    run.add_argument("scenario", help=f"{', '.join(scenario_names())}, or the path of a .toml file")
    run.add_argument("--out", metavar="TRACE.jsonl", help="keep the trace in this file")
    run.add_argument("--json", action="store_true", dest="as_json", help="one JSON object a line")
    run.add_argument("--steps", type=_positive, metavar="N", help="stop after N steps")
    _add_adapter_option(run)
    run.set_defaults(command_function=run_command.run_scenario)

    inspect = commands.add_parser("inspect", help="print the state at a moment of a trace")
    inspect.add_argument("trace", metavar="TRACE.jsonl")
    inspect.add_argument("--step", type=int, required=True, metavar="N", help="from 0")
    inspect.add_argument(
        "--event", type=int, metavar="M", help="after M events of the step (all of them)"
    )
    inspect.add_argument("--json", action="store_true", dest="as_json", help="as a JSON object")
    inspect.set_defaults(command_function=trace_commands.inspect_trace)

    check = commands.add_parser("check", help="fold a trace and check every rule of the cache")
    check.add_argument("trace", metavar="TRACE.jsonl")
    check.set_defaults(command_function=trace_commands.check_trace)

    schedule = commands.add_parser(
        "schedule", help="print the scheduler's decisions for workloads, one JSON line a step"
    )
    schedule.add_argument("workloads", nargs="+", metavar="WORKLOAD.json")
    schedule.add_argument(
        "--profile",
        choices=PROFILE_NAMES,
        default="vllm",
        help="the engine whose choices are followed (default: %(default)s)",
    )
    schedule.set_defaults(command_function=schedule_command.schedule)

    breaks = commands.add_parser(
        "break", help="run an engine with a real-world fault and show which rule finds it"
    )
    breaks.add_argument(
        "name", nargs="?", metavar="FAULT", help=f"{', '.join(f.name for f in FAULTS)}"
    )
    breaks.add_argument("--all", action="store_true", dest="is_all", help="a table of all faults")
    breaks.add_argument(
        "--scenario",
        choices=SCENARIOS,
        default=SCENARIOS[-1],
        help="with FAULT: `books` has given tokens, `words` the bundled model (%(default)s)",
    )
    breaks.set_defaults(command_function=break_command.break_engine)
    return parser


def _add_adapter_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--adapter",
        type=_named_folder,
        action="append",
        default=[],
        dest="adapters",
        metavar="NAME=FOLDER",
        help="a LoRA adapter of the bundled model in PEFT's format, to be asked for by NAME; "
        "may be given more than once",
    )


def start_app(
    host: str | None,
    port: int | None,
    workshop: bool,
    sessions: int | None,
    adapters: Sequence[tuple[str, str]],
) -> None:
    """Serve the app until Ctrl-C."""
    # Only this command pays for loading the web server.
    from pagedviz.ui.launch import launch

    launch(host, port, workshop, sessions, adapters)


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 18 or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _named_folder(text: str) -> tuple[str, str]:
    name, is_sign, folder = text.partition("=")
    if not (name and is_sign and folder):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER")
    return name, folder


def _never_fail_to_print() -> None:
    # A terminal that cannot show a letter shows its escape; a text must not end the program.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _flush_quietly() -> None:
    """What was printed before an error comes before its sentence, if anybody still reads it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _print_nowhere()


def _print_nowhere() -> None:
    # Python flushes once more at exit; nothing listens, so it must go nowhere.
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
