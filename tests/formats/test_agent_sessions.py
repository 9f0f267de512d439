"""Sessions that the harnesses wrote themselves: what is read out of them, and out of one made live."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.agents.harnesses import find_recipe
from assay.agents.harnesses.install import installed_or_none
from assay.environments.interface import Backend
from assay.formats.interface import ImportedTrajectory
from assay.records import ModelCall, ModelCalled
from assay.settings import Settings
from scripts.session_files import session_files
from tests.formats.agents import ALL, SESSIONS, comes_back, imported, steps_of

ACTED = [
    ("codex", "codex/*.jsonl", "exec_command", 0),
    ("claude-code", "claude-code-sub-agent/[0-9a-f]*-*.jsonl", "Bash", None),
    ("mini-swe-agent", "mini-swe-agent/*.json", "bash", 0),
    ("pi", "pi/*.jsonl", "bash", None),
    ("openhands", "openhands", "terminal", 0),
]


def _one(name: str, pattern: str) -> ImportedTrajectory:
    (path,) = (p for p in SESSIONS.glob(pattern) if not p.name.startswith("agent-"))
    (one,), bad = imported(ALL[name], path)
    assert not bad
    return one


def _calls(one: ImportedTrajectory) -> list[ModelCall]:
    return [body.call for body in one.bodies if isinstance(body, ModelCalled)]


@pytest.mark.parametrize(("name", "pattern", "tool", "good"), ACTED, ids=lambda value: str(value))
def test_a_session_tells_what_was_said_done_and_observed(name: str, pattern: str, tool: str, good: int | None) -> None:
    one = _one(name, pattern)
    agent = [step for step in steps_of(one) if step.actor == "agent"]
    assert (agent[0].message, agent[0].reasoning) == ("This is turn 0.", "I think, therefore I write.")
    assert agent[0].tool_calls[0].name == tool
    assert "echo turn-0 >> log.txt" in (agent[0].tool_calls[0].parsed or {}).values()
    assert agent[0].observations[0].exit_code == good
    failed = next(s for s in agent if any("turn-1" in call.arguments for call in s.tool_calls)).observations[0]
    assert "said" in failed.content
    assert failed.exit_code == (None if name == "pi" else 3)
    assert agent[-1].message == "All is done."
    told = [step.message for step in steps_of(one) if step.actor == "user"]
    assert any("Write the lines that you are told to write." in (text or "") for text in told)


@pytest.mark.parametrize(("name", "pattern", "tool", "good"), ACTED, ids=lambda value: str(value))
def test_a_session_tells_its_model_calls(name: str, pattern: str, tool: str, good: int | None) -> None:
    one = _one(name, pattern)
    calls = _calls(one)
    assert len(calls) == sum(step.actor == "agent" for step in steps_of(one))
    assert all(call.usage.prompt_tokens and call.usage.completion_tokens for call in calls)
    assert one.started.model in {"scripted", "openai/scripted"}
    assert one.started.agent == name


def test_calls_made_at_once_are_one_turn_with_their_own_answers() -> None:
    for name, pattern in (("codex", "codex/*.jsonl"), ("pi", "pi/*.jsonl"), ("openhands", "openhands")):
        step = next(s for s in steps_of(_one(name, pattern)) if len(s.tool_calls) == 2)
        assert [o.call_id for o in step.observations] == [call.id for call in step.tool_calls]


def test_a_sub_agents_session_names_its_parent() -> None:
    both = [imported(ALL["codex"], path)[0][0] for path in (SESSIONS / "codex-sub-agent").glob("*.jsonl")]
    meta = [one.started.config["imported"]["fields"]["meta"] for one in both]
    assert {m.get("parent_thread_id") for m in meta} == {
        None,
        next(m["id"] for m in meta if "parent_thread_id" not in m),
    }
    (inner,) = (SESSIONS / "claude-code-sub-agent").glob("agent-*.jsonl")
    (one,), _ = imported(ALL["claude-code"], inner)
    assert {step.actor for step in steps_of(one)} == {"user", "agent"}
    assert "agentId" in one.started.config["imported"]["fields"]["session"]


def test_a_call_that_is_no_json_is_kept_as_it_was() -> None:
    one = _one("claude-code", "claude-code/*.jsonl")
    (broken,) = (call for step in steps_of(one) for call in step.tool_calls if call.id == "call_broken")
    assert broken.arguments.startswith('{"command":"echo broken')
    assert broken.parsed is None
    assert broken.error is not None


def test_a_turn_that_was_dropped_is_a_call_without_a_turn() -> None:
    one = _one("mini-swe-agent", "mini-swe-agent-malformed/*.json")
    (dropped,) = (call for call in _calls(one) if call.error)
    assert dropped.id not in {step.call for step in steps_of(one)}
    assert "call_broken" in str(dropped.response)


LIVE = [
    ("codex", "codex", "openai-responses"),
    ("claude-code", "claude-code", "anthropic-messages"),
    ("mini-swe-agent", "mini-swe-agent", "openai-chat"),
    ("pi", "pi", "openai-chat"),
    ("openhands", "openhands-sdk", "openai-chat"),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "harness", "dialect"), LIVE)
async def test_a_session_made_now_is_read(
    name: str, harness: str, dialect: str, sandboxes: Backend, tmp_path: Path
) -> None:
    if installed_or_none(Settings.from_environment().cache, find_recipe(harness)) is None:
        pytest.skip(f"{harness} is not installed: run `assay agents install {harness}`")
    files = await session_files(sandboxes, harness, dialect, "plain")
    for path, data in files.items():
        place = tmp_path / "session" / ("events" if "/events/" in path else "") / Path(path).name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    found = tmp_path / "session" if name == "openhands" else next((tmp_path / "session").glob("*.json*"))
    (one,) = comes_back(ALL[name], found, tmp_path)
    said = [step.message for step in steps_of(one) if step.actor == "agent"]
    assert said == ["This is turn 0.", "This is turn 1.", "All is done."]
