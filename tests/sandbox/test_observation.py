"""Observation of what commands open and execute, in both tiers of the launcher."""

from __future__ import annotations

import os
import socket

import pytest

from assay.environments.capabilities import ObservesLoads
from assay.environments.workspace.launcher import init
from assay.environments.workspace.launcher.observe import Observer

pytestmark = pytest.mark.asyncio


async def observe(box, command: str, paths: tuple[str, ...] = ("/workspace/a",)):
    """Returns what was observed while a command ran."""
    assert isinstance(box, ObservesLoads)
    await box.exec("echo true > a")
    await box.observe_loads(paths, "/workspace")
    result = await box.exec(command, timeout_s=20)
    return await box.loads(), result


async def test_a_shell_that_sources_an_agents_file_is_observed(box):
    facts, _ = await observe(box, ". ./a")
    assert (facts.complete, facts.counts) == (True, {"judge": 1}), facts.problem
    assert (facts.loads[0].path, facts.loads[0].call) == ("./a", "open")
    assert facts.calls > 3


async def test_a_reader_is_told_with_the_digest_of_its_program(box):
    facts, result = await observe(box, "cat /workspace/a")
    assert result.stdout == "true\n"
    assert (facts.complete, facts.counts, facts.tainted) == (True, {"reader": 1}, ())
    assert facts.readers == {facts.loads[0].program: facts.loads[0].digest}
    assert facts.loads[0].digest.startswith("blake2b:")


async def test_observation_changes_no_exit_status_no_output_and_no_signal(box):
    command = "trap 'exit 5' TERM; yes | head -1; echo told >&2; kill -TERM $$"
    plain = await box.exec(command)
    facts, observed = await observe(box, command)
    for name in ("exit_code", "stdout", "stderr"):
        assert getattr(observed, name) == getattr(plain, name)
    assert facts.complete
    assert (await observe(box, "exec /workspace/absent"))[1].exit_code == 127


async def test_observation_ends_and_can_begin_again(box):
    await observe(box, "cat /workspace/a")
    assert (await box.loads()).problem == "nothing was observed"
    assert (await observe(box, "true"))[0].counts == {}


async def test_a_process_that_outlives_its_observation_goes_on(box):
    await observe(box, "(sleep 0.5; cat /workspace/a > late) > /dev/null 2>&1 &")
    result = await box.exec("sleep 1.5; cat late")
    assert result.stdout == "true\n"


async def test_a_caller_whose_memory_cannot_be_read_makes_it_incomplete(box):
    hidden = "import ctypes; ctypes.CDLL(None).prctl(4, 0); open('/workspace/a')"
    facts, _ = await observe(box, f'python3 -c "{hidden}"')
    assert not facts.complete
    assert "Permission denied" in facts.problem


async def test_threads_and_signals_lose_no_call(box):
    threads = """
import signal, threading
signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
def turn():
    for _ in range(200): open('/workspace/a').close()
many = [threading.Thread(target=turn) for _ in range(4)]
[one.start() for one in many]; [one.join() for one in many]
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    await box.write("/workspace/b.py", threads.encode())
    facts, result = await observe(box, "python3 - < b.py")
    assert (result.exit_code, facts.complete) == (0, True), (result.stderr, facts.problem)
    assert facts.counts["judge"] == 800


async def test_lists_are_bounded_and_totals_stand_beside_them(box):
    names = tuple(f"/workspace/{number}" for number in range(500))
    await box.exec("for n in $(seq 0 499); do echo > $n; done")
    facts, _ = await observe(box, "for n in $(seq 0 499); do . ./$n; done", names)
    assert (len(facts.loads), facts.counts) == (64, {"judge": 500})
    assert facts.load_total > len(facts.loads)


async def test_where_the_kernel_gives_no_notification_the_command_runs_unobserved(monkeypatch, tmp_path):
    def refuse(_: bytes) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(init, "load_listening_filter", refuse)
    ours, theirs = socket.socketpair()
    server, observer = init.Server(theirs), Observer(str(tmp_path))
    with (tmp_path / "out").open("w+b") as out, ours, theirs:
        fds = [out.fileno()] * 3
        pid = server._spawn_observed(observer, "/bin/echo", ["echo", "ran"], {}, fds)
        assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "out").read_text() == "ran\n"
    report = observer.report()
    assert (report["complete"], report["calls"]) == (False, 0)
    assert "no notification" in report["problem"]
