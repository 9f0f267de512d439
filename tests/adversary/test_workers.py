"""Lying workers, hostile frames and lying edits in real sandboxes; the same hands pass with the right answer."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from assay.verdicts import NOT_CONFIRMED
from tests.adversary.attempts import Row, make_attempts
from tests.adversary.bar import breaches, undeserved
from tests.adversary.campaign import assign
from tests.adversary.conftest import SEED
from tests.adversary.workers import frame_scripts, lie_scripts, lying_edits, right_answer_by_hand

pytestmark = pytest.mark.long
EACH = 1


@pytest.fixture(scope="module")
def layer_rows(base_folders: dict[str, Path]) -> list[Row]:
    """Rows of a few scripts of each layer, and of the control."""
    chance = random.Random(SEED)
    chosen = [right_answer_by_hand()]
    for scripts in (lie_scripts(), frame_scripts(), lying_edits()):
        chosen += chance.sample(list(scripts), EACH)
    return asyncio.run(make_attempts(assign(chosen, base_folders)))


def test_lies_and_frames_are_never_paid(layer_rows: list[Row]) -> None:
    assert not breaches(layer_rows)
    assert not list(undeserved(layer_rows))


def test_right_answer_by_the_same_hands_passes_from_outside(layer_rows: list[Row]) -> None:
    (control,) = [row for row in layer_rows if row.deserves_pass]
    check = control.checks["pytest"]
    assert (check.status, check.separation, NOT_CONFIRMED in check.marks) == ("fail", "separate", True), check


def test_layers_cover_every_function() -> None:
    targets = {script.name.partition("-")[0] for script in (*lie_scripts(), *frame_scripts(), *lying_edits())}
    assert targets == {"lie", "frame", "edit"}
    assert len({script.name for script in (*lie_scripts(), *frame_scripts(), *lying_edits())}) > 400
