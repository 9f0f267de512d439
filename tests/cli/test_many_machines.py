"""Runs on nodes, as real processes: the same finals as on one machine, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from assay.store import RunStore, audit
from tests.optional import require_packages

require_packages("obstore")
PROGRAM = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
TASKS = "family:grid,n=4,size=3"
AGENT = """
import asyncio
from assay.agents.expert import ExpertAgent

class Slow(ExpertAgent):
    name = "slow"

    async def run(self, attempt):
        await asyncio.sleep(0.4)
        await super().run(attempt)
"""
RUN = ("run", TASKS, "--agent", "slow_agent.py:Slow", "--agent-option", "noise=0.5", "--attempts", "3")
Finals = dict[str, tuple[str, str | None]]
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Calls the program in a folder of its own; returns its exit code, stdout and stderr."""
    (tmp_path / "slow_agent.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts the program in another process, which is killed at the end of the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            command = [sys.executable, "-c", PROGRAM, *words]
            started.append(subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def _finals(run: str) -> Finals:
    """Returns task and outcome of each deciding trial, of which there is one for an attempt."""
    with RunStore.open(Path(".assay"), run) as store:
        rows = [row for row in store.attempts() if row.final]
    assert len({row.attempt for row in rows}) == len(rows)
    return {row.attempt: (row.task, row.outcome) for row in rows}


def _wait_for(what: Callable[[], Any], within_s: float = 40.0) -> Any:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it took too long")


def _committed(run: str) -> int:
    return sum(1 for path in Path(f".assay/objects/runs/{run}/finals").glob("*/*") if "#" not in path.name)


def _node_processes(command: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{command}/task/{command}/children").read_text().split()]


@pytest.mark.long
def test_two_nodes_and_one_that_is_killed_give_the_finals_of_one_machine(
    say: Say, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    code, _, _ = say(*RUN, "--run", "one")
    command = start(*RUN, "--run", "many", "--nodes", "2", "--concurrency", "1")
    _wait_for(lambda: _committed("many") >= 2)
    os.kill(_node_processes(command.pid)[0], signal.SIGKILL)
    code, out, _ = say("status", "many", "--json")
    status = json.loads(out)
    assert (code, status["attempts"], len(status["nodes"]) >= 2) == (0, 12, True)
    assert command.wait(60) == 0
    assert "local node 0 ended (SIGKILL); it is started again (1 of 3)" in (tmp_path / "0.log").read_text()
    assert _finals("many") == _finals("one")
    assert len(_finals("many")) == 12
    assert audit(Path(".assay"), "many") == ()
    assert say("seal", "many")[0] == 0
    assert json.loads(say("status", "many", "--json")[1])["ended"]


@pytest.mark.long
def test_a_killed_command_is_resumed_and_its_nodes_leave(
    say: Say, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    command = start(*RUN, "--run", "many", "--nodes", "2", "--concurrency", "1")
    _wait_for(lambda: _committed("many") >= 2)
    nodes = _node_processes(command.pid)
    command.kill()
    command.wait()
    _wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in nodes))
    before = _committed("many")
    assert before < 12
    code, _, err = say("resume", "many", "--nodes", "1")
    assert (code, f"12 attempts, {before} of them done before" in err) == (0, True)
    assert len(_finals("many")) == 12
    assert audit(Path(".assay"), "many") == ()
    assert "every digest" in say("verify", "many")[1]
    assert say("resume", "many")[0] == 0  # nothing is left to do, and no node starts


@pytest.mark.long
def test_external_nodes_do_a_run_and_leave_when_it_is_complete(
    say: Say, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    (tmp_path / "token").chmod(0o600)
    shared = ("--place", f"file://{tmp_path}/objects", "--token-file", "token")
    (tmp_path / "objects").mkdir()
    node = start("node", "far", "--slots", "8", *shared)
    code, out, err = say(*RUN, "--run", "far", "--nodes", "external", *shared)
    assert (code, "waiting for nodes" in err, "12" in out) == (0, True, True), err
    assert node.wait(30) == 0
    assert "node " in (tmp_path / "0.log").read_text()
    assert not [path for path in Path(".assay/nodes/far").glob("*") if path.is_dir()]
    assert say("resume", "far", "--store", "other", *shared, "--nodes", "external")[0] == 0
    key = next(Path("objects/runs/far/finals").glob("*/*"))
    key.chmod(0o644)
    key.write_bytes(key.read_bytes().replace(b"final", b"fin4l"))
    code, _, err = say("resume", "far", "--store", "third", *shared, "--nodes", "external")
    assert (code, str(key.relative_to("objects")) in err) == (3, True), err
    assert say("status", "far", "--json", *shared)[0] == 1


@pytest.mark.long
def test_a_grid_on_nodes_gives_the_finals_of_one_machine_and_is_resumed(
    say: Say, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    grid = (*RUN[:2], "--agent", "expert", *RUN[2:4], "--attempts", "2", "--nodes", "1", "--run", "both")
    command = start(*grid)
    _wait_for(lambda: Path(".assay/objects/runs/both-1-slow/finals").exists(), within_s=120.0)
    command.kill()
    command.wait()
    code, out, err = say("resume", "both", "--json")
    assert code == 0, err
    assert json.loads(out)["runs"] == ["both-0-expert", "both-1-slow"]
    for run, words in (("both-0-expert", RUN[:2]), ("both-1-slow", RUN[:2])):
        agent = "expert" if run == "both-0-expert" else RUN[3]
        assert say(*words, "--agent", agent, "--attempts", "2", "--run", f"alone-{agent[:4]}")[0] == 0
        assert _finals(run) == _finals(f"alone-{agent[:4]}")


def test_what_no_process_can_be_sent_is_refused(say: Say) -> None:
    refused = {
        ("--nodes", "2", "--early-stop", "0.05"): "--early-stop",
        ("--nodes", "2", "--allocate", "forks"): "forks attempts",
        ("--nodes", "0"): "--nodes 0",
        ("--place", "objects"): "--place needs --nodes",
        ("--nodes", "external"): "needs --place",
        ("--nodes", "external", "--place", "objects"): "ASSAY_NODE_TOKEN",
        ("--nodes", "external", "--place", "x", "--token-file", "token", "--agent", "expert"): "several agents",
        ("--nodes", "2", "--agent", "expert", "--early-stop", "0.05"): "--early-stop",
    }
    Path("token").write_text("a-token-of-some-length")
    Path("token").chmod(0o600)
    for words, text in refused.items():
        code, _, err = say(*RUN, *words)
        assert (code, text in err) == (2, True), err
    assert not Path(".assay/runs").exists()
    listening = say("node", "r", "--place", "file:///", "--token-file", "slow_agent.py")
    assert listening[0] == 2
