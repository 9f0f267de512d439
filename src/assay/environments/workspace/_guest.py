"""Starts the exec server (`launcher.init`) without the launcher: in a folder, in bubblewrap, or in a container.
Server and protocol are the same; only the environment around it differs.

Not a sandbox: `filtered` adds only no_new_privs and the system call filter.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from assay.environments.workspace.session import ExecDefaults, InitSession
from assay.errors import EnvironmentFailure

LAUNCHER = Path(__file__).with_name("launcher")
START_S = 30.0
_BOOT = """
import json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from launcher import facts, init, privileges, protocol, seccomp, syscalls
given = json.loads(sys.argv[2])
if "connect" in given:
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.connect(given["connect"])
else:
    control = socket.socket(fileno=given["fd"])
control.set_inheritable(False)
os.umask(0o022)
os.chdir("/")
oom = init.OomScore()
privileges.close_all_but([fd for fd in (control.fileno(), oom.fileno()) if fd >= 0])
privileges.set_limits(given["rlimits"])
syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
if given["filtered"]:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.load_filter(seccomp.program())
syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
protocol.send(control, {"ready": True, "facts": facts.collect(control.fileno(), oom.fileno())})
init.Server(control, oom).serve()
"""


class Guest(NamedTuple):
    """A running exec server and the function that stops it."""

    session: InitSession
    stop: Callable[[], Awaitable[None]]
    facts: object = None
    """Facts about the sandbox that the server sent before it served."""


def server_arguments(folder: str, rlimits: dict[str, int], *, filtered: bool, **connection: int | str) -> list[str]:
    """Returns the arguments that make a Python (3.11+) the server; `folder` contains `launcher`."""
    options = {"rlimits": rlimits, "filtered": filtered, **connection}
    return ["-I", "-S", "-c", _BOOT, folder, json.dumps(options)]


def layer_python(path: str) -> list[str]:
    """Returns the command of a tool layer's Python at `path`, independent of the surrounding shell and libraries."""
    loader = [f"{path}/lib/ld.so", "--library-path", f"{path}/lib", "--argv0", f"{path}/host/python3"]
    return [*loader, f"{path}/bin/python3"]


async def start_guest(command: Callable[[int], Sequence[str]], env: dict[str, str]) -> Guest:
    """Runs a command that becomes the server on the given descriptor. Raises `EnvironmentFailure` with its output."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=env,
            )
    except BaseException:
        ours.close()
        raise
    session = InitSession(ours, ExecDefaults({}, "/"))
    try:
        ready = await session.channel.receive_greeting(START_S)
    except EnvironmentFailure as exc:
        session.close()
        output = await _wait_for_exit(process)
        raise EnvironmentFailure(f"the sandbox could not be started: {output or exc}") from exc
    except BaseException:  # cancelled: the process must not outlive us
        session.close()
        await asyncio.shield(_wait_for_exit(process))
        raise

    async def stop() -> None:
        session.close()
        await _wait_for_exit(process)

    return Guest(session, stop, ready.body.get("facts"))


async def _wait_for_exit(process: asyncio.subprocess.Process) -> str:
    """Waits for the process to exit, killing it after a timeout; returns its output."""
    try:
        _, output = await asyncio.wait_for(process.communicate(), 15.0)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        _, output = await process.communicate()
    return output.decode(errors="replace").strip()[-500:]
