"""Recorded attempts that nodes read for their work, in a place to which others write, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.rollout.cluster.work_inputs import publish_inputs
from assay.store import RunStore
from tests.store.conftest import whole_chain
from tests.store.objects.simulated import SimulatedStore

pytestmark = pytest.mark.quick
CHAIN = "t.a.0.0"


def _store(folder: Path, number: int) -> RunStore:
    """Returns a run that has, under one name, the chain of the attempt with this number."""
    store = RunStore.create(folder, "r", {"what": "a test"})
    store.append(CHAIN, whole_chain(store.blobs.put(b"the whole output"), number, "r"))
    return store


async def test_inputs_that_are_there_already_are_taken_where_they_are_the_same(tmp_path: Path) -> None:
    place = SimulatedStore()
    with _store(tmp_path, 0) as store:
        await publish_inputs(place, "work", store, [CHAIN])
        before = dict(place.objects)
        await publish_inputs(place, "work", store, [CHAIN])
    assert place.objects == before


async def test_another_chain_that_was_there_before_under_the_name_is_refused(tmp_path: Path) -> None:
    place = SimulatedStore()
    with _store(tmp_path / "theirs", 1) as theirs, _store(tmp_path / "ours", 0) as ours:
        await publish_inputs(place, "work", theirs, [CHAIN])
        with pytest.raises(StoreError, match=rf"runs/work/inputs/{CHAIN} is not the chain '{CHAIN}'"):
            await publish_inputs(place, "work", ours, [CHAIN])
