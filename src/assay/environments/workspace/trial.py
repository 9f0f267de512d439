"""Tries in a live sandbox what a sandbox must do: the self-test before a run, and what `assay doctor` tells.

A short form of the attack tests, harmless where it fails: it writes a kernel setting's own value back, connects
nowhere, and starts a bounded number of processes. Not a proof: it finds hosts where a mechanism is missing or lies.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
from pathlib import Path
from typing import NamedTuple

from assay.environments.interface import Backend, ResourceLimits, Workspace, WorkspaceSpec
from assay.errors import EnvironmentFailure
from assay.records import Isolation

__all__ = ["Trial", "try_backend"]

TRIAL_S = 60.0
_PROCESSES = 24
_LIMITS = ResourceLimits(memory_mib=512, processes=_PROCESSES, disk_mib=64, tmp_mib=32, file_mib=32, cpus=1.0)
# Each must fail inside. `{host_file}` is a file that only the host has.
_MUST_FAIL = {
    "the host's files are hidden": "test -e {host_file}",
    "system folders are read-only": "touch /usr/.assay-trial || touch /etc/.assay-trial",
    "kernel settings are read-only": "v=$(cat /proc/sys/vm/swappiness) && echo $v > /proc/sys/vm/swappiness",
    "its first process cannot be read": "head -c 1 /proc/1/mem || ls /proc/1/root/ || cat /proc/1/environ",
    "file systems cannot be mounted": "mount -t tmpfs none /mnt",
    "namespaces cannot be nested": "unshare -Ur true",
    "the host's processes are hidden": "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q '60[.]{token}'",
    "devices cannot be made": "mknod /workspace/.assay-trial b 8 0",
}


class Trial(NamedTuple):
    """What a trial found. `problem` is set where no sandbox could be opened or used."""

    held: dict[str, bool]
    isolation: Isolation | None
    problem: str | None = None


async def try_backend(backend: Backend, *, isolated: bool = True) -> Trial:
    """Opens a sandbox and tries it; never raises for what is wrong with the sandbox.

    Args:
        backend: Stays open.
        isolated: Whether it promises isolation; without, only its working is tried.
    """
    held: dict[str, bool] = {}
    try:
        async with asyncio.timeout(TRIAL_S):
            workspace = await backend.open(WorkspaceSpec(limits=_LIMITS))
            try:
                held |= await _works(workspace)
                if isolated:
                    held |= await _isolates(workspace)
            finally:
                await workspace.close()
    except (EnvironmentFailure, OSError, ValueError) as exc:
        return Trial(held, None, _short(exc))
    except TimeoutError:
        return Trial(held, None, f"the trial did not end within {TRIAL_S:.0f} s")
    return Trial(held, workspace.isolation)


def _short(exc: Exception) -> str:
    return " ".join(str(exc).split())[:400] or type(exc).__name__


async def _works(workspace: Workspace) -> dict[str, bool]:
    answer = await workspace.exec("echo $((6 * 7)); echo e >&2; mkdir -p d/e; echo 1 > d/a", timeout_s=20)
    held = {"commands run": (answer.stdout, answer.stderr, answer.exit_code) == ("42\n", "e\n", 0)}
    late = await workspace.exec("(setsid sleep 61 &); sleep 62", timeout_s=0.2)
    left = await workspace.processes()
    held["a timeout kills what detached, too"] = late.timed_out and left == ()
    fork = await workspace.fork()
    try:
        again = await fork.exec("rm -rf d && mkdir d && ls d && cat ../workspace/d/a", timeout_s=20)
        held["removed folders stay removed"] = again.stdout == "" and again.exit_code != 0
        kept = await workspace.exec("cat d/a", timeout_s=20)
        held["forks are independent"] = kept.stdout == "1\n" and await fork.digest() != await workspace.digest()
    finally:
        await fork.close()
    return held


async def _isolates(workspace: Workspace) -> dict[str, bool]:
    held = {}
    with (
        tempfile.NamedTemporaryFile(prefix="assay-trial-") as host_file,
        socket.create_server(("127.0.0.1", 0)) as host,
    ):
        Path(host_file.name).chmod(0o644)
        token = f"{secrets.randbelow(10**12):012}"
        process = await asyncio.create_subprocess_exec("sleep", f"60.{token}")
        for name, attack in _MUST_FAIL.items():
            script = attack.format(host_file=host_file.name, token=token)
            held[name] = (await workspace.exec(script, timeout_s=20)).exit_code != 0
        process.kill()
        await process.wait()
        port = f":{host.getsockname()[1]:04X} "
        seen = await workspace.exec("cat /proc/net/tcp", timeout_s=20)
        held["the host's network is hidden"] = port not in seen.stdout
    await workspace.exec(f"i=0; while [ $i -lt {2 * _PROCESSES} ]; do sleep 63 & i=$((i+1)); done", timeout_s=20)
    held["the number of processes is limited"] = len(await workspace.processes()) <= _PROCESSES
    await workspace.kill_all()
    held["everything can be killed"] = await workspace.processes() == ()
    return held
