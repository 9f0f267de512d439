"""Records and grades the separation of a deciding sandbox from those in which judged code ran.

A check that opens a sandbox for its judge and others for the agent's code calls `read_facts` for each before it closes
it, and cites the record with `cite_separation`. The grade is computed from that evidence alone (`verdicts.grade_of`).

A judge in whose sandbox files of the agent's can be opened is observed (`observe_loads`, `read_loads`). Observation is
left out where no such file is in the sandbox by construction (splicing, calls on fresh inputs, scripts without declared
outputs).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from assay.environments.capabilities import DescribesSeparation, ObservesLoads
from assay.environments.interface import Session, Workspace
from assay.errors import EnvironmentFailure
from assay.records import LoadFacts, SandboxFacts, Separation, SeparationFacts
from assay.verdicts import grade_of
from assay.verify.cited_evidence import CitedEvidence


async def read_facts(workspace: Session) -> SandboxFacts:
    """Returns the tier's facts about a sandbox; empty facts, graded `unknown`, if it observes nothing."""
    return await workspace.facts() if isinstance(workspace, DescribesSeparation) else SandboxFacts()


async def observe_loads(workspace: Workspace, paths: Iterable[str]) -> None:
    """Starts to observe which of the agent's files the commands of a judge load, if the tier can."""
    if isinstance(workspace, ObservesLoads):
        await workspace.observe_loads(tuple(paths), workspace.spec.workdir)


async def read_loads(workspace: Workspace) -> LoadFacts:
    """Ends the observation and returns its record, which is incomplete if events were missed."""
    if not isinstance(workspace, ObservesLoads):
        return LoadFacts(problem="this tier observes nothing")
    try:
        return await workspace.loads()
    except (EnvironmentFailure, OSError) as exc:
        return LoadFacts(problem=str(exc)[:200])


def cite_separation(
    cited: CitedEvidence,
    judge: SandboxFacts,
    judged: Iterable[SandboxFacts],
    *,
    image: str,
    pipes: int = 0,
    loads: LoadFacts | None = None,
    difference: str = "",
) -> Separation:
    """Adds the evidence `separation` and returns the grade that follows from it.

    Args:
        cited: Receives the evidence.
        judge: Facts about the sandbox whose process decides; taken after its last command, so that every descriptor
            that it was given counts.
        judged: Facts about every sandbox in which code that the agent wrote ran.
        image: Digest of the image that the judge has to be started from.
        pipes: Number of pipe ends that the judge received from the check.
        loads: Observation of the judge's processes; None where they can open no file of the agent's.
        difference: First difference of the text that the judge read of judged programs from the reference solution's;
            empty if both are equal, or it read nothing.
    """
    boxes = tuple(judged)
    facts = SeparationFacts(judge, boxes, len(boxes), image, pipes, loads, difference)
    cited.add("audit", "separation", msgspec.to_builtins(facts))
    return grade_of(facts)


async def cite_open_sandboxes(
    cited: CitedEvidence,
    judge: Session,
    judged: Iterable[Session],
    *,
    image: str,
    pipes: int = 0,
    loads: LoadFacts | None = None,
    difference: str = "",
) -> Separation:
    """Adds the evidence for sandboxes that are still open and returns the grade."""
    facts = [await read_facts(box) for box in judged]
    return cite_separation(
        cited, await read_facts(judge), facts, image=image, pipes=pipes, loads=loads, difference=difference
    )
