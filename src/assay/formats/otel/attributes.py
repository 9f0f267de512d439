"""Names of the semantic conventions for generative AI that an export of a record and the spans of a live run share."""

from __future__ import annotations

from typing import Any

from assay.records import ModelCall

OPERATION, AGENT, MODEL = "gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.request.model"
PROVIDER, CONVERSATION = "gen_ai.provider.name", "gen_ai.conversation.id"
TOOL_NAME, TOOL_TYPE, TOOL_CALL = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
EVALUATION = "gen_ai.evaluation.result"
COST = "gen_ai.usage.cost"
"""Attribute of a call's cost in US dollars, which the conventions lack and several tools write."""


def usage_attributes(call: ModelCall) -> dict[str, Any]:
    """Returns tokens and cost of a call; None for what is unknown."""
    return {
        "gen_ai.usage.input_tokens": call.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": call.usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.usage.cached_tokens,
        "gen_ai.usage.reasoning.output_tokens": call.usage.reasoning_tokens,
        COST: call.cost_usd,
    }
