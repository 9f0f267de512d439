"""Answers that an agent submitted to questions about a world of services, compared as data.

A cell is a number, a text, a date or a time; an answer is a table of cells, whose rows have no order unless the
question asks for one. A wrong answer earns credit for each record on the way to the right one that the agent found: 0.4
to the power of its distance from the answer, summed, as in ExCyTIn-Bench (arXiv:2507.14201). A record counts as found
where the agent named it in a call that succeeded, by the world's own log.

Covered: a number written with thousands separators or another number of decimals, texts in another case; a number of
any size, and arguments of any depth, are judged without an error. Not covered:
an answer that was guessed, and a record that was named by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, NamedTuple

import msgspec

from assay.environments.services.net_changes import RowChange
from assay.environments.services.ticket import ANSWERS
from assay.errors import TaskError
from assay.verify._numbers import is_within
from assay.verify._ruling import Ruling
from assay.verify.cited_evidence import CitedEvidence

CREDIT: Final = 0.4
"""Credit of a record that is one read away from the answer; each read more multiplies it once."""

CellKind = Literal["number", "text", "date", "time"]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question and its answer."""

    request: int
    """Number of the request."""
    rows: tuple[tuple[str, ...], ...]
    """The right answer."""
    kinds: tuple[CellKind, ...]
    """Kind of each column."""
    is_ordered: bool = False
    """True if rows must come in this order."""
    tolerance: str = "0"
    """Largest difference of a number, as a decimal; above 0 only for ordered rows, or one row."""
    path: tuple[str, ...] = ()
    """Identifiers of the records that lead to the answer, the nearest to the answer last."""


class SubmittedParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the check `answer` in a world of services."""

    questions: tuple[Question, ...]


class _Graded(NamedTuple):
    """How a question was answered."""

    request: int
    problem: str
    """Empty if the answer is right."""
    score: float


def rule_submitted(given: SubmittedParameters, name: str, facts: Mapping[str, Any], cited: CitedEvidence) -> Ruling:
    """Returns the ruling on the answers in the facts of a world, all of which must be right.

    Raises:
        TaskError: The parameters are invalid; the message names the check.
    """
    questions = given.questions
    if not questions:
        raise TaskError(f"check {name!r} asks no question: add [[checks.parameters.questions]]")
    if "changes" not in facts or not isinstance(facts.get("calls"), list | tuple):
        return Ruling("unknown", None, "the world does not report its changes and calls")
    try:
        answers = _submitted(facts["changes"])
    except msgspec.MsgspecError as exc:
        return Ruling("unknown", None, f"the answers in the world's report cannot be read: {exc}")
    named = set(_named(facts["calls"]))
    graded = [_grade(question, answers.get(question.request), named, name) for question in questions]
    shown = [{**one._asdict(), "given": answers.get(one.request)} for one in graded]
    cited.add("state", "answers", {"questions": shown})
    score = sum(one.score for one in graded) / len(graded)
    if wrong := [one for one in graded if one.problem]:
        return Ruling("fail", score, "; ".join(f"question {one.request}: {one.problem}" for one in wrong[:3]))
    return Ruling("pass", 1.0, f"all {len(graded)} questions are answered rightly")


def _submitted(changes: Any) -> dict[int, list[list[str]]]:
    """Returns the answers by number of their question. Raises `msgspec.MsgspecError`."""
    found: dict[int, list[list[str]]] = {}
    for change in msgspec.convert(changes, tuple[RowChange, ...]):
        if change.table == ANSWERS and change.after is not None:
            number = msgspec.convert(change.after.get("request"), int)
            found[number] = msgspec.json.decode(str(change.after.get("rows")), type=list[list[str]])
    return found


def _named(calls: Sequence[Any]) -> Iterator[str]:
    """Yields the texts in arguments of the agent's calls that succeeded."""
    for call in calls:
        if isinstance(call, Mapping) and call.get("role") == "agent" and call.get("code") is None:
            yield from _texts(call.get("arguments"))


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]  # not recursive: the agent chooses the depth
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)


def _grade(question: Question, given: list[list[str]] | None, named: set[str], name: str) -> _Graded:
    problem = "it was not answered" if given is None else _compare(question, given, name)
    if not problem:
        return _Graded(question.request, "", 1.0)
    distances = range(len(question.path), 0, -1)
    credit = sum(CREDIT**k for k, record in zip(distances, question.path, strict=True) if record in named)
    return _Graded(question.request, problem, credit)


def _compare(question: Question, given: list[list[str]], name: str) -> str:
    """Returns what is wrong with an answer, '' if nothing."""
    wanted = [_read_row(question, row) for row in question.rows]
    if any(row is None for row in wanted):
        raise TaskError(f"check {name!r}: a right answer to question {question.request} does not fit its kinds")
    found = [_read_row(question, row) for row in given]
    if any(row is None for row in found):
        return f"each row has {len(question.kinds)} cells: {', '.join(question.kinds)}"
    if len(found) != len(wanted):
        return f"the answer has {len(found)} rows and not {len(wanted)}"
    tolerance = _decimal(question.tolerance)
    if tolerance is None or tolerance < 0 or (tolerance and not question.is_ordered and len(wanted) > 1):
        raise TaskError(f"check {name!r}: the tolerance of question {question.request} is for one row or ordered rows")
    if not question.is_ordered and len(wanted) > 1:
        return "" if Counter(found) == Counter(wanted) else "the answer has other rows"
    pairs = [pair for one, two in zip(wanted, found, strict=True) for pair in zip(one or (), two or (), strict=True)]
    return "" if all(_is_same(one, two, tolerance) for one, two in pairs) else "the answer is another value"


def _is_same(one: str | Decimal, two: str | Decimal, tolerance: Decimal) -> bool:
    return is_within(one, two, tolerance) if isinstance(one, Decimal) and isinstance(two, Decimal) else one == two


def _read_row(question: Question, row: Sequence[str]) -> tuple[str | Decimal, ...] | None:
    """Returns the cells in comparable form; None if one is not of its kind, or there are too many or too few."""
    if len(row) != len(question.kinds):
        return None
    cells = [_read_cell(kind, cell.strip()) for kind, cell in zip(question.kinds, row, strict=True)]
    return None if any(cell is None for cell in cells) else tuple(cell for cell in cells if cell is not None)


def _read_cell(kind: CellKind, text: str) -> str | Decimal | None:
    if kind == "number":
        return _decimal(text.replace(",", ""))
    if kind == "text":
        return " ".join(text.casefold().split())
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return f"{when:%Y-%m-%d}" if kind == "date" else f"{when:%Y-%m-%dT%H:%M}"


def _decimal(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
