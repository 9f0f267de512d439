"""Client of the launcher process: started once for each backend, controlled over its socket, ended with it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from pathlib import Path
from typing import Any, NamedTuple

from assay.environments.workspace._channel import Answer, Channel
from assay.environments.workspace._folders import private_folder, remove_folder
from assay.errors import EnvironmentFailure, HostFailure

_FOLDER = Path(__file__).parent
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from launcher.__main__ import main; main()"
START_S = 30.0
_HOST_ERRORS = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.EROFS,
})  # fmt: skip
"""Errors of the launcher that mean that the machine's resources are exhausted."""


class LauncherFacts(NamedTuple):
    """Capabilities of the launcher on this machine."""

    separate_users: bool
    tmpfs_layers: bool
    cgroup: int
    """Cgroup version whose limits it can set; 0 for none."""
    controllers: tuple[str, ...]
    owner: int
    """Host user id that owns an agent's files."""
    counted: dict[str, int]
    """Counted limits (`/proc/sys/user`) that sandboxes share with the user; empty if they share none."""


async def has_exited(pidfd: int, timeout_s: float) -> bool:
    """Waits for the process of a pidfd to end; returns False on timeout."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def on_end() -> None:
        if not ended.done():
            ended.set_result(True)

    loop.add_reader(pidfd, on_end)
    try:
        return bool(await asyncio.wait_for(ended, timeout_s))
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)


class Launcher:
    """A running launcher.

    Created by `Launcher.start`. `skeleton` is an open folder: the lowest layer of every host-tools image.
    """

    def __init__(self, pid: int, channel: Channel, scratch: Path, greeting: Answer) -> None:
        self._pid = pid
        self._channel = channel
        self._scratch = scratch
        self.skeleton = greeting.fds[0]
        hello = greeting.body["hello"]
        owner = 101_000 if hello["separate"] else scratch.stat().st_uid
        controllers = tuple(hello["controllers"])
        counted = dict(hello["counted"])
        self.facts = LauncherFacts(hello["separate"], hello["tmpfs"], hello["cgroup"], controllers, owner, counted)

    @classmethod
    async def start(cls, run_as: int | None, scratch_parent: Path | None = None, generation: int = 0) -> Launcher:
        """Starts a launcher; `generation` counts earlier ones. Raises `EnvironmentFailure` with what was refused."""
        scratch = private_folder("sandboxes", scratch_parent)
        scratch.chmod(0o700)
        if run_as is not None:
            os.chown(scratch, run_as, run_as)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = _spawn(theirs.fileno(), scratch, run_as, generation)
        finally:
            theirs.close()
        channel = Channel(ours, "the sandbox launcher")
        try:
            greeting = _require_greeting(await channel.receive_greeting(START_S))
        except BaseException:
            channel.close()
            remove_folder(scratch)
            await asyncio.to_thread(os.waitpid, pid, 0)
            raise
        return cls(pid, channel, scratch, greeting)

    @property
    def has_exited(self) -> bool:
        """Returns True if the launcher has died."""
        return self._channel.ended

    async def ask(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> Answer:
        """Sends a request.

        Raises:
            EnvironmentFailure: The launcher could not execute the request.
            HostFailure: The launcher is gone, or the machine's resources are exhausted.
        """
        try:
            return await self._channel.ask(message, fds, timeout_s=120.0)
        except EnvironmentFailure as exc:
            raise HostFailure(str(exc)) from exc
        except OSError as exc:
            text = f"the sandbox launcher could not {message['op']}: {exc.strerror or exc}"
            failure = HostFailure if exc.errno in _HOST_ERRORS else EnvironmentFailure
            raise failure(text) from exc

    async def close(self) -> None:
        """Ends the launcher and all its sandboxes, and removes its scratch folder. Idempotent."""
        if self._channel.ended and self._pid < 0:
            return
        self._channel.close()
        pid, self._pid = self._pid, -1
        if pid > 0:
            pidfd = os.pidfd_open(pid)
            try:
                if not await has_exited(pidfd, 20.0):
                    os.kill(pid, 9)
            finally:
                os.close(pidfd)
            await asyncio.to_thread(os.waitpid, pid, 0)
        os.close(self.skeleton)
        await asyncio.to_thread(remove_folder, self._scratch)


def _require_greeting(answer: Answer) -> Answer:
    if "hello" not in answer.body:
        raise EnvironmentFailure(f"this machine does not permit sandboxes: {answer.body.get('error')}")
    return answer


def _spawn(fd: int, scratch: Path, run_as: int | None, generation: int) -> int:
    """Starts the launcher with its socket as descriptor 3 and no other inherited descriptor."""
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(_FOLDER), "3", str(scratch)]
    argv += [str(-1 if run_as is None else run_as), str(generation)]
    actions = [
        (os.POSIX_SPAWN_DUP2, fd, 3),
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
    ]
    return os.posix_spawn(sys.executable, argv, {"PATH": "/usr/bin:/bin"}, file_actions=actions, setsid=True)
