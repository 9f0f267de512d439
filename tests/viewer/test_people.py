"""Notes and tags by people, clusters of failures, and the curves of trainings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from assay.errors import UserError
from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded, Noted, Verdict, VerdictAdded
from assay.store import RunStore, audit, seal
from assay.viewer.failures import cluster_failures
from assay.viewer.interface import view_name
from assay.viewer.notes import add_annotation, annotations_of_attempt, annotations_of_run, fold_annotations
from assay.viewer.server import open_viewer
from assay.viewer.training import MOST_POINTS, training_curves
from assay.viewer.views import make_view
from scripts.showcase import make_showcase
from tests.viewer import made

pytestmark = pytest.mark.newest
CHAIN = "made/t@loop-small-0.0"
NAME = view_name("run", "r", "attempt", CHAIN, "annotations")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number in range(3):
            store.append(*made.attempt("r", "made/t", number, passed=number == 2))
    return tmp_path


def note(root: Path, **body: Any) -> None:
    add_annotation(root, NAME, json.dumps(body).encode())


@pytest.mark.parametrize("sealed", ["before", "after", "never"])
def test_notes_and_tags_are_events_of_the_chain(root: Path, sealed: str) -> None:
    if sealed == "before":
        seal(root, "r")
    note(root, text="Reads the test's name.", tags=["Suspicious ", "hard"])
    note(root, untagged=["hard"], tags=["checked"])
    if sealed == "after":
        seal(root, "r")
    found = annotations_of_attempt(root, "r", CHAIN)
    assert (found["tags"], found["notes"][0]["text"]) == (["suspicious", "checked"], "Reads the test's name.")
    assert annotations_of_run(root, "r")["attempts"] == {CHAIN: {"tags": ["suspicious", "checked"], "notes": 1}}
    assert audit(root, "r") == ()


@pytest.mark.parametrize(
    "body", [b"{", b'{"text": 7}', b"{}", b'{"text": " "}', b'{"other": 1}', b'{"tags": ["a\\u202eb"]}',
             json.dumps({"tags": ["x" * 61]}).encode(), json.dumps({"tags": [str(n) for n in range(21)]}).encode(),
             json.dumps({"text": "x" * 8001}).encode(), b"[" * 9000]
)  # fmt: skip
def test_an_invalid_note_is_refused(root: Path, body: bytes) -> None:
    with pytest.raises(UserError):
        add_annotation(root, NAME, body)
    assert annotations_of_run(root, "r")["attempts"] == {}


def test_an_open_attempt_gets_no_note(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append(CHAIN, [AttemptStarted("r", "made/t@0", "t", "d", "loop", None, 0, 0)])
    with pytest.raises(UserError, match="has not ended"):
        note(tmp_path, text="x")


def test_hostile_notes_of_a_record_are_bounded() -> None:
    notes = [
        Noted("annotation", {"text": ["x"], "tags": "abc", "by": 7}),
        Noted("annotation", {"tags": [1, "a" * 999]}),
    ]
    assert fold_annotations(notes) == {"tags": ["a" * 60], "notes": []}


class Asked:
    """Requests to a viewer that takes notes."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session

    async def post(
        self, origin: str | None = None, kind: str = "application/json", body: bytes = b'{"text":"x"}'
    ) -> int:
        headers = {"Content-Type": kind} | ({} if origin is None else {"Origin": origin})
        address = URL(f"{self.url}data/{NAME}", encoded=True)
        return (await self.session.post(address, data=body, headers=headers)).status


@pytest.fixture
async def asked(root: Path) -> AsyncIterator[Asked]:
    async with open_viewer(root, notes=True) as viewer, aiohttp.ClientSession() as session:
        yield Asked(viewer.url, session)


async def test_notes_come_from_our_own_pages_alone(root: Path, asked: Asked) -> None:
    own = asked.url.rpartition("/")[0].rpartition("/")[0]
    assert await asked.post() == 403
    assert await asked.post("https://evil.example") == 403
    assert await asked.post(own, kind="text/plain") == 403
    assert await asked.post(own, body=b'{"text": "' + b"x" * 20_000 + b'"}') == 413
    assert annotations_of_run(root, "r")["attempts"] == {}
    assert await asked.post(own) == 200
    assert annotations_of_run(root, "r")["attempts"] == {CHAIN: {"tags": [], "notes": 1}}


async def test_a_viewer_takes_notes_only_where_it_was_asked_to(root: Path) -> None:
    async with open_viewer(root) as viewer, aiohttp.ClientSession() as session:
        answer = await session.post(viewer.url + "data/x", data=b"{}")
        assert answer.status == 405


def test_failures_stand_in_clusters_with_examples(root: Path) -> None:
    found = cluster_failures(root, "r")
    assert (found["attempts"], found["failed"], found["examined"]) == (3, 2, 2)
    reasons = [one for one in found["clusters"] if one["source"] == "reason"]
    assert [(one["name"], one["attempts"]) for one in reasons] == [("# of # tests failed: test_lib.py::test_add", 2)]
    assert [one["chain"] for one in reasons[0]["examples"]] == [CHAIN, "made/t@loop-small-1.0"]


def test_an_example_whose_id_is_a_digest_is_named_by_its_task(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number, name in enumerate(("i9b3c9", "9@1")):
            started = AttemptStarted("r", name, "9", "d", "unknown", None, 0, number, at=1.0)
            verdict = Verdict("tests", "outcome", "fail", 0.0, "late")
            store.append(f"{name}.0", [started, VerdictAdded(verdict), AttemptEnded("it ended", at=2.0)])
    (reason,) = [one for one in cluster_failures(tmp_path, "r")["clusters"] if one["source"] == "reason"]
    assert sorted(one["attempt"] for one in reason["examples"]) == ["9@0", "9@1"]


def test_marks_and_endings_are_clusters_of_all_failures(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number in range(400):
            started = AttemptStarted("r", f"t@{number}", "t", "d", "loop", None, 0, number, at=1.0)
            verdict = Verdict("tests", "outcome", "fail", 0.0, "late", marks=("time_limit",))
            store.append(f"t@{number}.0", [started, VerdictAdded(verdict), AttemptEnded(stopped="wall_s", at=2.0)])
    found = cluster_failures(tmp_path, "r")
    largest = {(one["source"], one["name"]): one["attempts"] for one in found["clusters"]}
    assert largest["mark", "time_limit"] == largest["ending", "stopped: wall_s"] == 400
    assert found["examined"] == largest["reason", "late"] == 300


def test_a_training_has_its_curves(tmp_path: Path) -> None:
    found = training_curves(make_showcase(tmp_path / "s"), "duration-rl-0-training")
    (stage,) = found["stages"]
    assert (stage["name"], stage["steps"], len(stage["curves"]["loss"])) == ("policy_gradient", 40, 40)
    assert "version" not in stage["curves"]
    assert [point["step"] for point in found["evaluations"]] == [10, 20, 30, 40]


def test_a_training_s_lag_interval_and_dropped_attempts_are_curves(tmp_path: Path) -> None:
    (stage,) = training_curves(make_showcase(tmp_path / "s"), "duration-rl-0-training")["stages"]
    curves = stage["curves"]
    assert all(0.5 < lag <= 1.1 for _, lag in curves["lag"])
    assert all(low < success < high for _, success, low, high in curves["success"])
    assert not {"success_low", "success_high"} & curves.keys()
    assert [step for step, stale in curves["stale"] if stale] == list(range(5, 41, 5))


@pytest.mark.parametrize(
    ("dropped", "stale", "every"),
    [({"stale": 2, "unknown version": 1, "timeout": 4}, 3, 7), ({}, 0, 0), ({"stale": "x", "a": True}, 0, 0)],
)
def test_dropped_attempts_are_counted_by_whether_their_weights_were_old(
    tmp_path: Path, dropped: Any, stale: float, every: float
) -> None:
    started = AttemptStarted("t", "t@trainer", "t", "d", "trainer", None, 0, 0)
    with RunStore.create(tmp_path, "t", {"training": {}}) as store:
        store.append(
            "t@trainer",
            [started, EvidenceAdded(Evidence("policy_gradient 1", "audit", "training", {"dropped": dropped}))],
        )
    (stage,) = training_curves(tmp_path, "t")["stages"]
    assert stage["curves"] == {"dropped": [[1, every]], "stale": [[1, stale]]}


def test_long_and_hostile_trainings_are_thinned(tmp_path: Path) -> None:
    odd = {"loss": 1.0, "text": "<b>", "big": 10**400, "flag": True, "deep": {"x": 1}}
    bodies = [EvidenceAdded(Evidence(f"sft {n}", "audit", "training", odd | {"loss": n / 7})) for n in range(2000)]
    with RunStore.create(tmp_path, "t", {"training": {}}) as store:
        started = AttemptStarted("t", "t@trainer", "t", "d", "trainer", None, 0, 0)
        store.append("t@trainer", [started, EvidenceAdded(Evidence("no number", "audit", "training", odd)), *bodies])
    curves = json.loads(make_view(tmp_path, "run/t/training") or b"")["stages"][0]["curves"]
    assert list(curves) == ["loss"]
    assert (len(curves["loss"]), curves["loss"][0], curves["loss"][-1][0]) == (MOST_POINTS, [0, 0.0], 1999)
