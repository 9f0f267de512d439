"""What a hostile command tries against the machine, its files, its processes and its network."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from pathlib import Path

import pytest

from assay.environments.interface import Mount, Workspace, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend

CALL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    print('ALLOWED' if r >= 0 else os.strerror(ctypes.get_errno()), r)
"""


async def python(box: Workspace, code: str, timeout_s: float = 10) -> str:
    result = await box.exec(["/usr/bin/python3", "-c", CALL + code], timeout_s=timeout_s)
    return result.stdout + result.stderr


async def refused(box: Workspace, code: str) -> bool:
    said = await python(box, code)
    return "ALLOWED" not in said and said != ""


async def shell_refused(box: Workspace, command: str) -> bool:
    return "ALLOWED" not in (await box.exec(f"({command}) && echo ALLOWED", timeout_s=10)).stdout


SETTINGS = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/swappiness",
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/modprobe",
    "/sys/kernel/uevent_helper",
    "/proc/irq/default_smp_affinity",
    "/proc/sys/net/ipv4/ip_forward",
]


@pytest.mark.parametrize("user", ["agent", "verifier"])
async def test_kernel_settings_cannot_be_written(backend: NamespacesBackend, user: str) -> None:
    before = Path("/proc/sys/kernel/core_pattern").read_bytes()
    box = await backend.open(WorkspaceSpec(user=user))  # type: ignore[arg-type]
    for path in SETTINGS:
        assert await shell_refused(box, f"echo '|/tmp/evil' > {path}"), path
    assert Path("/proc/sys/kernel/core_pattern").read_bytes() == before


async def test_init_cannot_be_opened(box: Workspace) -> None:
    for name in ("mem", "environ", "root/etc/passwd", "fd/3", "maps", "cwd/x"):
        assert await refused(box, f"os.open('/proc/1/{name}', os.O_RDONLY); print('ALLOWED')"), name
    for name in ("mem", "oom_score_adj", "uid_map"):
        assert await refused(box, f"os.open('/proc/1/{name}', os.O_WRONLY); print('ALLOWED')"), name


async def test_init_cannot_be_traced(box: Workspace) -> None:
    assert await refused(box, "call(101, 16, 1, 0, 0)")
    assert await refused(box, "for n in (310, 311, 312, 438, 440): call(n, 1, 0, 0, 0, 0)")
    assert (await box.exec("true", timeout_s=5)).exit_code == 0


async def test_init_keeps_its_limits(box: Workspace) -> None:
    code = "import resource; resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)); print('ALLOWED')"
    assert await refused(box, code)
    assert (await box.exec("true", timeout_s=5)).exit_code == 0


MOUNTING = [
    "165, b'none', b'/tmp', b'tmpfs', 0, 0",
    "165, 0, b'/usr', 0, 32 | 4096, 0",
    "166, b'/usr', 2",
    "161, b'/tmp'",
    "155, b'.', b'.'",
    "430, b'tmpfs', 0",
    "428, -100, b'/', 1",
    "442, -100, b'/', 0, 0, 0",
]


async def test_no_mounts_and_no_chroot(box: Workspace) -> None:
    for call in MOUNTING:
        assert await refused(box, f"call({call})"), call


NAMESPACES = ["272, 0x10000000", "272, 0x20000", "56, 0x10000011, 0, 0, 0, 0", "308, 0, 0"]  # fmt: skip


async def test_no_namespaces_inside(box: Workspace) -> None:
    for call in NAMESPACES:
        assert await refused(box, f"call({call})"), call
    assert "ALLOWED" not in await python(box, "b = (ctypes.c_ulong * 11)(0x10000000); call(435, b, 88)")


DANGEROUS = [
    "321, 0, 0, 0",
    "298, 0, 0, -1, -1, 0",
    "323, 0",
    "425, 8, 0",
    "250, 0, -3, 0",
    "248, b'user', b'a', b'b', 1, -3",
    "246, 0, 0, 0, 0",
    "175, 0, 0, b''",
    "169, 0xfee1dead, 672274793, 0",
    "103, 3, 0, 0",
    "227, 0, 0",
    "447, 0",
    "29, 1, 4096, 0o600",
    "304, -100, 0, 0",
    "163, b'/tmp/x'",
    "9999, 0",
]


async def test_dangerous_calls_are_refused(box: Workspace) -> None:
    for call in DANGEROUS:
        assert await refused(box, f"call({call})"), call


NODES = ["b 8 0", "c 1 1", "c 10 237"]  # fmt: skip


async def test_no_device_nodes(box: Workspace) -> None:
    for kind in NODES:
        assert await shell_refused(box, f"mknod /workspace/node {kind}"), kind
    names = (await box.exec("ls /dev")).stdout.split()
    assert set(names) <= {
        "null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm",
    }  # fmt: skip


async def test_no_setuid_and_no_capabilities(box: Workspace) -> None:
    assert await shell_refused(box, "setsid su root -c id < /dev/null")
    caps = (await box.exec("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status")).stdout
    assert set(caps.split()[1:10:2]) == {"0000000000000000"}
    assert "NoNewPrivs:\t1" in caps
    assert "Seccomp:\t2" in caps


async def test_no_host_root_behind_any_id(backend: NamespacesBackend) -> None:
    for user, seconds in (("agent", "7171"), ("verifier", "7272")):
        box = await backend.open(WorkspaceSpec(user=user))  # type: ignore[arg-type]
        await box.exec(f"sleep {seconds} & sleep 0.05")
        found = subprocess.run(["pgrep", "-f", f"sleep {seconds}"], capture_output=True, text=True, check=True)
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in found.stdout.split()}
        assert owners
        assert 0 not in owners


async def test_the_network_is_empty(box: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = "import socket\nfor where in (('127.0.0.1', PORT), ('10.0.0.1', 80), ('1.1.1.1', 53), ('::1', PORT)):\n"
        code += "    try: socket.create_connection(where, 2); print('ALLOWED')\n    except OSError as e: print(e)\n"
        assert await refused(box, code.replace("PORT", str(port)))
    assert (await box.exec("ls /sys/class/net; cat /proc/net/dev | wc -l")).stdout == "3\n"


FAMILIES = [40, 38, 17, 21, 30, 44]  # fmt: skip


async def test_other_socket_families_do_not_exist(box: Workspace) -> None:
    code = "import socket; socket.socket({}, socket.SOCK_STREAM); print('ALLOWED')"
    for family in FAMILIES:
        assert await refused(box, code.format(family)), family


async def test_abstract_sockets_of_the_host_are_out_of_reach(box: Workspace) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0assay-test")
        server.listen()
        code = "import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + 'assay-test'); print('ALLOWED')"
        assert await refused(box, code)


async def test_host_files_are_not_there(box: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    project = Path(__file__).parent
    places = [secret, project, Path.home() / ".ssh", Path("/etc/shadow"), Path("/var/run"), Path("/etc/ssh")]
    for place in places:
        assert await shell_refused(box, f"ls -A {place}/ | grep . || cat {place}")
    assert (await box.exec("ls -A /root /home /mnt /srv /sys /run /var | grep -v :")).stdout.split() == ["agent", "tmp"]


async def test_nothing_of_the_host_shows_in_the_environment(box: Workspace) -> None:
    os.environ["ASSAY_TEST_SECRET"] = "secret-value"
    everything = await box.exec("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; cat /proc/self/mountinfo")
    assert "secret-value" not in everything.stdout
    assert str(Path(__file__).parent) not in everything.stdout
    assert (await box.exec("ls -l /proc/self/fd | wc -l")).stdout == "5\n"


async def test_only_own_processes_are_seen(backend: NamespacesBackend) -> None:
    one, two = await backend.open(WorkspaceSpec()), await backend.open(WorkspaceSpec())
    await one.exec("echo secret > /tmp/s; echo secret > /workspace/s; sleep 1234 &")
    host = subprocess.Popen(["sleep", "300"])
    try:
        seen = (await two.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /tmp/s /workspace/s")).stdout
        assert "1234" not in seen
        assert "secret" not in seen
        assert await shell_refused(two, f"kill -9 {host.pid}")
        await two.exec("kill -9 -1")
        assert host.poll() is None
        assert len(await one.processes()) == 1
    finally:
        host.kill()
        host.wait()


async def test_system_folders_are_read_only(box: Workspace) -> None:
    for place in ("/usr/bin/evil", "/etc/ld.so.preload", "/lib/evil", "/usr/local/bin/evil", "/etc/passwd"):
        assert await shell_refused(box, f"echo x >> {place}")
    assert not Path("/usr/bin/evil").exists()


async def test_links_do_not_lead_uploads_out(box: Workspace, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="outside"):
        await box.upload(tmp_path / "in", "/workspace/in")
    await box.exec("mkdir t; ln -s /etc t/x; ln -s /proc/self/root/etc t/y")
    (tmp_path / "in" / "link").unlink()
    (tmp_path / "in" / "x").mkdir()
    (tmp_path / "in" / "x" / "passwd").write_text("evil")
    await box.upload(tmp_path / "in", "/workspace/t")
    assert (await box.exec("cat t/x/passwd; stat -c %F t/x")).stdout == "evildirectory\n"


async def test_links_do_not_lead_downloads_out(box: Workspace, tmp_path: Path) -> None:
    await box.exec(
        "mkdir -p t/d; ln -s / t/root; ln -s ../../../../etc t/up; ln -s d t/ok; mkfifo t/pipe; echo 1 > t/f"
    )
    target = tmp_path / "out"
    target.mkdir()
    (tmp_path / "victim").write_text("safe")
    (target / "f").symlink_to(tmp_path / "victim")
    await box.download("/workspace/t", target)
    assert sorted(p.name for p in target.iterdir()) == ["d", "f", "ok"]
    assert (tmp_path / "victim").read_text() == "safe"
    assert (target / "f").read_text() == "1\n"


NOT_REGULAR = ["/proc/self/mem", "/proc/self/root/etc/passwd", "/dev/zero", "/workspace/pipe"]  # fmt: skip


async def test_reads_open_regular_files_alone(box: Workspace) -> None:
    await box.exec("mkfifo pipe")
    for path in NOT_REGULAR:
        with pytest.raises((ValueError, OSError)):
            await asyncio.wait_for(box.read(path), 5)
        with pytest.raises((ValueError, OSError)):
            await asyncio.wait_for(box.write(path, b"x"), 5)


async def test_links_are_read_as_the_sandbox_reads_them(box: Workspace, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    await box.exec(f"ln -s {tmp_path}/secret a; ln -s ../../../../etc/hostname b; ln -s /etc/passwd c")
    with pytest.raises(FileNotFoundError):
        await box.read("/workspace/a")
    assert b"agent:x:1000" in await box.read("/workspace/c")
    assert [c.type for c in await box.diff()] == ["symlink"] * 3


async def test_mounts_go_before_what_an_agent_left_in_their_place(box: Workspace, backend: NamespacesBackend) -> None:
    await box.exec("mkdir logs; rm -rf /opt/x; ln -s /workspace/logs /workspace/verifier; echo x > /workspace/reward")
    snapshot = await box.snapshot()
    fresh = ("/workspace/verifier", "/workspace/reward")
    judge = await backend.open(WorkspaceSpec(user="verifier", tmpfs=fresh), state=snapshot)
    result = await judge.exec("echo 1 > verifier/r; echo 1 > reward/r; ls logs; stat -c %F verifier reward")
    assert result.stdout == "directory\ndirectory\n"


async def test_neither_mounts_nor_proc_name_host_folders(backend: NamespacesBackend, shared: Path) -> None:
    (shared / "folder").mkdir()
    for name in ("folder/inner", "single"):
        (shared / name).write_text(name)
    mounts = (Mount(str(shared / "folder"), "/mnt/a"), Mount(str(shared / "single"), "/mnt/b"))
    box = await backend.open(WorkspaceSpec(mounts=mounts))
    seen = await box.exec("cat /proc/self/mountinfo /proc/mounts /proc/self/mountstats /proc/self/cgroup")
    boot = await box.exec("cat /proc/cmdline /proc/swaps /proc/sys/kernel/core_pattern")
    read = await box.exec("cat /mnt/a/inner /mnt/b; echo x > /mnt/a/new; echo x > /mnt/b")
    await box.close()
    assert read.stdout == "folder/innersingle"
    assert read.stderr.count("Read-only file system") == 2
    assert boot.stdout == ""
    assert "assay" not in seen.stdout  # in the names of the folder above, of the scratch folder and of groups


async def test_a_mount_with_mounts_below_it_keeps_them(backend: NamespacesBackend, tier: str) -> None:
    box = await backend.open(WorkspaceSpec(mounts=(Mount("/dev", "/mnt/dev"),)))
    shown = await box.exec("ls -d /mnt/dev/shm; grep -c ' /mnt/dev/' /proc/self/mountinfo")
    await box.close()
    assert int(shown.stdout.split()[-1]) > 0, shown
