"""A published set of passes, imported and judged: the runs that read the fix in the future history count no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli.tables import summarise_runs
from assay.rollout.audit.config import AuditConfig
from assay.rollout.audit.stored import audit_run
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings
from assay.store import load_current_verdicts

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "agentlens-bench" / "trajectories" / "astropy__astropy-13236"


@pytest.mark.long
def test_a_pass_that_read_the_fix_is_doubtful_with_the_steps_cited(tmp_path: Path) -> None:
    if not FOLDER.is_dir():
        pytest.skip(f"the shared data are not here: {FOLDER}")
    import_paths(ImportConfig((str(FOLDER),), run="r"), Settings(tmp_path, tmp_path))
    report = audit_run(tmp_path, "r", AuditConfig())
    (doubtful,) = (card for card in report.cards if card.outcome == "pass" and not card.trusted_pass)
    assert doubtful.headline == "pass (integrity failed)"
    (found,) = (f for f in doubtful.findings if f.rule == "future-history" and f.reach == "obtained")
    assert {26, 27, 28, 29} & set(found.steps)
    assert load_current_verdicts(tmp_path, "r")[doubtful.chain].integrity == "fail"
    by_model = {group.model: group for group in summarise_runs(tmp_path, ["r"])}
    assert sum(group.doubtful for group in by_model.values()) == 1
    assert audit_run(tmp_path, "r", AuditConfig()).added == 0
