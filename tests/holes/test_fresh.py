"""The verifiers that were written without a look at the cheats: the measured result, and a sample of it run again.

`make campaign` also runs the sound twin of the quick battery; sound tasks are admitted in test_admitted.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assay.tasks import load_task
from tests.sampling import WHOLE

from .attempts import oracle, run_probes
from .fresh_verifiers import FRESH, RESULTS, Measured, admit_folders, folders_of, with_wrong_solution

HOLED, SOUND = folders_of("holed"), folders_of("sound")


class Results(msgspec.Struct, frozen=True):
    commit: str
    verifiers: tuple[Measured, ...]


def measured(side: str) -> list[Measured]:
    results = msgspec.json.decode(RESULTS.read_bytes(), type=Results)
    return [one for one in results.verifiers if one.task.startswith(side)]


def test_the_result_is_of_these_very_folders() -> None:
    tasks = {one.task.id: one.task.digest for one in map(load_task, (*HOLED, *SOUND))}
    assert {one.task: one.digest for side in ("holed", "sound") for one in measured(side)} == tasks
    assert (len(HOLED), len(SOUND)) == (8, 12)


def test_six_of_eight_holes_are_found_and_no_sound_verifier_is_flagged() -> None:
    assert sum(one.result != "clean" for one in measured("holed")) >= 6
    assert [one.task for one in measured("sound") if one.is_flagged] == []


def test_the_default_battery_takes_fewer_than_40_attempts() -> None:
    assert [one.task for one in (*measured("holed"), *measured("sound")) if one.attempts >= 40] == []


@pytest.mark.parametrize("folder", [*HOLED, *SOUND], ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_fresh_folder_has_no_fault_that_lint_finds(folder: Path) -> None:
    loaded = load_task(folder)
    assert loaded.warnings == ()
    assert (FRESH / "wrong" / f"{folder.name}.sh").exists() == (FRESH / "holed" / folder.name).exists()


@pytest.mark.long
async def test_a_holed_verifier_accepts_the_wrong_solution_and_the_sound_one_does_not(tmp_path: Path) -> None:
    names = [folder.name for folder in HOLED][:: 3 if WHOLE else 7]
    tasks = [with_wrong_solution(FRESH / side / n, tmp_path / side / n) for side in ("holed", "sound") for n in names]
    found = await run_probes([oracle(load_task(task), "default") for task in tasks], tmp_path / "store")
    outcomes = {name.partition("@")[0]: ended.outcome for name, ended in found.items()}
    assert outcomes == {
        f"{side}/{n}": "pass" if side == "holed" else "fail" for side in ("holed", "sound") for n in names
    }


@pytest.mark.skipif(not WHOLE, reason="part of `make campaign`; test_admitted runs the quick battery")
def test_a_quick_battery_refuses_an_empty_answer_that_is_paid_and_its_sound_twin_passes(tmp_path: Path) -> None:
    expected = {"holed": "refused", "sound": "clean"}
    folders = [FRESH / side / "orders-to-json" for side in expected]
    found = admit_folders(folders, tmp_path, "--quick", "--n", "1", "--concurrency", "4")
    assert [one.result for one in found.values()] == [*expected.values()]
