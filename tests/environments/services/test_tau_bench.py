"""tau-bench, version 1: recorded runs of gpt-4o replayed over its database give its hashes, verdicts and texts."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from assay.environments.services.apps.tau2.tau_bench_airline import tau_bench_airline
from assay.environments.services.world import ServiceWorld
from assay.records import canonical_bytes
from tests.environments.services.benchmark_data import read_json, shared_folder

pytestmark = pytest.mark.timeout(900)


class Recorded(NamedTuple):
    run: dict[str, Any]

    @property
    def actions(self) -> list[dict[str, Any]]:
        return [action for action in self.run["info"]["task"]["actions"] if action["name"] != "respond"]

    @property
    def judged(self) -> dict[str, Any]:
        found: dict[str, Any] = (self.run["info"].get("reward_info") or {}).get("info", {})
        return found if "gt_data_hash" in found else {}

    def calls(self) -> list[tuple[str, dict[str, Any], str]]:
        """Returns name, arguments and recorded result: of several calls in a message the first was executed."""
        messages = self.run["traj"]
        found = []
        for at, message in enumerate(messages):
            if message["role"] == "assistant" and message.get("tool_calls"):
                function = message["tool_calls"][0]["function"]
                found.append((function["name"], json.loads(function["arguments"]), messages[at + 1]["content"]))
        return found


def world() -> ServiceWorld:
    return ServiceWorld.of(
        [tau_bench_airline], 0, {"taubenchairline": {"data": str(shared_folder("environments", "tau-bench-v1"))}}
    )


def recorded() -> list[Recorded]:
    return [Recorded(run) for run in read_json(shared_folder("tau-bench", "gpt-4o-airline-tasks-00-24.json"))]


HASHES: dict[str, str] = {}


def state_hash(world: ServiceWorld) -> str:
    """Returns the original's hash, computed once for each state."""
    digest = world.database.digest()
    if digest not in HASHES:
        HASHES[digest] = world.peek("database_hash", {}, "system").content
    return HASHES[digest]


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@pytest.mark.long
def test_recorded_hashes_and_verdicts_come_out_again() -> None:
    start = world()
    wanted: dict[bytes, str] = {}
    hashes = verdicts = 0
    judged = [one for one in recorded() if one.judged]
    for one in judged:
        key = canonical_bytes(one.actions)
        if key not in wanted:
            reference = start.fork()
            for action in one.actions:
                reference.act(action["name"], action["kwargs"])
            wanted[key] = state_hash(reference)
        attempt = start.fork()
        for name, arguments, _ in one.calls():
            attempt.act(name, arguments)
        hashes += wanted[key] == one.judged["gt_data_hash"]
        verdicts += (state_hash(attempt) == wanted[key]) == bool(one.judged["r_actions"])
    assert (len(judged), hashes, verdicts) == (88, 88, 88)


def test_recorded_results_come_out_again() -> None:
    start, count = world(), 0
    for one in recorded():
        attempt = start.fork()
        for name, arguments, result in one.calls():
            observation = attempt.act(name, arguments)
            text = observation.content
            if observation.error:
                text = f"Error: {text.partition('): ')[2]}"
            assert parsed(text) == parsed(result), (name, arguments)
            count += 1
    assert count == 621


def test_another_database_is_refused() -> None:
    data = str(shared_folder("environments", "tau-bench-v1"))
    with pytest.raises(ValueError, match=r"has the hash 4a02dcbc0e3a.* and abc is wanted"):
        ServiceWorld.of([tau_bench_airline], 0, {"taubenchairline": {"data": data, "hash": "abc"}})
