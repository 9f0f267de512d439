"""Fixed work for the gate, counted in this process: `python -m benchmarks._gate_scenarios FOLDER NAME...`.

Every scenario runs once to warm up, then once while it is counted. Under callgrind the counted part alone is
instrumented; without it the kernel and SQLite are counted. One JSON object is printed on the last line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sqlite3
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from assay.api.summaries import load_measures
from assay.environments.interface import WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.model import open_session_model
from assay.gateway.server import Gateway
from assay.records import AttemptStarted, Check, EnvironmentSpec, Limits, Task, digest_record
from assay.rollout import RunConfig, Tally, reverify, start_run
from assay.rollout.attempt.endpoint import LimitedModel, SessionRecorder
from assay.rollout.audit.config import AuditConfig
from assay.rollout.audit.stored import audit_run
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.recorder import Recorder
from assay.rollout.rejudge.config import ReverifyConfig
from assay.settings import Settings
from assay.store import RunStore, seal
from assay.tasks import LoadedTask
from assay.tasks.write import TaskDraft, write_task
from benchmarks import _callgrind
from benchmarks.store import attempt_bodies

TURNS, IN_PROCESS, CALLS, EXECS, ATTEMPTS, COMMITS, SEALED, AUDITED, LISTED, COUNTED = (
    12,
    40,
    20,
    10,
    2,
    40,
    12,
    12,
    200,
    100,
)
RUN = "b"
"""The run that the attempts of `benchmarks.store` name."""
TEST = "#!/bin/sh\ntest -f /workspace/hello.txt; echo $((1 - $?)) > /logs/verifier/reward.txt\n"


class SteadyLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock advances by a fixed time at each look, so that what waits for a while to be committed
    with others waits for as many turns on every machine, profiled or not."""

    STEP_S: Final = 20e-6

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__()

    def time(self) -> float:
        self._now += self.STEP_S
        return self._now


Work = Callable[[], int]
"""Does the work and returns in how many units it is counted."""


def recorded_turns(folder: Path) -> Iterator[Work]:
    """Attempts of `TURNS` turns of the loop agent with the scripted model, in an in-process world."""
    for run in ("warm", "counted"):
        yield lambda run=run: _count_in_process(folder, run) * TURNS


def judged_again(folder: Path) -> Iterator[Work]:
    """Those attempts, each judged again from its recorded calls."""
    settings = Settings(cache=Settings.from_environment().cache, store=folder / "store")
    for run in ("warm", "counted"):
        _count_in_process(folder, run)

        def judge(run: str = run) -> int:
            with asyncio.Runner(loop_factory=SteadyLoop) as runner:
                report = runner.run(reverify(run, ReverifyConfig(again=1, allow_task_code=True), settings))
            if report.counts["agree"] != IN_PROCESS:
                raise SystemExit(f"{IN_PROCESS} attempts should agree: {report.counts}")
            return IN_PROCESS

        yield judge


def _count_in_process(folder: Path, run: str) -> int:
    """Runs the attempts of `recorded_turns` and returns their number."""
    add, finish = {"name": "add", "arguments": {"by": 1}}, {"name": "finish", "arguments": {"message": "done"}}
    replies = [
        {"content": "I add one.", "tool_calls": [add, finish] if turn == TURNS - 1 else [add]} for turn in range(TURNS)
    ]
    script = folder / "script.json"
    script.write_text(json.dumps(replies))
    task = Task(
        id="count",
        instruction="Add one until the counter stands at the end.",
        environment=EnvironmentSpec("benchmarks._counter:Counter", {}),
        checks=(Check("end", "facts", {"expected": {"value": TURNS}}),),
        digest=digest_record("count"),
        limits=Limits(turns=TURNS + 1),
    )
    config = RunConfig(
        tasks=("-",), agent="loop", model=f"scripted:{script}", attempts=IN_PROCESS, concurrency=1, run=run
    )
    return _run(config, folder, "pass", [LoadedTask(task, None)])


def null_attempts(folder: Path) -> Iterator[Work]:
    """Attempts that do nothing at a sandboxed task, verified by its script; the work of the host's process alone."""
    write_task(folder / "hello", TaskDraft(files={"instruction.md": "Write hello.txt.\n", "tests/test.sh": TEST}))
    for run in ("warm", "counted"):
        config = RunConfig(tasks=(str(folder / "hello"),), agent="null", attempts=ATTEMPTS, concurrency=1, run=run)
        yield lambda config=config: _run(config, folder, "fail", None)


def _run(config: RunConfig, folder: Path, outcome: str, tasks: list[LoadedTask] | None) -> int:
    settings = Settings(cache=Settings.from_environment().cache, store=folder / "store")
    tally = Tally()
    with asyncio.Runner(loop_factory=SteadyLoop if tasks else None) as runner:  # sandboxes need the time on the wall
        runner.run(start_run(config, settings, tally, tasks=tasks))
    if tally.outcomes[outcome] != config.attempts:
        raise SystemExit(f"{config.agent}: {config.attempts} attempts should be {outcome}: {dict(tally.outcomes)}")
    return config.attempts


def whole_calls(folder: Path) -> Iterator[Work]:
    """Model calls of one session over HTTP, answered at once by the scripted model, each committed."""
    yield from _calls(folder, stream=False)


def streamed_calls(folder: Path) -> Iterator[Work]:
    """The same calls, streamed."""
    yield from _calls(folder, stream=True)


def _calls(folder: Path, *, stream: bool) -> Iterator[Work]:
    for run in ("warm", "counted"):
        yield lambda run=run: asyncio.run(_ask_gateway(folder, run, stream=stream))


async def _ask_gateway(folder: Path, run: str, *, stream: bool) -> int:
    backend = ScriptedBackend(["The next number is in the list. " * 4] * CALLS)
    with RunStore.create(folder, run, {}) as store:
        recorder = Recorder(store, "a.0")
        recorder.add(AttemptStarted(run, "a", "t", "", "external", "scripted", 0, 0, at=0.0))
        meter = Meter(Limits(tokens=10**9, wall_s=10**6))
        async with Gateway() as gateway:
            listener = socket.create_server(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            await gateway.listen(listener)
            model = LimitedModel(open_session_model(backend), asyncio.Semaphore(4), meter)
            session = gateway.open(model, SessionRecorder(recorder, meter, _no_workspace))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            messages: list[dict[str, str]] = []
            for number in range(CALLS):
                messages.append({"role": "user", "content": f"What comes after {number}?"})
                await _post(reader, writer, session, {"model": "m", "messages": messages, "stream": stream})
                messages.append({"role": "assistant", "content": "The next number is in the list. " * 4})
            writer.close()
    return CALLS


async def _no_workspace() -> None:
    """Notes nothing: no workspace stands behind the session."""


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: Any, body: dict[str, Any]) -> None:
    raw = json.dumps(body).encode()
    head = (
        f"POST /s/{session.id}/v1/chat/completions HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer {session.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
    )
    writer.write(head.encode() + raw)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in answer.split(b"\r\n")[0]:
        raise SystemExit(f"the gateway refused a call: {answer.decode()}")
    if b"chunked" in answer:
        while size := int((await reader.readline()).strip() or b"0", 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        length = next(line for line in answer.split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))


def sandbox_execs(_: Path) -> Iterator[Work]:
    """Commands in one sandbox; the work of the host's process alone."""
    for _ in range(2):
        yield lambda: asyncio.run(_exec_in_sandbox())


async def _exec_in_sandbox() -> int:
    backend = NamespacesBackend()
    box = await backend.open(WorkspaceSpec())
    for number in range(EXECS):
        result = await box.exec(["sh", "-c", f"echo {number}"])
        if result.stdout != f"{number}\n":
            raise SystemExit(f"a command should print {number}: {result}")
    await box.close()
    await backend.close()
    return EXECS


def commits(folder: Path) -> Iterator[Work]:
    """Commits to one store, each of one attempt's 24 events."""
    for run in ("warm", "counted"):
        bodies = [attempt_bodies(number) for number in range(COMMITS)]

        def commit(run: str = run, bodies: list[Any] = bodies) -> int:
            with RunStore.create(folder / run, RUN, {}) as store:
                for number, some in enumerate(bodies):
                    store.append(f"c{number:06d}.0", some)
            return COMMITS

        yield commit


def sealed_rows(folder: Path) -> Iterator[Work]:
    """Attempts of 20 steps, sealed."""
    for run in ("warm", "counted"):
        _write_attempts(folder / run, SEALED)

        def seal_run(run: str = run) -> int:
            seal(folder / run, RUN)
            return SEALED

        yield seal_run


def audits(folder: Path) -> Iterator[Work]:
    """Attempts of 20 steps, audited by all rules."""
    for run in ("warm", "counted"):
        _write_attempts(folder / run, AUDITED)

        def audit(run: str = run) -> int:
            return len(audit_run(folder / run, RUN, AuditConfig()).cards)

        yield audit


def listings(folder: Path) -> Iterator[Work]:
    """Rows of a live run's attempts, and the one attempt of a name."""
    _write_attempts(folder, LISTED)

    def list_attempts() -> int:
        with RunStore.open(folder, RUN) as store:
            rows = store.attempts()
            for number in range(0, LISTED, 20):
                store.trajectory(f"c{number:06d}.0")
        return len(rows)

    yield from (list_attempts, list_attempts)


def counts_of_sealed(folder: Path) -> Iterator[Work]:
    """Attempts of a sealed run, checked against their events and measured, as `assay stats` does."""
    _write_attempts(folder, COUNTED)
    seal(folder, RUN)

    def count_attempts() -> int:
        return len(load_measures(folder, [RUN]))

    yield from (count_attempts, count_attempts)


def _write_attempts(folder: Path, count: int) -> None:
    with RunStore.create(folder, RUN, {}) as store:
        for number in range(count):
            store.append(f"c{number:06d}.0", attempt_bodies(number))


SCENARIOS: Final[dict[str, Callable[[Path], Iterator[Work]]]] = {
    "recorded turn": recorded_turns,
    "gateway call, whole": whole_calls,
    "gateway call, streamed": streamed_calls,
    "exec in a sandbox": sandbox_execs,
    "null attempt": null_attempts,
    "commit of an attempt": commits,
    "sealed attempt": sealed_rows,
    "audited attempt": audits,
    "attempt judged again": judged_again,
    "counted attempt": counts_of_sealed,
    "listed attempt": listings,
}


class KernelCounts:
    """Calls of functions in the main thread, statements of SQLite, bytes written, reads and writes, peak of memory."""

    def __init__(self) -> None:
        self.statements = self.calls = 0
        self._counting = False
        self._connect = sqlite3.connect
        sqlite3.connect = self._connect_traced

    def _connect_traced(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = self._connect(*arguments, **options)
        connection.set_trace_callback(self._count)
        return connection

    def _count(self, statement: str) -> None:
        self.statements += self._counting

    def _profile(self, frame: Any, event: str, argument: Any) -> None:
        self.calls += event in {"call", "c_call"}

    def measure(self, work: Work) -> dict[str, float]:
        """Returns counts for each unit of the work."""
        gc.collect()
        gc.disable()
        tracemalloc.start()
        held, before = tracemalloc.get_traced_memory()[0], _io()
        self.statements, self.calls, self._counting = 0, 0, True
        sys.setprofile(self._profile)
        units = work()
        sys.setprofile(None)
        self._counting = False
        after, peak = _io(), tracemalloc.get_traced_memory()[1] - held
        tracemalloc.stop()
        gc.enable()
        return {
            "function calls": self.calls / units,
            "SQL statements": self.statements / units,
            "bytes written": (after["wchar"] - before["wchar"]) / units,
            "read and write calls": (after["syscr"] + after["syscw"] - before["syscr"] - before["syscw"]) / units,
            "peak bytes allocated": peak / units,
        }


def _io() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}


def main(arguments: list[str]) -> None:
    """Runs the named scenarios below a folder and prints what was counted."""
    folder, names = Path(arguments[0]), arguments[1:]
    counts: KernelCounts | None = None if _callgrind.is_running() else KernelCounts()
    found: dict[str, dict[str, float]] = {}
    for name in names:
        below = folder / name.replace(" ", "-").replace(",", "")
        below.mkdir(parents=True)
        works = SCENARIOS[name](below)
        next(works)()
        counted = next(works)
        found[name] = _callgrind.measure(counted) if counts is None else counts.measure(counted)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
