"""What is particular to bubblewrap: who commands are on the host, and what they cannot reach."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from assay.environments.interface import Backend, ResourceLimits, Workspace, WorkspaceSpec
from assay.environments.workspace.bubblewrap import BubblewrapBackend
from assay.environments.workspace.toolchain import ToolLayer
from assay.errors import EnvironmentFailure
from tests.sampling import draw_sample


@pytest_asyncio.fixture(loop_scope="session")
async def box(toolchain: ToolLayer, backends: dict[str, Backend]) -> AsyncIterator[Workspace]:
    masks = ("/usr/share/doc", "/usr/bin/env")
    try:
        box = await backends["bubblewrap"].open(WorkspaceSpec(mounts=(toolchain.mount(),), masks=masks))
    except EnvironmentFailure as exc:
        pytest.skip(f"bubblewrap does not work here: {exc}")
    yield box
    await box.close()


async def test_commands_are_never_the_hosts_root(box: Workspace) -> None:
    await box.exec("sleep 71 & sleep 0.3")
    (pid,) = [p for p in Path("/proc").iterdir() if p.name.isdigit() and b"sleep\x0071" in _line(p)]
    uid = int((pid / "status").read_text().split("Uid:")[1].split()[0])
    assert uid != 0
    assert uid == os.geteuid() or os.geteuid() == 0


def _line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


ATTACKS = (
    "echo 1 > /proc/sys/vm/swappiness",
    "echo b > /proc/sysrq-trigger",
    "cat /proc/1/mem",
    "cat /proc/1/environ",
    "ls /proc/1/root/",
    "touch /usr/x",
    "touch /etc/x",
    "touch /dev/x",
    "mount -t tmpfs none /mnt",
    "unshare -Ur true",
    "cat /etc/shadow",
    "ls /root/.ssh",
    "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 22), 1)'",
    "kill -9 1; test ! -d /proc/1",
    "ls /usr/share/doc | grep .",
    "/usr/bin/env true",
)


@pytest.mark.parametrize("attack", draw_sample(ATTACKS, 8))
async def test_attack_fails(box: Workspace, attack: str) -> None:
    assert (await box.exec(attack, timeout_s=20)).exit_code != 0
    assert (await box.exec("echo on")).stdout == "on\n"


async def test_memory_and_disk_are_watched(box: Workspace, toolchain: ToolLayer) -> None:
    assert {limit.name: limit.hold for limit in box.isolation.limits if limit.hold == "soft"} == {
        "memory": "soft",
        "disk": "soft",
    }
    assert box.isolation.name == "bubblewrap"
    assert box.isolation.network == "none"


MEMORY = "for i in 1 2 3; do python3 -c 'x = bytearray(40 << 20); import time; time.sleep(30)' & done; wait; sleep 30"
DISK = "i=0; while [ $i -lt 12 ]; do head -c 8M /dev/zero > f$i; i=$((i+1)); done; sleep 30"


@pytest.mark.parametrize(("bomb", "limit"), [(MEMORY, "memory"), (DISK, "disk")])
async def test_what_no_kernel_limit_holds_is_ended_by_the_watchdog(toolchain: ToolLayer, bomb: str, limit: str) -> None:
    backend = BubblewrapBackend(toolchain=toolchain)
    try:
        box = await backend.open(WorkspaceSpec(limits=ResourceLimits(memory_mib=96, disk_mib=48)))
    except EnvironmentFailure as exc:
        pytest.skip(f"bubblewrap does not work here: {exc}")
    result = await box.exec(bomb, timeout_s=20)
    assert (result.killed_by, result.timed_out) == (limit, False)
    assert (await box.exec("echo on")).stdout == "on\n"
    await backend.close()
