"""`assay synth` counts the reasons of dropped candidates, and keeps tasks that other options made."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assay.cli.synthesis_options import OPTIONS_FILE, record_options
from assay.errors import UserError
from assay.synthesis import count_reasons
from assay.synthesis.config import SynthesisConfig
from assay.synthesis.report import DroppedCandidate

pytestmark = pytest.mark.quick


def dropped(gate: str, *reasons: str) -> list[DroppedCandidate]:
    return [DroppedCandidate(f"c{n}", "operator", (), (), (), gate, reason) for n, reason in enumerate(reasons)]


def test_reasons_that_differ_in_numbers_are_one_with_their_range() -> None:
    found = count_reasons(
        [
            *dropped("survived", "all 46 tests pass", "all 17 tests pass", "all tests pass", "all 50 tests pass"),
            *dropped("split", "2 of 3 tests", "2 of 4 tests", "12"),
        ]
    )
    assert [(one.gate, one.reason, one.candidates) for one in found] == [
        ("survived", "all 17 to 50 tests pass", 3),
        ("survived", "all tests pass", 1),
        ("split", "2 of 3 to 4 tests", 2),
        ("split", "12", 1),
    ]


def test_tasks_made_with_other_options_are_not_replaced(tmp_path: Path) -> None:
    config = SynthesisConfig(source="p", out=str(tmp_path / "tasks"))
    record_options(config)
    record_options(msgspec.structs.replace(config, seed=3))  # nothing was made yet
    (tmp_path / "tasks" / "manifest.json").touch()
    record_options(msgspec.structs.replace(config, seed=3, concurrency=7))
    with pytest.raises(UserError, match="made with other values of kinds, seed: name a new folder"):
        record_options(msgspec.structs.replace(config, kinds=("operator",)))
    (tmp_path / "tasks" / OPTIONS_FILE).unlink()
    with pytest.raises(UserError, match="nothing says how they were made"):
        record_options(config)
