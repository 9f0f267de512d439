"""Records how far a deciding sandbox is from those in which judged code ran, and grades it.

A check that opens a sandbox for its judge and others for what the agent wrote asks `facts_of` each before it closes it,
and cites the record with `cite_separation`: the grade is computed from that evidence alone (`verdicts.grade_of`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from assay.environments.capabilities import DescribesSeparation
from assay.environments.interface import Session
from assay.records import SandboxFacts, Separation, SeparationFacts
from assay.verdicts import grade_of
from assay.verify._evidence import Cited

__all__ = ["cite_separation", "facts_of", "graded"]


async def facts_of(workspace: Session) -> SandboxFacts:
    """Returns what the tier observed of a sandbox; empty facts, which grade `unknown`, where it observes nothing."""
    return await workspace.facts() if isinstance(workspace, DescribesSeparation) else SandboxFacts()


def cite_separation(
    cited: Cited, judge: SandboxFacts, judged: Iterable[SandboxFacts], *, image: str, pipes: int = 0
) -> Separation:
    """Adds the evidence `separation` and returns the grade that follows from it.

    Args:
        cited: Where the evidence goes.
        judge: Facts about the sandbox whose process decides; taken after its last command, so that every descriptor
            that it was given counts.
        judged: Facts about every sandbox in which code that the agent wrote ran.
        image: Digest of the image that the judge has to be started from.
        pipes: Number of pipe ends that the check handed to the judge.
    """
    boxes = tuple(judged)
    facts = SeparationFacts(judge, boxes, len(boxes), image, pipes)
    cited.add("audit", "separation", msgspec.to_builtins(facts))
    return grade_of(facts)


async def graded(cited: Cited, judge: Session, judged: Iterable[Session], *, image: str, pipes: int = 0) -> Separation:
    """Does the same for sandboxes that are still open."""
    return cite_separation(
        cited, await facts_of(judge), [await facts_of(box) for box in judged], image=image, pipes=pipes
    )
