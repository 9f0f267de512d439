"""Tells a model server that failed from a request that makes it fail, by asking again.

A failure of the server takes an attempt out of every rate, so a request that no server answers, made where the task is
not solved, would pay. The request of the failure that ended acting is asked once more: if it is answered, the server
had failed. If it fails again while a short question of our own is answered, the failure is the request's, and the
agent's. A server that gives no answer at all, is slow, overloaded or out of its limits is not told from one that has
failed: these depend on a request's length, too, and stay failures of infrastructure. What was asked and how it ended is
a note of the record (`asked_again`); neither request counts as the agent's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from assay.errors import AgentError, AssayError, ProviderError
from assay.gateway.interface import ModelRequest

from .recorded_attempt import ModelAccess

ASKED_AGAIN = "asked_again"
"""Note about requests that were made to tell whose failure it was: each `answered`, or its error."""

PATIENCE_S = 60.0
"""Seconds that each of the two answers may take; a server that is slower has failed."""
_OVERLOADED = (408, 425, 429, 503, 504, 529)
_QUESTION = ModelRequest([{"role": "user", "content": "Answer with the word yes."}])


async def attribute_model_failure(
    cause: AssayError | None, model: ModelAccess | None, note: Callable[[str, dict[str, object]], None]
) -> AssayError | None:
    """Returns the cause that ended acting; an `AgentError` in place of a server failure that its request brings
    about. `note` records what was asked."""
    if not isinstance(cause, ProviderError) or not isinstance(cause.request, ModelRequest) or model is None:
        return cause
    again = await _ask(model, cause.request)
    asked: dict[str, object] = {"error": str(cause), "the_same": _text(again)}
    if not isinstance(again, ProviderError) or again.status in (None, *_OVERLOADED) or again.retry_after_s is not None:
        note(ASKED_AGAIN, asked)
        return cause
    another = await _ask(model, _QUESTION)
    note(ASKED_AGAIN, {**asked, "another": _text(another)})
    if another is not None:
        return cause
    return AgentError(f"the model server answers other requests, and fails at this one whenever it is asked: {cause}")


def _text(failure: Exception | None) -> str:
    return "answered" if failure is None else str(failure) or type(failure).__name__


async def _ask(model: ModelAccess, request: ModelRequest) -> Exception | None:
    """Returns the failure of a request; None if it is answered."""
    try:
        async with asyncio.timeout(PATIENCE_S), model.slots:
            await model.backend.complete(request)
    except (AssayError, TimeoutError) as exc:
        return exc
    return None
