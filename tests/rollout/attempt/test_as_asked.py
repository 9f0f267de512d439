"""An attempt that is planned so is judged as its task asks: in the living sandbox, all of it recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.agents.interface import Attempt
from assay.agents.oracle import OracleAgent
from assay.store import RunStore, audit
from assay.tasks import load_task
from tests.holes.attempts import Attempted, Probe, run_probes

FOLDERS = Path(__file__).parents[2] / "tasks" / "harbor"
HOLED = Path(__file__).parents[2] / "holes" / "holed" / "daemon-overwrites"


class LateWriter:
    name = "late"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        # A new file of the same folder: `mv` from another file system removes the reward before it writes it.
        loop = "cd /logs/verifier; while :; do echo 1 > new; mv new reward.txt; sleep 0.02; done"
        await attempt.shell(f"setsid sh -c '{loop}' > /dev/null 2>&1 &")


async def both(folder: Path, store: Path) -> tuple[Attempted, Attempted]:
    loaded = load_task(folder)
    probes = [Probe(loaded, "late", LateWriter(), v) for v in ("default", "as_asked")]
    found = await run_probes(probes, store)
    assert audit(store, "holes") == ()
    return found[probes[0].id], found[probes[1].id]


async def test_what_passes_as_asked_fails_by_default(tmp_path: Path) -> None:
    default, asked = await both(HOLED, tmp_path)
    assert (default.outcome, asked.outcome) == ("fail", "pass")
    assert asked.verdict is not None
    assert "as_asked" in asked.verdict.marks
    with RunStore.open(tmp_path, "holes") as run:
        agents = sorted(row.agent for row in run.attempts())
        kinds = {e.kind for t in run.trajectories() for e in t.evidence if t.attempt.endswith("as_asked")}
    assert agents == ["late", "late+as-asked"]
    assert {"processes", "living", "verification", "execution", "reward", "snapshot"} <= kinds


@pytest.mark.long
@pytest.mark.parametrize("name", ["collect-state", "three-steps", "pytest-checks"])
async def test_other_kinds_of_tasks_are_judged_by_their_own_scripts(tmp_path: Path, name: str) -> None:
    probe = Probe(load_task(FOLDERS / name), "oracle", OracleAgent(), "as_asked")
    (found,) = (await run_probes([probe], tmp_path)).values()
    assert found.outcome == "pass", found
