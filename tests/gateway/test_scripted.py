from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ProviderError, UserError
from assay.gateway.backends.scripted import (
    Reply,
    Script,
    ScriptedBackend,
    ScriptedCall,
    ScriptedError,
    ScriptedRule,
    load_script,
)
from assay.gateway.interface import ModelBackend, ModelRequest

pytestmark = pytest.mark.quick


def asked(*contents: str, answered: int = 0) -> ModelRequest:
    told: list[dict[str, Any]] = [{"role": "assistant", "content": "x"}] * answered
    return ModelRequest(messages=[*told, *({"role": "user", "content": c} for c in contents)])


async def test_the_turn_decides_the_reply() -> None:
    backend = ScriptedBackend(["one", "two"])
    said = [(await backend.complete(asked("?", answered=n))).message["content"] for n in (0, 1, 0)]
    assert said == ["one", "two", "one"]
    assert isinstance(backend, ModelBackend)


@pytest.mark.parametrize(("after", "said"), [("last", "two"), ("cycle", "one")])
async def test_after_the_last_reply(after: Any, said: str) -> None:
    backend = ScriptedBackend(Script(replies=("one", "two"), after=after))
    assert (await backend.complete(asked("?", answered=2))).message["content"] == said


async def test_a_used_up_script_is_an_error() -> None:
    with pytest.raises(ProviderError, match="1 replies and was asked for number 2"):
        await ScriptedBackend(["one"]).complete(asked("?", answered=1))


async def test_rules_look_at_the_last_message() -> None:
    script = Script(rules=(ScriptedRule("err|fail", "stop"), ScriptedRule("^ok$", Reply(content="next"))), default="hm")
    backend = ScriptedBackend(script)
    said = [(await backend.complete(asked("fail", text))).message["content"] for text in ("ok", "a failure", "else")]
    assert said == ["next", "stop", "hm"]


async def test_no_rule_and_no_default_is_an_error() -> None:
    with pytest.raises(ProviderError, match="no rule of the script matches"):
        await ScriptedBackend(Script(rules=(ScriptedRule("a", "b"),))).complete(asked("zzz"))


async def test_a_function_may_answer_in_any_form() -> None:
    async def later(request: ModelRequest) -> dict[str, Any]:
        return {"tool_calls": [{"name": "shell", "arguments": {"command": "ls"}}, {"name": "x", "arguments": "{bad"}]}

    reply = await ScriptedBackend(later).complete(asked("?", answered=3))
    first, second = reply.message["tool_calls"]
    assert first == {
        "id": "call_3_0",
        "type": "function",
        "function": {"name": "shell", "arguments": '{"command":"ls"}'},
    }
    assert (second["id"], second["function"]["arguments"]) == ("call_3_1", "{bad")
    assert reply.finish_reason == "tool_calls"


async def test_usage_follows_the_documented_rule() -> None:
    call = ScriptedCall("shell", "x" * 9)
    reply = await ScriptedBackend([Reply(content="12345678", tool_calls=(call,))]).complete(asked("1234567", "12"))
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (4 + 1 + 4 + 0, 4 + 2 + 2)
    assert reply.raw["usage"] == {"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17}


async def test_a_scripted_failure_fails() -> None:
    backend = ScriptedBackend([Reply(error=ScriptedError("context_length_exceeded: too long", status=400))])
    with pytest.raises(ProviderError, match="too long") as caught:
        await backend.complete(asked("?"))
    assert (caught.value.status, caught.value.retryable) == (400, False)


@pytest.mark.parametrize("script", [lambda request: 1 / 0, lambda request: 3, lambda request: {"contents": "x"}])
async def test_a_broken_script_is_a_provider_error(script: Any) -> None:
    with pytest.raises(ProviderError, match="script scripted: "):
        await ScriptedBackend(script).complete(asked("?"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.json", '["hi", {"tool_calls": [{"name": "f", "arguments": {"a": 1}}]}]'),
        ("s.json", '{"replies": ["hi", {"tool_calls": [{"name": "f", "arguments": {"a": 1}}]}]}'),
        ("s.toml", 'replies = ["hi", {tool_calls = [{name = "f", arguments = {a = 1}}]}]'),
    ],
)
def test_script_files(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert load_script(file) == Script(replies=("hi", Reply(tool_calls=(ScriptedCall("f", {"a": 1}),))))


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("s.json", "{", "s.json"),
        ("s.json", "{}", "either `replies` or `rules`"),
        ("s.json", "[3]", r"\$\.replies\[0\]"),
        ("s.json", '{"rules": [{"match": "(", "reply": "x"}]}', "not a regular expression"),
        ("s.toml", "reply = 3", "unknown field `reply`; a script has replies, after, rules, default"),
        ("s.json", '[{"text": "hi"}]', "a reply has content, reasoning, tool_calls, finish_reason, error"),
        pytest.param("s.json", "[" * 100_000, "s.json", id="deep"),
    ],
)
def test_a_wrong_script_is_explained(tmp_path: Path, name: str, text: str, named: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(UserError, match=named):
        load_script(file)


@pytest.mark.skipif(find_spec("yaml") is not None, reason="PyYAML is installed here")
def test_yaml_without_its_package_is_explained(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("replies: [a]")
    with pytest.raises(UserError, match="install it, or write the script as JSON or TOML"):
        load_script(tmp_path / "s.yaml")


def test_a_missing_script_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="check the path"):
        load_script(tmp_path / "none.json")
