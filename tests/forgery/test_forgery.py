"""No forgery passes, by either check; the honest solution does; doing nothing fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sampling import WHOLE, draw_sample

pytestmark = pytest.mark.long
FORGERIES = sorted(path.stem for path in (Path(__file__).parent / "attacks").glob("*.sh"))
PLANTED = {
    "planted_conftest": "conftest",
    "planted_sitecustomize": "start_up_hook",
    "planted_usercustomize": "start_up_hook",
    "planted_pth": "start_up_hook",
    "pytest_options": "pytest_configuration",
    "project_options": "pytest_configuration",
    "replaced_pytest": "shadowed_module",
    "shadowed_stdlib": "shadowed_module",
    "preseeded_reward": "verifier_paths",
}
MARKED = {mark: name for name, mark in PLANTED.items()}
"""One of each kind of what is planted is always tried; `make campaign` tries all forgeries."""
UNDONE = PLANTED if WHOLE else {name: mark for mark, name in MARKED.items()}
ATTACKS = sorted({*UNDONE, *draw_sample([name for name in FORGERIES if name not in PLANTED], 3)})
HONEST = ["honest", "honest_and_untidy", "honest_with_conftest"]


def test_there_are_enough() -> None:
    assert len(FORGERIES) >= 20
    assert set(PLANTED) <= set(FORGERIES)
    assert not WHOLE or ATTACKS == FORGERIES


@pytest.mark.parametrize("check", ["script", "pytest"])
@pytest.mark.parametrize("name", ATTACKS)
def test_forgery_does_not_pass(judged: dict[str, Any], name: str, check: str) -> None:
    verdict = judged[name].verdicts[check]
    assert verdict.status in ("fail", "unknown"), verdict
    assert judged[name].outcome in ("fail", "unknown")
    assert verdict.reason
    assert verdict.verifier


@pytest.mark.parametrize("check", ["script", "pytest"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_work_passes(judged: dict[str, Any], name: str, check: str) -> None:
    verdict = judged[name].verdicts[check]
    assert (verdict.status, verdict.score) == ("pass", 1.0), verdict


@pytest.mark.parametrize("check", ["script", "pytest"])
@pytest.mark.parametrize("name", ["nothing", "half"])
def test_unfinished_work_fails(judged: dict[str, Any], name: str, check: str) -> None:
    assert judged[name].verdicts[check].status == "fail"


@pytest.mark.parametrize("name", UNDONE)
def test_what_was_planted_is_named(judged: dict[str, Any], name: str) -> None:
    for verdict in judged[name].verdicts.values():
        assert UNDONE[name] in verdict.marks


@pytest.mark.parametrize("name", ["nothing", "honest", "planted_conftest"])
def test_verdicts_cite_evidence_that_is_there(judged: dict[str, Any], name: str) -> None:
    ids = {found.id for found in judged[name].evidence}
    for verdict in judged[name].verdicts.values():
        assert verdict.evidence
        assert set(verdict.evidence) <= ids
