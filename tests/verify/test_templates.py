"""Judges that are forks of a process which has loaded the runner of tests: attacks, and likeness to a fresh one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from assay import verify
from assay.environments.interface import Mount, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.verify._staging import stage_programs
from assay.verify.sanitise import RUNNER, runner_spec
from assay.verify.splice.run import PROGRAMS, WORKER

from .conftest import Bench, Outcome

NAME = "test_a.py"
TEMPLATES = 3
"""Of a program, so that two of one more judgings share one."""
FRESH = (RUNNER[0], "-B", "-I", RUNNER[-1])
"""The same command in other words, which no template has loaded."""


async def tail_of(backend: NamespacesBackend, spec: WorkspaceSpec, text: str, command: tuple[str, ...] = RUNNER) -> str:
    """The output of one run of a failing test, in a sandbox of its own."""
    workspace = await backend.open(spec)
    try:
        await workspace.write(f"/workspace/{NAME}", text.encode())
        place = f"/workspace/{NAME}"
        asked = {"args": [place], "rootdir": "/workspace", "roots": ["/workspace"], "owned": [place]}
        asked |= {"only": [f"{NAME}::test_x"], "cwd": "/workspace", "timeout_s": 60, "one_canary": True}
        done = await workspace.exec([*command, "check"], stdin=json.dumps(asked).encode())
        assert done.exit_code == 0, done.stderr
        return str(json.loads(done.stdout)["tail"])
    finally:
        await workspace.close()


STATE = """
import gc, json, os, random, signal, sys, threading, time


def test_x():
    signals = {number: str(signal.getsignal(number)) for number in range(1, 32)}
    kinds = sorted(os.readlink(f"/proc/self/fd/{fd}").partition(":")[0] for fd in os.listdir("/proc/self/fd")[:-1])
    told = ("Cap", "Seccomp:", "NoNewPrivs", "Umask", "Sig", "Threads", "Uid", "Gid")
    status = [line for line in open("/proc/self/status") if line.startswith(told)]
    limits = open("/proc/self/limits").read()
    main = sys.modules["__main__"]
    names = {"name": main.__name__, "file": main.__file__, "path": sys.path, "argv": sys.argv}
    names |= {"orig": sys.orig_argv[3:], "flags": str(sys.flags), "executable": sys.executable, "prefix": sys.prefix}
    names |= {"env": dict(os.environ), "cwd": os.getcwd(), "zone": time.tzname, "groups": os.getgroups()}
    names |= {"encodings": [sys.stdin.encoding, sys.stdout.encoding, sys.getfilesystemencoding()]}
    names |= {"gc": gc.isenabled(), "threads": threading.active_count()}
    names |= {"ids": [os.getpid(), os.getppid(), os.getsid(0)]}
    names |= {"own": sorted(sys.modules.keys() & {"launcher", "serve", "child", "warm", "runner"})}
    print("STATE", json.dumps([names, signals, kinds, status, limits], sort_keys=True), "END")
    assert 0
"""


@pytest_asyncio.fixture(loop_scope="session")
async def backend() -> AsyncIterator[NamespacesBackend]:
    backend = NamespacesBackend()
    yield backend
    await backend.close()


def state_in(tail: str) -> Any:
    return json.loads(tail.partition("STATE ")[2].partition(" END")[0])


async def test_a_fork_finds_what_a_fresh_interpreter_finds(backend: NamespacesBackend, bench: Bench) -> None:
    spec = runner_spec(bench.spec(), (), {"TZ": "Asia/Tokyo", "FOO": "bar"})
    forked, fresh = [state_in(await tail_of(backend, spec, STATE, command)) for command in (RUNNER, FRESH)]
    assert forked == fresh
    assert forked[0]["env"]["FOO"] == "bar"


SHOWN = """
def test_x():
    print("SEED", hash("a"), open("/proc/self/cmdline").read().split(chr(0)))
    assert 0
"""


def is_fork(tail: str) -> bool:
    return "runner.py" not in tail.partition("SEED")[2].partition("]")[0]


async def test_three_runs_in_a_row_have_three_seeds(backend: NamespacesBackend, bench: Bench) -> None:
    tails = [await tail_of(backend, runner_spec(bench.spec(), (), {}), SHOWN) for _ in range(TEMPLATES)]
    assert all(map(is_fork, tails))
    assert len({tail.partition("SEED ")[2].split()[0] for tail in tails}) == TEMPLATES


async def test_nothing_of_a_task_is_loaded_outside_of_a_sandbox(backend: NamespacesBackend, bench: Bench) -> None:
    spec = runner_spec(bench.spec(), (), {})
    not_own = tuple(msgspec.structs.replace(mount, is_own=False) for mount in spec.mounts)
    for other in (not_own, (*spec.mounts[:-1], not_own[-1]), (not_own[0], *spec.mounts[1:])):
        assert not is_fork(await tail_of(backend, msgspec.structs.replace(spec, mounts=other), SHOWN))
    assert not is_fork(await tail_of(backend, spec, SHOWN, FRESH))
    assert is_fork(await tail_of(backend, spec, SHOWN))


async def test_a_template_that_has_died_is_replaced(backend: NamespacesBackend, bench: Bench) -> None:
    spec = runner_spec(bench.spec(), (), {})
    assert is_fork(await tail_of(backend, spec, SHOWN))
    launcher = (await backend.launcher())._pid
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if fields[1] == str(launcher):
                os.kill(int(folder.name), signal.SIGKILL)
    tails = [await tail_of(backend, spec, SHOWN) for _ in range(TEMPLATES + 1)]
    assert all(map(is_fork, tails))


LOOKS = """
import ctypes, gc, os, socket, sys


def attack():
    found = []
    for pid in (1, os.getppid()):
        for name in ("mem", "environ", "maps", "fd/3", "root", "cwd", "map_files"):
            try:
                open(f"/proc/{pid}/{name}", "rb").read(1)
                found.append(f"{name} of {pid}")
            except OSError:
                pass
        libc = ctypes.CDLL(None)
        if libc.ptrace(16, pid, 0, 0) >= 0 or libc.syscall(438, os.pidfd_open(pid), 3, 0) >= 0:
            found.append(f"traced {pid}")
    for name in os.listdir("/proc/self/fd"):
        link = f"/proc/self/fd/{name}"
        found += [link] if os.path.exists(link) and os.readlink(link).startswith("socket") else []
    frame = sys._getframe()
    while frame:
        if "launcher" in frame.f_code.co_filename:
            found.append(frame.f_code.co_filename)
        frame = frame.f_back
    for one in gc.get_objects():
        is_request = type(one) is dict and any(name in one for name in ("lowers", "upper", "rlimits", "place"))
        found += [one] if is_request or isinstance(one, socket.socket) else []
    for path in ("/host", "/p", "/l", "/t", "/proc/1/root/host", "/boot/launcher"):
        found += [path] if os.path.exists(path) else []
    return found
"""
CALLS = "import a\n\n\ndef test_x():\n    found = a.attack()\n    assert found == 'nothing', f'FOUND {found} END'\n"


async def judge(bench: Bench, code: str, tests: str = CALLS, limit_s: float = 60.0) -> Outcome:
    bench.files = {NAME: tests}
    bench.given = {"workspace/a.py": "def attack():\n    return None\n"}
    command = f"cat > a.py <<'PYTHON'\n{code}\nPYTHON\n"
    return await bench.judge(command, "pytest", tests=[NAME], expected=[f"{NAME}::test_x"], timeout_s=limit_s)


async def test_code_under_test_reaches_neither_supervisor_nor_launcher(bench: Bench) -> None:
    outcome = await judge(bench, LOOKS)
    assert outcome.verdict.status == "fail"
    assert "FOUND [] END" in outcome.of_kind("execution")[0]["stdout"]


LEAVES = """
import ctypes, mmap, os, signal, socket, sys, tempfile, time
import _pytest.runner, _pytest.python, json

libc = ctypes.CDLL(None, use_errno=True)
PLACES = ("/tmp", "/dev/shm", "/run/verifier", "/logs/verifier", "/logs/recorder", "/workspace", "/opt/assay-verify",
          "/root", "/var/tmp")


def attack():
    seen = look()
    for place in PLACES:
        for name in ("left", "conftest.py", "again"):
            try:
                open(f"{place}/{name}", "w").write("import sys")
            except OSError:
                pass
    libc.msgget(0x515, 0o1666); libc.semget(0x516, 1, 0o1666)
    os.environ["LEFT"] = "1"
    shared = mmap.mmap(-1, 4096); shared[:4] = b"left"
    listener = socket.socket(socket.AF_UNIX); listener.bind("\\0left"); listener.listen()
    try:
        web = socket.socket(); web.bind(("127.0.0.1", 5151)); web.listen()
    except OSError:
        pass
    sys.modules["left"] = sys
    _pytest.runner.LEFT = _pytest.python.LEFT = json.LEFT = True
    type.__getattribute__(json, "loads").__dict__["LEFT"] = True
    ctypes.memset(id(-5) + 24, 7, 1)  # the number -5 of this interpreter is another one now
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(256):
                try:
                    os.close(fd)
                except OSError:
                    pass
            while True:
                for pid in range(1, 64):
                    if pid != os.getpid():
                        try:
                            os.kill(pid, signal.SIGSTOP)
                        except OSError:
                            pass
                time.sleep(0.05)
        os._exit(0)
    return seen


def look():
    every = [f"{place}/{name}" for place in PLACES for name in ("left", "conftest.py")]
    seen = [path for path in every if os.path.exists(path)]
    seen += ["queue"] if libc.msgget(0x515, 0) >= 0 else []
    seen += ["semaphore"] if libc.semget(0x516, 0, 0) >= 0 else []
    seen += ["variable"] if "LEFT" in os.environ else []
    seen += ["module"] if "left" in sys.modules else []
    marked = (_pytest.runner, _pytest.python, json, json.loads)
    seen += ["attribute"] if any(hasattr(one, "LEFT") for one in marked) else []
    seen += ["number"] if str(int("-5")) != "-5" else []
    seen += ["shared memory"] if any(" rw-s" in line for line in open("/proc/self/maps")) else []
    for family, address in ((socket.AF_UNIX, "\\0left"), (socket.AF_INET, ("127.0.0.1", 5151))):
        with socket.socket(family) as one:
            seen += [str(address)] if one.connect_ex(address) == 0 else []
    seen += [name for name in os.listdir("/proc") if name.isdigit() and int(name) > os.getpid()]
    return seen
"""


async def test_what_one_judging_leaves_no_later_one_finds(bench: Bench) -> None:
    for number in range(TEMPLATES + 1):
        outcome = await judge(bench, LEAVES)
        assert outcome.verdict.status in ("fail", "unknown", "error"), outcome.verdict
        shown = outcome.of_kind("execution")[0]["stdout"]
        assert "FOUND [] END" in shown or "FOUND" not in shown, (number, shown)
    looked = await judge(bench, LEAVES.replace("    seen = look()\n", "    return look()\n"))
    assert "FOUND [] END" in looked.of_kind("execution")[0]["stdout"]


KILLS = """
import os, signal


def attack():
    os.kill(-1, signal.{how})
    os.kill(os.getppid(), signal.{how})
    return "nothing"
"""
RIGHT = "def attack():\n    return 'nothing'\n"
FORGES = """
import sys


def attack():
    for frame in iter_frames(sys._getframe()):
        for one in list(frame.f_locals.values()):
            if hasattr(one, "pytest_runtest_logreport") and hasattr(one, "_tell"):
                one._tell("test", id="test_a.py::test_x", phase="call", outcome="passed", message="")
    return None


def iter_frames(frame):
    while frame:
        yield frame
        frame = frame.f_back
"""


@pytest.mark.long
@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP", "SIGTERM"])
async def test_code_that_kills_its_supervisor_gains_nothing_and_costs_no_later_judging(bench: Bench, how: str) -> None:
    attacked = await judge(bench, KILLS.format(how=how), CALLS.replace("found ==", "found !="), 3.0)
    assert attacked.verdict.status != "pass"
    for _ in range(TEMPLATES):
        assert (await judge(bench, RIGHT)).verdict.status == "pass"


async def test_a_forged_record_is_that_of_its_own_judging_alone(bench: Bench) -> None:
    assert (await judge(bench, FORGES)).verdict.status != "pass"
    for _ in range(TEMPLATES):
        assert (await judge(bench, "def attack():\n    return 'wrong'\n")).verdict.status == "fail"


WORKERS = """
import ctypes, json, os, re, sys

libc = ctypes.CDLL(None)
told = ("Cap", "Seccomp", "NoNewPrivs", "Umask", "Sig", "Threads", "Uid", "Gid", "Groups", "CoreDump", "Speculation")
state = [line for line in open("/proc/self/status") if line.startswith(told)]
state += [libc.prctl(number) for number in (3, 7, 21, 27, 30, 39)]  # dumpable, securebits, no_new_privs and others
state += [open(f"/proc/self/{name}").read() for name in ("limits", "cgroup", "oom_score_adj", "uid_map", "personality")]
state += [sorted((fd, os.readlink(f"/proc/self/fd/{fd}").partition(":")[0]) for fd in os.listdir("/proc/self/fd")[:-1])]
state += [os.getsid(0), os.getpgid(0), os.getppid(), os.getpriority(0, 0), sys.path, sorted(os.sched_getaffinity(0))]
state += [open("/proc/keys").read() if os.path.exists("/proc/keys") else "", os.getcwd(), dict(os.environ)]
row = re.compile(rb"\\d+ \\d+ \\d+:\\d+ \\S{1,200} /hos" rb"t[/ ]")
rows = []
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        words = line.split()
        if "r" in words[1] and (len(words) < 6 or words[5] in ("[heap]", "[stack]")):
            first, last = (int(end, 16) for end in words[0].split("-"))
            memory.seek(first)
            rows += row.findall(memory.read(last - first))
os.write(2, b"STATE " + json.dumps([state, [str(found) for found in rows]]).encode() + b" END")
"""


async def test_a_worker_that_is_a_fork_has_the_rights_of_a_fresh_one_and_knows_no_mount_of_the_machine(
    backend: NamespacesBackend, bench: Bench
) -> None:
    programs = Mount(str(stage_programs(Path(verify.__file__).parent / "payload")), PROGRAMS, is_own=True)
    plain = bench.spec()
    forked = msgspec.structs.replace(plain, mounts=(*plain.mounts, programs), preload=WORKER)
    states = []
    for spec in (forked, msgspec.structs.replace(forked, preload=())):
        workspace = await backend.open(spec)
        await workspace.write("/workspace/looks.py", WORKERS.encode())
        done = await workspace.exec([*WORKER, "looks", '["/workspace"]', "[]"], stdin=b"")
        states.append(state_in(done.stderr))
        await workspace.close()
    assert states[0] == states[1]
    assert states[0][1] == []
