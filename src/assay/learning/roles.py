"""Token roles of prompts: which tokens are template, prompt, observation or warning.

No row is tokenized anew. A prompt is rendered again to attribute its tokens, and only if the result equals the recorded
tokens; otherwise they stay `unknown`. One difference is allowed: a record sorts the keys of the tools, so scaffolding
may differ in one place.

Limit: a template token that includes the first letter of a message counts as part of the message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ProviderError, boundary
from assay.gateway.tokens import AttributingRenderer, TokenAttribution, context_of
from assay.gateway.tokens.messages import tool_call_names
from assay.records import ModelCall, Step
from assay.store import restore_messages, restore_request

from .conversation import continued_call
from .rows import ACTION, OBSERVATION, PROMPT, TEMPLATE, UNKNOWN, WARNING

Roles = NDArray[np.uint8]


class HarnessMessages:
    """Distinguishes the harness's messages from the environment's."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        calls = [call for step in steps for call in step.tool_calls]
        self._refused_calls = {call.id for call in calls if call.error is not None}
        self._messages = {step.message for step in steps if step.actor in ("user", "environment")}

    def role(self, message: Mapping[str, Any]) -> int:
        """Returns the role of a message after the first action."""
        if message.get("role") == "tool":
            return WARNING if message.get("tool_call_id") in self._refused_calls else OBSERVATION
        return OBSERVATION if message.get("content") in self._messages else WARNING


def token_roles(found: TokenAttribution, harness: HarnessMessages, *, acted: bool) -> Roles:
    """Returns the roles of attributed tokens. `acted`: the agent acted before the first of the messages."""
    first = 0 if acted else next((i for i, m in enumerate(found.messages) if m["role"] == "assistant"), len(found.ids))
    by_message = [
        ACTION if message["role"] == "assistant" else PROMPT if place < first else harness.role(message)
        for place, message in enumerate(found.messages)
    ]
    bodies = zip(found.owners, found.body, strict=True)
    return np.array([by_message[owner] if body and owner >= 0 else TEMPLATE for owner, body in bodies], dtype=np.uint8)


def prompt_roles(
    calls: Mapping[str, ModelCall], call: ModelCall, renderer: AttributingRenderer | None, harness: HarnessMessages
) -> Roles:
    """Returns the roles of a call's new prompt tokens, those after `shared_tokens`; all unknown without a renderer."""
    new = list(call.prompt_token_ids or ())
    unknown = np.full(len(new), UNKNOWN, dtype=np.uint8)
    if renderer is None:
        return unknown
    try:
        with boundary(ProviderError, "the template does not take it"):
            found = _attribute_extension(calls, call, renderer)
            if found is not None and found.ids == new:
                return token_roles(found, harness, acted=True)
            request = restore_request(calls, call)
            found = renderer.attribute(request["messages"], request.get("tools") or [])
    except ProviderError:  # then it was not this template that told it
        return unknown
    if found is None:
        return unknown
    context = np.array(context_of(calls, call.id), dtype=np.int64)
    whole = _align_roles(np.array(found.ids, dtype=np.int64), context, token_roles(found, harness, acted=False))
    return unknown if whole is None else whole[call.shared_tokens :]


def _align_roles(ours: NDArray[np.int64], context: NDArray[np.int64], roles: Roles) -> Roles | None:
    """Returns the roles of `context` if it equals `ours` except for one run of scaffolding, else None."""
    most = min(len(ours), len(context))
    same = ours[:most] == context[:most]
    if len(ours) == len(context) == most and bool(same.all()):
        return roles
    begin = most if bool(same.all()) else int(np.argmin(same))
    same = ours[len(ours) - (most - begin) :][::-1] == context[len(context) - (most - begin) :][::-1]
    end = most - begin if bool(same.all()) else int(np.argmin(same))
    if begin == len(ours) - end or bool(np.any(roles[begin : len(ours) - end] != TEMPLATE)):
        return None
    between = np.full(len(context) - begin - end, TEMPLATE, dtype=np.uint8)
    return np.concatenate([roles[:begin], between, roles[len(ours) - end :]])


def _attribute_extension(
    calls: Mapping[str, ModelCall], call: ModelCall, renderer: AttributingRenderer
) -> TokenAttribution | None:
    """Attributes the new tokens of a call that extends its parent."""
    parent = continued_call(calls, call)
    if parent is None or parent.completion_token_ids is None:
        return None
    context = context_of(calls, parent.id)
    if call.shared_tokens != len(context) + len(parent.completion_token_ids):
        return None
    messages, end = restore_messages(calls, call), len(restore_messages(calls, parent)) + 1
    before, more = messages[:end], messages[end:]
    return renderer.attribute_extension(context, parent.completion_token_ids, more, tool_call_names(before))
