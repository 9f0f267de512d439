"""Which certificate counts, and which is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.errors import StoreError, UserError
from assay.records import Noted
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.admitted import find_certificates, require_admitted
from assay.settings import Settings
from assay.store import RunStore, seal
from assay.tasks import LoadedTask
from tests.admission.worlds import Bare, Whole, world_task

pytestmark = pytest.mark.quick
GOOD, BAD = world_task(Whole), world_task(Bare, expected=0, name="bad")


async def admitted(root: Path, task: LoadedTask, run: str, **fields: Any) -> None:
    config = AdmitConfig(tasks=("-",), run=run, **fields)
    await admit(config, Settings(cache=root / "cache", store=root), Tally(), tasks=[task])


async def test_a_whole_battery_counts_before_a_later_quick_one(tmp_path: Path) -> None:
    await admitted(tmp_path, GOOD, "whole")
    await admitted(tmp_path, GOOD, "quick", quick=True)
    (held,) = find_certificates(tmp_path, [GOOD.task.digest]).values()
    assert (held.run, held.certificate.quick) == ("whole", False)


async def test_of_equals_the_newest_counts(tmp_path: Path) -> None:
    for run in ("one", "two"):
        await admitted(tmp_path, GOOD, run, quick=True)
    (held,) = find_certificates(tmp_path, [GOOD.task.digest]).values()
    assert held.run == "two"


async def test_a_run_names_the_certificates_that_it_rests_on(tmp_path: Path) -> None:
    await admitted(tmp_path, GOOD, "whole", quick=True)
    config = RunConfig(tasks=("-",), agent="null", run="r", admitted=True)
    await start_run(config, Settings(cache=tmp_path / "cache", store=tmp_path), Tally(), tasks=[GOOD])
    with RunStore.open(tmp_path, "r") as store:
        (named,) = store.manifest()["certificates"].values()
    (held,) = find_certificates(tmp_path, [GOOD.task.digest]).values()
    assert tuple(named) == (held.run, held.chain, held.head)


async def test_a_task_that_was_not_admitted_is_refused_with_what_to_ask(tmp_path: Path) -> None:
    await admitted(tmp_path, BAD, "a", quick=True)
    await admitted(tmp_path, GOOD, "b", quick=True)
    with pytest.raises(UserError, match=r"1 of 2 tasks are not admitted.*\n  bad: not admitted; assay query"):
        require_admitted(tmp_path, [GOOD, BAD])


async def test_a_sealed_admission_counts_as_well(tmp_path: Path) -> None:
    await admitted(tmp_path, GOOD, "a", quick=True)
    seal(tmp_path, "a")
    assert set(require_admitted(tmp_path, [GOOD])) == {"world"}


async def test_a_certificate_whose_attempts_changed_is_none(tmp_path: Path) -> None:
    await admitted(tmp_path, GOOD, "a", quick=True)
    with RunStore.open(tmp_path, "a", write=True) as store:
        store.append("world@null.nothing.0", [Noted("afterwards")])
    with pytest.raises(StoreError, match=r"the attempts behind the certificate of .* have changed"):
        require_admitted(tmp_path, [GOOD])


def test_a_store_without_admissions_admits_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no certificate for the current version of the task"):
        require_admitted(tmp_path, [GOOD])
