"""The best grade of separation that each tier reaches, as the page on isolation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace.bubblewrap import BubblewrapBackend
from assay.environments.workspace.engine import PodmanBackend
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.process import ProcessBackend
from assay.environments.workspace.toolchain import ToolLayer
from assay.errors import EnvironmentFailure
from assay.records import SeparationFacts
from assay.verdicts import grade_of

PAGE = Path(__file__).parents[2] / "docs/explanation/isolation.md"


async def grade(backend: Backend) -> str:
    """Grades a judge on the image against a sandbox on what an agent wrote."""
    try:
        agent = await backend.open(WorkspaceSpec())
        await agent.exec("echo mine > answer")
        judged = await backend.open(WorkspaceSpec(), state=await agent.snapshot())
        judge = await backend.open(WorkspaceSpec(user="verifier"))
        facts = await judge.facts(), await judged.facts()  # type: ignore[attr-defined]
    except EnvironmentFailure as exc:
        pytest.skip(f"{backend.name} does not work here: {exc}")
    finally:
        await backend.close()
    return grade_of(SeparationFacts(facts[0], facts[1:], 1, WorkspaceSpec().image.digest))


@pytest.mark.long
async def test_namespaces_and_bubblewrap_are_separate(toolchain: ToolLayer) -> None:
    assert await grade(NamespacesBackend()) == "separate"
    assert await grade(BubblewrapBackend(toolchain=toolchain)) == "separate"


@pytest.mark.long
@pytest.mark.docker
async def test_an_engine_that_shares_its_user_namespace_is_same_user(toolchain: ToolLayer) -> None:
    assert await grade(PodmanBackend(toolchain=toolchain)) == "same-user"


async def test_bubblewrap_observes_what_a_judge_opens(toolchain: ToolLayer) -> None:
    backend = BubblewrapBackend(toolchain=toolchain)
    try:
        judge = await backend.open(WorkspaceSpec(user="verifier"))
        await judge.exec("echo true > a")
        await judge.observe_loads(("/workspace/a",), "/workspace")  # type: ignore[attr-defined]
        await judge.exec("cat /workspace/a; . ./a")
        facts = await judge.loads()  # type: ignore[attr-defined]
    except EnvironmentFailure as exc:
        pytest.skip(f"{backend.name} does not work here: {exc}")
    finally:
        await backend.close()
    assert (facts.complete, facts.counts) == (True, {"reader": 1, "judge": 1}), facts.problem


async def test_plain_processes_are_never_separate() -> None:
    assert await grade(ProcessBackend()) in {"same-user", "unknown"}


def test_the_page_on_isolation_names_each_tier() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in rows}
    assert named["`namespaces`"] == named["`bubblewrap`"] == "`separate`"
    assert named["`podman`, `docker`"].startswith("`same-user`")
