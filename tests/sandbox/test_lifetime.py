"""Sandboxes die with their host process, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.environments.interface import Mount, WorkspaceSpec
from assay.environments.workspace._launch import _BOOT, _FOLDER
from assay.environments.workspace.launcher.protocol import receive, send
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import EnvironmentFailure

from .conftest import make_backend

HOST = """
import asyncio, sys
from assay.environments.interface import WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
async def main():
    backend = NamespacesBackend(run_as=None if sys.argv[1] == '-' else int(sys.argv[1]), writable=sys.argv[2])
    box = await backend.open(WorkspaceSpec())
    await box.exec('setsid sleep 55443 &')
    await box.exec('until pgrep sleep > /dev/null; do :; done')
    print('ready', flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest_asyncio.fixture(loop_scope="session")
async def backend(tier: str) -> AsyncIterator[NamespacesBackend]:
    """A backend of the test's own, whose end is part of some tests."""
    made = make_backend(tier)
    yield made
    await made.close()


def start_host(tier: str, writable: str) -> subprocess.Popen[bytes]:
    run_as = "65534" if tier == "user" and os.geteuid() == 0 else "-"
    host = subprocess.Popen([sys.executable, "-c", HOST, run_as, writable], stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert host.stdout.readline() == b"ready\n"
    return host


def wait_until_gone(pattern: str) -> float:
    started = time.monotonic()
    while subprocess.run(["pgrep", "-f", pattern], stdout=subprocess.DEVNULL, check=False).returncode == 0:
        assert time.monotonic() - started < 5
    return time.monotonic() - started


def leftovers(pid: int) -> list[str]:
    """Groups of launchers that are no more, and folders of the host `pid`."""
    found = Path("/sys/fs/cgroup").glob("**/assay-*-*-*")
    groups = [p for p in found if not Path("/proc", p.name.split("-")[1]).exists()]
    return [str(p) for p in (*groups, *Path(tempfile.gettempdir()).glob(f"assay-sandboxes-{pid}-*"))]


def mounts() -> list[str]:
    """What is mounted here, without the containers that another test may run meanwhile."""
    found = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in found if "/containers/" not in line and "/run/netns/" not in line]


async def nothing_left(pid: int, before: list[str] | None = None) -> bool:
    for _ in range(60):
        if set(leftovers(pid)) <= set(before or ()):
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.long
async def test_a_killed_host_takes_its_sandboxes_along(tier: str) -> None:
    host = start_host(tier, "disk")
    launcher = subprocess.run(["pgrep", "-P", str(host.pid)], capture_output=True, text=True, check=True).stdout.strip()
    host.send_signal(signal.SIGKILL)
    host.communicate()
    assert wait_until_gone("sleep 55443") < 2
    while Path("/proc", launcher).exists():
        await asyncio.sleep(0.05)
    backend = NamespacesBackend()
    await (await backend.open(WorkspaceSpec())).close()
    await backend.close()
    assert await nothing_left(host.pid)


def test_a_launcher_whose_host_is_gone_ends_silently(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(_FOLDER), str(theirs.fileno()), str(tmp_path), "-1", "0"]
    with theirs:
        ended = subprocess.run(argv, pass_fds=[theirs.fileno()], capture_output=True, timeout=60, check=False)
    assert ended.stderr == b""


def test_a_reset_connection_is_the_end_of_the_peer() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    send(ours, {"op": "unread"})
    theirs.close()
    assert receive(ours) == (None, [])
    ours.close()


async def test_a_closed_backend_leaves_nothing(backend: NamespacesBackend) -> None:
    before, others = mounts(), leftovers(os.getpid())
    boxes = await asyncio.gather(*(backend.open(WorkspaceSpec()) for _ in range(4)))
    await asyncio.gather(*(box.exec("sleep 1000 & echo x > a") for box in boxes))
    await boxes[0].snapshot()
    await asyncio.gather(*(box.close() for box in boxes[:2]))
    await backend.close()
    await backend.close()
    assert await nothing_left(os.getpid(), others)
    assert mounts() == before


async def test_released_layers_are_dropped_when_nobody_stands_on_them(backend: NamespacesBackend) -> None:
    box = await backend.open(WorkspaceSpec())
    await box.exec("echo 1 > a")
    snapshot = await box.snapshot()
    fork = await backend.open(WorkspaceSpec(), state=snapshot)
    await backend.release(snapshot)
    await backend.release(snapshot)
    assert (await fork.exec("cat a")).stdout == "1\n"
    assert len(backend._sealed) == 1
    await asyncio.gather(fork.close(), box.close())
    assert backend._sealed == {}


async def test_open_descriptors_do_not_grow(backend: NamespacesBackend) -> None:
    async def cycle() -> int:
        box = await backend.open(WorkspaceSpec())
        await box.exec("echo 1 > a", stdin=b"x")
        await box.read("/workspace/a")
        await backend.release(await box.snapshot())
        await box.close()
        return len(list(Path("/proc/self/fd").iterdir()))

    await cycle()
    first = await cycle()
    assert [await cycle() for _ in range(3)] == [first] * 3


async def test_a_cancelled_open_leaves_nothing(backend: NamespacesBackend) -> None:
    await (await backend.open(WorkspaceSpec())).close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for pause in (0, 0.001, 0.003, 0.005, 0.01):
        opening = asyncio.ensure_future(backend.open(WorkspaceSpec()))
        await asyncio.sleep(pause)
        opening.cancel()
        opened = (await asyncio.gather(opening, return_exceptions=True))[0]
        if not isinstance(opened, BaseException):
            await opened.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_many_at_once(backend: NamespacesBackend) -> None:
    async def one(index: int) -> str:
        box = await backend.open(WorkspaceSpec())
        said = await box.exec(f"echo {index} > /workspace/a; cat /workspace/a")
        await box.close()
        return said.stdout

    said = await asyncio.gather(*(one(index) for index in range(24)))
    assert said == [f"{index}\n" for index in range(24)]


async def test_a_killed_launcher_costs_what_was_open_and_no_more() -> None:
    backend = NamespacesBackend()
    try:
        box = await backend.open(WorkspaceSpec())
        await box.exec("echo 1 > a")
        state = await box.snapshot()
        os.kill((await backend.launcher())._pid, signal.SIGKILL)
        await asyncio.sleep(0.1)
        for act in (box.digest, box.snapshot, lambda: box.exec("true")):
            with pytest.raises(EnvironmentFailure, match="launcher is gone"):
                await act()
        again = await backend.open(WorkspaceSpec())
        assert (await again.exec("ls; touch b")).stdout == ""
        assert (await again.snapshot()).layers != state.layers
        with pytest.raises(EnvironmentFailure, match="no longer"):
            await backend.open(WorkspaceSpec(), state=state)
        await box.close()
        assert (await again.exec("ls")).stdout == "b\n"
    finally:
        await backend.close()


async def test_a_mount_is_made_once_however_many_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = NamespacesBackend()
    try:
        launcher, asked = await backend.launcher(), []
        ask = launcher.ask
        monkeypatch.setattr(
            launcher, "ask", lambda message, *more: (asked.append(message.get("kind")), ask(message, *more))[1]
        )
        spec = WorkspaceSpec(mounts=(Mount(str(tmp_path), "/m"),))
        await asyncio.gather(*(backend.open(spec) for _ in range(6)))
        assert asked.count("mount") == 1
    finally:
        await backend.close()
