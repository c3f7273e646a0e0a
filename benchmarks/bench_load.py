"""A room full of people on one server: how long a rest takes, how long all need to come in.

    python -m benchmarks.bench_load [--people 40] [--seconds 60]

The app as it is started for a workshop, and one process of websocket clients that speak Streamlit's
own messages, as many as there are people. Each opens a scenario, all at once, and says every ten
seconds, each at its own time, that the board rests at another step; what the server does for that
is what a browser would wait for. With charts off and on, a server of its own each. Nobody draws,
and the files that a browser loads once (2.8 MB, with charts 7.2 MB) are not fetched.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.serving import ServedApp, served_app
from pagedviz.scenarios import scenario_names

EVERY = 10.0  # seconds between two rests of one person
MEGABYTE = 1 << 20
# Of the scenarios that come with pagedviz the shortest has more.
STEPS = 30


class Person:
    """One browser's side of the talk."""

    def __init__(self, socket: websockets.ClientConnection, link: dict[str, str]) -> None:
        self._socket = socket
        self._query = urlencode(link)
        self._board = ""
        self._fragment = ""
        self._run = ""
        self._known: set[str] = set()
        self.received = 0

    async def open(self) -> None:
        await self._rerun("", {})
        if not (self._board and self._fragment and self._run):
            raise SystemExit("the app sent no board")
        await self._rerun(self._fragment, {self._board: {"painted": True}})  # now charts come

    async def rest(self, step: int) -> None:
        cursor = {"cursor": {"run": self._run, "step": step, "event": None}}
        await self._rerun(self._fragment, {self._board: cursor})

    async def _rerun(self, fragment: str, said: dict[str, object]) -> None:
        message = BackMsg()
        message.rerun_script.query_string = self._query
        message.rerun_script.fragment_id = fragment
        message.rerun_script.cached_message_hashes.extend(self._known)
        for widget, value in said.items():
            state = message.rerun_script.widget_states.widgets.add()
            state.id, state.json_value = widget, json.dumps(value)
        await self._socket.send(message.SerializeToString())
        while True:
            data = await self._socket.recv()
            self.received += len(data)
            answer = ForwardMsg.FromString(data)
            if answer.metadata.cacheable and answer.hash:
                self._known.add(answer.hash)
            kind = answer.WhichOneof("type")
            if kind == "delta":
                self._look(answer)
            elif kind == "script_finished":
                if answer.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    continue
                if answer.script_finished not in (
                    ForwardMsg.FINISHED_SUCCESSFULLY,
                    ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
                ):
                    raise SystemExit(f"the script ended with {answer.script_finished}")
                return

    def _look(self, answer: ForwardMsg) -> None:
        element = answer.delta.new_element
        if element.WhichOneof("type") == "exception":
            raise SystemExit(f"the app says: {element.exception.message}")
        if element.WhichOneof("type") == "bidi_component":
            self._board = element.bidi_component.id
            self._fragment = answer.delta.fragment_id
            self._run = json.loads(element.bidi_component.json)["run"]


class Room(NamedTuple):
    """Seconds, but for `received`: bytes of one rest."""

    join: float
    rests: list[float]
    received: float


async def meet(url: str, people: int, seconds: float, charts: str) -> Room:
    address = url.replace("http://", "ws://") + "/_stcore/stream"
    rng = random.Random(0)
    names = scenario_names()
    links = [
        {"scenario": names[n % len(names)], "step": str(n % STEPS), "charts": charts}
        for n in range(people)
    ]
    sockets = [
        await websockets.connect(address, subprotocols=["streamlit"], max_size=None)
        for _ in range(people)
    ]
    crowd = [Person(socket, link) for socket, link in zip(sockets, links, strict=True)]
    began = time.perf_counter()
    await asyncio.gather(*(person.open() for person in crowd))
    join = time.perf_counter() - began
    joined = sum(person.received for person in crowd)
    rests: list[float] = []

    async def stay(number: int) -> None:
        person, due = crowd[number], time.perf_counter() + rng.random() * EVERY
        end = time.perf_counter() + seconds
        step = number
        while due < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            step += 1
            start = time.perf_counter()
            await person.rest(step % STEPS)
            rests.append(time.perf_counter() - start)
            due += EVERY

    await asyncio.gather(*(stay(number) for number in range(people)))
    received = (sum(person.received for person in crowd) - joined) / len(rests)
    for socket in sockets:
        await socket.close()
    return Room(join, rests, received)


def memory(app: ServedApp) -> float:
    """Bytes that the server has in memory now."""
    for line in Path(f"/proc/{app.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not tell how much memory a process has")


def cpu_seconds(app: ServedApp) -> float:
    fields = Path(f"/proc/{app.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def bench(people: int, seconds: float, charts: str) -> None:
    command = [sys.executable, "-m", "pagedviz", "app", "--workshop", "--host", "localhost"]
    command += ["--port", "0"]
    with tempfile.TemporaryDirectory() as folder, served_app(command, Path(folder)) as app:
        idle = memory(app)
        room = asyncio.run(meet(app.url, people, seconds, charts))
        used = (memory(app) - idle) / people / MEGABYTE
        ordered = sorted(room.rests)
        print(
            f"charts {charts:<3}  join of all {people}: {room.join:5.2f} s   "
            f"rest: median {statistics.median(ordered) * 1e3:5.1f} ms, "
            f"p95 {ordered[len(ordered) * 95 // 100] * 1e3:5.1f} ms, "
            f"max {ordered[-1] * 1e3:5.1f} ms, {room.received / 1e3:.1f} kB ({len(ordered)} rests)"
            f"   memory {idle / MEGABYTE:.0f} MB idle, {used:.1f} MB a session more   "
            f"server {cpu_seconds(app):.1f} s of one core",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    for charts in ("off", "on"):
        bench(options.people, options.seconds, charts)


if __name__ == "__main__":
    main()
