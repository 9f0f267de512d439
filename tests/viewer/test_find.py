"""A text is found in the steps of live and sealed runs alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.records import AttemptEnded, Observation, Step, StepAdded, ToolCall
from assay.store import RunStore, seal
from assay.viewer.find import MOST_HITS, find_text
from tests.viewer.made_runs import started

pytestmark = pytest.mark.quick
SAID = 'He said "Grüße\nan alle" <b>\u202e'


def recorded(root: Path) -> None:
    call = ToolCall("c", "shell", '{"command": "grep NEEDLE"}', {"command": "grep NEEDLE"})
    steps = [
        Step(0, "agent", SAID, reasoning="so"),
        Step(1, "agent", tool_calls=(call,), observations=(Observation("a needle", "c", stderr="no Needle"),)),
    ]
    with RunStore.create(root, "r", {}) as store:
        store.append("pkg/t@0.0", [started("r", 0), *map(StepAdded, steps), AttemptEnded("done", at=2.0)])


@pytest.fixture(params=["live", "sealed"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    recorded(tmp_path)
    if request.param == "sealed":
        seal(tmp_path, "r")
    return tmp_path


def test_every_place_is_told_whatever_the_case(store: Path) -> None:
    hits = find_text(store, "r", "nEEdle")["hits"]
    assert {hit["step"] for hit in hits} == {1}
    assert {hit["place"] for hit in hits} == {"arguments", "output", "error"}
    assert {hit["attempt"] for hit in hits} == {"pkg/t@0"}


@pytest.mark.parametrize("text", ['"Grüße\nan', "<b>\u202e", "GRÜSSE".lower().replace("ss", "ß")])
def test_texts_that_json_writes_otherwise_are_found(store: Path, text: str) -> None:
    (hit,) = find_text(store, "r", text)["hits"]
    assert (hit["step"], hit["place"]) == (0, "message")
    assert text.lower() in hit["excerpt"].lower()


def test_a_word_is_found_in_itself(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        store.append("pkg/t@0.0", [started("r", 0), StepAdded(Step(0, "agent", "before ΦΩΣAND after"))])
    assert len(find_text(tmp_path, "r", "ΦΩΣ")["hits"]) == 1


def test_what_is_nowhere_is_no_hit(store: Path) -> None:
    assert find_text(store, "r", "nowhere") == {"text": "nowhere", "hits": [], "cut": False}


def test_hits_are_bounded(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        steps = [StepAdded(Step(n, "agent", "again")) for n in range(MOST_HITS + 5)]
        store.append("pkg/t@0.0", [started("r", 0), *steps])
    found = find_text(tmp_path, "r", "again")
    assert (len(found["hits"]), found["cut"]) == (MOST_HITS, True)
