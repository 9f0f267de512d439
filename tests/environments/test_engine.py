"""What is particular to a container engine."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from assay.environments.interface import Backend, ResourceLimits, WorkspaceSpec
from assay.errors import EnvironmentFailure

pytestmark = pytest.mark.docker


@pytest_asyncio.fixture(loop_scope="session")
async def backend(backends: dict[str, Backend]) -> Backend:
    try:
        await (await backends["podman"].open(WorkspaceSpec())).close()
    except EnvironmentFailure as exc:
        pytest.skip(f"podman does not work here: {exc}")
    return backends["podman"]


@pytest.mark.long
async def test_attacks_fail_and_memory_is_held(backend: Backend) -> None:
    limits = ResourceLimits(memory_mib=96, processes=32)
    box = await backend.open(WorkspaceSpec(limits=limits, masks=("/usr/share/doc",)))
    for attack in (
        "echo 1 > /proc/sys/vm/swappiness",
        "cat /proc/1/mem",
        "ls /proc/1/root/",
        "touch /usr/x",
        "touch /x",
        "mount -t tmpfs none /mnt",
        "unshare -Ur true",
        "cat /etc/shadow",
        "ls /usr/share/doc | grep .",
        "test -w /.assay/socket/s",
    ):
        assert (await box.exec(attack, timeout_s=20)).exit_code != 0, attack
    bomb = await box.exec("head -c 200M /dev/zero | tail -c 190M | wc -c", timeout_s=60)
    assert int(bomb.stdout or 0) < 190 * 2**20
    assert (await box.exec("echo on")).stdout == "on\n"
    await box.close()
    assert {limit.name for limit in box.isolation.limits if limit.hold == "soft"} == {"disk"}


async def containers() -> set[str]:
    shown = await asyncio.create_subprocess_exec("podman", "ps", "-aq", stdout=asyncio.subprocess.PIPE)
    return set((await shown.communicate())[0].decode().split())


@pytest.mark.long
async def test_closing_leaves_no_container(backend: Backend) -> None:
    before = await containers()
    box = await backend.open(WorkspaceSpec())
    await box.exec("sleep 72 &")
    during = await containers()
    await box.close()
    assert len(during - before) >= 1
    assert during - before - await containers()
