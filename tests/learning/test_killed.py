"""Trainings and services that are killed on the way: a recipe from nothing to its report, and a trainer's batch."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import msgspec
import pytest

from assay.learning.service.engines import PolicyEngines
from assay.learning.service.policies import PolicyBook, PolicyVersion
from assay.learning.service.service_config import RolloutServiceConfig
from assay.learning.trainer.metrics import Metrics
from assay.learning.trainer.recipe import ImproveRecipe
from assay.settings import Settings
from assay.store import RunStore, audit, final_rows, list_runs
from benchmarks._finals import differences, finals_of
from tests.learning.forks import Fork, ForkServer
from tests.optional import require_packages
from tests.sampling import WHOLE

require_packages("torch", "renderers")
# the first test of each fixture waits for a process that imports PyTorch
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]

CLIENT = Path(__file__).parent / "service" / "client.py"
MOVE = {"tool_calls": [{"name": "move", "arguments": {"direction": "up"}}]}
BATCH: dict[str, Any] = {
    "id": "first",
    "policy": {"name": "actor", "version": "v1"},
    "tasks": ["family:grid,n=6,size=3,distance=1"],
    "attempts": 4,
    "agent_options": {"temperature": 1.0},
    "credit": {"method": "rloo"},
}
RECIPE = """
name = "tiny"
steps = 3
[model]
thinking = false
vocabulary = 400
hidden = 32
layers = 1
heads = 2
feed_forward = 32
threads = 1
device = "cpu"
[teach]
tasks = ["family:grid,size=3,part=train,n=24,seed=1"]
agent_options = { noise = 0.3 }
[teach.sft]
steps = 45
batch = 8
[teach.sft.optimise]
learning_rate = 4e-3
[rollout]
tasks = ["family:grid,size=3,part=train"]
agent_options = { system = "", nudges = 0, max_tokens = 16, seeded = true }
groups = 3
attempts = 4
[evaluate]
tasks = ["family:grid,size=3,part=test,n=6,seed=2"]
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def improve(
    forks: ForkServer, folder: Path, budget: int | None = 9000, more: str = "", words: Sequence[str] = ()
) -> Fork:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.toml").write_text(RECIPE + more)
    limit = [] if budget is None else ["--set", f"budget_calls={budget}"]
    return forks.start(folder, "improve", "recipe.toml", "--store", "store", "--json", *limit, *words)


@pytest.fixture(scope="module")
def improved(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("improved")
    process = improve(forks, folder)
    assert process.poll(wait=True) in (0, 1), process.err.read_text()
    _says_what_it_uses(process.err.read_text())
    return folder, json.loads(process.out.read_bytes())


def _says_what_it_uses(said: str) -> None:
    """An estimate as soon as there is one, and the calls of the budget after each step."""
    estimates = [line for line in said.splitlines() if "estimate" in line]
    assert (
        estimates[0]
        == "0 of 9,000 model calls so far; no estimate: the store has no earlier attempt of loop with local:tiny"
    )
    assert "for 42 attempts, by 6 earlier ones of loop with local:tiny" in estimates[1]
    assert len(estimates) == 2
    assert re.search(r"^teaching 1 of \d+: loss ", said, re.MULTILINE)
    used = [int(calls) for calls in re.findall(r"^step .*; (\d+) of 9,000 model calls$", said, re.MULTILINE)]
    assert len(used) == 3
    assert used == sorted(used)
    assert used[0] >= 12


def test_a_recipe_makes_a_model_tries_trains_and_says_how_it_went(improved: Any) -> None:
    folder, report = improved
    assert [point["step"] for point in report["curve"]] == [0, 3]
    assert all(point["attempts"] == 6 for point in report["curve"])
    with Metrics(folder / "store", "tiny-0-training", json.loads(_recipe(folder)), seed=0) as metrics:
        steps = [metrics.get(f"policy_gradient {step}") or {} for step in (1, 2, 3)]
    assert all(0 <= step["gap_most"] < 1e-4 for step in steps)
    assert all((step["lag"], step["lag_unknown"]) == (0.0, 0.0) for step in steps)
    assert all(step["success_low"] <= step["success"] <= step["success_high"] for step in steps)
    assert len({step["version"] for step in steps}) >= 2
    assert steps[-1]["version"] == report["version"]
    assert Path(folder / report["model"] / "model.safetensors").is_file()


def ended(store: Path, run: str) -> int:
    """Attempts of a run that may not have begun."""
    if run not in list_runs(store):
        return 0
    with RunStore.open(store, run) as opened:
        return len(final_rows(opened.attempts()))


def test_killed_at_any_moment_it_ends_with_the_same_weights(improved: Any, forks: ForkServer, tmp_path: Path) -> None:
    _, report = improved
    store = tmp_path / "x" / "store"
    stopped = improve(forks, tmp_path / "x", budget=1)
    assert stopped.poll(wait=True) == 3
    assert "repeat the command with a larger budget_calls" in stopped.err.read_text()
    for until in ("evaluation-0000", "step-0002"):
        process = improve(forks, tmp_path / "x")
        deadline = time.monotonic() + 100
        while not ended(store, f"tiny-0-{until}") and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    process = improve(forks, tmp_path / "x")
    process.poll(wait=True)
    again = json.loads(process.out.read_bytes())
    assert (again["version"], again["curve"]) == (report["version"], report["curve"]), process.err.read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_teaching_at_once(
    improved: Any, forks: ForkServer, tmp_path: Path, how: signal.Signals
) -> None:
    folder = tmp_path / "x"
    _copy_demonstrations(improved[0], folder)
    process = improve(forks, folder, None, words=("--set", "teach.sft.steps=1000000"))
    deadline = time.monotonic() + 100
    while "teaching 20 of" not in _text(process.err) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "teaching 20 of" in _text(process.err)
    signalled = time.monotonic()
    assert process.end(how) == 128 + how, process.err.read_text()
    assert time.monotonic() - signalled < 20
    assert "interrupted" in process.err.read_text()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_nodes_make_the_same_attempts_though_one_and_the_command_are_killed(
    improved: Any, forks: ForkServer, tmp_path: Path
) -> None:
    pytest.importorskip("obstore")
    first, report = improved
    folder, words = tmp_path / "x", ("--nodes", "2", "--set", "rollout.concurrency=2")
    _copy_demonstrations(first, folder)
    process = improve(forks, folder, None, words=words)
    _wait_for_final(folder, "tiny-0-step-0001", process)
    nodes = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert len(nodes) == 2
    os.kill(nodes[0], signal.SIGKILL)
    _wait_for_final(folder, "tiny-0-step-0002", process)
    assert process.end(signal.SIGKILL) == -signal.SIGKILL
    assert "local node 0 ended (SIGKILL); it is started again" in process.err.read_text()
    process = improve(forks, folder, None, words=words)
    process.poll(wait=True)
    again = json.loads(process.out.read_bytes())
    assert (again["version"], again["curve"]) == (report["version"], report["curve"]), process.err.read_text()
    for run in list_runs(first / "store"):
        if run != "tiny-0-training":
            assert differences(finals_of(first / "store", run), finals_of(folder / "store", run)) == []
            assert audit(folder / "store", run) == ()


def _wait_for_final(folder: Path, run: str, command: Fork) -> None:
    """Waits until an attempt of a training's run is decided in the place."""
    until = time.monotonic() + 120
    while not any(folder.glob(f"store/objects/runs/tiny-0-attempts/finals/*/{run}=*")):
        assert command.poll() is None, command.err.read_text()
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_budget_and_nodes_are_refused(forks: ForkServer, tmp_path: Path) -> None:
    process = improve(forks, tmp_path / "x", words=("--nodes", "2"))
    assert process.poll(wait=True) == 2
    assert "budget_calls is kept by one process" in process.err.read_text()


def _recipe(folder: Path) -> bytes:
    return msgspec.json.encode(msgspec.toml.decode((folder / "recipe.toml").read_bytes(), type=ImproveRecipe))


class Service:
    """`assay serve` in a process."""

    def __init__(self, forks: ForkServer, folder: Path, options: str | None = None, *more: str) -> None:
        self.folder = folder
        options = options or f"steer={folder}/script.json&device=cpu"
        policy = f"actor=local:{folder}/weights/{{version}}?{options}"
        arguments = ["--store", str(folder / "store"), "--policy", policy, "--family", "grid", *more]
        self.process = forks.start(folder, "serve", "--json", *arguments, "--concurrency", "4")
        while not self.process.out.read_text().rstrip().endswith("}"):
            assert self.process.poll() is None, self.process.err.read_text()
            time.sleep(0.01)
        self.open = json.loads(self.process.out.read_text())

    def ask(self, batch: dict[str, Any]) -> dict[str, Any]:
        file = self.folder / f"{batch['id']}.json"
        file.write_text(json.dumps(batch))
        command = [sys.executable, str(CLIENT), self.open["url"], self.open["token_file"], str(file)]
        found = subprocess.run(command, capture_output=True, check=True, timeout=120)
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        from tests.learning.service.client import ask

        token = Path(self.open["token_file"]).read_text().strip()
        data = None if not body else json.dumps(body).encode()
        return ask(f"{self.open['url']}/v1/{path}", token, "GET" if body is None else "POST", data)

    def submit(self, batch: dict[str, Any]) -> None:
        self.call("batches", batch)


@pytest.fixture
def service(forks: ForkServer, tmp_path: Path) -> Iterator[Service]:
    pytest.importorskip("torch")
    from scripts.tiny_model import write_tiny_model

    write_tiny_model(tmp_path / "weights" / "v1", context=2048)
    (tmp_path / "script.json").write_text(json.dumps({"replies": [MOVE], "after": "last"}))
    one = Service(forks, tmp_path, None, "--max-turns", "3")
    yield one
    one.process.end(signal.SIGKILL)


def test_a_trainer_gets_verified_credited_rows_of_a_killed_service(service: Service, forks: ForkServer) -> None:
    store = service.folder / "store"
    service.submit(BATCH)
    until = time.monotonic() + 60
    while time.monotonic() < until and not ended(store, "batch-first"):
        time.sleep(0.02)
    assert service.process.end(signal.SIGKILL) == -signal.SIGKILL
    assert ended(store, "batch-first") > 0
    again = Service(forks, service.folder, None, "--max-turns", "3")
    answer = again.ask(BATCH)
    assert again.process.end(signal.SIGTERM) == 0
    assert answer["batch"]["state"] == "done", answer["batch"]
    require_rows(answer["rows"])
    with RunStore.open(store, "batch-first") as run:
        deciding = Counter(row.attempt for row in run.attempts() if row.final)
    assert len(deciding) == 24
    assert set(deciding.values()) == {1}
    assert audit(store, "batch-first") == ()


def require_rows(rows: list[dict[str, Any]]) -> None:
    """Each attempt once, with its verdict; credit on the tokens that were sampled and on no other."""
    assert len({row["attempt"] for row in rows}) == len(rows) == 24
    assert {row["outcome"] for row in rows} == {"pass", "fail"}
    for row in rows:
        length = len(row["token_ids"])
        assert all(len(row[name]) == length for name in ("loss_mask", "logprobs", "advantages", "roles", "versions"))
        assert sum(row["loss_mask"]) > 0
        assert all(mask or not value for mask, value in zip(row["loss_mask"], row["advantages"], strict=True))
        assert row["verified_pass"] == (row["outcome"] == "pass")
        assert row["asked_version"] == "v1"
        assert row["weight_versions"]


SAMPLED = "dtype=float64&thinking=false&temperature=1&top_p=1&top_k=0&min_p=0&device=cpu"
"""Options of a policy that samples as a training without a service does."""
KILLS = 10 if WHOLE else 2


class Loop:
    """A trainer and a service, each in a process, which are killed and started again."""

    def __init__(self, forks: ForkServer, folder: Path, taught: Path, most_lag: int) -> None:
        self.forks, self.folder = forks, folder
        (folder / "service").mkdir()
        _copy_demonstrations(taught, folder / "trainer")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.more = f"""
            [rollout.service]
            url = "http://127.0.0.1:{self.port}"
            token_file = "{folder}/token"
            policy = "actor"
            weights = "{folder}/service/weights"
            [policy_gradient]
            most_lag = {most_lag}
        """
        self.killed_trainers = 0
        """Kills that met a trainer under way."""
        self.service = self.serve()
        self.trainer = self.train()

    def serve(self) -> Service:
        more = ("--port", self.port, "--token-file", str(self.folder / "token"))
        return Service(self.forks, self.folder / "service", SAMPLED, *more)

    def train(self) -> Fork:
        return improve(self.forks, self.folder / "trainer", None, self.more)

    def kill(self, moments: random.Random) -> None:
        """Kills both, each at a moment of its own, and starts them again."""
        time.sleep(moments.uniform(0, 0.6))
        assert self.service.process.end(signal.SIGKILL) == -signal.SIGKILL
        if moments.random() < 0.5:
            self.service = self.serve()
        time.sleep(moments.uniform(0, 0.6))
        self.killed_trainers += self.trainer.end(signal.SIGKILL) == -signal.SIGKILL
        if self.service.process.poll() is not None:
            self.service = self.serve()
        self.trainer = self.train()

    def end(self) -> dict[str, Any]:
        """Returns the trainer's report once it has ended."""
        assert self.trainer.poll(wait=True) in (0, 1), self.trainer.err.read_text()
        report: dict[str, Any] = json.loads(self.trainer.out.read_bytes())
        return report

    def steps(self) -> list[dict[str, Any]]:
        folder = self.folder / "trainer"
        recipe = json.loads(_recipe(folder))
        recipe["rollout"]["service"] = None
        with Metrics(folder / "store", "tiny-0-training", recipe, seed=0) as metrics:
            return [metrics.get(f"policy_gradient {step}") or {} for step in (1, 2, 3)]


def _copy_demonstrations(source: Path, target: Path) -> None:
    """Copies what a training has done before its first step, which has tests of its own."""
    for part in ("trained/tiny-0/made", "store/runs/tiny-0-demonstrations", "store/blobs"):
        shutil.copytree(source / part, target / part)
    for checkpoint in (source / "trained/tiny-0/checkpoints").glob("sft-*"):
        shutil.copytree(checkpoint, target / "trained/tiny-0/checkpoints" / checkpoint.name)


def _require_each_once(loop: Loop) -> None:
    """Every group was trained in the step that it was made for, and acknowledged; every attempt was made once."""
    steps, store = loop.steps(), loop.folder / "service" / "store"
    trained = [group for step in steps for group in step["groups"]]
    assert len(set(trained)) == len(trained) == 9
    for number, step in enumerate(steps, 1):
        batch = f"tiny-0-step-{number:04d}"
        assert {group.partition(":")[0] for group in step["groups"]} == {batch}
        assert (step["attempts"], step["dropped"], step["rows"]) == (12, {}, 12)
        entry = json.loads((store / "service" / f"{batch}.json").read_bytes())
        assert entry["acknowledged"] == (store / "service" / f"{batch}.groups").stat().st_size
        with RunStore.open(store, f"batch-{batch}") as run:
            deciding = Counter(row.attempt for row in run.attempts() if row.final)
        assert len(deciding) == 12
        assert set(deciding.values()) == {1}
        assert audit(store, f"batch-{batch}") == ()


@pytest.fixture
def loops(forks: ForkServer, improved: Any, tmp_path: Path) -> Iterator[Callable[[int], Loop]]:
    begun: list[Loop] = []

    def begin(most_lag: int) -> Loop:
        begun.append(Loop(forks, tmp_path, improved[0], most_lag))
        return begun[-1]

    yield begin
    for loop in begun:
        loop.trainer.end(signal.SIGKILL)
        loop.service.process.end(signal.SIGKILL)


def test_the_example_trains_while_the_service_goes_on(service: Service) -> None:
    """And what comes too late is handed over without rows; a pause holds what is asked for."""
    shutil.copytree(service.folder / "weights" / "v1", service.folder / "weights" / "v0")
    program = Path(__file__).parents[2] / "docs_src" / "asynchronous_trainer.py"
    command = [
        sys.executable,
        str(program),
        service.open["url"],
        service.open["token_file"],
        f"{service.folder}/weights",
    ]
    said = subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout.splitlines()
    assert [line.partition(",")[0] for line in said[:4]] == [f"step {step}: 6 rows" for step in range(4)]
    assert "'step': 4, 'version': 'v4', 'paused': False, 'acknowledged_groups': 8" in said[4]
    assert "'dropped': {}" in said[4]
    late = BATCH | {"id": "late", "policy": {"name": "actor"}, "tasks": ["family:grid,n=2"], "step": 4, "most_lag": 1}
    service.call("pause", {})
    service.call("batches", late)
    assert service.call("batches/late/groups?wait=1")["groups"] == []
    service.call("resume", {})
    while not (page := service.call("batches/late/groups?wait=30"))["end"]:
        pass
    assert [len(group["rows"]) for group in page["groups"]] == [4, 4]
    for step in (5, 6):
        shutil.copytree(service.folder / "weights" / "v1", service.folder / "weights" / f"v{step}")
        service.call("policies/actor/versions", {"version": f"v{step}", "step": step})
    again = service.call("batches/late/groups")
    assert [group["dropped"] for group in again["groups"]] == ["stale", "stale"]
    assert all("rows" not in group and len(group["attempts"]) == 4 for group in again["groups"])
    assert {attempt["reward"] for group in again["groups"] for attempt in group["attempts"]} <= {0.0, 1.0}
    service.call("batches/late/acknowledge", {"cursor": again["next"]})
    assert service.call("batches/late/groups")["groups"] == []
    assert service.call("policies/actor")["dropped"] == {"stale": 2}
    for other in ({"version": "v9", "step": 6}, {"version": "v3", "step": 2}):
        with pytest.raises(HTTPError, match="409"):
            service.call("policies/actor/versions", other)


async def test_a_reply_goes_on_under_weights_that_are_posted_meanwhile(tmp_path: Path) -> None:
    from scripts.tiny_model import write_tiny_model

    write_tiny_model(tmp_path / "v0", context=2048)
    shutil.copytree(tmp_path / "v0", tmp_path / "v1")
    config = RolloutServiceConfig(policies={"actor": f"local:{tmp_path}/{{version}}?device=cpu"}, families=("grid",))
    engines = PolicyEngines(config, Settings(tmp_path, tmp_path), PolicyBook(tmp_path / "policies"))
    await engines.post("actor", PolicyVersion(0, "v0"))
    engine = await engines.open("actor")
    assert engine is not None
    begun = asyncio.Event()

    async def note(_: Sequence[int]) -> None:
        begun.set()

    sampling = {"max_tokens": 800, "temperature": 1.0, "seed": 1}
    replying = asyncio.create_task(engine.tokens.generate(list(range(40, 60)), sampling, (), note))
    await begun.wait()
    assert (await engines.post("actor", PolicyVersion(1, "v1"))).is_new
    reply = await replying
    await engines.close()
    assert [span.version for span in reply.weight_spans] == ["v0", "v1"]
    assert reply.weight_spans[-1].end == len(reply.token_ids) == len(reply.logprobs) == 800


def test_a_service_that_waits_gives_the_same_weights_though_both_are_killed(
    improved: Any, loops: Callable[[int], Loop]
) -> None:
    _, report = improved
    loop, moments = loops(0), random.Random(7)
    for _ in range(KILLS):
        loop.kill(moments)
    again = loop.end()
    assert loop.killed_trainers == KILLS
    assert (again["version"], again["curve"]) == (report["version"], report["curve"])
    _require_each_once(loop)
    assert all((step["lag_most"], step["lag_unknown"]) == (0.0, 0.0) for step in loop.steps())


def test_no_trained_token_is_older_than_the_bound_though_both_are_killed(loops: Callable[[int], Loop]) -> None:
    loop, moments = loops(2), random.Random(8)
    for _ in range(KILLS if WHOLE else 1):
        loop.kill(moments)
    loop.end()
    _require_each_once(loop)
    steps = loop.steps()
    assert all(step["lag_unknown"] == 0 and step["lag_most"] <= 2 for step in steps)
    assert any(step["lag_most"] > 0 for step in steps)
