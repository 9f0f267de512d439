"""The service as a trainer meets it: a process of its own, which may be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.store import RunStore, audit

ROOT = Path(__file__).parents[3]
CLIENT = Path(__file__).with_name("client.py")
MOVE = {"tool_calls": [{"name": "move", "arguments": {"direction": "up"}}]}
BATCH: dict[str, Any] = {
    "id": "first",
    "policy": {"name": "actor", "version": "v1"},
    "tasks": ["family:grid,n=6,size=3,distance=1"],
    "attempts": 4,
    "agent_options": {"temperature": 1.0},
    "credit": {"method": "rloo"},
}


class Service:
    """`assay serve` in a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        policy = f"actor=local:{folder}/weights/{{version}}?steer={folder}/script.json&device=cpu"
        command = [sys.executable, "-c", "from assay.cli import main; main()", "serve", "--json"]
        command += ["--store", str(folder / "store")]
        command += ["--policy", policy, "--family", "grid", "--max-turns", "3", "--concurrency", "4"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment)
        assert self.process.stdout is not None
        told = ""
        while not told.rstrip().endswith("}"):
            line = self.process.stdout.readline().decode()
            assert line, "the service ended"
            told += line
        self.open = json.loads(told)

    def ask(self, batch: dict[str, Any]) -> dict[str, Any]:
        file = self.folder / f"{batch['id']}.json"
        file.write_text(json.dumps(batch))
        command = [sys.executable, str(CLIENT), self.open["url"], self.open["token_file"], str(file)]
        found = subprocess.run(command, capture_output=True, check=True, timeout=120)
        answer: dict[str, Any] = json.loads(found.stdout)
        return answer

    def submit(self, batch: dict[str, Any]) -> None:
        from tests.learning.service.client import ask

        token = Path(self.open["token_file"]).read_text().strip()
        ask(f"{self.open['url']}/v1/batches", token, "POST", json.dumps(batch).encode())

    def end(self, how: signal.Signals) -> int:
        if self.process.poll() is None:
            os.kill(self.process.pid, how)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(20)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    pytest.importorskip("torch")
    from scripts.tiny_model import write_tiny_model

    write_tiny_model(tmp_path / "weights" / "v1", context=2048)
    (tmp_path / "script.json").write_text(json.dumps({"replies": [MOVE], "after": "last"}))
    one = Service(tmp_path)
    yield one
    one.end(signal.SIGKILL)


def ended(store: Path) -> int:
    """How many attempts of the batch have ended; its run may not be there yet."""
    if not (store / "runs" / "batch-first" / "run.sqlite").is_file():
        return 0
    with RunStore.open(store, "batch-first") as run:
        return sum(row.final for row in run.attempts())


@pytest.mark.slow
def test_a_trainer_gets_verified_credited_rows_of_a_service_that_was_killed(service: Service) -> None:
    store = service.folder / "store"
    service.submit(BATCH)
    until = time.monotonic() + 60
    while time.monotonic() < until and not ended(store):
        time.sleep(0.02)
    service.end(signal.SIGKILL)
    assert ended(store) > 0
    again = Service(service.folder)
    answer = again.ask(BATCH)
    assert again.end(signal.SIGTERM) == 0
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
