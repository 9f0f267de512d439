"""Was an output that an agent's context no longer held needed later?

An attempt that cut its own context records which outputs it dropped (evidence `context_dropped`). Of the same output in
an attempt at the same task that passed, it is known whether a later act cites it: whether an argument holds a word that
this output was the first to show. Where no passing attempt saw the output, it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from assay.records import Trajectory, digest_bytes

_WORD = re.compile(r"\w{3,}")
KIND = "context_dropped"


class DroppedOutputs(NamedTuple):
    """Outputs that one attempt dropped."""

    dropped: int
    known: int
    """Those that a passing attempt saw as well."""
    needed: int
    """Of the known, those that it cited later."""


def cited_outputs(trajectory: Trajectory, instruction: str = "") -> dict[str, bool]:
    """Returns for the digest of each output whether a later act's argument has a word that it was the first to show."""
    seen = set(_WORD.findall(instruction.lower()))
    first_at: dict[str, str] = {}
    cited: dict[str, bool] = {}
    for step in trajectory.steps:
        for call in step.tool_calls:
            words = set(_WORD.findall(call.arguments.lower()))
            for word in words & first_at.keys():
                cited[first_at[word]] = True
            seen |= words
        for observation in step.observations:
            digest = digest_bytes(observation.content.encode("utf-8", "replace"))
            cited.setdefault(digest, False)
            new = set(_WORD.findall(observation.content.lower())) - seen
            first_at |= dict.fromkeys(new, digest)
            seen |= new
    return cited


def dropped_outputs(trajectory: Trajectory) -> list[str]:
    """Returns the digests of the outputs that an attempt dropped, each once."""
    names = {
        name
        for item in trajectory.evidence
        if item.kind == KIND and isinstance(item.data.get("calls"), list)
        for name in item.data["calls"]
        if isinstance(name, str)
    }
    found = {
        observation.call_id: observation.content
        for step in trajectory.steps
        for observation in step.observations
        if observation.call_id in names
    }
    return list(dict.fromkeys(digest_bytes(text.encode("utf-8", "replace")) for text in found.values()))


def count_dropped(trajectory: Trajectory, passing: Iterable[dict[str, bool]]) -> DroppedOutputs:
    """Counts an attempt's dropped outputs by what passing attempts cited (`cited_outputs` of each)."""
    dropped = dropped_outputs(trajectory)
    known: dict[str, bool] = {}
    for cited in passing:
        for digest in dropped:
            if digest in cited:
                known[digest] = known.get(digest, False) or cited[digest]
    return DroppedOutputs(len(dropped), len(known), sum(known.values()))
