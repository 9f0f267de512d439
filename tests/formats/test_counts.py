"""Imported runs have the attempts, answers, tool calls, tokens and cost that a count of the files' own JSON gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.formats.registry import load_format
from assay.records import AttemptEnded, ModelCalled
from tests.formats.agents import ALL, SESSIONS, imported, steps_of


class Counts(NamedTuple):
    """What a file, or its import, holds."""

    attempts: int
    answers: int
    """Turns of the agent."""
    tool_calls: int
    prompt_tokens: int = 0
    completion_tokens: int = 0


def stored(name: str, paths: Sequence[Path]) -> Counts:
    runs = [run for path in paths for run in imported(load_format(name), path)[0]]
    steps = [step for run in runs for step in steps_of(run)]
    usages = [body.call.usage for run in runs for body in run.bodies if isinstance(body, ModelCalled)]
    return Counts(
        len(runs),
        sum(step.actor == "agent" for step in steps),
        sum(len(step.tool_calls) for step in steps),
        sum(usage.prompt_tokens or 0 for usage in usages if usage is not None),
        sum(usage.completion_tokens or 0 for usage in usages if usage is not None),
    )


def document(path: Path) -> Any:
    return json.loads(path.read_bytes())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def of_messages(messages: Iterable[dict[str, Any]]) -> tuple[int, int]:
    answers = [message for message in messages if message["role"] == "assistant"]
    return len(answers), sum(len(message.get("tool_calls") or ()) for message in answers)


def tau_bench(paths: Sequence[Path]) -> Counts:
    runs = [run for path in paths for run in document(path)]
    return Counts(len(runs), *of_messages(message for run in runs for message in run["traj"]))


def swe_agent(paths: Sequence[Path]) -> Counts:
    files = [document(path) for path in paths]
    turns = sum(len(file["trajectory"]) for file in files if "trajectory" in file)
    answers, calls = of_messages(m for file in files if "trajectory" not in file for m in file["history"])
    return Counts(len(paths), turns + answers, turns + calls)  # each turn is one action


def agentlens(paths: Sequence[Path]) -> Counts:
    states = [state for path in paths for state in document(path)["states"].values()]
    entries = [state for state in states if isinstance(state.get("log_entry"), dict)]
    known = [state["metadata"] for state in entries if isinstance(state.get("metadata"), dict)]
    known = [one for one in known if one.get("model")]
    tokens = (sum(one.get(key) or 0 for one in known) for key in ("input_tokens", "output_tokens"))
    return Counts(len(paths), len(entries), len(entries), *tokens)


def claude_code(paths: Sequence[Path]) -> Counts:
    answers = [line["message"] for path in paths for line in lines(path) if line["type"] == "assistant"]
    usages = {answer["id"]: answer["usage"] for answer in answers}  # one answer is a line for each of its parts
    prompts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Counts(
        len(paths),
        len(usages),
        sum(part["type"] == "tool_use" for answer in answers for part in answer["content"]),
        sum(usage.get(key) or 0 for usage in usages.values() for key in prompts),
        sum(usage["output_tokens"] for usage in usages.values()),
    )


def codex(paths: Sequence[Path]) -> Counts:
    payloads = [line["payload"] for path in paths for line in lines(path)]
    totals = [one["info"]["total_token_usage"] for one in payloads if one.get("type") == "token_count"]
    items = [one for one in payloads if one.get("type") == "function_call"]
    last = totals[-1]
    return Counts(len(paths), len(totals), len(items), last["input_tokens"], last["output_tokens"])


def pi(paths: Sequence[Path]) -> Counts:
    answers = [line["message"] for path in paths for line in lines(path) if line["type"] == "message"]
    answers = [answer for answer in answers if answer["role"] == "assistant"]
    prompts = ("input", "cacheRead", "cacheWrite")
    return Counts(
        len(paths),
        len(answers),
        sum(part["type"] == "toolCall" for answer in answers for part in answer["content"]),
        sum(answer["usage"][key] for answer in answers for key in prompts),
        sum(answer["usage"]["output"] for answer in answers),
    )


def mini_swe_agent(paths: Sequence[Path]) -> Counts:
    messages = [message for path in paths for message in document(path)["messages"]]
    usages = [m["extra"]["response"]["usage"] for m in messages if m["role"] == "assistant"]
    tokens = (sum(usage[key] for usage in usages) for key in ("prompt_tokens", "completion_tokens"))
    return Counts(len(paths), *of_messages(messages), *tokens)


def opencode(paths: Sequence[Path]) -> Counts:
    messages = [message for path in paths for message in document(path)["messages"]]
    answers = [message for message in messages if message["info"]["role"] == "assistant"]
    tokens = [answer["info"]["tokens"] for answer in answers]
    return Counts(
        len(paths),
        len(answers),
        sum(part["type"] == "tool" for answer in answers for part in answer["parts"]),
        sum(one["input"] + one["cache"]["read"] + one["cache"]["write"] for one in tokens),
        sum(one["output"] + one["reasoning"] for one in tokens),
    )


def pydantic_ai(paths: Sequence[Path]) -> Counts:
    answers = [message for path in paths for message in document(path) if message["kind"] == "response"]
    calls = sum(part["part_kind"] == "tool-call" for answer in answers for part in answer["parts"])
    tokens = (sum(answer["usage"][key] for answer in answers) for key in ("input_tokens", "output_tokens"))
    return Counts(len(paths), len(answers), calls, *tokens)


def gemini_cli(paths: Sequence[Path]) -> Counts:
    written = [line for path in paths for line in lines(path) if line.get("type") == "gemini"]
    answers = {line["id"]: line for line in written}.values()  # an answer is written again with its calls
    return Counts(
        len(paths),
        len(answers),
        sum(len(answer.get("toolCalls") or ()) for answer in answers),
        sum(answer["tokens"]["input"] for answer in answers),
        sum(answer["tokens"]["output"] + answer["tokens"]["thoughts"] for answer in answers),
    )


def langgraph(paths: Sequence[Path]) -> Counts:
    answers = [message for path in paths for message in document(path)["messages"] if message["type"] == "ai"]
    tokens = (sum(answer["usage_metadata"][key] for answer in answers) for key in ("input_tokens", "output_tokens"))
    return Counts(len(paths), len(answers), sum(len(answer["tool_calls"]) for answer in answers), *tokens)


def autogen(paths: Sequence[Path]) -> Counts:
    messages = [message for path in paths for message in document(path)["messages"]]
    usages = [message["models_usage"] for message in messages if message["models_usage"]]
    calls = sum(len(m["content"]) for m in messages if m["type"] == "ToolCallRequestEvent")
    tokens = (sum(usage[key] for usage in usages) for key in ("prompt_tokens", "completion_tokens"))
    return Counts(len(paths), len(usages), calls, *tokens)


SHARED: dict[str, tuple[Callable[[Sequence[Path]], Counts], str]] = {
    "tau-bench": (tau_bench, "tau-bench/*.json"),
    "swe-agent": (swe_agent, "swe-agent/**/*.traj"),
    "swe-agent of SWE-smith": (swe_agent, "swe-smith/**/*.traj"),
    "agentlens": (agentlens, "agentlens-bench/trajectories/*/*.json"),
}
OWN: dict[str, tuple[Callable[[Sequence[Path]], Counts], str]] = {
    "claude-code": (claude_code, "*.jsonl"),
    "codex": (codex, "*.jsonl"),
    "pi": (pi, "*.jsonl"),
    "mini-swe-agent": (mini_swe_agent, "*.json"),
    "opencode": (opencode, "export.json"),
    "pydantic-ai": (pydantic_ai, "*.json"),
    "gemini-cli": (gemini_cli, "*.jsonl"),
    "langgraph": (langgraph, "state.json"),
    "autogen": (autogen, "result.json"),
}


@pytest.mark.parametrize("name", SHARED)
def test_published_runs_are_imported_with_the_counts_of_their_files(name: str, shared_data: Path) -> None:
    count, pattern = SHARED[name]
    paths = sorted(shared_data.glob(pattern))
    assert paths
    assert stored(name.split()[0], paths) == count(paths)


def test_the_totals_of_swe_agent_are_kept(shared_data: Path) -> None:
    for path in sorted((shared_data / "swe-smith").rglob("*.traj")):
        (run,) = imported(ALL["swe-agent"], path)[0]
        (ended,) = (body for body in run.bodies if isinstance(body, AttemptEnded))
        recorded = document(path)["info"]["model_stats"]
        assert recorded["instance_cost"] > 0
        assert {key: ended.metrics[key] for key in recorded} == recorded


@pytest.mark.parametrize("name", OWN)
def test_sessions_are_imported_with_the_counts_of_their_files(name: str) -> None:
    count, pattern = OWN[name]
    paths = sorted((SESSIONS / name).glob(pattern))
    assert paths
    assert stored(name, paths) == count(paths)
