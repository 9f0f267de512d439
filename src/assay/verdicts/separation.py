"""The grades of separation between the process that decides and the code that it judges.

A grade is built and then recorded by whoever started the deciding process; observation afterwards can only lower it.
`grade_of` is a pure function of that record: a fact that is missing makes `unknown`, a fact that speaks against
separation makes `same-user`, and nothing makes a grade better than the record shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import get_args

from assay.records import LoadFacts, MountFact, SandboxFacts, Separation, SeparationFacts

SEPARATIONS: tuple[Separation, ...] = get_args(Separation)
"""All grades, strongest first; `unknown` is the weakest: what was not observed is never taken for more."""
NAMESPACES = ("user", "pid", "mnt", "ipc", "net")
TIERS = ("namespaces", "bubblewrap", "docker", "podman")
"""Tiers whose sandboxes are namespaces of the kernel; any other is never `separate`."""
OWN_DESCRIPTORS = frozenset({"control", "null", "oom_score"})
DEVICES = frozenset(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""Devices that hold no bytes of one writer for another reader."""


def weakest(grades: Iterable[Separation]) -> Separation:
    """Returns the weakest of some grades; `unknown` for none."""
    return max(grades, key=SEPARATIONS.index, default="unknown")


def meets(grade: Separation, required: Separation) -> bool:
    """Returns whether a grade is at least as strong as what is required."""
    return SEPARATIONS.index(grade) <= SEPARATIONS.index(required)


def grade_of(facts: SeparationFacts) -> Separation:
    """Returns `separate`, `same-user` or `unknown` for the sandboxes of one judgement.

    `separate` needs, for the judge and each judged sandbox: five namespaces of its own; a judge that was started from
    the declared image and stands on no layer that an agent wrote; no file system that one can write and the other see;
    no descriptor but the declared pipes. Observation of the judge's processes, where it was asked for, only lowers, as
    does text that a judged program printed to the judge and the reference solution's does not print.
    """
    grade = _grade_of_sandboxes(facts)
    if facts.reference_difference:
        grade = weakest([grade, "same-process"])
    return grade if facts.loads is None else weakest([grade, _most_by_loads(facts.loads, grade)])


def _most_by_loads(loads: LoadFacts, grade: Separation) -> Separation:
    """Returns the most that a grade can be, by what processes of the judge's sandbox loaded of the agent's.

    `separate` hangs on the observation where it is asked for. A lower grade says that nothing keeps the two apart,
    which holds unobserved as well. A reader counts only as the program that lay at its path before the first command.
    """
    roles = {role for role, number in loads.counts.items() if number}
    roles |= {load.role for load in loads.loads} | {process.role for process in loads.tainted}
    readers = [load for load in loads.loads if load.role == "reader"]
    if "judge" in roles or any(load.digest != loads.readers.get(load.program, load.digest) for load in readers):
        return "same-process"
    are_listed = all(load.digest and load.program in loads.readers for load in readers)
    is_whole = are_listed and loads.complete and loads.load_total == len(loads.loads)
    if meets(grade, "separate") and not is_whole:
        return "unknown"
    return "same-user" if "agent" in roles else "separate"


def _grade_of_sandboxes(facts: SeparationFacts) -> Separation:
    boxes = (facts.judge, *facts.judged)
    if not facts.judged or facts.judged_total != len(facts.judged) or not all(map(_is_complete, boxes)):
        return "unknown"
    if facts.image is None:
        return "unknown"
    holds = (
        all(box.tier in TIERS for box in boxes)
        and facts.judge.image == facts.image
        and not facts.judge.state_layers
        and facts.judge.handed_over.get("pipe", 0) <= facts.pipes
        and _holds_pipes_alone(facts.judge, beside={"local_listener"})
        and all(_holds_pipes_alone(box) for box in facts.judged)
        and all(_is_apart(facts.judge, box) for box in facts.judged)
    )
    return "separate" if holds else "same-user"


def _is_complete(box: SandboxFacts) -> bool:
    """Returns whether every fact was observed and every list is as long as its total says."""
    present = (
        box.tier is not None
        and box.image is not None
        and box.writable is not None
        and None not in (box.uid, box.gid)
        and all((box.uid_map, box.gid_map, box.layers))
    )
    lists = (
        box.mount_total == len(box.mounts) > 0
        and box.layer_total == len(box.layers)
        and box.state_total == len(box.state_layers)
        and box.descriptor_total == len(box.descriptors)
        and box.handed_total == sum(box.handed_over.values())
    )
    return present and lists and set(NAMESPACES) <= box.namespaces.keys()


def _holds_pipes_alone(box: SandboxFacts, beside: AbstractSet[str] = frozenset()) -> bool:
    """Returns whether commands got pipes alone; beside them a judge may ask its own host over a listener."""
    return set(box.descriptors) <= OWN_DESCRIPTORS and set(box.handed_over) <= {"pipe", *beside}


def _is_apart(judge: SandboxFacts, judged: SandboxFacts) -> bool:
    """Returns whether two sandboxes share no namespace, no layer that was written, and no file system to write."""
    if any(judge.namespaces[name] == judged.namespaces[name] for name in NAMESPACES):
        return False
    written = {*judged.state_layers, judged.writable}
    if written & {*judge.layers, judge.writable} or judge.writable in judged.layers:
        return False
    return not any(_is_channel(one, other) for one in judge.mounts for other in judged.mounts)


def _is_channel(one: MountFact, other: MountFact) -> bool:
    """Returns whether what is written through one of two mounts can be seen through the other."""
    if one.device != other.device or (one.read_only and other.read_only) or {one.target, other.target} <= DEVICES:
        return False
    return _is_inside(one.root, other.root) or _is_inside(other.root, one.root)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
