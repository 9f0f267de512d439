"""Probes the required properties of a sandbox in a live one: the self-test before a run, and for `assay doctor`.

A short form of the attack tests, harmless on failure: it writes a kernel setting's own value back, makes no
connection, and starts a bounded number of processes. Not a proof: it detects hosts on which a mechanism is missing.
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

PROBE_S = 60.0
_PROCESSES = 24
_LIMITS = ResourceLimits(memory_mib=512, processes=_PROCESSES, disk_mib=64, tmp_mib=32, file_mib=32, cpus=1.0)
# Each must fail inside. `{host_file}` exists only on the host.
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


class ProbeResult(NamedTuple):
    """Result of a probe. `problem` is set if no sandbox could be opened or used."""

    passed: dict[str, bool]
    isolation: Isolation | None
    problem: str | None = None


async def probe_backend(backend: Backend, *, isolated: bool = True) -> ProbeResult:
    """Opens a sandbox and probes it, or without `isolated` only its function. Defects are reported, not raised."""
    passed: dict[str, bool] = {}
    try:
        async with asyncio.timeout(PROBE_S):
            workspace = await backend.open(WorkspaceSpec(limits=_LIMITS))
            try:
                passed |= await _check_commands(workspace)
                if isolated:
                    passed |= await _check_isolation(workspace)
            finally:
                await workspace.close()
    except (EnvironmentFailure, OSError, ValueError) as exc:
        return ProbeResult(passed, None, _shorten(exc))
    except TimeoutError:
        return ProbeResult(passed, None, f"the probe did not end within {PROBE_S:.0f} s")
    return ProbeResult(passed, workspace.isolation)


def _shorten(exc: Exception) -> str:
    return " ".join(str(exc).split())[:400] or type(exc).__name__


async def _check_commands(workspace: Workspace) -> dict[str, bool]:
    answer = await workspace.exec("echo $((6 * 7)); echo e >&2; mkdir -p d/e; echo 1 > d/a", timeout_s=20)
    passed = {"commands run": (answer.stdout, answer.stderr, answer.exit_code) == ("42\n", "e\n", 0)}
    timed_out = await workspace.exec("(setsid sleep 61 &); sleep 62", timeout_s=0.2)
    remaining = await workspace.processes()
    passed["a timeout kills what detached, too"] = timed_out.timed_out and remaining == ()
    fork = await workspace.fork()
    try:
        fork_result = await fork.exec("rm -rf d && mkdir d && ls d && cat ../workspace/d/a", timeout_s=20)
        passed["removed folders stay removed"] = fork_result.stdout == "" and fork_result.exit_code != 0
        original = await workspace.exec("cat d/a", timeout_s=20)
        passed["forks are independent"] = original.stdout == "1\n" and await fork.digest() != await workspace.digest()
    finally:
        await fork.close()
    return passed


async def _check_isolation(workspace: Workspace) -> dict[str, bool]:
    passed = {}
    with (
        tempfile.NamedTemporaryFile(prefix="assay-trial-") as host_file,
        socket.create_server(("127.0.0.1", 0)) as host,
    ):
        Path(host_file.name).chmod(0o644)
        token = f"{secrets.randbelow(10**12):012}"
        process = await asyncio.create_subprocess_exec("sleep", f"60.{token}")
        for name, attack in _MUST_FAIL.items():
            script = attack.format(host_file=host_file.name, token=token)
            passed[name] = (await workspace.exec(script, timeout_s=20)).exit_code != 0
        process.kill()
        await process.wait()
        port = f":{host.getsockname()[1]:04X} "
        connections = await workspace.exec("cat /proc/net/tcp", timeout_s=20)
        passed["the host's network is hidden"] = port not in connections.stdout
    await workspace.exec(f"i=0; while [ $i -lt {2 * _PROCESSES} ]; do sleep 63 & i=$((i+1)); done", timeout_s=20)
    passed["the number of processes is limited"] = len(await workspace.processes()) <= _PROCESSES
    await workspace.kill_all()
    passed["everything can be killed"] = await workspace.processes() == ()
    return passed
