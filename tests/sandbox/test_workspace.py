from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from assay.environments.interface import Image, Mount, Workspace, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import EnvironmentFailure

from .conftest import give


class Shelf:
    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def put_file(self, path: Path) -> str:
        self.taken.append(path.read_bytes())
        return f"blake3:{len(self.taken)}"


async def test_streams_and_exit_code_are_apart(box: Workspace) -> None:
    result = await box.exec("echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")


async def test_environment_working_directory_and_stdin(box: Workspace) -> None:
    result = await box.exec(["sh", "-c", "pwd; echo $A; cat"], cwd="/tmp", env={"A": "1"}, stdin=b"in")
    assert result.stdout == "/tmp\n1\nin"


async def test_missing_and_unrunnable_programs_are_results(box: Workspace) -> None:
    assert (await box.exec(["no-such-program"])).exit_code == 127
    assert (await box.exec(["/etc/passwd"])).exit_code == 126
    assert (await box.exec(["true"], cwd="/nowhere")).exit_code == 127


async def test_long_output_is_cut_and_kept_whole_elsewhere(box: Workspace) -> None:
    shelf = Shelf()
    result = await box.exec("seq 1 20000", show_bytes=100, spill=shelf)
    assert result.stdout.startswith("1\n2\n")
    assert result.stdout.endswith("20000\n")
    assert f"{result.stdout_bytes - 100} bytes cut" in result.stdout
    assert shelf.taken == ["".join(f"{i}\n" for i in range(1, 20001)).encode()]


async def test_background_processes_live_on_until_killed(box: Workspace) -> None:
    await box.exec("sleep 1000 & setsid sleep 1000 &")
    while [p.command for p in await box.processes()].count("sleep 1000") < 2:
        await asyncio.sleep(0.02)
    await box.kill_all()
    assert await box.processes() == ()


async def test_a_time_limit_ends_its_own_command_alone(box: Workspace) -> None:
    await box.exec("sleep 1111 & setsid sleep 1111 &")
    other = asyncio.ensure_future(box.exec("sleep 0.6; echo done"))
    result = await box.exec("(setsid sleep 2222 &) ; sleep 2222 & sleep 2222", timeout_s=0.3)
    assert result.killed_by == "timeout"
    commands = [p.command for p in await box.processes() if p.state != "Z"]
    assert (commands.count("sleep 1111"), commands.count("sleep 2222")) == (2, 0)
    assert (await other).stdout == "done\n"


OTHER_THREADS = """
import ctypes, threading, time
def stay():
    for number in range(600):
        with open("/workspace/alive", "w") as file:
            file.write(str(number))
        time.sleep(0.05)
threading.Thread(target=stay).start()
time.sleep(0.2)
ctypes.CDLL(None).syscall(60, 0)  # ends the first thread alone
"""


async def test_a_process_whose_first_thread_has_ended_is_alive(box: Workspace) -> None:
    await box.write("/workspace/stay.py", OTHER_THREADS.encode())
    assert (await box.exec("setsid python3 stay.py; sleep 30", timeout_s=1)).timed_out
    assert await box.processes() == ()
    await box.exec("setsid python3 stay.py < /dev/null > /dev/null 2>&1 & sleep 0.6")
    assert [process.state for process in await box.processes()] == ["S"]
    await box.kill_all()
    before = await box.read("/workspace/alive")
    await asyncio.sleep(0.3)
    assert await box.read("/workspace/alive") == before


async def test_files_go_in_and_out(box: Workspace) -> None:
    await box.write("/workspace/deep/er/x", b"data", mode=0o755)
    assert await box.read("/workspace/deep/er/x") == b"data"
    assert (await box.exec("stat -c %a deep/er/x; echo more >> deep/er/x")).stdout == "755\n"
    with pytest.raises(FileNotFoundError):
        await box.read("/nothing")
    with pytest.raises(IsADirectoryError):
        await box.read("/workspace")
    with pytest.raises(ValueError, match="longer"):
        await box.read("/workspace/deep/er/x", limit=3)


async def test_trees_go_in_and_out(box: Workspace, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "a" / "b").mkdir(parents=True)
    (source / "a" / "b" / "c").write_text("c")
    (source / "run").write_text("x")
    (source / "run").chmod(0o755)
    (source / "link").symlink_to("a/b/c")
    await box.upload(source, "/workspace/in")
    assert (await box.exec("cat in/link; stat -c %a in/run; echo 2 > in/a/n")).stdout == "c755\n"
    await box.download("/workspace/in", tmp_path / "out")
    assert (tmp_path / "out" / "a" / "n").read_text() == "2\n"
    assert (tmp_path / "out" / "link").readlink() == Path("a/b/c")


async def test_same_files_have_the_same_digest(backend: NamespacesBackend) -> None:
    first, second = await backend.open(WorkspaceSpec()), await backend.open(WorkspaceSpec())
    empty = await first.digest()
    await first.exec("echo 1 > a; mkdir d; echo 2 > d/b; ln -s a l")
    await second.exec("ln -s a l; mkdir d; echo 0 > x; echo 2 > d/b; rm x; echo 1 > a; sleep 0.01; touch a")
    assert await first.digest() == await second.digest() != empty
    assert [c.path for c in await first.diff()] == [f"/workspace/{p}" for p in ("a", "d", "d/b", "l")]


async def test_snapshots_can_be_opened_again_and_again(box: Workspace, backend: NamespacesBackend) -> None:
    await box.exec("echo 1 > a; mkdir d; echo 2 > d/b; sleep 1000 &")
    snapshot = await box.snapshot()
    assert await box.processes() == ()
    await box.exec("rm -r d; echo 3 > c")
    assert {(c.path, c.kind) for c in await box.diff(snapshot)} == {
        ("/workspace/c", "added"), ("/workspace/d", "removed"), ("/workspace/d/b", "removed"),
    }  # fmt: skip
    for _ in range(2):
        again = await backend.open(WorkspaceSpec(user="verifier"), state=snapshot)
        assert (await again.exec("cat a d/b; rm -r d && mkdir d && echo ok > d/new && cat d/*")).stdout == "1\n2\nok\n"
        assert snapshot.digest != await again.digest()


async def test_removed_and_remade_folders_are_seen_as_they_are(
    backend: NamespacesBackend, shared: Path, tier: str
) -> None:
    (shared / "workspace" / "d" / "e").mkdir(parents=True)
    (shared / "workspace" / "d" / "e" / "f").write_text("f")
    (shared / "workspace" / "d" / "g").write_text("g")
    give(shared, tier)
    box = await backend.open(WorkspaceSpec(image=Image(layers=(str(shared),), digest="x")))
    result = await box.exec("cat d/e/f; echo more >> d/g; rm -rf d && mkdir -p d/e && echo -n f > d/e/f && cat d/*/*")
    assert (result.stdout, result.stderr) == ("ff", "")
    assert [(c.path, c.kind) for c in await box.diff()] == [("/workspace/d/g", "removed")]


async def test_mounts_masks_and_fresh_folders(backend: NamespacesBackend, shared: Path) -> None:
    (shared / "bin").mkdir()
    (shared / "bin" / "tool").write_text("#!/bin/sh\necho tool")
    (shared / "bin" / "tool").chmod(0o755)
    mount = Mount(str(shared), "/opt/assay")
    spec = WorkspaceSpec(mounts=(mount,), masks=("/usr/share/doc", "/usr/bin/env", "/no"), tmpfs=("/logs/verifier",))
    box = await backend.open(spec)
    result = await box.exec("tool; ls /usr/share/doc | wc -l; wc -c < /usr/bin/env; echo x > /logs/verifier/r; echo $?")
    assert result.stdout == "tool\n0\n0\n0\n"
    assert (await box.exec("touch /opt/assay/x || touch /usr/bin/env")).exit_code != 0
    assert await box.diff() == ()


async def test_a_fork_is_apart(box: Workspace) -> None:
    await box.exec("echo 1 > a")
    fork = await box.fork()
    await fork.exec("echo 2 > a")
    assert (await box.read("/workspace/a"), await fork.read("/workspace/a")) == (b"1\n", b"2\n")


async def test_many_snapshots_in_a_row(
    box: Workspace, backend: NamespacesBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "max_sealed_layers", 3)
    for index in range(8):
        await box.exec(f"echo {index} > f{index}; rm -f f{index - 3}; mkfifo p{index}")
        snapshot = await box.snapshot()
        assert len(snapshot.layers) <= 3
    assert (await box.exec("echo f*; cat f*")).stdout == "f5 f6 f7\n5\n6\n7\n"
    assert await box.digest() == snapshot.digest


async def test_a_packed_state_can_be_rebuilt(box: Workspace, backend: NamespacesBackend) -> None:
    await box.exec("mkdir d; echo 1 > d/a; chmod 700 d; ln -s a d/l; printf x > 'odd\\377name'")
    snapshot = await box.snapshot()
    packed = await backend.pack(snapshot)
    blobs = {change.digest: handle.read() for change, handle in packed.files()}
    rebuilt = await backend.unpack(packed.manifest, lambda digest: blobs[digest])
    assert rebuilt.digest == snapshot.digest
    again = await backend.open(WorkspaceSpec(), state=rebuilt)
    assert (await again.exec("cat d/l; echo 2 >> d/a; ls | wc -l")).stdout == "1\n2\n"


async def test_a_closed_workspace_says_so(box: Workspace) -> None:
    await box.close()
    with pytest.raises(EnvironmentFailure, match="closed"):
        await box.exec("true")
