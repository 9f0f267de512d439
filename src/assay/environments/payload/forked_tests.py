"""Runs a batch of test runs, each in a forked child, with pytest. It needs the standard library and pytest alone.

Copied into a sandbox and run there as `forked_tests.py REQUEST REPLY`; the format is `batches.py`'s. Forking a process
that has pytest and the standard library loaded reduces the cost of a run to that of its tests. Not for judging: the
code under test runs in the process that reports. Invariant: after each job the files are as they were before it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from live_functions import LiveFunctions  # type: ignore[import-not-found]  # copied beside this file
from pluggy import HookimplMarker

hookimpl = HookimplMarker("pytest")  # `pytest` itself is imported where tests run
Work = Callable[[], dict[str, Any]]
MAX_MESSAGE, MOST_FRAMES = 600, 12
PYTEST_OPTIONS = ["-qq", "--tb=no", "--no-summary", "--import-mode=importlib", "-W", "ignore"]
GONE, OVER_TIME = os.WEXITED | os.WNOHANG | os.WNOWAIT, (signal.SIGPROF, signal.SIGXCPU)
# Disabled for their cost: each run is a process of its own, which needs no cleanup and has its own report.
UNUSED = ("cacheprovider", "unraisableexception", "threadexception", "faulthandler", "junitxml", "pastebin", "stepwise")
PYTEST_OPTIONS += [part for name in UNUSED for part in ("-p", f"no:{name}")]


class OutcomeRecorder:
    """Pytest plugin that records outcomes, and for each test the lines that it ran."""

    def __init__(self, job: dict[str, Any], tracer: Any = None, cover: Sequence[str] = ()) -> None:
        self.id, self.more = job["id"], dict[str, Any]()
        self.tests: dict[str, list[Any]] = {}
        self.problems: list[str] = []
        self.drew: set[str] = set()
        self._random = random.getstate()
        self._more_s, self._decisive = float(job.get("more_cpu_s", 0.0)), frozenset(job.get("give_up_on", ()))
        self._pending = set(self._decisive)
        self._tracer, self._started = tracer, 0.0
        self._cover, self._files = tuple(cover), {test.partition("::")[0] for test in job["tests"]}

    @hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Any) -> bool | None:
        """Skips all files that were not requested: pytest would examine hundreds."""
        if collection_path.suffix == ".py" and str(collection_path) not in self._files:
            return collection_path.name != "__init__.py" or None
        return None

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Moves the tests that decide whether to continue to the front."""
        if self._decisive:
            items.sort(key=lambda item: item.nodeid not in self._decisive)

    def pytest_collectreport(self, report: Any) -> None:
        """Records collection errors."""
        if report.failed:
            self.problems.append(f"{report.nodeid}: {str(report.longrepr)[-MAX_MESSAGE:]}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Starts a test's own record."""
        self._started, self._random = time.process_time(), random.getstate()
        if self._tracer is not None:
            self._tracer.begin()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Ends a test's own record."""
        if self._tracer is not None:
            self._tracer.end(nodeid)
        if random.getstate() != self._random:
            self.drew.add(nodeid)
        if nodeid in self.tests:
            self.tests[nodeid][1] = round((time.process_time() - self._started) * 1000, 1)

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Records an outcome; the worst of set-up, call, subtests and tear-down counts."""
        record = self.tests.setdefault(item.nodeid, ["passed", 0.0, "", "", 0])
        if call.excinfo is None or record[0] in ("failed", "error"):
            return
        import pytest

        expected = "xfail" in item.keywords and call.when == "call"
        if expected or call.excinfo.errisinstance((pytest.skip.Exception, pytest.xfail.Exception)):
            record[0] = "skipped"
            return
        record[0] = "failed" if call.when == "call" else "error"
        record[2:] = self.describe(call.excinfo, str(item.path))

    def describe(self, excinfo: Any, own: str) -> list[Any]:
        """Returns a failure's type, message, line in the test's own file, and frames in the program's files."""
        places = [(str(entry.path), entry.lineno + 1) for entry in excinfo.traceback]
        line = next((number for path, number in places if path == own), 0)
        inside = [place for place in reversed(places) if place[0].startswith(self._cover)]
        return [excinfo.typename, str(excinfo.value)[:MAX_MESSAGE], line, inside[:MOST_FRAMES]]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Marks a test as failed if one of its subtests, which are reported separately, failed."""
        record = self.tests.setdefault(report.nodeid, ["passed", 0.0, "", "", 0])
        if report.failed and record[0] not in ("failed", "error"):
            record[0] = "failed"
            crash = getattr(report.longrepr, "reprcrash", None)
            kind, _, text = (crash.message if crash is not None else str(report.longrepr)).partition(":")
            record[2:5] = [kind.strip()[:80], text.strip()[:MAX_MESSAGE], crash.lineno if crash is not None else 0]

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Stops the run when all decisive tests have failed, or the tests have made too many calls."""
        if self._tracer is not None and self._tracer.is_spent:
            item.session.shouldstop = "too many function calls"
        if self._pending and self.tests.get(item.nodeid, [""])[0] in ("failed", "error"):
            self._pending.discard(item.nodeid)
            if not self._pending:
                item.session.shouldstop = "nothing was gained"
        elif item.nodeid in self._pending:
            self._pending.clear()
            signal.setitimer(signal.ITIMER_PROF, signal.getitimer(signal.ITIMER_PROF)[0] + self._more_s)

    def result(self, exit_code: int, cpu_s: float) -> dict[str, Any]:
        """Returns the record in the format of the reply."""
        result = {"id": self.id, "ended": "done", "exit_code": exit_code, "tests": self.tests, **self.more}
        return result | {"drew": sorted(self.drew), "problems": self.problems[:20], "cpu_s": round(cpu_s, 3)}


def run_job(batch: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Runs one job in this process, which must end afterwards."""
    prepare(batch)
    sys.dont_write_bytecode = sys.dont_write_bytecode or bool(job.get("write"))
    tracer = LineTracer(batch.get("cover", []), job.get("most_calls", 0)) if job.get("measure") else None
    recorder = OutcomeRecorder(job, tracer, batch.get("cover", ()))
    started = time.process_time()
    code = start_pytest(batch, job, [recorder])
    lines = {} if tracer is None else {"covered": tracer.covered, "calls": tracer.calls}
    return recorder.result(code, time.process_time() - started) | lines


def start_pytest(batch: dict[str, Any], job: dict[str, Any], plugins: list[Any]) -> int:
    """Runs pytest on a job's tests; returns its exit code. A program server replaces this function."""
    import pytest

    return int(pytest.main([*options(batch, job), *job["tests"]], plugins=plugins))


def prepare(batch: dict[str, Any]) -> None:
    """Sets up the process for tests, without long tracebacks."""
    from _pytest import nodes

    nodes.Node._repr_failure_py = _format_failure  # type: ignore[assignment,method-assign]
    random.seed(batch.get("seed", 0))
    sys.path[:0] = batch.get("paths", [])


def _format_failure(node: Any, excinfo: Any, style: Any = None) -> str:  # noqa: ARG001 - the signature that it replaces
    return f"{excinfo.typename}: {excinfo.value}"


def options(batch: dict[str, Any], job: dict[str, Any]) -> list[str]:
    plain = [] if job.get("explain") else ["--assert=plain"]
    plain += ["--exitfirst"] if job.get("until_failure") else []
    return [*PYTEST_OPTIONS, f"--rootdir={batch['root']}", "-c", os.devnull, *plain]


class WarmLoop:
    """Pytest plugin that forks a process for each job once all tests are collected, instead of running them."""

    def __init__(self, batch: dict[str, Any], aside: Path, finished: Callable[[dict[str, Any]], None]) -> None:
        self._batch, self._aside, self._finished = batch, aside, finished
        self.recorder = OutcomeRecorder(batch["jobs"][0])
        """Registered once, in the session: the jobs differ only in what they write, and each runs in a fork."""

    @hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Runs all jobs; one that cannot run warm has the result `ended: cold`, or none."""
        if session.testsfailed or not session.items:
            return True
        live = LiveFunctions({path for job in self._batch["jobs"] for path in job.get("write", {})})
        gc.collect()
        gc.freeze()
        for job in self._batch["jobs"]:
            self._finished(result := in_child(self._batch, job, self._aside, partial(self._run, session, live, job)))
            if self._batch.get("stop_when_green") and is_green(result):
                break
        return True

    def _run(self, session: Any, live: LiveFunctions, job: dict[str, Any]) -> dict[str, Any]:
        if not all(live.replace(path, text) for path, text in job.get("write", {}).items()):
            return {"id": job["id"], "ended": "cold"}
        random.seed(self._batch.get("seed", 0))
        recorder, items = self.recorder, list(session.items)
        recorder.id, started = job["id"], time.process_time()
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldstop:
                break
        return recorder.result(0, time.process_time() - started)


class TracedCode:
    """The lines of one code object that the current test ran, and how many more are looked at."""

    def __init__(self, tracer: LineTracer, code: CodeType, *, is_traced: bool) -> None:
        self.code, self.is_traced, self._tracer = code, is_traced, tracer
        self.lines: set[int] | None = None
        self.patience = 0

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            if self.lines is None or self.patience <= 0:
                frame.f_trace_lines = False
            elif frame.f_lineno in self.lines:
                self.patience -= 1
            else:
                self.lines.add(frame.f_lineno)
                self.patience, self._tracer.quiet = self._tracer.PATIENCE, 0
        return self.trace


class LineTracer:
    """Records the lines of some folders that each test runs.

    Tracing every line makes tests several times slower. So a function in which PATIENCE lines in a row were not new is
    not traced until the next test, and a test in which CALLS calls in a row were not new is not traced any more: a line
    that runs late and rarely can be missed, the same one each time.
    """

    PATIENCE, CALLS, COUNTED = 300, 20_000, 300_000  # calls of one test are counted up to the last

    def __init__(self, folders: list[str], most_calls: int = 0) -> None:
        self.covered: dict[str, dict[str, list[int]]] = {}
        self.calls: dict[str, int] = {}
        self._folders = tuple(folder.rstrip("/") + "/" for folder in folders)
        self._by_address: dict[int, tuple[TracedCode, CodeType]] = {}  # a code object's hash takes long to compute
        self._by_code: dict[CodeType, TracedCode] = {}
        self._ran: list[TracedCode] = []
        self.quiet = self._count = 0
        self.is_spent, self._remaining = False, most_calls or sys.maxsize

    def begin(self) -> None:
        for known in self._ran:
            known.lines = None
        self._ran, self.quiet, self._count = [], 0, 0
        sys.settrace(self._call)

    def end(self, name: str) -> None:
        sys.settrace(None)
        self.calls[name] = self._count
        self._remaining -= self._count
        result = self.covered.setdefault(name, {})
        for known in self._ran:
            result.setdefault(known.code.co_filename, []).extend(known.lines or ())
        for path, numbers in result.items():
            result[path] = sorted(set(numbers))

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        self._count += 1
        self.quiet += 1
        if self._count > self._remaining:
            self.is_spent = True
            sys.settrace(None)
            return None
        if self.quiet > self.CALLS:
            if self._count >= self.COUNTED:
                sys.settrace(None)
            return None
        code = frame.f_code
        known, _ = self._by_address.get(id(code)) or self._note(code)
        if known.is_traced and known.lines is None:
            known.lines, known.patience = set(), self.PATIENCE
            self._ran.append(known)
        return known.trace if known.is_traced and known.patience > 0 else None

    def _note(self, code: CodeType) -> tuple[TracedCode, CodeType]:
        is_traced = code.co_filename.startswith(self._folders) and code.co_name != "<module>"
        known = self._by_code.setdefault(code, TracedCode(self, code, is_traced=is_traced))
        return self._by_address.setdefault(id(code), (known, code))


@contextlib.contextmanager
def replaced_files(texts: dict[str, str | None], serial: int) -> Iterator[None]:
    """Replaces the texts of files inside the block, each with its own time, so that no stale byte code matches."""
    before: dict[Path, tuple[bytes, os.stat_result] | None] = {}
    try:
        for name, text in texts.items():
            path = Path(name)
            before[path] = (path.read_bytes(), path.stat()) if path.exists() else None
            if text is None:
                path.unlink(missing_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            os.utime(path, (1_000_000 + serial, 1_000_000 + serial))
        yield
    finally:
        for path, old in before.items():
            if old is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(old[0])
                os.utime(path, ns=(old[1].st_atime_ns, old[1].st_mtime_ns))


def in_child(batch: dict[str, Any], job: dict[str, Any], reply: Path, callback: Work) -> dict[str, Any]:
    """Runs the callback in a forked child and returns its result; one that takes too long is killed with its group."""
    reply.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _run_child(batch, job, reply, callback)
    limit = float(job.get("cpu_s", 30.0))
    ended = _wait(child, limit * 8 + 30)  # CPU seconds decide: the wall time only ends what waits forever
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    try:
        return dict(json.loads(reply.read_bytes()))
    except (OSError, ValueError):
        return {"id": job["id"], "ended": ended}


def _run_child(batch: dict[str, Any], job: dict[str, Any], reply: Path, callback: Work) -> None:
    try:
        os.setpgid(0, 0)
        limit = float(job.get("cpu_s", 30.0))
        signal.setitimer(signal.ITIMER_PROF, limit)  # its signal ends the process; finer than the limit in seconds
        hard = int(limit + float(job.get("more_cpu_s", 0.0))) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.chdir(batch["root"])
        aside = reply.with_suffix(".part")
        aside.write_text(json.dumps(callback()), encoding="utf-8")
        aside.rename(reply)
    finally:
        os._exit(0)


def _wait(child: int, wall_s: float) -> str:
    _sleep_until_gone(child, wall_s)
    done, status = os.waitpid(child, os.WNOHANG)
    if done:
        return "time" if os.WIFSIGNALED(status) and os.WTERMSIG(status) in OVER_TIME else "died"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "time"


def _sleep_until_gone(child: int, wall_s: float) -> None:
    try:
        handle = os.pidfd_open(child)
    except (AttributeError, OSError):  # not supported by this kernel or sandbox: poll
        deadline = time.monotonic() + wall_s
        while time.monotonic() < deadline and os.waitid(os.P_PID, child, GONE) is None:
            time.sleep(0.005)
        return
    select.select([handle], [], [], wall_s)
    os.close(handle)


def preload(batch: dict[str, Any], aside: Path) -> None:
    """Imports the standard-library modules that the modules under test import; those themselves load in a child."""
    child = os.fork()
    if child == 0:
        try:
            sys.path[:0] = batch.get("paths", [])
            for name in batch.get("preload", []):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            aside.write_text(json.dumps(sorted(sys.modules)), encoding="utf-8")
        finally:
            os._exit(0)
    _wait(child, 60.0)
    with contextlib.suppress(OSError, ValueError):
        for name in json.loads(aside.read_bytes()):
            if str(name).partition(".")[0] in sys.stdlib_module_names and name not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)


def main(request: str, reply: str) -> None:
    """Runs the batch; each result is one line of the reply, written as soon as it is known."""
    batch = json.loads(Path(request).read_bytes())
    for name in ("pytest", "_pytest.python", "_pytest.unittest", "_pytest.subtests", "unittest"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    aside = Path(reply + ".child")
    warm = run_warm(batch, aside)
    if len(warm) < len(batch["jobs"]) and len(batch["jobs"]) > 1:
        preload(batch, aside)
        gc.collect()
        gc.freeze()
    with Path(reply).open("w", encoding="utf-8") as file:
        for serial, job in enumerate(batch["jobs"]):
            result = warm.get(job["id"])
            if result is None:
                with replaced_files(job.get("write", {}), serial):
                    result = in_child(batch, job, aside, partial(run_job, batch, job))
            file.write(json.dumps(result) + "\n")
            file.flush()
            bad = [outcome in ("failed", "error") for outcome, *_ in (result.get("tests") or {}).values()]
            print(f"{job['id']}: {result['ended']}, {sum(bad)} of {len(bad)} tests failed", flush=True)  # noqa: T201
            if batch.get("stop_when_green") and is_green(result):
                break
    aside.unlink(missing_ok=True)


def is_green(result: dict[str, Any]) -> bool:
    """Returns True if tests ran and none failed."""
    outcomes = {test[0] for test in (result.get("tests") or {}).values()}
    return bool(outcomes) and not outcomes & {"failed", "error"}


def run_warm(batch: dict[str, Any], aside: Path) -> dict[str, dict[str, Any]]:
    """Returns the results of the jobs that could run on one collection, by id; none unless the batch is warm."""
    if not batch.get("warm"):
        return {}
    results_file, first = aside.with_suffix(".warm"), batch["jobs"][0]

    def work() -> dict[str, Any]:
        prepare(batch)
        with results_file.open("w", encoding="utf-8") as file:
            loop = WarmLoop(batch, aside, lambda result: print(json.dumps(result), file=file, flush=True))
            start_pytest(batch, first, [loop, loop.recorder])
        return {}

    wall = {"id": "", "cpu_s": sum(float(job.get("cpu_s", 30.0)) for job in batch["jobs"])}
    in_child(batch, wall, aside.with_suffix(".session"), work)
    results: dict[str, dict[str, Any]] = {}
    with contextlib.suppress(OSError, ValueError):  # the session may have been ended in the middle of a line
        for line in results_file.read_text(encoding="utf-8").splitlines():
            result = json.loads(line)
            if result["ended"] != "cold":
                results[result["id"]] = result
    return results


if __name__ == "__main__":
    main(*sys.argv[1:3])
