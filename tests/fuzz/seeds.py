"""What fuzzing starts from: the requests of real harnesses and the streams of real servers, from the tests."""

from __future__ import annotations

import json

from assay.gateway.dialects import RequestTarget
from tests.gateway import test_anthropic, test_streamed_replies
from tests.gateway.dialects import test_anthropic_messages, test_gemini, test_openai_chat, test_openai_responses

TARGETS: dict[str, RequestTarget] = {
    "anthropic-messages": test_anthropic_messages.MESSAGES,
    "openai-responses": test_openai_responses.RESPONSES,
    "gemini": test_gemini.STREAM,
    "openai-chat": test_openai_chat.CHAT,
}
_BODIES = {
    "anthropic-messages": test_anthropic_messages.CLAUDE,
    "openai-responses": test_openai_responses.CODEX,
    "gemini": test_gemini.CLI,
    "openai-chat": test_openai_chat.QWEN,
}
SEEDS: dict[str, list[bytes]] = {name: [json.dumps(body).encode()] for name, body in _BODIES.items()} | {
    "chat-stream": [b"".join(test_streamed_replies.ANSWER), *test_streamed_replies.ANSWER],
    "message-stream": [b"".join(test_anthropic.STREAM)],
}
