"""Runs on nodes, as real processes: the same finals as on one machine, whatever is killed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.cli import main
from assay.rollout.cluster.epochs import RoundRecord
from assay.rollout.cluster.place_records import AgentAnnouncement, PublishedRun, announce_agent, publish_run
from assay.store import RunStore, audit, later_events
from assay.store.objects import open_place
from assay.tasks import find_tasks
from tests.admission.folders import CAREFUL, CARELESS, write_task
from tests.optional import require_packages
from tests.processes import Start, assay_processes, wait_for

require_packages("obstore")
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
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program in another process, which is killed at the end of the test."""
    names = map(str, count())
    with assay_processes(tmp_path) as begin:
        yield lambda *words: begin(next(names), words)


def _finals(run: str, root: str = ".assay") -> Finals:
    """Returns task and outcome of each deciding trial, of which there is one for an attempt."""
    with RunStore.open(Path(root), run) as store:
        rows = [row for row in store.attempts() if row.final]
    assert len({row.attempt for row in rows}) == len(rows)
    return {row.attempt: (row.task, row.outcome) for row in rows}


def _committed(run: str) -> int:
    return sum(1 for path in Path(f".assay/objects/runs/{run}/finals").glob("*/*") if "#" not in path.name)


def _node_processes(command: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{command}/task/{command}/children").read_text().split()]


@pytest.mark.long
def test_two_nodes_and_one_that_is_killed_give_the_finals_of_one_machine(
    say: Say, start: Start, tmp_path: Path
) -> None:
    code, _, _ = say(*RUN, "--run", "one")
    command = start(*RUN, "--run", "many", "--nodes", "2", "--concurrency", "1")
    wait_for(lambda: _committed("many") >= 2)
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
def test_a_killed_command_is_resumed_and_its_nodes_leave(say: Say, start: Start) -> None:
    command = start(*RUN, "--run", "many", "--nodes", "2", "--concurrency", "1")
    wait_for(lambda: _committed("many") >= 2)
    nodes = _node_processes(command.pid)
    command.kill()
    command.wait()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in nodes))
    before = _committed("many")
    assert before < 12
    code, _, err = say("resume", "many", "--nodes", "1")
    assert (code, f"12 attempts, {before} of them done before" in err) == (0, True)
    assert len(_finals("many")) == 12
    assert audit(Path(".assay"), "many") == ()
    assert "every digest" in say("verify", "many")[1]
    assert say("resume", "many")[0] == 0  # nothing is left to do, and no node starts


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_commands_with_nodes_of_their_own_give_both_the_finals_of_one(
    say: Say, start: Start, tmp_path: Path
) -> None:
    assert say(*RUN, "--run", "one")[0] == 0
    first = start(*RUN, "--run", "many", "--nodes", "1", "--concurrency", "1")
    wait_for(lambda: _committed("many") >= 1, within_s=120)
    os.kill(first.pid, signal.SIGSTOP)  # it goes on when the other one has taken the run over
    place = ("--place", f"file://{tmp_path}/.assay/objects")
    second = start("resume", "many", "--store", "other", *place, "--nodes", "1")
    wait_for(lambda: len(list(Path(".assay/objects/runs/many/epochs").glob("*.json"))) == 2, within_s=120)
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(240) in (0, 2), (tmp_path / "0.log").read_text()
    assert second.wait(240) == 0, (tmp_path / "1.log").read_text()
    assert say("resume", "many")[0] == 0
    for root in ("other", ".assay"):
        assert _finals("many", root) == _finals("one")
        assert audit(Path(root), "many") == ()


@pytest.mark.long
def test_external_nodes_do_a_run_and_leave_when_it_is_complete(say: Say, start: Start, tmp_path: Path) -> None:
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
    code, out, _ = say("store", "check", f"file://{tmp_path}/objects")
    assert (code, "0 sealed runs, 1 run on nodes, " in out, ", 0 problems" in out) == (0, True, True), out
    key = next(Path("objects/runs/far/finals").glob("*/*"))
    key.chmod(0o644)
    key.write_bytes(key.read_bytes().replace(b"final", b"fin4l"))
    code, _, err = say("resume", "far", "--store", "third", *shared, "--nodes", "external")
    assert (code, str(key.relative_to("objects")) in err) == (3, True), err
    assert say("status", "far", "--json", *shared)[0] == 1
    code, out, _ = say("store", "check", f"file://{tmp_path}/objects")
    assert (code, str(key.relative_to("objects")) in out) == (1, True), out


@pytest.mark.long
def test_a_grid_on_nodes_gives_the_finals_of_one_machine_and_is_resumed(say: Say, start: Start) -> None:
    grid = (*RUN[:2], "--agent", "expert", *RUN[2:4], "--attempts", "2", "--nodes", "1", "--run", "both")
    command = start(*grid)
    wait_for(lambda: Path(".assay/objects/runs/both-1-slow/finals").exists(), within_s=120.0)
    command.kill()
    command.wait()
    code, out, err = say("resume", "both", "--json")
    assert code == 0, err
    assert json.loads(out)["runs"] == ["both-0-expert", "both-1-slow"]
    for run, words in (("both-0-expert", RUN[:2]), ("both-1-slow", RUN[:2])):
        agent = "expert" if run == "both-0-expert" else RUN[3]
        assert say(*words, "--agent", agent, "--attempts", "2", "--run", f"alone-{agent[:4]}")[0] == 0
        assert _finals(run) == _finals(f"alone-{agent[:4]}")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["halving", "uncertainty"])
def test_nodes_decide_the_rounds_of_one_machine_though_one_is_killed(
    say: Say, start: Start, tmp_path: Path, policy: str
) -> None:
    words = (*RUN[:-2], "--allocate", policy, "--budget", "24", "--seed", "3")
    assert say(*words, "--run", "one")[0] == 0
    command = start(*words, "--run", "many", "--nodes", "2", "--concurrency", "1")
    wait_for(lambda: _committed("many") >= 10, within_s=120)  # in the second round of both policies
    os.kill(_node_processes(command.pid)[0], signal.SIGKILL)
    assert command.wait(240) == 0, (tmp_path / "0.log").read_text()
    rounds = _recorded_rounds("one")
    assert (_recorded_rounds("many"), _published_rounds("many")) == (rounds, rounds)
    assert len(rounds) > 2
    assert _finals("many") == _finals("one")


Rounds = list[Counter[str]]
"""Of each round, how many attempts it granted to each task."""


def _recorded_rounds(run: str) -> Rounds:
    """Returns what the attempts of a run record of the rounds that granted them."""
    with RunStore.open(Path(".assay"), run) as store:
        configs = [(row.task, store.trajectory(row.chain).started.config) for row in store.attempts() if row.final]
    rounds: Rounds = [Counter() for _ in range(1 + max(config["allocation"]["round"] for _, config in configs))]
    for task, config in configs:
        rounds[config["allocation"]["round"]][task] += 1
    return rounds


def _published_rounds(run: str) -> Rounds:
    """Returns what the coordinator put into the place."""
    tasks = [loaded.task.id for loaded in find_tasks((TASKS,))]
    paths = sorted(Path(f".assay/objects/runs/{run}/rounds").glob("*.json"))
    records = [msgspec.json.decode(path.read_bytes(), type=RoundRecord) for path in paths]
    return [Counter({tasks[grant.task]: grant.attempts for grant in record.grants}) for record in records]


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


def _copy_store(name: str) -> tuple[str, str]:
    """Copies the store; returns the words that name the copy."""
    shutil.copytree(".assay", name, ignore=shutil.ignore_patterns("objects", "nodes"))
    return "--store", name


def _judged_again(store: str, run: str) -> dict[str, list[Any]]:
    """Returns what re-verification added to a run, without times and the kernel's numbers of the sandboxes."""
    return {
        chain: [_stable_part(json.loads(msgspec.json.encode(body))) for body in bodies]
        for chain, bodies in later_events(Path(store), run).items()
    }


def _stable_part(told: dict[str, Any]) -> Any:
    if "verdict" in told:
        return {key: value for key, value in told["verdict"].items() if key != "duration_s"}
    evidence = told["evidence"]
    data = evidence["data"] if evidence["kind"] == "reverification" else sorted(evidence["data"])
    return evidence["id"], evidence["channel"], evidence["kind"], data


@pytest.mark.long
def test_nodes_judge_again_what_one_machine_judges(say: Say, tmp_path: Path) -> None:
    """Four attempts, two of which end in the same state; a world's attempts beside them."""
    write_task(tmp_path / "tasks" / "careful", CAREFUL)
    write_task(tmp_path / "tasks" / "careless", CARELESS)
    for run, words in {"files": ("tasks/", "--agent", "oracle"), "worlds": (TASKS, "--agent", "expert")}.items():
        assert say("run", *words, "--attempts", "2", "--run", run)[0] == 0
        copied = _copy_store(f"{run}-copy")
        code, alone, _ = say("verify", run, "--again", "2", "--concurrency", "1", "--json", *copied)
        assert code == 0, alone
        code, by_nodes, err = say("verify", run, "--again", "2", "--nodes", "2", "--json")
        assert code == 0, err
        assert json.loads(by_nodes)["again"] == json.loads(alone)["again"]
        assert _judged_again(".assay", run) == _judged_again(copied[1], run)
        assert audit(Path(".assay"), run) == ()
    assert any("judged_with" in json.dumps(told) for told in _judged_again(".assay", "files").values())
    assert json.loads(say("verify", "files", "--again", "2", "--nodes", "2", "--json")[1])["again"]["results"][0][
        "before"
    ]
    assert not Path(".assay/nodes").exists() or not any(Path(".assay/nodes").iterdir())


@pytest.mark.long
def test_a_killed_reverification_goes_on_with_what_nodes_judged(say: Say, start: Start, tmp_path: Path) -> None:
    write_task(tmp_path / "tasks" / "slow", CAREFUL.replace("mkdir", "sleep 1\nmkdir", 1))
    assert say("run", "tasks/", "--agent", "random-shell", "--attempts", "4", "--run", "files")[0] in (0, 1, 3)
    words = ("verify", "files", "--again", "1", "--nodes", "1", "--concurrency", "1")
    command = start(*words)
    wait_for(lambda: _finals_of_work() >= 1, within_s=60)
    command.kill()
    command.wait()
    assert say(*words, "--json")[0] == 0
    assert json.loads(say(*words, "--json")[1])["again"]["counts"]["agree"] == 4
    assert len(list(Path(".assay/objects/runs").iterdir())) == 1


def _finals_of_work() -> int:
    return sum(1 for path in Path(".assay/objects/runs").glob("verify-*/finals/*/*") if "#" not in path.name)


@pytest.mark.long
def test_nodes_admit_what_one_machine_admits_though_all_is_killed(say: Say, start: Start, tmp_path: Path) -> None:
    write_task(tmp_path / "tasks" / "careful", CAREFUL)
    write_task(tmp_path / "tasks" / "careless", CARELESS)
    words = ("tasks/", "--quick", "--mutants", "4")
    code, alone, _ = say("admit", *words, "--run", "alone", "--json", "--store", "other")
    assert code == 1
    command = start("admit", *words, "--run", "many", "--nodes", "2", "--concurrency", "1")
    wait_for(lambda: _committed("many") >= 5, within_s=120)
    for pid in (_node_processes(command.pid)[0], command.pid):
        os.kill(pid, signal.SIGKILL)
    command.wait()
    code, by_nodes, err = say("admit", "--resume", "many", "--json")
    assert code == 1, err
    found, wanted = (_conclusions(json.loads(text)) for text in (by_nodes, alone))
    assert found == wanted
    assert [one["admitted"]["default"] for one in found] == [True, False]
    assert audit(Path(".assay"), "many") == ()
    assert say("run", "tasks/careful", "--agent", "oracle", "--admitted")[0] == 0


def _conclusions(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what an admission concluded, without what it cost."""
    keys = ("task", "admitted", "separation", "sensitivity", "completeness")
    return [
        {key: task.get(key) for key in keys} | {"findings": [(f["kind"], f["probe"]) for f in task["findings"]]}
        for task in told["report"]["tasks"]
    ]


class _Overloaded(BaseHTTPRequestHandler):
    """A model server that refuses all calls with 503 while it is overloaded."""

    refuses = True
    refused = answered = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        kind, status = type(self), 503 if self.refuses else 200
        kind.refused += status == 503
        kind.answered += status == 200
        message = {"role": "assistant", "content": "no"}
        reply = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": {}}
        body = json.dumps(reply if status == 200 else {"error": {"message": "overloaded"}}).encode()
        self.send_response(status)
        self.send_header("Retry-After", "0.2")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stays silent."""


@pytest.fixture
def overloaded() -> Iterator[type[_Overloaded]]:
    """Yields a model server, whose port is in `port`."""
    kind = type("Server", (_Overloaded,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    kind.port = server.server_address[1]  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield kind
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.long
def test_a_node_does_less_at_once_while_its_model_server_is_overloaded(say: Say, start: Start, overloaded: Any) -> None:
    model = f"http://127.0.0.1:{overloaded.port}/v1#m"
    words = ("run", "family:grid,n=30,size=3", "--agent", "loop", "--model", model, "--max-turns", "8")
    command = start(*words, "--run", "many", "--nodes", "1", "--concurrency", "8")

    def allowed() -> int:
        code, out, _ = say("status", "many", "--json")
        nodes = json.loads(out)["nodes"] if code == 0 else []
        return next((node["allowed"] for node in nodes if node["allowed"] is not None), 0)

    wait_for(lambda: 0 < allowed() <= 4, within_s=60)
    assert overloaded.answered == 0
    overloaded.refuses = False
    wait_for(lambda: allowed() == 8 or command.poll() is not None, within_s=60)
    assert command.wait(60) in (0, 1)
    assert overloaded.answered > 30
    assert len(_finals("many")) == 30


@pytest.mark.long
@pytest.mark.usefixtures("say")
def test_two_runs_share_a_node_by_turns(start: Start, tmp_path: Path) -> None:
    def decided(run: str) -> int:
        return len(list(Path(f"objects/runs/{run}/finals").glob("*/*")))

    (tmp_path / "token").write_text("a-token-of-some-length\n")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "objects").mkdir()
    shared = ("--place", f"file://{tmp_path}/objects", "--token-file", "token")
    node = start("node", "long", "short", "--slots", "2", *shared)
    many = [word if word != "3" else "30" for word in RUN]
    first = start(*many, "--run", "long", "--nodes", "external", *shared)
    wait_for(lambda: decided("long") >= 4, within_s=60)
    second = start(*RUN, "--run", "short", "--nodes", "external", *shared, "--store", "other")
    wait_for(lambda: decided("short") >= 1, within_s=60)
    before = decided("long")
    wait_for(lambda: decided("short") == 12, within_s=60)
    assert 3 <= decided("long") - before <= 24  # of 11 and as many: neither starved
    assert decided("long") < 120
    assert second.wait(60) == 0
    assert first.wait(120) == 0
    assert node.wait(30) == 0
    assert len(_finals("long")) == 120


@pytest.mark.long
def test_nodes_replay_what_one_machine_replays(say: Say, tmp_path: Path) -> None:
    """One attempt of which differs, so that its cause is looked for on the nodes."""
    write_task(tmp_path / "tasks" / "random", CARELESS, "echo $RANDOM $(date +%N) > /workspace/answer.txt\n")
    write_task(tmp_path / "tasks" / "careful", CAREFUL)
    assert say("run", "tasks/", "--agent", "oracle", "--attempts", "2", "--run", "files")[0] == 0
    code, alone, _ = say("replay", "--all", "--run", "files", "--json")
    again, by_nodes, err = say("replay", "--all", "--run", "files", "--nodes", "2", "--json")
    assert code == again, err
    found, wanted = json.loads(by_nodes), json.loads(alone)
    assert found["counts"] == wanted["counts"]
    kept = ("attempt", "agrees", "cause", "experiments", "problem")
    assert [{k: one.get(k) for k in kept} for one in found["results"]] == [
        {k: one.get(k) for k in kept} for one in wanted["results"]
    ]
    assert audit(Path(".assay"), found["replay"]) == ()


@pytest.mark.long
def test_the_command_that_a_taken_name_is_refused_with_goes_on_with_the_run(say: Say) -> None:
    run = ("run", "family:grid,n=1,size=3", "--agent", "expert", "--run", "r", "--nodes", "1", "--place", "objects")
    Path("objects").mkdir()
    assert say(*run, "--store", "first")[0] == 0
    code, _, err = say(*run, "--store", "second")
    assert code == 2, err
    words = err.partition("`assay ")[2].partition("`")[0].split()
    code, _, err = say(*words, "--store", "second")
    assert code == 0, err


def test_a_run_is_not_done_anew_in_a_place_that_does_not_hold_it(say: Say, tmp_path: Path) -> None:
    assert say("run", "family:grid,n=1,size=3", "--agent", "expert", "--run", "one", "--nodes", "1")[0] == 0
    code, _, err = say("resume", "one", "--place", f"file://{tmp_path}/other", "--nodes", "1")
    assert (code, list((tmp_path / "other").rglob("*"))) == (2, [])
    assert f"holds no run 'one', whose attempts are in file://{tmp_path}/.assay/objects" in err


@pytest.mark.parametrize("count", ["1001", "9" * 5000])
def test_a_mistyped_number_of_nodes_starts_none(say: Say, count: str) -> None:
    code, _, err = say("run", "family:grid,n=1,size=3", "--agent", "expert", "--nodes", count)
    assert (code, "give a number from 1" in err, Path(".assay").exists()) == (2, True, False)


@pytest.mark.parametrize(("option", "value"), [("--advertise", "a b/c"), ("--name", "n" * 5000)])
def test_a_node_that_no_command_could_find_is_refused(say: Say, tmp_path: Path, option: str, value: str) -> None:
    (token := tmp_path / "token").write_text("a" * 32)
    token.chmod(0o600)
    (tmp_path / "objects").mkdir()
    shared = ("--place", f"file://{tmp_path}/objects", "--token-file", str(token), "--wait-s", "1")
    code, _, err = say("node", "r", *shared, option, value)
    assert (code, "no command can read this node's announcement" in err) == (2, True)


def test_what_a_place_says_of_nodes_moves_no_cursor(say: Say, tmp_path: Path) -> None:
    place = open_place(f"{tmp_path}/objects", create=True)
    config = {"tasks": ["family:grid,n=4"], "agent": "expert"}
    manifest = {"config": config, "tasks": {"t": "blake3:0"}, "agent": "expert"}
    asyncio.run(publish_run(place, PublishedRun(1, "r", "a" * 32, str(tmp_path), manifest)))
    forged = AgentAnnouncement(1, "r", "a\x1b[2J\nnode b", "http://127.0.0.1:1\x1b[31m", 1)
    asyncio.run(announce_agent(place, forged))
    code, out, _ = say("status", "r", "--place", str(place))
    assert code == 0
    assert "node a\\x1b[2J\\nnode b at http://127.0.0.1:1\\x1b[31m" in out
    assert "\x1b" not in out
