"""Records how far a deciding sandbox is from those in which judged code ran, and grades it.

A check that opens a sandbox for its judge and others for what the agent wrote asks `facts_of` each before it closes it,
and cites the record with `cite_separation`: the grade is computed from that evidence alone (`verdicts.grade_of`).

A judge in whose sandbox files of the agent's can be opened is observed (`observe_loads`, `loads_of`). Observation is
left out where no such file is in the sandbox by construction (splicing, calls on fresh inputs, scripts without declared
outputs).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.code.shell_evaluation import find_folder_evaluations, is_script_file
from assay.environments.capabilities import DescribesSeparation, ObservesLoads
from assay.environments.interface import Session, Workspace
from assay.errors import EnvironmentFailure
from assay.records import LoadFacts, SandboxFacts, Separation, SeparationFacts
from assay.verdicts import grade_of
from assay.verify._evidence import Cited

__all__ = [
    "OutputInfluence",
    "cite_separation",
    "describe_evaluations",
    "describe_influence",
    "facts_of",
    "graded",
    "loads_of",
    "observe_loads",
]


HEAD_BYTES, MOST_FILES, MOST_FILE = 256, 200, 1 << 20
"""Bytes that are read of any file, number of scripts, and bytes of one script."""
_IN_IMAGE = "the script is in the verifier's image, where it is not looked at"


class OutputInfluence(NamedTuple):
    """Ways in which what judged programs printed may act on a script (`SeparationFacts`)."""

    unconfirmed_inputs: tuple[str, ...] = ()
    evaluations: tuple[str, ...] = ()


def describe_influence(influence: OutputInfluence) -> tuple[str, ...]:
    """Returns why the separation is lower, for a verdict's reason."""
    files, lines = influence
    notes = []
    if files:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        notes.append(
            f"the script lent {files[0][:200]}{more}, whose name may follow from what a judged program printed "
            "(`inputs` declares what every judged program may have)"
        )
    if lines:
        notes.append(f"the script may evaluate text that a judged program printed: {lines[0][:300]}")
    return tuple(notes)


def describe_evaluations(folder: Path | None, *, programs: Iterable[str], interpreter: str) -> tuple[str, ...]:
    """Returns where scripts of a tests folder may evaluate what judged programs print, a line for each place.

    It reads files and takes up to seconds: call it in a thread.
    """
    if folder is None:
        return (_IN_IMAGE,)
    files: dict[str, bytes] = {}
    unread, count = "", 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES)
            if is_script_file(name, data):
                count += 1
                data += file.read(MOST_FILE)
                unread = name if count > MOST_FILES or len(data) > MOST_FILE else unread
        files[name] = data
    if unread:
        return (f"{unread}: not all of the scripts of the tests folder is looked at",)
    return tuple(one.describe() for one in find_folder_evaluations(files, programs, interpreter))


async def facts_of(workspace: Session) -> SandboxFacts:
    """Returns what the tier observed of a sandbox; empty facts, which grade `unknown`, where it observes nothing."""
    return await workspace.facts() if isinstance(workspace, DescribesSeparation) else SandboxFacts()


async def observe_loads(workspace: Workspace, paths: Iterable[str]) -> None:
    """Begins to observe what the commands of a judge load of the agent's files, where the tier can."""
    if isinstance(workspace, ObservesLoads):
        await workspace.observe_loads(tuple(paths), workspace.spec.workdir)


async def loads_of(workspace: Workspace) -> LoadFacts:
    """Ends the observation and returns its record, which is incomplete where something was not observed."""
    if not isinstance(workspace, ObservesLoads):
        return LoadFacts(problem="this tier observes nothing")
    try:
        return await workspace.loads()
    except (EnvironmentFailure, OSError) as exc:
        return LoadFacts(problem=str(exc)[:200])


def cite_separation(
    cited: Cited,
    judge: SandboxFacts,
    judged: Iterable[SandboxFacts],
    *,
    image: str,
    pipes: int = 0,
    loads: LoadFacts | None = None,
    influence: OutputInfluence | None = None,
) -> Separation:
    """Adds the evidence `separation` and returns the grade that follows from it.

    Args:
        cited: Where the evidence goes.
        judge: Facts about the sandbox whose process decides; taken after its last command, so that every descriptor
            that it was given counts.
        judged: Facts about every sandbox in which code that the agent wrote ran.
        image: Digest of the image that the judge has to be started from.
        pipes: Number of pipe ends that the check handed to the judge.
        loads: Observation of the judge's processes; None where they can open no file of the agent's.
        influence: Ways in which what the judged programs printed may act on the judge.
    """
    boxes = tuple(judged)
    facts = SeparationFacts(judge, boxes, len(boxes), image, pipes, loads, *(influence or ()))
    cited.add("audit", "separation", msgspec.to_builtins(facts))
    return grade_of(facts)


async def graded(
    cited: Cited,
    judge: Session,
    judged: Iterable[Session],
    *,
    image: str,
    pipes: int = 0,
    loads: LoadFacts | None = None,
    influence: OutputInfluence | None = None,
) -> Separation:
    """Does the same for sandboxes that are still open."""
    facts = [await facts_of(box) for box in judged]
    return cite_separation(
        cited, await facts_of(judge), facts, image=image, pipes=pipes, loads=loads, influence=influence
    )
