"""The supervisor of a test run: starts the tests' process, records its messages as they arrive, writes the report.

    runner.py check            reads a configuration (JSON) on its standard input, prints the report (JSON)
    runner.py judge FILE       the same with the configuration in a file, the report (a line) on standard error, and on
                               standard input and output the pipes of a worker that entry points are called at. A
                               configuration in `again` is for another run, once the host has made the file `AGAIN`
    runner.py serve FILE       runs tests that it has collected many times (`warm`)
    runner.py script ARGS...   replaces `pytest ARGS...`: same output, an exit code derived from the record

Invariants: the tests' process cannot change recorded messages; a run that did not reach its end, that reported a test
twice, or in which a canary did not fail, is never a good run. The report is written after the
tests' process has ended, by a process that it cannot trace, read or impersonate.

Covered: an early exit, a changed exit code, printed results, a patched runner (by canaries), results reported twice.
Not covered: code that finds the recorder inside its own process and reports consistent false results.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time

TYPE_CHECKING = False  # `typing` itself takes longer to import than all that is needed here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_STREAM = 128 * 1024 * 1024
TAIL = 20_000
RECORDS = "/logs/recorder"
SOCKET = "/run/verifier/judge"
PIECE = 32 * 1024
"""Characters of a record in one message, which as JSON stays below the largest size."""
ORDER = "ASSAY_TEST_ORDER"
"""Variable of the verifier's environment: with `reversed` the last test runs first."""
PR_SET_DUMPABLE = 4
AGAIN = "/run/verifier/again"
"""File that the host makes when the code under test has been put into the judge's sandbox."""
NOTHING_RUNS = ("--version", "-V", "--help", "-h", "--co", "--collect-only", "--fixtures", "--markers")
PHASES = ("setup", "call", "teardown")


class Stream:
    """Lines of JSON from the tests' process, each with the run's nonce."""

    def __init__(self, nonce: str) -> None:
        self.messages: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self._nonce = nonce
        self._rest = b""
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MOST_STREAM:
            self._problem("more messages than a run of tests can send")
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict) and message.pop("nonce", None) == self._nonce:
                self.messages.append(message)
            else:
                self._problem("a message that the recorder did not send")

    def _problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)


class Child:
    """The tests' process, a fork of this one: its id, and the descriptors of its messages and of its output (-1: not
    captured). It holds no other descriptor of this process's but those of a worker."""

    def __init__(self, config: dict[str, Any], *, shown: bool) -> None:
        self.told, write = os.pipe()
        self.out, out_write = (-1, -1) if shown else os.pipe()
        pipes = config.get("worker", ())
        run_tests = _import_pytest()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            if not shown:
                os.dup2(out_write, 1)
                os.dup2(out_write, 2)
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            _close_own({write, *pipes})
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            raise SystemExit(run_tests(config, write))
        for fd in (write, *pipes, *(() if shown else (out_write,))):
            os.close(fd)

    def wait(self) -> int:
        """Returns the exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _import_own(target: str) -> Any:
    """Returns `module:name` of this folder, and leaves none of its modules' names, which code under test may have."""
    module, _, name = target.partition(":")
    sys.path.insert(0, __file__.rpartition("/")[0])
    found = getattr(importlib.import_module(module), name)
    del sys.path[0]
    for one in ("child", "forking", "probes", "warm"):
        sys.modules.pop(one, None)
    return found


def _import_pytest() -> Callable[[dict[str, Any], int], int]:
    """Imports pytest once, for all runs of this process."""
    if not _imported:  # after `prctl`, or before there is anything to read here
        _imported.append(_import_own("child:run_tests"))
    return _imported[0]


_imported: list[Callable[[dict[str, Any], int], int]] = []


def _close_own(kept: set[int]) -> None:
    """Closes what a program started from here would not inherit; a script's own descriptors stay open."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            if fd not in kept and not os.get_inheritable(fd):
                os.close(fd)


def watch(
    child: Child, stream: Stream, timeout_s: float | None, began: Callable[[], None] | None = None
) -> tuple[bytes, bool]:
    """Reads until the tests' process has ended, even if others keep its descriptors open. Returns (tail, timed out).
    `began` is called as soon as the process may be waited for by another one."""
    ends = os.pidfd_open(child.pid)
    if began is not None:
        began()
    waiting = [fd for fd in (child.told, child.out) if fd >= 0]
    for fd in waiting:
        os.set_blocking(fd, False)
    waiting.append(ends)
    tail, deadline = b"", None if timeout_s is None else time.monotonic() + timeout_s
    timed_out = ended = False
    while not ended:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            left, deadline = None, None
        ready, _, _ = select.select(waiting, [], [], left)
        ended = ends in ready
        # At the end both are read whole, even where they were not yet seen to be ready.
        for fd in [fd for fd in waiting if fd != ends and (ended or fd in ready)]:
            data = _drain(fd, whole=ended)
            if fd == child.told:
                stream.feed(data)
            else:
                tail = (tail + data)[-TAIL:]
            if not data:
                waiting.remove(fd)
    os.close(ends)
    return tail, timed_out


def _drain(fd: int, *, whole: bool) -> bytes:
    """Returns the available bytes; with `whole` all of them (bounded), else one piece. Empty at the end."""
    data = b""
    while True:
        try:
            piece = os.read(fd, 1 << 16)
        except BlockingIOError:
            return data
        data += piece
        if not piece or not whole or len(data) > MOST_STREAM:
            return data


class Account:
    """Summary of a run's messages."""

    def __init__(self, stream: Stream, exit_code: int, *, timed_out: bool) -> None:
        self.problems = list(stream.problems)
        self._phases: dict[str, dict[str, str]] = {}
        self._messages: dict[str, str] = {}
        self._collected: list[str] = []
        self.broken_files: list[str] = []
        self.skipped_files: list[str] = []
        self.equal: list[str] = []
        self.canaries = {"planted": 0, "failed": 0, "unsure": 0}
        self.finished: int | None = None
        self.refusals: list[dict[str, str]] = []
        self.unspliced: list[str] = []
        self.items: list[dict[str, Any]] = []
        self.calls: dict[str, int] = {}
        for message in stream.messages:
            self._take(message)
        self._judge_end(exit_code, timed_out=timed_out)
        self._judge_canaries()
        self.tests = [self._test(name) for name in dict.fromkeys([*self._collected, *self._phases])]

    def _judge_end(self, exit_code: int, *, timed_out: bool) -> None:
        if timed_out:
            self.problems.append("the time limit was met")
        elif self.finished is None:
            self.problems.append(f"the tests' process ended early, with exit code {exit_code}")
        elif self.finished != exit_code:
            told = f"after a session that ended with {self.finished}"
            self.problems.append(f"the tests' process ended with {exit_code} {told}")

    def _judge_canaries(self) -> None:
        planted, failed = self.canaries["planted"], self.canaries["failed"]
        if failed + self.canaries["unsure"] < planted:
            self.problems.append(f"{planted - failed} of {planted} tests that must fail did not fail")
        ran = any("call" in phases for phases in self._phases.values())
        if ran and not failed:
            self.problems.append("no test that must fail was seen to fail")

    def _take(self, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if self.finished is not None:
            self.problems.append("a message after the end of the session")
        elif kind == "collected":
            self._collected += [str(name) for name in message["ids"]]
        elif kind == "test":
            self._take_test(message)
        elif kind == "canary":
            self.canaries["planted"] += 1
            self.canaries["failed"] += message["outcome"] == "failed"
            self.canaries["unsure"] += message["outcome"] == "unsure"
        elif kind == "broken":
            self.broken_files.append(str(message["id"]))
        elif kind == "skipped":
            self.skipped_files.append(str(message["id"]))
        elif kind == "equal":
            self.equal.append(str(message["where"]))
        elif kind == "finished":
            self.finished = int(message["exit"])
        elif kind == "unspliced":
            self.unspliced.append(str(message["text"]))
        elif kind == "item":
            self.items.append({name: message[name] for name in ("id", "marks", "parameters")})
        elif kind == "calls":
            self.calls[str(message["id"])] = int(message["count"])
        elif kind == "refusal":
            self.refusals.append({name: str(message[name]) for name in ("id", "why", "text")})

    def _take_test(self, message: dict[str, Any]) -> None:
        name, phase, outcome = str(message["id"]), str(message["phase"]), str(message["outcome"])
        phases = self._phases.setdefault(name, {})
        if phase == "part":  # a subtest: only its failure counts
            if outcome == "failed":
                phases["part"] = outcome
            return
        if phase in phases:
            self.problems.append(f"{name} was reported twice")
        phases[phase] = outcome
        if message.get("message"):
            self._messages[name] = str(message["message"])[:2000]

    def _test(self, name: str) -> dict[str, str]:
        phases = self._phases.get(name, {})
        test = {"id": name, "status": self._status(phases)}
        refused = [refusal for refusal in self.refusals if refusal["id"] == name]
        if refused:  # whatever the test made of it; what came late leaves the question open
            late = all(refusal["why"] == "time" for refusal in refused)
            test["status"] = "missing" if late else "failed"
            self._messages[name] = f"{refused[0]['why']}: {refused[0]['text']}"
        if self._messages.get(name) and test["status"] != "passed":
            test["message"] = self._messages[name]
        return test

    @staticmethod
    def _status(phases: dict[str, str]) -> str:
        outcomes = set(phases.values())
        for status in ("xfailed", "xpassed", "skipped"):
            if status in outcomes and "failed" not in outcomes:
                return status
        if phases.get("call") == "failed" or phases.get("part") == "failed":
            return "failed"
        if "failed" in outcomes:
            return "error"
        return "passed" if all(phases.get(phase) == "passed" for phase in PHASES) else "missing"

    def exit_code(self) -> int:
        """Returns pytest's exit code without tampering."""
        if self.problems or self.equal:
            return 3
        statuses = {test["status"] for test in self.tests}
        if statuses & {"failed", "error", "missing"} or self.broken_files:
            return 2 if self.broken_files and self.finished == 2 else 1
        return self.finished if self.finished else (0 if self.tests else 5)

    def report(self) -> dict[str, Any]:
        return {
            "tests": self.tests,
            "problems": self.problems[:50],
            "always_equal": self.equal[:50],
            "broken_files": self.broken_files[:50],
            "skipped_files": self.skipped_files[:50],
            "canaries": self.canaries,
            "finished": self.finished,
            **(self._splices() if self.items or self.unspliced else {}),
        }

    def _splices(self) -> dict[str, Any]:
        refusals = self.refusals[:50]
        return {"refusals": refusals, "items": self.items, "calls": self.calls, "unspliced": self.unspliced[:50]}


def run(config: dict[str, Any], *, shown: bool) -> tuple[dict[str, Any], int]:
    """Runs the tests once. Returns the report and the exit code that pytest would have ended with."""
    nonce = os.urandom(16).hex()
    stream = Stream(nonce)
    started = time.monotonic()
    config = {**config, "reversed": os.environ.get(ORDER) == "reversed"}
    child = Child({**config, "nonce": nonce, "seed": int.from_bytes(os.urandom(8), "big")}, shown=shown)
    tail, timed_out = watch(child, stream, config.get("timeout_s"))
    code = child.wait()
    account = Account(stream, code, timed_out=timed_out)
    ended = {
        "exit": code,
        "order": "reversed" if config["reversed"] else "usual",
        "timed_out": timed_out,
        "duration_s": time.monotonic() - started,
        "tail": tail.decode(errors="replace"),
    }
    return as_unicode({**account.report(), **ended}), account.exit_code()


def as_unicode(report: dict[str, Any]) -> dict[str, Any]:
    """Returns a report whose texts can be encoded: code under test may raise or answer lone surrogates, with which the
    host would refuse the whole report."""
    text = json.dumps(report, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return dict(json.loads(text.encode(errors="replace")))
    return report


def write_ctrf(path: str, report: dict[str, Any]) -> None:
    """Writes the record as a CTRF file, for scripts that ask pytest for one."""
    known = {"passed": "passed", "xfailed": "passed", "xpassed": "passed", "skipped": "skipped"}
    tests = [{"name": t["id"], "status": known.get(t["status"], "failed"), "duration": 0} for t in report["tests"]]
    count = {status: sum(t["status"] == status for t in tests) for status in ("passed", "failed", "skipped")}
    summary = {"tests": len(tests), **count, "pending": 0, "other": 0}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"results": {"tool": {"name": "pytest"}, "summary": summary, "tests": tests}}, file)


class RecordChannel:
    """Connection to the host, opened before the tests start, so that no other process can change its messages."""

    def __init__(self) -> None:
        self._host = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.opened = False
        with contextlib.suppress(OSError):
            self._host.connect(SOCKET)
            size = struct.calcsize("3i")
            pid = struct.unpack("3i", self._host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
            self.opened = pid == 1  # the listener was made by the sandbox's first process, and by nobody later
        if self.opened:
            self._send({"op": "record"})

    def _send(self, message: dict[str, Any]) -> None:
        self._host.sendall(json.dumps(message).encode())

    def tell(self, report: dict[str, Any]) -> None:
        text = json.dumps(report)
        for start in range(0, len(text), PIECE):
            self._send({"text": text[start : start + PIECE]})
        self._send({"end": True})


def as_script(arguments: list[str]) -> int:
    """Replaces pytest; sends the record to the host or, if it does not listen, writes it to a new file in `RECORDS`."""
    ctrf, module, kept, rest = None, False, [], iter(arguments)
    for argument in rest:
        if argument == "--assay-module":
            module = True
        elif argument in NOTHING_RUNS:
            os.execv(sys.executable, [sys.executable, "-I", "-B", "-m", "pytest", *arguments])
        elif argument == "--ctrf":
            ctrf = next(rest, None)
        elif argument.startswith("--ctrf="):
            ctrf = argument.partition("=")[2]
        else:
            kept.append(argument)
    config = {"args": kept, "cwd": os.getcwd(), "script": True, "module": module}
    channel = RecordChannel()
    report, code = run(config, shown=True)
    report |= {"args": kept, "script_exit": code}
    if ctrf:
        write_ctrf(ctrf, report)
    if channel.opened:
        channel.tell(report)
        return code
    place = f"{RECORDS}/{os.urandom(8).hex()}.json"
    fd = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(report, file)
    return code


def as_check() -> int:
    """Reads one configuration and prints one report."""
    report, _ = run(json.load(sys.stdin), shown=False)
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(report))
        sys.stdout.flush()
    return 0


def as_judge(path: str) -> int:
    """Runs the tests with the pipes of a worker, and what the host asks for after that; reports go to standard error,
    because the pipes are in use."""
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    os.unlink(path)
    again = config.pop("again", None)
    config["worker"] = [os.dup(0), os.dup(1)]
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _tell_line(run(config, shown=False)[0] | {"supervisor": os.getpid()})
    if again:
        while not os.path.exists(AGAIN):  # the host ends this process where it wants no other run
            time.sleep(0.005)
        _tell_line(run(again, shown=False)[0])
    return 0


def _tell_line(report: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(json.dumps(report) + "\n")
        sys.stderr.flush()


def main() -> int:
    """Prevents children from tracing or reading this process, then runs the requested mode."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    if sys.argv[1:2] == ["check"]:
        return as_check()
    if sys.argv[1:2] == ["judge"]:
        return as_judge(sys.argv[2])
    if sys.argv[1:2] == ["serve"]:
        return int(_import_own("warm:serve")(sys.argv[2]))
    return as_script(sys.argv[2:])


def preload() -> None:
    """Imports all that runs of tests use, in a process that is forked for each sandbox that judges."""
    _import_pytest()
    from _pytest.config import default_plugins  # which pytest imports at the start of each run

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")


def run_and_exit() -> None:
    """Runs the requested mode and ends this process. A tests' process goes through here as any program's end."""
    status = main()
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # what was imported for the tests need not be taken apart


if __name__ == "__main__":
    run_and_exit()
