"""The point at which a warm tests' process is forked: the tests are collected, and none has begun.

The process waits there and never goes on. Each fork gets descriptors of its own, runs the tests and ends like any
tests' process; it returns nothing to the process that it is a fork of but its exit status. A process that shares more
than memory with its forks (threads, children, open files, shared maps) says so and forks nothing.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import json
import os
import random
import socket
import sys
import threading
import time
from typing import Any

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PR_SET_DUMPABLE = 4
PASSED = 4
"""Descriptors of a fork: for its messages, for its output, and two for the worker."""


def age_objects() -> None:
    """Makes all objects ones of the oldest generation, without looking through them: a collection of younger ones in a
    fork would copy their pages."""
    gc.freeze()
    gc.unfreeze()


def has_threads() -> bool:
    """Returns whether this process has more than its first thread."""
    return len(os.listdir("/proc/self/task")) != 1


def has_children() -> bool:
    """Returns whether this process has child processes."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_early(code: int) -> None:
    """Ends a tests' process that holds no code of an agent's without taking its memory apart, unless it has threads or
    child processes to wait for."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    if not has_threads() and not has_children():
        os._exit(code)


class ForkPoint:
    """Pytest plugin that stops the session before its first test and forks it on request.

    Args:
        control: Socket of the supervisor, which sends a nonce and a seed with the fork's descriptors, and gets the
            fork's id and then its status.
        outputs: A descriptor of this process's own output; all that lead there are redirected in a fork.
        parts: The writer of records, the recorder and the plugin that calls the worker.
    """

    def __init__(self, control: socket.socket, outputs: int, parts: Sequence[Any]) -> None:
        self._control = control
        self._output = os.fstat(outputs)
        self._teller, self._recorder, self._splice = parts

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Forks until the supervisor is gone; returns in each fork, which then runs the tests."""
        capture = session.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files would be shared: each fork opens its own
        state = random.getstate()
        told_s = 0.0
        sys.stdout.flush()
        sys.stderr.flush()
        gc.collect()  # or each fork would soon look through all objects, and copy their pages
        self._answer({"problem": self._find_shared()})
        while True:
            message, fds = self._receive()
            if len(fds) != PASSED:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                self._begin(message, fds)
                random.setstate(state)  # as it is in a process that got here on its own
                capture.start_global_capturing()
                capture.suspend_global_capture()
                return
            for fd in fds:
                os.close(fd)
            self._answer({"pid": pid})
            self._receive()  # the supervisor has opened it by its id
            _, status, used = os.wait4(pid, 0)
            own_s = time.process_time()
            cpu_s = used.ru_utime + used.ru_stime + own_s - told_s
            told_s = own_s
            self._answer({"exit": os.waitstatus_to_exitcode(status), "cpu_s": cpu_s})

    def _begin(self, message: dict[str, Any], fds: list[int]) -> None:
        """Makes a fork a tests' process of its own."""
        told, output, *worker = fds
        os.setsid()
        self._control.close()
        for fd in self._own_outputs():
            os.dup2(output, fd, inheritable=fd in (1, 2))
        os.close(output)
        os.close(self._teller.fd)
        self._teller.begin(told, message["nonce"])
        self._recorder.begin(message["seed"])
        self._splice.attach(tuple(worker))
        threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

    def _own_outputs(self) -> list[int]:
        """Returns the descriptors of this process's own output: standard output and error, and copies of these."""
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                status = os.fstat(int(name))
            except OSError:  # the listing's own is closed by now
                continue
            if (status.st_dev, status.st_ino) == (self._output.st_dev, self._output.st_ino):
                found.append(int(name))
        return found

    def _find_shared(self) -> str:
        """Returns what a fork would share with the next one; empty for nothing."""
        if has_threads():
            return "threads"
        if has_children():
            return "child processes"
        known = {self._control.fileno(), self._teller.fd, *self._own_outputs()}
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except FileNotFoundError:
                continue
            if int(name) not in known and target != "/dev/null":
                return f"an open descriptor: {target}"[:200]
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            if any(line.split(" ", 2)[1].endswith("s") for line in file):
                return "shared memory"
        return ""

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode())
        except OSError:
            os._exit(0)

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        room = socket.CMSG_LEN(PASSED * array.array("i").itemsize)
        data, ancillary, _, _ = self._control.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
        return (json.loads(data) if data else {}), list(fds)
