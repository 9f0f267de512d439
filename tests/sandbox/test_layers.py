"""Images, their owners, whole roots, and states that are hard to read."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.environments.interface import Image, Mount, ResourceLimits, Workspace, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend

from .conftest import NOBODY, give


def layer(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return str(folder)


async def test_layers_reach_system_folders_and_stay_read_only_there(
    backend: NamespacesBackend, shared: Path, tier: str
) -> None:
    low = layer(shared / "low", {"usr/local/bin/tool": "#!/bin/sh\necho low", "etc/tool.conf": "1", "opt/x": "low"})
    top = layer(shared / "top", {"usr/local/bin/tool": "#!/bin/sh\necho top", "opt/y": "y"})
    give(shared, tier)
    box = await backend.open(WorkspaceSpec(image=Image(layers=(low, top), digest="two", env={"A": "image"})))
    result = await box.exec("tool; cat /etc/tool.conf /opt/x; echo $A; ls /usr/bin/env; grep -c agent /etc/passwd")
    assert result.stdout == "top\n1lowimage\n/usr/bin/env\n1\n"
    assert (await box.exec("echo x > /etc/tool.conf || echo x > /usr/local/bin/tool")).exit_code != 0
    assert (await box.exec("echo more >> /opt/x && cat /opt/x")).stdout == "lowmore\n"
    assert (shared / "low" / "opt" / "x").read_text() == "low"


@pytest.mark.long
async def test_many_images_in_a_row(
    backend: NamespacesBackend, shared: Path, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "max_cached", 2)
    sources = [layer(shared / f"{i}", {"workspace/a": f"{i}"}) for i in range(6)]
    give(shared, tier)
    images = [Image(layers=(source,), digest=source) for source in sources]
    kept = await backend.open(WorkspaceSpec(image=images[0]))
    for index, image in enumerate(images * 2):
        box = await backend.open(WorkspaceSpec(image=image, mounts=(Mount(sources[index % 6], "/m"),)))
        assert (await box.exec("cat /workspace/a /m/workspace/a")).stdout == f"{index % 6}" * 2
        await box.close()
    assert len(backend._images) <= 4
    await kept.snapshot()
    assert (await kept.exec("cat a; echo b > a")).stdout == "0"
    assert len(await kept.diff()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's layers are all that user's")
async def test_layers_of_any_owner_can_be_worked_on(shared: Path) -> None:
    backend = NamespacesBackend()
    for owner in (0, 1234, NOBODY):
        source = Path(layer(shared / str(owner), {"workspace/src/a": "a"}))
        for place in (source, *source.rglob("*")):
            os.chown(place, owner, owner)
        (source / "workspace/src/a").chmod(0o600)
        box = await backend.open(WorkspaceSpec(image=Image(layers=(str(source),), digest=str(owner))))
        result = await box.exec("cd src && cat a && echo b >> a && mkdir d && mv a d/ && stat -c %U d/a .")
        assert (result.stdout, result.stderr) == ("aagent\nagent\n", "")
        assert (source / "workspace/src/a").read_text() == "a"
    await backend.close()


async def test_a_whole_root_replaces_the_host(backend: NamespacesBackend, shared: Path, tier: str) -> None:
    needed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout.split()
    for source in ["/bin/sh", *(word for word in needed if word.startswith("/"))]:
        target = shared / source.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    layer(shared, {"hello": "from the image\n"})
    give(shared, tier)
    box = await backend.open(WorkspaceSpec(image=Image(layers=(str(shared),), digest="root", root=True)))
    result = await box.exec("read line < /hello; echo $line; echo /*; echo x > /workspace/x; echo y > /y")
    assert result.stdout.split("\n")[0] == "from the image"
    assert "/usr" not in result.stdout.split()
    assert {change.path for change in await box.diff()} == {"/workspace/x", "/y"}


async def test_what_an_agent_made_unreadable_is_read_all_the_same(box: Workspace) -> None:
    await box.exec("mkdir d; echo 1 > d/a; echo 2 > b; chmod 0 b d/a d")
    changes = {change.path: change for change in await box.diff()}
    assert changes["/workspace/d/a"].digest is not None
    assert (changes["/workspace/d"].mode, changes["/workspace/b"].mode) == (0, 0)


async def test_files_that_claim_more_than_they_hold_cost_nothing(backend: NamespacesBackend) -> None:
    box = await backend.open(WorkspaceSpec(limits=ResourceLimits(file_mib=100_000)))
    await box.exec("for i in 1 2 3; do truncate -s 90G f$i; done; echo end >> f3; truncate -s 10M small")
    first = await box.digest()
    assert [(c.path, c.type) for c in await box.diff()][-1] == ("/workspace/small", "file")
    await box.exec("echo End | dd of=f3 bs=1 seek=90G conv=notrunc 2> /dev/null")
    assert await box.digest() != first


async def test_names_that_are_no_text_are_kept_apart(box: Workspace) -> None:
    await box.exec(["/usr/bin/python3", "-c", "for n in (b'a\\xff', b'a\\xfe', 'a\\ufffdff'.encode()): open(n, 'w')"])
    changes = await box.diff()
    assert len({change.path for change in changes}) == 3
    assert all(change.path.encode() for change in changes)


async def test_pipes_and_sockets_are_neither_opened_nor_followed(box: Workspace) -> None:
    await box.exec(["/usr/bin/python3", "-c", "import os, socket; os.mkfifo('p'); socket.socket(1).bind('s')"])
    assert {(c.path, c.type) for c in await box.diff()} == {("/workspace/p", "other"), ("/workspace/s", "other")}


async def test_writes_through_a_mapping_are_seen(box: Workspace) -> None:
    code = "import mmap, time\nf = open('m', 'r+b'); m = mmap.mmap(f.fileno(), 4); m[0:1] = b'b'; open('/tmp/1', 'w')\n"
    code += "import os\nwhile not os.path.exists('/tmp/2'): time.sleep(.01)\nm[1:2] = b'c'; open('/tmp/3', 'w')\n"
    code += "time.sleep(60)"
    await box.exec("printf aaaa > m")
    await box.exec(["sh", "-c", 'python3 -c "$0" & while [ ! -e /tmp/1 ]; do sleep 0.01; done; sleep 0.1', code])
    before = await box.digest()
    await box.exec("touch /tmp/2; while [ ! -e /tmp/3 ]; do sleep 0.01; done")
    assert await box.read("/workspace/m") == b"bcaa"
    assert (await box.snapshot()).digest != before


async def test_a_sealed_state_has_what_a_mapping_changed_after_it_was_read(box: Workspace) -> None:
    await box.exec("printf aaaa > m; sleep 0.1")
    before = await box.digest()
    code = "import mmap\nf = open('m', 'r+b'); m = mmap.mmap(f.fileno(), 4); m[:2]; m[:1] = b'b'"
    await box.exec(["python3", "-c", code])
    await box.digest()
    assert await box.read("/workspace/m") == b"baaa"
    assert (await box.snapshot()).digest != before


async def test_the_host_network_only_where_asked(backend: NamespacesBackend) -> None:
    box = await backend.open(WorkspaceSpec(network="host"))
    assert box.isolation.network == "host"
    assert (await box.exec("wc -l < /proc/net/dev; cat /etc/resolv.conf")).stderr == ""
    assert (await box.exec("echo x > /etc/resolv.conf")).exit_code != 0


async def test_a_listener_is_the_one_way_in(box: Workspace) -> None:
    with await box.listen(8080) as listener:
        await box.exec("(echo hello | timeout 5 bash -c 'cat > /dev/tcp/127.0.0.1/8080') &")
        listener.settimeout(5)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(100) == b"hello\n"


async def test_odd_requests_leave_init_alive(box: Workspace) -> None:
    assert (await box.exec(["echo"], env={"A=B\0": "x"})).exit_code == 126
    assert (await box.exec("x" * 150_000)).exit_code == 126
    with pytest.raises(ValueError, match="NUL"):
        await box.exec("a\0b")
    assert (await box.exec("echo ok")).stdout == "ok\n"
