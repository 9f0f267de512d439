"""What a hostile command tries against memory, disk, processes, output and time."""

from __future__ import annotations

import asyncio
import os
import resource
import time

import pytest

from assay.environments.interface import ResourceLimits, Workspace, WorkspaceSpec
from assay.environments.workspace import _entries
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import StateLimitError

SMALL = ResourceLimits(memory_mib=128, processes=48, disk_mib=32, tmp_mib=16, file_mib=24, output_mib=4, open_files=64)
EAT = "a = []\nwhile True: a.append(bytearray(b'x') * 5_000_000)"


def held(box: Workspace, name: str) -> str:
    return next(row.hold for row in box.isolation.limits if row.name == name)


def host_memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def small(backend: NamespacesBackend) -> Workspace:
    return await backend.open(WorkspaceSpec(limits=SMALL))


async def test_a_fork_bomb_stops_at_the_limit(backend: NamespacesBackend) -> None:
    box, other = await small(backend), await small(backend)
    code = (
        "import os, time\nn = 0\ntry:\n    while os.fork() or time.sleep(60) is None: n += 1\nexcept OSError: print(n)"
    )
    result = await box.exec(["python3", "-c", code], timeout_s=20)
    assert 20 < int(result.stdout) <= 48
    assert (await other.exec("true & true & wait")).exit_code == 0
    await box.kill_all()
    assert (await box.exec("echo ok")).stdout == "ok\n"


async def test_a_self_replicating_shell_is_ended(backend: NamespacesBackend) -> None:
    box = await small(backend)
    started = time.monotonic()
    result = await box.exec("bomb() { bomb | bomb & }; bomb; sleep 30", timeout_s=1)
    assert time.monotonic() - started < 8
    assert result.timed_out or result.exit_code != 0
    await box.kill_all()
    assert await box.processes() == ()


async def test_one_process_cannot_take_more_memory(backend: NamespacesBackend) -> None:
    box = await small(backend)
    started = time.monotonic()
    result = await box.exec(["python3", "-c", EAT], timeout_s=20)
    assert result.exit_code != 0
    assert not result.timed_out
    assert time.monotonic() - started < 10
    assert (await box.exec("echo ok")).stdout == "ok\n"


async def test_the_sum_of_memory_is_held(backend: NamespacesBackend) -> None:
    box = await small(backend)
    code = "import time; a = bytearray(b'x') * 50_000_000; time.sleep(12)"
    started = time.monotonic()
    result = await box.exec(f'for i in 1 2 3 4 5 6; do (python3 -c "{code}" || echo gone) & done; wait', timeout_s=15)
    if held(box, "memory") == "soft":
        assert result.killed_by == "memory"
        assert time.monotonic() - started < 10, "killed before they end by themselves"
    else:
        assert result.stdout.count("gone") >= 4
        assert (await box.exec("echo ok")).stdout == "ok\n"


async def test_memory_without_a_process_counts_too(backend: NamespacesBackend) -> None:
    box = await small(backend)
    code = "import os, time\nfs = [os.memfd_create(str(i)) for i in range(12)]\n"
    code += "for f in fs: os.write(f, b'x' * 20_000_000)\nprint('ALLOWED'); time.sleep(2); print('STILL', flush=True)"
    result = await box.exec(["python3", "-u", "-c", code], timeout_s=15)
    assert "STILL" not in result.stdout
    assert result.killed_by == "memory"
    assert (await box.exec("echo ok")).stdout == "ok\n"


async def test_a_sandbox_that_eats_its_own_init_goes_on(backend: NamespacesBackend) -> None:
    box = await small(backend)
    await box.exec("echo kept > /workspace/kept")
    code = "import os\nopen('/proc/self/oom_score_adj', 'w').write('0')\n"
    code += "fs = [os.memfd_create(str(i)) for i in range(12)]\n"
    code += "for f in fs: os.write(f, b'x' * 20_000_000)\nimport time; time.sleep(2)"
    assert (await box.exec(["python3", "-c", code], timeout_s=15)).killed_by == "memory"
    assert (await box.exec("cat kept")).stdout == "kept\n"


async def test_one_file_cannot_fill_the_disk(backend: NamespacesBackend) -> None:
    box = await small(backend)
    result = await box.exec("head -c 100M /dev/zero > big; stat -c %s big", timeout_s=20)
    assert int(result.stdout) <= 24 * 1024 * 1024


async def test_many_files_cannot_fill_the_disk(backend: NamespacesBackend) -> None:
    box = await small(backend)
    script = "for i in $(seq 100); do head -c 4M /dev/zero > f$i || exit 7; done"
    assert (await box.exec(script, timeout_s=20)).exit_code == 7
    assert (await box.exec("du -sm . | cut -f1; rm -f f*; echo ok > f; cat f")).stdout in ("32\nok\n", "33\nok\n")


async def test_many_small_files_cannot_use_up_the_inodes(backend: NamespacesBackend) -> None:
    box = await small(backend)
    code = "import os\nn = 0\ntry:\n    while True: open(f'f{n}', 'x').close(); n += 1\nexcept OSError: print(n)"
    result = await box.exec(["python3", "-c", code], timeout_s=30)
    assert int(result.stdout) < 20_000


async def test_temporary_folders_are_limited_too(backend: NamespacesBackend) -> None:
    box = await small(backend)
    for place in ("/tmp", "/dev/shm"):
        result = await box.exec(f"head -c 20M /dev/zero > {place}/x; stat -c %s {place}/x")
        assert int(result.stdout) <= 16 * 1024 * 1024


async def test_a_disk_folder_is_watched(tier: str) -> None:
    run_as = 65534 if tier == "user" and os.geteuid() == 0 else None
    backend = NamespacesBackend(run_as=run_as, writable="disk")
    box = await small(backend)
    assert held(box, "disk") == "soft"
    script = "i=0; while :; do i=$((i + 1)); head -c 4M /dev/zero > f$i; sleep 0.02; done"
    result = await box.exec(script, timeout_s=20)
    assert (result.killed_by, result.timed_out) == ("disk", False)
    assert result.duration_s < 3
    await backend.close()


async def test_a_flood_of_output_costs_bounded_memory(backend: NamespacesBackend) -> None:
    box = await small(backend)
    before = host_memory_mib()
    result = await box.exec("yes | head -c 10G", timeout_s=30)
    assert (result.output_limited, result.killed_by) == (True, "output")
    assert result.duration_s < 5
    assert result.stdout_bytes < 8 * 1024 * 1024
    assert len(result.stdout) < 70_000
    assert host_memory_mib() - before < 30


async def test_a_flood_on_both_streams_and_without_a_newline(backend: NamespacesBackend) -> None:
    box = await small(backend)
    result = await box.exec("cat /dev/zero & cat /dev/zero >&2", timeout_s=30)
    assert result.killed_by == "output"
    assert (await box.exec("echo ok")).stdout == "ok\n"


async def test_killing_everything_spares_the_sandbox(backend: NamespacesBackend) -> None:
    box, other = await small(backend), await small(backend)
    await other.exec("sleep 1000 &")
    await box.exec("sleep 1000 &")
    result = await box.exec("kill -9 -1; kill -9 1; kill -STOP 1; kill -TERM 1; exit 3", timeout_s=10)
    assert result.exit_code == 3
    assert (await box.exec("echo ok")).stdout == "ok\n"
    assert len(await other.processes()) == 1


async def test_time_limit_reaches_what_changed_session_and_parent(box: Workspace) -> None:
    code = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: os.execlp('sleep', 'sleep', '999')"
    script = f"trap '' TERM INT HUP; python3 -c \"{code}\"; setsid nohup sleep 999 & sleep 999"
    result = await box.exec(script, timeout_s=0.7)
    assert (result.timed_out, result.killed_by) == (True, "timeout")
    assert result.duration_s < 3
    assert await box.processes() == ()
    assert (await box.exec("echo ok")).stdout == "ok\n"


async def test_nothing_outlives_the_sandbox(backend: NamespacesBackend) -> None:
    box = await small(backend)
    await box.exec("setsid sleep 98765 & setsid nohup sh -c 'sleep 98765 & sleep 98765' &")
    while len([p for p in await box.processes() if p.command == "sleep 98765"]) < 3:
        await asyncio.sleep(0.02)
    await box.close()
    pgrep = await asyncio.create_subprocess_exec("pgrep", "-f", "sleep 98765", stdout=asyncio.subprocess.DEVNULL)
    assert await pgrep.wait() == 1


async def test_files_cannot_be_opened_without_end(backend: NamespacesBackend) -> None:
    box = await small(backend)
    code = "import os\nn = 0\ntry:\n    while True: os.open('/dev/null', 0); n += 1\nexcept OSError: print(n)"
    assert int((await box.exec(["python3", "-c", code])).stdout) < 64


async def test_cpu_is_held_where_the_record_says_so(backend: NamespacesBackend) -> None:
    limits = ResourceLimits(cpus=0.25)
    box = await backend.open(WorkspaceSpec(limits=limits))
    code = "import time\nt = time.monotonic()\nwhile time.monotonic() - t < 1: pass\nprint(time.process_time())"
    used = float((await box.exec(["python3", "-c", code])).stdout)
    assert held(box, "cpu") == "none" or used < 0.5


async def test_deep_folders_do_not_break_the_state(box: Workspace) -> None:
    code = "import os\nfor i in range(3000):\n    os.mkdir('d' * 20); os.chdir('d' * 20)\nprint('made')"
    assert (await box.exec(["python3", "-c", code])).stdout == "made\n"
    changes = await box.diff()
    assert 100 < len(changes) <= 3000
    assert (await box.snapshot()).digest == await box.digest()


HOSTILE_TREES = {
    "many files": "import os\nfor n in range(24000): os.mknod('/workspace/%d' % n)",
    "long names in deep folders": (
        "import os\nos.chdir('/workspace')\nfor _ in range(14): os.mkdir('d' * 250); os.chdir('d' * 250)\n"
        "for n in range(20000): os.mknod('%0250d' % n)"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("tree", HOSTILE_TREES.values(), ids=HOSTILE_TREES)
async def test_a_hostile_tree_is_refused_in_bounded_time_and_memory(
    backend: NamespacesBackend, tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_entries, "MOST_CHANGES", 20_000)
    box = await backend.open(WorkspaceSpec())
    made = await box.exec(["python3", "-c", tree], timeout_s=120)
    assert made.exit_code == 0, made.stderr
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(StateLimitError):
        await box.snapshot()
    assert time.process_time() - started < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    await box.close()
