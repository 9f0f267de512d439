"""What sandboxes spend of the limits in /proc/sys/user leaves the host's user enough of each."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.environments.interface import Workspace, WorkspaceSpec
from assay.environments.workspace._limits import limit_shares, sandbox_capacity
from assay.environments.workspace.namespaces import NamespacesBackend

from .conftest import NOBODY

SANDBOXES, WANTED = 64, 32
SPEND = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
held = []
while len(held) < 500 and (fd := libc.inotify_init()) >= 0:
    held.append(fd)
watched = 0
for number in range(20000 if held else 0):
    os.mkdir("/tmp/%d" % number)
    if libc.inotify_add_watch(held[0], b"/tmp/%d" % number, 2) < 0:
        break
    watched += 1
print(len(held), watched, flush=True)
signal.pause()
"""
MAKE = """
import ctypes, json, os, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
wanted, made = int(sys.argv[1]), {}
top = tempfile.mkdtemp()
groups = [libc.inotify_init() for _ in range(wanted)]
made["inotify_instances"] = sum(fd >= 0 for fd in groups)
names = [os.path.join(top, str(number)) for number in range(wanted)]
for name in names:
    os.mkdir(name)
made["inotify_watches"] = sum(libc.inotify_add_watch(groups[0], name.encode(), 2) >= 0 for name in names)
fans = [libc.fanotify_init(0x200, 0) for _ in range(wanted)]
made["fanotify_groups"] = sum(fd >= 0 for fd in fans)
made["fanotify_marks"] = sum(
    libc.fanotify_mark(fans[0], 1, ctypes.c_uint64(0x100), -100, name.encode()) == 0 for name in names)
kinds = {"user": 0x10000000, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
         "pid": 0x20000000, "net": 0x40000000, "time": 0x80}
gate, told = os.pipe(), os.pipe()
for _ in range(wanted):
    if os.fork() == 0:
        os.close(gate[1])
        held = [kind for kind, flag in kinds.items() if libc.unshare(flag) == 0]
        os.write(told[1], (json.dumps(held) + "\\n").encode())
        os.read(gate[0], 1)
        os._exit(0)
lines = [json.loads(line) for _, line in zip(range(wanted), os.fdopen(told[0]))]
for kind in kinds:
    made[kind + "_namespaces"] = sum(kind in line for line in lines)
for name in names:
    os.rmdir(name)
os.rmdir(top)
print(json.dumps(made))
"""


async def spend(box: Workspace) -> list[int]:
    """Leaves a process behind in a sandbox that holds all that it could get; returns how much that is."""
    await box.write("/workspace/spend.py", SPEND.encode())
    await box.write("/workspace/spent", b"")  # on a busy machine the shell makes it later than it is read
    await box.exec("setsid python3 spend.py > spent 2>&1 < /dev/null &")
    for _ in range(600):
        text = (await box.read("/workspace/spent")).decode()
        if text.endswith("\n"):
            return [int(word) for word in text.split()]
        await asyncio.sleep(0.2)
    raise AssertionError(text)


def make_as(tier: str) -> dict[str, int]:
    user = NOBODY if tier == "user" and os.geteuid() == 0 else None
    argv = ["/usr/bin/python3", "-I", "-S", "-c", MAKE, str(WANTED)]  # which any user may run, as a sandbox does
    done = subprocess.run(argv, user=user, capture_output=True, text=True, check=True, cwd="/tmp")
    made: dict[str, int] = json.loads(done.stdout)
    return made


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_64_sandboxes_leave_the_hosts_user_32_of_each(tier: str) -> None:
    run_as = NOBODY if tier == "user" and os.geteuid() == 0 else None
    backend = NamespacesBackend(run_as=run_as, sandboxes=SANDBOXES)
    try:
        boxes = [await backend.open(WorkspaceSpec()) for _ in range(SANDBOXES)]
        spent = await asyncio.gather(*(spend(box) for box in boxes))
        made = await asyncio.to_thread(make_as, tier)
    finally:
        await backend.close()
    assert min(instances for instances, _ in spent) >= 1
    assert {f"max_{name}" for name in made} == {path.name for path in Path("/proc/sys/user").iterdir()}
    assert made == dict.fromkeys(made, WANTED)


async def test_open_waits_while_the_sum_is_spent() -> None:
    run_as = NOBODY if os.geteuid() == 0 else None
    backend = NamespacesBackend(run_as=run_as)
    try:
        launcher = await backend.launcher()
        assert launcher.facts.counted["inotify_instances"] > 0
        backend._slots = asyncio.Semaphore(1)
        first = await backend.open(WorkspaceSpec())
        second = asyncio.ensure_future(backend.open(WorkspaceSpec()))
        await asyncio.sleep(0.3)
        assert not second.done()
        await first.close()
        assert (await (await asyncio.wait_for(second, 20)).exec("echo hi")).stdout == "hi\n"
    finally:
        await backend.close()


@pytest.mark.parametrize(
    ("limit", "sandboxes", "share", "capacity"),
    [(128, 16, 2, 48), (128, 64, 1, 96), (8192, 64, 32, 192), (2, 64, 1, 2), (1, 1, 1, 1)],
)
def test_shares_and_capacity(limit: int, sandboxes: int, share: int, capacity: int) -> None:
    counted = {"inotify_instances": limit}
    shares = limit_shares(counted, sandboxes)
    assert (shares, sandbox_capacity(counted, shares)) == ({"inotify_instances": share}, capacity)
    none: dict[str, Any] = {}
    assert sandbox_capacity(none, limit_shares(none, sandboxes)) is None
