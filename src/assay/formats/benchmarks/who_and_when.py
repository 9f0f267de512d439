"""Who&When: runs of several agents that failed, each with the agent and the step that a person found decisive.

Position i of `history` is step i, so that `mistake_step` needs no mapping. Who spoke is in `Step.extra["name"]`; a
`Computer_terminal`, which runs the code that agents write, is the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.errors import UserError
from assay.formats.interface import Imported, Provenance, Reading, Writing
from assay.formats.shared.building import Building
from assay.formats.shared.labels import add_label
from assay.formats.shared.messages import content_text
from assay.formats.shared.mirrored import is_object, origin_of, text_or_none
from assay.formats.shared.reading import Bad, at_place, document
from assay.formats.shared.sniffing import sniff
from assay.records import Actor, Trajectory, VerdictStatus

__all__ = ["WhoAndWhenFormat"]

_LABELS = ("mistake_agent", "mistake_step", "mistake_reason", "labels")
_EXIT = re.compile(r"exitcode: (-?\d{1,9}) \(")
_PEOPLE = {"human", "user"}


class WhoAndWhenFormat:
    """See the module."""

    name: ClassVar[str] = "who-and-when"
    title: ClassVar[str] = "Who&When failure attribution"
    provenance: ClassVar[Provenance] = "recorded"
    writes: ClassVar[bool] = False

    def recognises(self, path: Path) -> bool:
        seen = sniff(path)
        return is_object(seen) and seen.has("history[].content") and seen.has("mistake_agent", "mistake_step")

    def read(self, path: Path, reading: Reading) -> Iterator[Imported]:
        bad = at_place(reading, path.name)
        found = document(path)
        history = found.get("history") if isinstance(found, dict) else None
        if not isinstance(history, list):
            bad("history", "expected a list of messages")
            return
        built = Building(origin_of(self.name, path), reading)
        for position, message in enumerate(history):
            _turn(built, message, bad, f"history[{position}]")
        built.fields = {key: value for key, value in found.items() if key not in {"history", *_LABELS}}
        _label(built, found, bad)
        correct = found.get("is_correct", found.get("is_corrected"))
        if isinstance(correct, bool):
            status: VerdictStatus = "pass" if correct else "fail"
            built.verdict(status, float(correct), "as recorded by Who&When")
        else:
            built.verdict("unknown", None, "Who&When does not say whether the answer was correct")
        task = text_or_none(found.get("question_ID")) or path.stem
        yield built.done(task, task=task)

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: Writing) -> None:
        """Does not write."""
        raise UserError("Who&When is a labelled data set and is only read")


def _turn(built: Building, message: Any, bad: Bad, where: str) -> None:
    """A message; what is none keeps its place, so that positions stay those of the labels."""
    if not isinstance(message, dict):
        bad(where, f"expected a message, found {type(message).__name__}")
        built.step("environment", extra={"unreadable": True})
        return
    text = content_text(message.get("content")) or ""
    name = text_or_none(message.get("name")) or text_or_none(message.get("role")) or ""
    extra = {key: value for key, value in message.items() if key != "content"} | {"name": name}
    if name == "Computer_terminal":
        code = _EXIT.match(text)
        exit_code = int(code[1]) if code else None
        seen = built.observation(text, None, exit_code=exit_code, error=bool(exit_code))
        built.step("environment", None, observations=(seen,), extra=extra)
        return
    actor: Actor = "user" if name.lower() in _PEOPLE else "agent"
    built.step(actor, text, extra=extra)


def _label(built: Building, found: dict[str, Any], bad: Bad) -> None:
    told = {key: found[key] for key in _LABELS if key in found}
    step = found.get("mistake_step")
    number = int(step) if isinstance(step, str) and step.isdecimal() and len(step) < 9 else step
    inside = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < len(built.steps)
    if inside:
        told |= {"steps": [number], "actor": found.get("mistake_agent")}
    else:
        bad("mistake_step", f"{step!r} is no position in a history of {len(built.steps)} messages")
    add_label(built, "who-and-when", told)
