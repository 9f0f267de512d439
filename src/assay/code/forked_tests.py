"""Runs a batch of test runs, each in a forked child, with pytest. A program on its own: standard library and pytest.

Copied into a sandbox and run there as `forked_tests.py REQUEST REPLY`; the format is `batches.py`'s. Forking a process
that has pytest and the standard library loaded already makes a run cost what its tests cost. Not for judging: the code
under test runs in the process that reports. Invariant: after each job the files are as they were before it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MAX_MESSAGE = 600
PYTEST_OPTIONS = ["-qq", "--tb=no", "--no-summary", "--import-mode=importlib", "-W", "ignore"]
# Left out for their cost: each run is a process of its own, whose end needs no tidying and whose report is ours.
UNUSED = ("cacheprovider", "unraisableexception", "threadexception", "faulthandler", "junitxml", "pastebin", "stepwise")
PYTEST_OPTIONS += [part for name in UNUSED for part in ("-p", f"no:{name}")]


class Recorder:
    """The pytest plugin that notes outcomes, and per test the lines that it ran."""

    def __init__(self, job: dict[str, Any], tracer: Any) -> None:
        self.tests: dict[str, list[Any]] = {}
        self.problems: list[str] = []
        self._first = frozenset(job.get("give_up_on", ()))
        self._open = set(self._first)
        self._tracer = tracer
        self._started = 0.0
        self._files = {test.partition("::")[0] for test in job["tests"]}

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Any) -> bool | None:
        """Looks at no neighbour of the files asked for: pytest would weigh each of hundreds."""
        if collection_path.suffix == ".py" and str(collection_path) not in self._files:
            return collection_path.name != "__init__.py" or None
        return None

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """The tests that decide whether to go on come first."""
        if self._first:
            items.sort(key=lambda item: item.nodeid not in self._first)

    def pytest_collectreport(self, report: Any) -> None:
        """Notes what could not be collected."""
        if report.failed:
            self.problems.append(f"{report.nodeid}: {str(report.longrepr)[-MAX_MESSAGE:]}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Starts a test's own record."""
        self._started = time.process_time()
        if self._tracer is not None:
            self._tracer.begin()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Closes it."""
        if self._tracer is not None:
            self._tracer.end(nodeid)
        if nodeid in self.tests:
            self.tests[nodeid][1] = round((time.process_time() - self._started) * 1000, 1)

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Notes an outcome; the worst of set-up, call, parts and tear-down counts."""
        known = self.tests.setdefault(item.nodeid, ["passed", 0.0, "", "", 0])
        if call.excinfo is None or known[0] in ("failed", "error"):
            return
        if call.excinfo.errisinstance(pytest.skip.Exception):
            known[0] = "skipped"
            return
        expected = "xfail" in item.keywords and call.when == "call"
        if expected or call.excinfo.errisinstance(pytest.xfail.Exception):
            known[0] = "skipped"
            return
        known[0] = "failed" if call.when == "call" else "error"
        known[2:] = [call.excinfo.typename, str(call.excinfo.value)[:MAX_MESSAGE], _line_in(call.excinfo, item)]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Parts of a test (subtests) are reported apart: a failed one makes its test failed."""
        known = self.tests.setdefault(report.nodeid, ["passed", 0.0, "", "", 0])
        if report.failed and known[0] not in ("failed", "error"):
            known[0] = "failed"
            crash = getattr(report.longrepr, "reprcrash", None)
            kind, _, text = (crash.message if crash is not None else str(report.longrepr)).partition(":")
            known[2:] = [kind.strip()[:80], text.strip()[:MAX_MESSAGE], crash.lineno if crash is not None else 0]

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Gives up when all the tests that were to gain have failed."""
        if self._open and self.tests.get(item.nodeid, [""])[0] in ("failed", "error"):
            self._open.discard(item.nodeid)
            if not self._open:
                item.session.shouldstop = "nothing was gained"
        elif item.nodeid in self._first:
            self._open.clear()


def _line_in(excinfo: Any, item: Any) -> int:
    path = str(item.path)
    lines = [entry.lineno + 1 for entry in excinfo.traceback if str(entry.path) == path]
    return int(lines[0]) if lines else 0


def run_job(batch: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Runs one job in this process, which must end afterwards."""
    random.seed(batch.get("seed", 0))
    sys.path[:0] = batch.get("paths", [])
    sys.dont_write_bytecode = bool(job.get("write"))
    tracer = LineTracer(batch.get("cover", [])) if job.get("measure") else None
    recorder = Recorder(job, tracer)
    options = [*PYTEST_OPTIONS, f"--rootdir={batch['root']}", "-c", os.devnull]
    options += [] if job.get("explain") else ["--assert=plain"]
    started = time.process_time()
    code = pytest.main([*options, *job["tests"]], plugins=[recorder])
    result = {"id": job["id"], "ended": "done", "exit_code": int(code), "tests": recorder.tests}
    result |= {"problems": recorder.problems[:20], "cpu_s": round(time.process_time() - started, 3)}
    if tracer is not None:
        result["covered"] = tracer.covered
    return result


class LineTracer:
    """Which lines of some folders each test runs.

    Looking at every line for ever makes tests several times slower. So a function in which PATIENCE lines in a row
    brought nothing new is left alone until the next test, and a test in which CALLS calls in a row brought nothing new
    is left alone altogether: a line that runs late and rarely can be missed, the same one each time.
    """

    PATIENCE = 300
    CALLS = 20_000

    def __init__(self, folders: list[str]) -> None:
        self.covered: dict[str, dict[str, list[int]]] = {}
        self._folders = tuple(folder.rstrip("/") + "/" for folder in folders)
        self._wanted: dict[Any, bool] = {}
        self._seen: dict[Any, set[int]] = {}
        self._left: dict[Any, int] = {}
        self._quiet = 0

    def begin(self) -> None:
        """Starts a test's own record."""
        self._seen, self._left, self._quiet = {}, {}, 0
        sys.settrace(self._call)

    def end(self, name: str) -> None:
        """Closes it."""
        sys.settrace(None)
        found = self.covered.setdefault(name, {})
        for code, lines in self._seen.items():
            found.setdefault(code.co_filename, []).extend(lines)
        for path, numbers in found.items():
            found[path] = sorted(set(numbers))

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        self._quiet += 1
        if self._quiet > self.CALLS:
            sys.settrace(None)
            return None
        wanted = self._wanted.get(code)
        if wanted is None:
            wanted = self._wanted[code] = code.co_filename.startswith(self._folders) and code.co_name != "<module>"
        if not wanted:
            return None
        left = self._left.get(code)
        if left is None:
            self._seen[code], self._left[code] = set(), self.PATIENCE
        elif left <= 0:
            return None
        return self._line

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            code = frame.f_code
            seen = self._seen.get(code)
            if seen is None or self._left[code] <= 0:
                frame.f_trace_lines = False
            elif frame.f_lineno in seen:
                self._left[code] -= 1
            else:
                seen.add(frame.f_lineno)
                self._left[code] = self.PATIENCE
                self._quiet = 0
        return self._line


@contextlib.contextmanager
def written(texts: dict[str, str | None], serial: int) -> Iterator[None]:
    """Files have other texts inside the block. Each version has its own time, so that no stale byte code fits it."""
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


def in_child(batch: dict[str, Any], job: dict[str, Any], reply: Path) -> dict[str, Any]:
    """Forks, runs the job there, and reads what it wrote; a child that takes too long is killed with its group."""
    reply.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_child(batch, job, reply)
    limit = float(job.get("cpu_s", 30.0))
    ended = _wait(child, limit * 3 + 5)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    try:
        return dict(json.loads(reply.read_bytes()))
    except (OSError, ValueError):
        return {"id": job["id"], "ended": ended}


def _be_child(batch: dict[str, Any], job: dict[str, Any], reply: Path) -> None:
    try:
        os.setpgid(0, 0)
        limit = int(float(job.get("cpu_s", 30.0))) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        os.chdir(batch["root"])
        aside = reply.with_suffix(".part")
        aside.write_text(json.dumps(run_job(batch, job)), encoding="utf-8")
        aside.rename(reply)
    finally:
        os._exit(0)


def _wait(child: int, wall_s: float) -> str:
    deadline, pause = time.monotonic() + wall_s, 0.001
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "time" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "died"
        time.sleep(pause)
        pause = min(pause * 1.3, 0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "time"


def preload(batch: dict[str, Any], aside: Path) -> None:
    """Imports here what the modules under test import from the standard library; they themselves load in a child."""
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
    preload(batch, aside)
    gc.collect()
    gc.freeze()
    with Path(reply).open("w", encoding="utf-8") as file:
        for serial, job in enumerate(batch["jobs"]):
            with written(job.get("write", {}), serial):
                result = in_child(batch, job, aside)
            file.write(json.dumps(result) + "\n")
            file.flush()
    aside.unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
