"""The tool loop against a real server on the loopback interface: the two halves meet only through `attempt.ask`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.agents.loop import LoopAgent
from assay.agents.testing import FakeAttempt, FakeTools
from assay.gateway.backends._retry import ClientOptions
from assay.gateway.backends.openai_chat import OpenAIChatBackend

pytestmark = pytest.mark.quick


def calling(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    return {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1}}


async def test_a_task_is_solved_through_busy_and_full_servers(upstream: Any, kinds: Any) -> None:
    upstream.answers(
        kinds.says(200, calling("look", {})),
        kinds.says(429, {"error": {"message": "busy"}}, {"Retry-After": "0"}),
        kinds.says(200, calling("look", {})),
        kinds.says(400, {"error": {"message": "maximum context length is 9 tokens"}}),
        kinds.says(200, calling("finish", {"message": "seen"})),
    )
    backend = OpenAIChatBackend("m", upstream.url, options=ClientOptions(back_off_s=0.001))
    attempt = FakeAttempt(backend=backend, tools=FakeTools({"look": lambda a: "x" * 500}))
    await LoopAgent(keep_outputs=1).run(attempt)
    assert (attempt.ended, [bool(call.error) for call in attempt.calls]) == ("seen", [False, False, True, False])
    assert [len(m["content"]) for m in upstream.bodies[-1]["messages"] if m["role"] == "tool"][1] == 500
    assert attempt.evidence[0].kind == "context_dropped"
    await backend.close()
