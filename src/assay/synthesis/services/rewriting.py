"""Instructions in other words, by a model: kept only if the plan is read back from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from assay.errors import ProviderError
from assay.gateway.interface import ModelBackend, ModelReply, ModelRequest
from assay.records import Task

from .planned import PlannedTask, UnsuitableError, derive_task
from .reading_back import Misread, PlanReader
from .variants_config import RewriteConfig

_ASKED: Final = (
    "Rewrite the request below in other words, as one person might write it to another. Keep every name, number, date, "
    "amount, address and quoted text exactly as it is. Keep the order of the wishes, the verb of each, and one "
    "sentence for each. Add no wish, no condition and no fact, and leave none out. Answer with the rewritten request "
    "alone."
)


class Rejection(msgspec.Struct, frozen=True):
    """A rewrite that was rejected, or a task that cannot be rewritten."""

    task: str
    reason: str
    text: str = ""
    """The rewrite; empty where none was asked for."""


class RewriteReport(msgspec.Struct, frozen=True):
    """Result of rewriting tasks."""

    asked: int
    """Rewrites that the model was asked for."""
    kept: int
    """Tasks with a rewrite that was kept."""
    unsuitable: tuple[Rejection, ...]
    rejected: tuple[Rejection, ...]


class Rewrites(NamedTuple):
    """Kept tasks, and what became of the others."""

    tasks: tuple[Task, ...]
    report: RewriteReport


async def rewrite_tasks(tasks: Iterable[Task], backend: ModelBackend, config: RewriteConfig) -> Rewrites:
    """Asks a model for other words of each instruction, and keeps those from which the plan is read back.

    Raises:
        ProviderError: The model's server failed permanently on every request.
    """
    kept: list[Task] = []
    unsuitable: list[Rejection] = []
    rejected: list[Rejection] = []
    asked = 0
    failure: ProviderError | None = None
    for task in tasks:
        try:
            planned = PlannedTask(task)
            reader = PlanReader(planned)
        except UnsuitableError as exc:
            unsuitable.append(Rejection(task.id, str(exc)))
            continue
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": f"{_ASKED} {config.style}".strip()},
            {"role": "user", "content": planned.wording},
        ]
        for number in range(1, config.tries + 1):
            asked += 1
            try:
                reply = await backend.complete(ModelRequest(list(messages), [], {"temperature": 1.0}))
            except ProviderError as exc:
                failure = exc
                rejected.append(Rejection(task.id, f"the model failed: {str(exc)[:200]}"))
                continue
            text = _text(reply)
            try:
                _require_new(text, planned.wording)
                reader.read(text)
            except Misread as exc:
                rejected.append(Rejection(task.id, str(exc), text[:2000]))
                messages += [
                    {"role": "assistant", "content": text},
                    {"role": "user", "content": f"That is not the same request: {exc}. Write it again."},
                ]
                continue
            kept.append(_rewritten(planned, text, reply.model, number))
            break
    if failure is not None and not kept and all(one.reason.startswith("the model failed") for one in rejected):
        raise failure
    return Rewrites(tuple(kept), RewriteReport(asked, len(kept), tuple(unsuitable), tuple(rejected)))


def without_unreached(found: Rewrites, reached: Counter[str], attempts: int) -> Rewrites:
    """Returns the rewrites with which a follower reached the goal at least once."""
    lost = [task for task in found.tasks if not reached[task.id]]
    reason = f"the follower did not reach the goal in {attempts} attempts"
    more = tuple(Rejection(task.id, reason, str(task.instruction).partition("\n\n")[0][:2000]) for task in lost)
    tasks = tuple(task for task in found.tasks if reached[task.id])
    report = msgspec.structs.replace(found.report, kept=len(tasks), rejected=(*found.report.rejected, *more))
    return Rewrites(tasks, report)


def _text(reply: ModelReply) -> str:
    content = reply.message.get("content")
    lines = [line.strip() for line in (content if isinstance(content, str) else "").strip().splitlines()]
    return "\n".join(line for line in lines if line)


def _require_new(text: str, wording: str) -> None:
    if " ".join(text.split()).lower() == " ".join(wording.split()).lower():
        raise Misread("it is the original")


def _rewritten(planned: PlannedTask, text: str, model: str, number: int) -> Task:
    rewritten = {"model": model, "of": planned.task.digest, "asked": number}
    return derive_task(planned, "rewritten", instruction=planned.with_wording(text), metadata={"rewritten": rewritten})
