"""The launcher's templates (`template`): a few of each program, started when a sandbox asks for one.

Only programs and interpreters that the host calls its own are loaded here, outside of a sandbox: a mount that holds a
package of a task's is never.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from typing import Any

from . import syscalls as sys_
from .protocol import receive, send

FOLDER, BOOT_FOLDER = "/p", "/boot"
_BOOT = (
    f"import sys; sys.path.append({BOOT_FOLDER!r}); __import__('launcher.loading').loading.load(sys.argv[1]); "
    "__import__('launcher.template').template.serve(); run_and_exit()"
)
"""Binds no name: those of the program stand in the same module."""
LOCALES = "/usr/lib/locale"
"""The C library's, which decide in which encoding an interpreter starts."""
EACH = 3
"""Templates of a program. Its forks share what is drawn at a start, such as the seed of hashes."""
START_S = 60.0
CLONE_PARENT = 0x8000
"""The sandbox's first process is a child of the launcher, as any other."""


class Templates:
    """All templates, by what they have loaded."""

    def __init__(self, *, separate: bool) -> None:
        self._separate = separate
        self._ready: dict[str, list[socket.socket]] = {}
        self._refused: set[str] = set()
        self._count = 0

    def clone(self, request: dict[str, Any], flags: int, owner: int, control: int, gate: int) -> int | None:
        """Clones the first process of a sandbox from a template; returns None where none can be had."""
        wanted = request["preload"]
        key = json.dumps(wanted, sort_keys=True)
        while (template := self._choose(key, wanted)) is not None:
            asked = os.memfd_create("request", os.MFD_CLOEXEC)
            try:
                os.write(asked, json.dumps(request).encode())
                send(template, {"flags": flags | CLONE_PARENT, "owner": owner}, (control, gate, asked))
                answer, _ = receive(template)
            except OSError:
                answer = None
            finally:
                os.close(asked)
            if answer is not None:
                if "errno" in answer:
                    raise OSError(answer["errno"], answer["error"])
                return int(answer["pid"])
            self._ready[key].remove(template)  # it has died
            template.close()
        return None

    def _choose(self, key: str, wanted: dict[str, Any]) -> socket.socket | None:
        ready = self._ready.setdefault(key, [])
        if len(ready) < EACH and key not in self._refused:
            try:
                ready.append(self._start(wanted))
                return ready[-1]
            except OSError:
                self._refused.add(key)
        return ready[os.urandom(1)[0] % len(ready)] if ready else None

    def _start(self, wanted: dict[str, Any]) -> socket.socket:
        """Starts a template and waits until it has loaded its program. Raises `OSError` if it cannot."""
        self._count += 1
        root = f"{FOLDER}/{self._count}"
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        # The dynamic loader finds the interpreter's folder by /proc, and locales decide in which encoding it starts.
        more = [("/proc", "/proc"), (f"/host{LOCALES}", LOCALES), (f"/host{package}", BOOT_FOLDER)]
        bound: list[str] = []
        try:
            for source, target in (*wanted["mounts"], *more):
                if os.path.isdir(source):
                    os.makedirs(root + target)
                    sys_.mount(source, root + target, None, sys_.MS_BIND)
                    bound.append(root + target)
                    sys_.restrict_tree(root + target, 1 | 2 | 4)
            return self._execute_in(root, wanted)
        finally:
            for place in bound:  # each would be copied into the namespace of every sandbox
                sys_.unmount(place)

    def _execute_in(self, root: str, wanted: dict[str, Any]) -> socket.socket:
        *interpreter, program = wanted["argv"]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", **wanted["env"]}  # without HOME, `site` imports `pwd`
        argv = [*interpreter, "-c", _BOOT, program, str(int(self._separate)), json.dumps(env)]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            if os.fork() == 0:
                _execute(root, argv, env, theirs.fileno())
        try:
            ours.settimeout(START_S)
            answer, _ = receive(ours)
            if not (answer or {}).get("ready"):
                raise OSError(5, "the template ended early")
            ours.settimeout(None)
        except BaseException:
            ours.close()
            raise
        return ours


def _execute(root: str, argv: list[str], env: dict[str, str], control: int) -> None:
    """Runs in the child: enters the template's root and executes its interpreter. Never returns."""
    try:
        null, top = os.open("/host/dev/null", os.O_RDWR), os.open("/", os.O_PATH | os.O_DIRECTORY)
        kept = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (control, top)]
        for fd in range(3):
            os.dup2(null, fd)
        for target, fd in zip((3, 4), kept, strict=True):
            os.dup2(fd, target)
        os.closerange(5, 65536)
        os.chroot(root)
        os.chdir("/")
        os.execve(argv[0], argv, env)
    finally:
        os._exit(127)
