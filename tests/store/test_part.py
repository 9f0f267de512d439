"""Parts of a chain are read without the rest, live and sealed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.records import AttemptStarted, Body, Observation, Step, StepAdded
from assay.store import RunStore, seal

pytestmark = pytest.mark.quick
Fill = Callable[..., None]
Chain = Callable[..., list[Body]]


def long_run(root: Path, chain: Chain) -> None:
    """A chain of many row groups between two short ones."""
    with RunStore.create(root, "r", {}) as store:
        blob = store.blobs.put(b"x")
        text = "output " * 4000
        steps = [StepAdded(Step(n, "agent", observations=(Observation(f"{n} {text}"),))) for n in range(400)]
        for number in range(3):
            bodies = chain(blob, number)
            store.append(f"c{number}", [*bodies[:2], *(steps if number == 1 else ()), *bodies[2:]])


@pytest.mark.long
def test_a_part_of_a_chain_is_the_same_live_and_sealed(tmp_path: Path, chain: Chain) -> None:
    long_run(tmp_path, chain)
    bounds = ((0, 3), (150, 153), (395, 1000), (7, 7), (1000, 2000))
    with RunStore.open(tmp_path, "r") as store:
        live = [list(store.part("c1", *each)) for each in bounds]
        assert live == [list(store.links("c1"))[start:stop] for start, stop in bounds]
    seal(tmp_path, "r")
    with RunStore.open(tmp_path, "r") as store:
        assert [list(store.part("c1", *each)) for each in bounds] == live
        assert list(store.part("absent", 0, 9)) == []


def test_a_part_of_a_sealed_chain_reads_few_row_groups(tmp_path: Path, chain: Chain) -> None:
    long_run(tmp_path, chain)
    seal(tmp_path, "r")
    with RunStore.open(tmp_path, "r") as store:
        sealed = store.sealed
        assert sealed.group_count("events") > 4
        overlapping = [g for g in range(sealed.group_count("events")) if sealed._overlaps(g, "c1", 200, 203)]
    assert len(overlapping) <= 3


def test_the_row_of_one_chain_is_the_one_of_all(tmp_path: Path, fill: Fill) -> None:
    fill()
    for _ in range(2):
        with RunStore.open(tmp_path, "r") as store:
            rows = {row.chain: row for row in store.attempts()}
            assert {chain: store.row(chain) for chain in rows} == rows
            assert store.row("absent") is None
        seal(tmp_path, "r")


def test_attempts_at_a_task_are_those_of_all(tmp_path: Path, chain: Chain) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        for number in range(3):
            store.append(f"c{number}", chain(store.blobs.put(b"x"), number))
        other = AttemptStarted("r", "o", 'wants "t"', "blake3:" + "2" * 64, "t", None, 0, 0, at=9.0)
        store.append("other", [other])
    for _ in range(2):
        with RunStore.open(tmp_path, "r") as store:
            every = [row for row in store.attempts() if row.task == "t"]
            assert store.attempts_at("t", every[0].task_digest) == every
            assert store.attempts_at("t", "blake3:" + "2" * 64) == []
            assert [row.chain for row in store.attempts_at(other.task, other.task_digest)] == ["other"]
        seal(tmp_path, "r")
