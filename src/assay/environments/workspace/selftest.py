"""The start-up self-test: tries, in a real sandbox, each property that a backend claims.

Nothing is assumed from versions or configuration: a kernel, a security module or a container around us may refuse or
allow anything. Harmless where a property does not hold: a kernel setting is written with its own value, a mount names
a file system that does not exist, tracing stops nothing. About a quarter of a second. Works on any backend.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec

from assay.environments.interface import Backend, ResourceLimits, Workspace, WorkspaceSpec
from assay.errors import EnvironmentFailure

__all__ = ["Finding", "self_test", "sound"]

LIMIT_S = 10.0
PROCESSES = 24
_CALLS = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def connects(port):
    try:
        socket.create_connection(('127.0.0.1', port), 1).close()
    except OSError:
        return False
    return True
tried = {
    'network': connects(int(sys.argv[1])),
    'mount': libc.mount(b'none', b'/', b'assay-no-such-kind', ctypes.c_ulong(0), None) == 0 or ctypes.get_errno() != 1,
    'nesting': libc.unshare(0x10000000) == 0,
    'tracing': libc.ptrace(0x4206, 1, 0, 0) == 0,
}
print(*[name for name, reached in tried.items() if reached], 'done')
"""


class Finding(msgspec.Struct, frozen=True):
    """One property, tried."""

    name: str
    status: Literal["held", "broken", "unknown"]
    """`unknown`: it could not be tried, for example because the sandbox has no Python."""
    detail: str = ""


async def self_test(backend: Backend, *, python: str = "python3") -> tuple[Finding, ...]:
    """Tries every property on a backend.

    Args:
        backend: Any; it is left open.
        python: An interpreter inside the sandbox, for the properties that need system calls.

    Returns:
        The findings in a stable order; where no sandbox could be opened at all, one broken finding `open` that says
        why. Never raises for what it finds.
    """
    spec = WorkspaceSpec(limits=ResourceLimits(processes=PROCESSES, memory_mib=512, disk_mib=64, tmp_mib=64))
    try:
        box = await backend.open(spec)
    except EnvironmentFailure as exc:
        return (Finding("open", "broken", str(exc)),)
    findings = [Finding("open", "held")]
    try:
        for probe in _PROBES:
            findings += await _try(box, probe)
        findings += await _calls(box, python)
        findings += await _try(box, _processes_are_limited)
    finally:
        with contextlib.suppress(EnvironmentFailure):
            await box.close()
    return tuple(findings)


def sound(findings: tuple[Finding, ...]) -> bool:
    """Whether everything that could be tried held, and a sandbox opened."""
    return all(finding.status != "broken" for finding in findings)


Probe = Callable[[Workspace], Awaitable[tuple[str, str]]]
"""Returns the property's name and what is wrong; the empty string when it held."""


async def _try(box: Workspace, probe: Probe) -> list[Finding]:
    try:
        name, problem = await probe(box)
    except (EnvironmentFailure, OSError, ValueError) as exc:
        return [Finding(probe.__name__.lstrip("_"), "broken", str(exc)[:300])]
    return [Finding(name, "broken" if problem else "held", problem)]


async def _shell(box: Workspace, script: str) -> str:
    result = await box.exec(script, timeout_s=LIMIT_S)
    return result.stdout.strip()


async def _files(box: Workspace) -> tuple[str, str]:
    await box.write("/workspace/old/inner", b"1")
    await box.snapshot()
    said = await _shell(box, "rm -rf old && mkdir old && echo 2 > old/new && echo old/*")
    return "files over a sealed layer", "" if said == "old/new" else f"replacing a folder gave {said[:200]!r}"


async def _kernel_settings(box: Workspace) -> tuple[str, str]:
    script = "f=/proc/sys/vm/swappiness; read v < $f; (echo $v > $f) 2>/dev/null && echo written"
    said = await _shell(box, script)
    return "kernel settings", "a write to /proc/sys succeeded" if said else ""


async def _own_processes(box: Workspace) -> tuple[str, str]:
    pids = (await _shell(box, "echo /proc/[0-9]*")).split()
    return "own processes only", f"{len(pids)} processes are visible" if len(pids) > 4 else ""


async def _init_memory(box: Workspace) -> tuple[str, str]:
    said = await _shell(box, "for f in mem environ; do (: < /proc/1/$f) 2>/dev/null && echo $f; done; ls /proc/1/root/")
    return "the memory of init", f"readable: {said[:100]}" if said else ""


async def _host_files(box: Workspace) -> tuple[str, str]:
    with tempfile.NamedTemporaryFile(prefix="assay-secret-") as secret:
        Path(secret.name).chmod(0o644)
        places = [secret.name, str(Path.home() / ".ssh"), str(Path.home() / ".bashrc"), "/etc/shadow"]
        tried = " ".join(f"'{place}'" for place in places if "'" not in place)
        said = await _shell(box, f"for f in {tried}; do [ -e $f ] && echo $f; done")
    return "files of the host", f"visible: {said[:200]}" if said else ""


async def _system_folders(box: Workspace) -> tuple[str, str]:
    said = await _shell(box, "for f in /usr/bin /etc /bin/sh /etc/passwd; do [ -w $f ] && echo $f; done")
    return "system folders", f"writable: {said[:100]}" if said else ""


async def _background(box: Workspace) -> tuple[str, str]:
    result = await box.exec("setsid sleep 60 & sleep 60", timeout_s=0.05)
    left = [process for process in await box.processes() if process.state not in ("Z", "X")]
    held = result.timed_out and not left
    return "the time limit", "" if held else f"{len(left)} processes outlived it"


async def _processes_are_limited(box: Workspace) -> tuple[str, str]:
    script = f"i=0; while [ $i -lt {3 * PROCESSES} ]; do sleep 20 & i=$((i + 1)); done"
    await box.exec(f"({script}) 2>/dev/null", timeout_s=LIMIT_S)
    alive = len(await box.processes())
    await box.kill_all()
    return "the number of processes", f"{alive} ran at once; the limit is {PROCESSES}" if alive > PROCESSES else ""


async def _calls(box: Workspace, python: str) -> list[Finding]:
    """What needs system calls, in one short Python program."""
    names = {
        "network": "the host's loopback network",
        "mount": "mounting",
        "nesting": "namespaces inside",
        "tracing": "tracing of init",
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        result = await box.exec([python, "-c", _CALLS, port], timeout_s=LIMIT_S)
    said = result.stdout.split()
    if not said or said[-1] != "done":
        reason = (result.stderr.strip() or "no answer")[-200:]
        return [Finding(name, "unknown", reason) for name in names.values()]
    return [Finding(text, "broken" if name in said else "held") for name, text in names.items()]


_PROBES: tuple[Probe, ...] = (
    _files,
    _kernel_settings,
    _own_processes,
    _init_memory,
    _host_files,
    _system_folders,
    _background,
)
