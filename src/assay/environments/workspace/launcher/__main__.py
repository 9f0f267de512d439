"""The launcher's loop: `python -I -S -c BOOT FD SCRATCH USER`. One request, one answer, in order.

It runs until the host's end of its socket closes: then it kills every sandbox, removes their groups and
exits, also after a SIGKILL of the host process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from typing import Any

from . import counts
from . import syscalls as sys_
from .boxes import AGENT, FIRST_ID, IDS, ROOT, Boxes, take_root
from .protocol import receive, send


class LauncherServer:
    """Answers requests until the host's end closes."""

    def __init__(self, host: socket.socket, boxes: Boxes) -> None:
        self._host = host
        self._boxes = boxes

    def greet(self) -> None:
        """Sends this launcher's capabilities, with a descriptor of the skeleton."""
        boxes = self._boxes
        skeleton = os.open("/s", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        facts = {
            "separate": boxes.separate, "tmpfs": boxes.tmpfs, "cgroup": boxes.control.version,
            "controllers": boxes.control.controllers, "counted": boxes.counted,
        }  # fmt: skip
        self._send({"hello": facts}, (skeleton,))
        os.close(skeleton)

    def serve(self) -> None:
        """Serves requests; never returns."""
        poller = select.poll()
        poller.register(self._host, select.POLLIN)
        while True:
            ready = poller.poll(1000 if self._boxes.alive else None)
            self._boxes.reap()
            if not ready:
                continue
            message, fds = receive(self._host)
            if message is None:
                self._end()
            else:
                self._answer(message, fds)

    def _end(self) -> None:
        self._boxes.end()
        os._exit(0)

    def _send(self, message: dict[str, Any], fds: tuple[int, ...]) -> None:
        """Sends a message; where the host is gone, ends as at its end."""
        try:
            send(self._host, message, fds)
        except ConnectionError:
            self._end()

    def _answer(self, message: dict[str, Any], fds: list[int]) -> None:
        returned_fds: tuple[int, ...] = ()
        try:
            answer, returned_fds = getattr(self, "_do_" + message["op"])(message, fds)
        except OSError as exc:
            answer = {"error": str(exc), "errno": exc.errno}
        self._send({**answer, "id": message["id"]}, returned_fds)
        for fd in (*returned_fds, *fds):
            os.close(fd)

    def _do_layer(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        place = self._boxes.layer(message["source"], message["kind"])
        if message["kind"] == "mount":
            return {"place": place}, ()
        return {"place": place}, (os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),)

    def _do_upper(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        place = self._boxes.upper(message["size"], message["inodes"])
        return {"place": place}, (os.open(place + "/u", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),)

    def _do_open(self, message: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        existing = message["place"]
        place = existing or self._boxes.upper(
            message["size"], message["inodes"], AGENT if message["whole_root"] else ROOT
        )
        control = socket.socket(fileno=os.dup(fds[0]))
        try:
            with control:
                box = self._boxes.open({**message, "upper": place}, control)
        except OSError:
            if not existing:
                self._boxes.drop_upper(place)
            raise
        oom = box.group.oom_file if box.group is not None else None
        answer = {"pid": box.pid, "oom": oom.removeprefix("/host") if oom else None, "place": place}
        upper = os.open(place + "/u", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return answer, (upper, os.pidfd_open(box.pid))

    def _do_drop(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        self._boxes.reap()
        for place in message["places"]:
            self._boxes.drop_upper(place)
        return {}, ()

    def _do_forget(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        for place in message["places"]:
            self._boxes.forget(place)
        return {}, ()

    def _do_kill(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        if message["pid"] in self._boxes.alive:
            os.kill(message["pid"], signal.SIGKILL)
        return {}, ()

    def _do_fate(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        self._boxes.reap()
        return {"ooms": self._boxes.fates.pop(message["pid"], 0)}, ()

    def _do_peek(self, message: dict[str, Any], _: list[int]) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Opens a file below a writable layer for which the host user has no permission (an agent removed it)."""
        resolve = sys_.RESOLVE_BENEATH | sys_.RESOLVE_NO_SYMLINKS
        top = os.open(message["place"] + "/u", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return {}, (sys_.openat2(top, message["path"], os.O_RDONLY | os.O_NONBLOCK, resolve),)
        finally:
            os.close(top)


def _has_range() -> bool:
    """Returns True if the ids to which sandboxes are mapped exist here; a root in a small namespace lacks them."""
    try:
        with open("/proc/self/uid_map", encoding="utf-8") as handle:
            rows = [[int(field) for field in line.split()] for line in handle]
    except OSError:
        return False
    return any(first <= FIRST_ID and first + count >= FIRST_ID + IDS for first, _, count in rows)


def _enter_namespaces(run_as: int, limits: dict[str, int]) -> bool:
    """Changes to the launcher's user in its own mount namespace; returns True if it is real root.

    For an ordinary user the new user namespace limits the sum of its sandboxes: a quarter of each limit is reserved.
    """
    if run_as >= 0:
        os.setgroups([])
        os.setresgid(run_as, run_as, run_as)
        os.setresuid(run_as, run_as, run_as)
        sys_.prctl(sys_.PR_SET_DUMPABLE, 1)
    if os.geteuid() == 0 and _has_range():
        sys_.unshare(sys_.NEWNS)
        return True
    user, group = os.geteuid(), os.getegid()
    sys_.unshare(sys_.NEWUSER | sys_.NEWNS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="utf-8") as handle:
            handle.write(text)
    with contextlib.suppress(OSError):  # if /proc/sys is not writable, only the shares apply
        counts.write_limits({name: limit - limit // 4 for name, limit in limits.items()}, counts.FOLDER)
    return False


def main() -> None:
    """Sets up and serves; on failure the host receives the reason."""
    fd, scratch, run_as, generation = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    host = socket.socket(fileno=fd)
    host.set_inheritable(False)
    os.closerange(fd + 1, 65536)
    os.umask(0o022)
    try:
        sys_.hide_arguments(b"assay sandbox")
        if not sys_.NUMBERS:
            raise OSError(38, f"no system call table for {sys_.MACHINE}")
        limits = counts.read_limits()
        separate = _enter_namespaces(run_as, limits)
        take_root()
        boxes = Boxes(scratch, limits, separate=separate, generation=generation)
    except OSError as exc:
        with contextlib.suppress(ConnectionError):
            send(host, {"error": str(exc), "errno": exc.errno})
        os._exit(1)
    gc.collect()
    gc.freeze()
    gc.disable()
    launcher = LauncherServer(host, boxes)
    launcher.greet()
    launcher.serve()
