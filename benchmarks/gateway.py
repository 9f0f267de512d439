"""What the gateway adds to a model call, beside a bare pass-through and other recording proxies, in one run.

All stand in front of the same instant upstream and are asked by the same clients; a session makes its calls one after
the other on its own connection. Servers and clients are programs of their own; CPU is the server's alone.

    python -m benchmarks.gateway
    python -m benchmarks.gateway --peer-python verifiers=/path/to/python --peer-python litellm=/path/to/python
    python -m benchmarks.gateway --quick
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._report import Report, Target, options

PEERS = Path(__file__).parent / "peers"
DIRECT, PASSTHROUGH, OURS = "direct to the upstream", "aiohttp pass-through, JSONL", "assay, everything on"
VERIFIERS, LITELLM = "verifiers' interception server", "LiteLLM's proxy"
COLUMNS = (
    "contender",
    "mode",
    "at_once",
    "calls",
    "errors",
    "calls_per_s",
    "p50_ms",
    "p99_ms",
    "added_p50_ms",
    "added_p99_ms",
    "cpu_us_per_call",
    "times_passthrough",
    "peak_mib",
)
HOW = "CPU of the server process a call, and times at the clients; each session asks one call after the other"
START_S = 120.0
TICKS = os.sysconf("SC_CLK_TCK")


class Contender(NamedTuple):
    """A server."""

    name: str
    script: str | None
    """None: the clients ask the upstream itself."""
    peer: str | None = None
    share: float = 1.0
    """Of the calls that ours gets; slow peers get fewer, to save time."""
    most_streams: int = 10_000
    """At once; 512 streams of LiteLLM's proxy take a minute a round."""


CONTENDERS = (
    Contender(DIRECT, None),
    Contender(PASSTHROUGH, "gateway_passthrough.py"),
    Contender(OURS, "gateway_ours.py"),
    Contender(VERIFIERS, "gateway_verifiers.py", "verifiers", 0.1),
    Contender(LITELLM, "gateway_litellm.py", "litellm", 0.04, most_streams=64),
)


class Load(NamedTuple):
    """How many ask at once, in which mode, how many calls in all."""

    mode: str
    at_once: int
    calls: int


def loads(*, quick: bool) -> tuple[Load, ...]:
    """What is measured."""
    if quick:
        return (Load("whole", 8, 40), Load("stream", 8, 24))
    return (
        Load("whole", 1, 2000),
        Load("whole", 64, 12_800),
        Load("whole", 512, 10_240),
        Load("stream", 1, 300),
        Load("stream", 64, 1_280),
        Load("stream", 512, 1_536),
    )


class Server(NamedTuple):
    """A running contender."""

    pid: int | None
    addresses: list[dict[str, Any]]


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    parser = options("gateway", "What the gateway adds to a model call, beside others.")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    named = {name: path for name, _, path in (pair.rpartition("=") for pair in given.peer_python)}
    rows: list[dict[str, Any]] = []
    not_measured: dict[str, str] = {}
    for load in loads(quick=given.quick):
        found: dict[str, list[dict[str, Any]]] = {}
        for _ in range(1 if given.quick else given.rounds):
            for contender in CONTENDERS:
                result = _one(contender, load, named)
                if isinstance(result, str):
                    not_measured[f"{contender.name}, {load.mode}, {load.at_once} at once"] = result
                else:
                    found.setdefault(contender.name, []).append(result)
        rows += _rows(load, found)
    targets = [*_targets(rows), _idle_memory(quick=given.quick)]
    report = Report("gateway", HOW, rows, targets, not_measured)
    report.finish(COLUMNS, given.into)
    return report


def _one(contender: Contender, load: Load, named: dict[str, str]) -> dict[str, Any] | str:
    """One contender under one load, or why not."""
    python = sys.executable if contender.peer is None else named.get(contender.peer) or named.get("")
    if python is None:
        return f"no interpreter that has it was named (--peer-python {contender.peer}=PATH)"
    if load.mode == "stream" and load.at_once > contender.most_streams:
        return f"not asked for more than {contender.most_streams} streams at once"
    calls_each = max(1, round(load.calls * contender.share / load.at_once))
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder, _upstream() as upstream:
        try:
            with _serving(contender, python, upstream, Path(folder), load.at_once) as server:
                _ask(server, Path(folder), min(5, calls_each), load.mode)  # warm
                return _measured(server, Path(folder), calls_each, load)
        except (OSError, RuntimeError, subprocess.SubprocessError) as exc:
            if contender.peer is None:
                raise
            return f"{type(exc).__name__}: {exc}"[:300]


def _measured(server: Server, folder: Path, calls_each: int, load: Load) -> dict[str, Any]:
    before = _cpu_s(server.pid)
    seen = _ask(server, folder, calls_each, load.mode)
    cpu = _cpu_s(server.pid) - before
    row = {
        "calls": seen["calls"],
        "errors": seen["errors"],
        "first_error": seen["first_error"],
        "calls_per_s": seen["calls"] / seen["wall_s"],
        "p50_ms": seen["p50_ms"],
        "p99_ms": seen["p99_ms"],
    }
    if server.pid is not None:
        row |= {"cpu_us_per_call": cpu * 1e6 / max(1, seen["calls"]), "peak_mib": _peak_mib(server.pid)}
    return row


def _ask(server: Server, folder: Path, calls_each: int, mode: str) -> dict[str, Any]:
    """Runs the clients once."""
    file = folder / "asked.json"
    file.write_text(json.dumps(server.addresses), encoding="utf-8")
    command = [sys.executable, str(PEERS / "gateway_load.py"), str(file), str(calls_each), mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the clients failed: {done.stderr[-500:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@contextmanager
def _upstream() -> Iterator[int]:
    port = _free_port()
    with subprocess.Popen(
        [sys.executable, str(PEERS / "gateway_upstream.py"), str(port)], stdout=subprocess.PIPE
    ) as up:
        _await_port(up, port)
        yield port
        up.kill()


@contextmanager
def _serving(contender: Contender, python: str, upstream: int, folder: Path, sessions: int) -> Iterator[Server]:
    if contender.script is None:
        yield Server(
            None, [{"host": "127.0.0.1", "port": upstream, "path": "/v1/chat/completions", "key": "x"}] * sessions
        )
        return
    port = _free_port()
    command = [python, str(PEERS / contender.script), str(port), str(upstream), str(folder), str(sessions)]
    with (folder / "server.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            addresses = _await_addresses(server, folder)
            _await_port(server, addresses[0]["port"])
            yield Server(server.pid, addresses)
        finally:
            server.kill()


def _await_addresses(server: subprocess.Popen[bytes], folder: Path) -> list[dict[str, Any]]:
    file = folder / "addresses.json"
    _await(server, lambda: file.exists() and file.stat().st_size > 0, folder)
    time.sleep(0.05)
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _await_port(server: subprocess.Popen[bytes], port: int) -> None:
    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    _await(server, answers, None)


def _await(server: subprocess.Popen[bytes], ready: Any, folder: Path | None) -> None:
    deadline = time.monotonic() + START_S
    while not ready():
        if server.poll() is not None or time.monotonic() > deadline:
            said = (folder / "server.log").read_text(errors="replace")[-400:] if folder else ""
            raise RuntimeError(f"the server did not come up: {said}")
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _cpu_s(pid: int | None) -> float:
    """CPU seconds of all threads; where the kernel can, finer than in clock ticks, which are as long as many calls."""
    if pid is None:
        return 0.0
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(task.read_text(encoding="utf-8").split()[0]) for task in tasks) / 1e9
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def _status_mib(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def _peak_mib(pid: int) -> float:
    return _status_mib(pid, "VmHWM")


def _rows(load: Load, found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    rows = []
    for name, rounds in found.items():
        row: dict[str, Any] = {"contender": name, "mode": load.mode, "at_once": load.at_once}
        for key in rounds[0]:
            values = [r[key] for r in rounds]
            numbers = [v for v in values if isinstance(v, int | float)]
            if key in {"errors", "calls"}:
                row[key] = sum(numbers)
            else:
                row[key] = statistics.median(numbers) if numbers else next((v for v in values if v), None)
        rows.append(row)
    by_name = {row["contender"]: row for row in rows}
    direct, passing = by_name.get(DIRECT), by_name.get(PASSTHROUGH)
    for row in rows:
        if direct is not None and row is not direct:
            row["added_p50_ms"] = row["p50_ms"] - direct["p50_ms"]
            row["added_p99_ms"] = row["p99_ms"] - direct["p99_ms"]
        if passing is not None and "cpu_us_per_call" in row:
            row["times_passthrough"] = row["cpu_us_per_call"] / passing["cpu_us_per_call"]
    return rows


def _targets(rows: list[dict[str, Any]]) -> list[Target]:
    def of(name: str, mode: str, at_once: int, key: str) -> float | None:
        for row in rows:
            if (row["contender"], row["mode"], row["at_once"]) == (name, mode, at_once):
                value = row.get(key)
                return None if value is None else float(value)
        return None

    targets = [
        Target(
            f"CPU a call beside a recording pass-through, {row['mode']}, {row['at_once']} at once",
            "times",
            2.0,
            row.get("times_passthrough"),
        )
        for row in rows
        if row["contender"] == OURS
    ]
    for peer, least in ((VERIFIERS, 8.0), (LITELLM, 25.0)):
        for at_once in sorted({row["at_once"] for row in rows if row["contender"] == peer and row["mode"] == "whole"}):
            theirs, ours = (of(name, "whole", at_once, "cpu_us_per_call") for name in (peer, OURS))
            ratio = None if theirs is None or ours is None else ours / theirs
            what = f"CPU a call beside {peer} (1/{least:g}), whole, {at_once} at once"
            targets.append(Target(what, "times", 1 / least, ratio))
    most = max((row["at_once"] for row in rows if row["mode"] == "stream"), default=0)
    errors = of(OURS, "stream", most, "errors")
    return [*targets, Target(f"errors of {most} streams at once", "calls", 0.0, errors)]


def _idle_memory(*, quick: bool) -> Target:
    """What an idle session holds: sessions that have made one call, then ten times as many."""
    few, many = (10, 50) if quick else (100, 1100)
    held = []
    for sessions in (few, many):
        with (
            tempfile.TemporaryDirectory(prefix="gateway-") as folder,
            _upstream() as upstream,
            _serving(CONTENDERS[2], sys.executable, upstream, Path(folder), sessions) as server,
        ):
            _ask(server, Path(folder), 1, "whole")
            held.append(_status_mib(server.pid or 0, "VmRSS"))
    return Target("memory of an idle session", "kB", 100.0, (held[1] - held[0]) * 1024 / (many - few))


if __name__ == "__main__":
    main()
