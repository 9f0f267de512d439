"""The part of the supervisor that runs the same tests many times, each time in a fork of one process.

    runner.py serve FILE    reads a configuration (JSON), collects the tests, then serves the host over the socket that
                            the sandbox's first process listens at: for each message with two pipes of a worker and one
                            for the report, a run within the time that it grants and its report (a line)

Invariants: no byte of a run reaches another one but through what the tests themselves leave outside of their memory:
the process that is forked is neither traceable nor readable by its forks and gets nothing from them but their end;
each report tells whether files outside of the root's layers changed (`changed`), and the host looks for processes and
at the layers. After any of it the host uses this sandbox no more. Otherwise as `runner`.

Not covered: the kernel's own state (message queues, the clock); what is drawn once when the tests are collected, the
seed of hashes among it, is the same in all runs.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

import __main__ as runner  # the supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PASSED = 3
"""Descriptors of a request: for reading from and writing to the worker, and for the report."""
COLLECTION_S = 60.0
MOST_FILES = 20_000


class Run:
    """A fork that runs the tests; see `runner.Child`."""

    def __init__(self, pid: int, told: int, out: int) -> None:
        self.pid, self.told, self.out = pid, told, out

    def close(self) -> None:
        os.close(self.told)
        os.close(self.out)


class CollectedTests:
    """The tests' process that waits before its first test."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = {**config, "reversed": os.environ.get(runner.ORDER) == "reversed"}
        nonce = os.urandom(16).hex()
        self._before = runner.Stream(nonce)
        self._tail = b""
        self._told_s = 0.0
        self._told, write = os.pipe()
        self._out, out_write = os.pipe()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        run_tests = runner._import_pytest()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.dup2(out_write, 1)
            os.dup2(out_write, 2)
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            runner._close_own({write, theirs.fileno()})
            more = {"nonce": nonce, "seed": 0, "worker": (), "control": theirs, "outputs": 1}
            raise SystemExit(run_tests({**self._config, **more}, write))
        theirs.close()
        os.close(write)
        os.close(out_write)

    def wait(self) -> str:
        """Waits until the tests are collected. Returns why they cannot be run in forks; empty if they can."""
        deadline = time.monotonic() + COLLECTION_S
        waiting = [self._control.fileno(), self._told, self._out]
        os.set_blocking(self._told, False)
        os.set_blocking(self._out, False)
        while True:
            left = deadline - time.monotonic()
            ready = select.select(waiting, [], [], max(0.0, left))[0]
            if not ready:
                return "the tests were not collected in time"
            self._read_own(ready)
            if self._control.fileno() in ready:
                data = self._control.recv(1 << 16)
                self._read_own([self._told, self._out])  # whole, since it was written before the answer
                return str(json.loads(data)["problem"]) if data else "the tests' process ended"

    def _read_own(self, ready: list[int]) -> None:
        if self._told in ready:
            self._before.feed(runner._drain(self._told, whole=True))
        if self._out in ready:
            self._tail = (self._tail + runner._drain(self._out, whole=True))[-runner.TAIL :]

    def run(self, worker: list[int], limit_s: float) -> dict[str, Any]:
        """Runs the tests in a fork, for at most so many wall seconds, and returns the report, as `runner.run` does,
        with the CPU seconds that all of this took since the last one."""
        started = time.monotonic()
        nonce = os.urandom(16).hex()
        stream = runner.Stream(nonce)
        stream.messages, stream.problems = list(self._before.messages), list(self._before.problems)
        told, write = os.pipe()
        out, out_write = os.pipe()
        request = {"nonce": nonce, "seed": int.from_bytes(os.urandom(8), "big")}
        socket.send_fds(self._control, [json.dumps(request).encode()], [write, out_write, *worker])
        os.close(write)
        os.close(out_write)
        run = Run(int(self._answer()["pid"]), told, out)
        tail, timed_out = runner.watch(run, stream, limit_s, began=self._begin)
        ended = self._answer()
        run.close()
        account = runner.Account(stream, int(ended["exit"]), timed_out=timed_out)
        own_s = time.process_time()
        cpu_s, self._told_s = float(ended["cpu_s"]) + own_s - self._told_s, own_s
        report = {
            **account.report(),
            "exit": ended["exit"],
            "order": "reversed" if self._config["reversed"] else "usual",
            "timed_out": timed_out,
            "duration_s": time.monotonic() - started,
            "tail": (self._tail + tail)[-runner.TAIL :].decode(errors="replace"),
            "cpu_s": cpu_s,
        }
        return dict(runner.as_unicode(report))

    def _begin(self) -> None:
        """Lets the tests' process wait for its fork, whose id is not given to another process before."""
        self._control.sendall(b"{}")

    def _answer(self) -> dict[str, Any]:
        return dict(json.loads(self._control.recv(1 << 16)))


def list_files() -> dict[str, tuple[int, ...]] | None:
    """Returns the files of all writable file systems in memory, with what shows a change; None if there are too
    many."""
    places = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            front, _, back = line.partition(" - ")
            if back.split(" ", 1)[0] != "overlay" and "rw" in front.split(" ")[5].split(","):
                places.append(front.split(" ")[4])
    found: dict[str, tuple[int, ...]] = {}
    for place in places:
        if place.startswith("/proc"):
            continue
        for folder, folders, names in os.walk(place):
            for path in [folder, *(f"{folder}/{name}" for name in (*folders, *names))]:
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    found[path] = (
                        status.st_ino,
                        status.st_mode,
                        status.st_size,
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                    )
            if len(found) > MOST_FILES:
                return None
    return found


def connect() -> socket.socket:
    """Returns the connection to the host. Raises `OSError` if another process than the first one listens."""
    host = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    host.connect(runner.SOCKET)
    size = struct.calcsize("3i")
    if struct.unpack("3i", host.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0] != 1:
        raise OSError("the listener is not the host's")
    return host


def receive(host: socket.socket) -> tuple[float, list[int]]:
    """Returns the time limit and the descriptors of the next request; fewer than `PASSED` at the end."""
    room = socket.CMSG_LEN(PASSED * array.array("i").itemsize)
    data, ancillary, _, _ = host.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    return (float(json.loads(data)["limit_s"]) if data else 0.0), list(fds)


def serve(path: str) -> int:
    """Collects and serves until the host is gone."""
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    os.unlink(path)
    host = connect()
    tests = CollectedTests(config)
    problem = tests.wait()
    files = list_files()
    host.sendall(json.dumps({"problem": problem or ("" if files else "too many files")}).encode())
    while True:
        limit_s, fds = receive(host)
        if len(fds) != PASSED:
            return 0
        *worker, reports = fds
        report = tests.run(worker, limit_s)
        for fd in worker:
            os.close(fd)
        own = {"supervisor": os.getpid(), "waiting": tests.pid, "changed": list_files() != files}
        with os.fdopen(reports, "w", encoding="utf-8") as file, contextlib.suppress(BrokenPipeError):
            file.write(json.dumps(report | own) + "\n")
