"""Runs of agents and of benchmarks are imported with the counts that a count of the files' own JSON gives."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.records import AttemptEnded
from tests.formats.agents import ALL, imported
from tests.formats.counting import Counter, Counts, document, lines, of_messages, stored, sums
from tests.sampling import draw_sample

HERE = Path(__file__).parent


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
    return Counts(len(paths), len(entries), len(entries), *sums(known, "input_tokens", "output_tokens"))


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
    files = [[line["payload"] for line in lines(path)] for path in paths]
    totals = [[one["info"]["total_token_usage"] for one in file if one.get("type") == "token_count"] for file in files]
    calls = sum(one.get("type") == "function_call" for file in files for one in file)
    last = [one[-1] for one in totals]  # a total grows with each answer
    return Counts(len(paths), sum(map(len, totals)), calls, *sums(last, "input_tokens", "output_tokens"))


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
    return Counts(len(paths), *of_messages(messages), *sums(usages, "prompt_tokens", "completion_tokens"))


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
    usages = [answer["usage"] for answer in answers]
    return Counts(len(paths), len(answers), calls, *sums(usages, "input_tokens", "output_tokens"))


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
    written = [message for path in paths for message in document(path)["messages"]]
    messages = [message.get("kwargs") or message.get("data") or message for message in written]
    answers = [message for message in messages if message["type"] == "ai"]
    usages = [answer["usage_metadata"] for answer in answers]
    calls = sum(len(answer["tool_calls"]) for answer in answers)
    return Counts(len(paths), len(answers), calls, *sums(usages, "input_tokens", "output_tokens"))


def autogen(paths: Sequence[Path]) -> Counts:
    written = [document(path) for path in paths]
    threads = [one["agent_states"]["RoundRobinGroupChatManager"] if "agent_states" in one else one for one in written]
    messages = [message for one in threads for message in one.get("message_thread") or one["messages"]]
    usages = [message["models_usage"] for message in messages if message["models_usage"]]
    calls = sum(len(m["content"]) for m in messages if m["type"] == "ToolCallRequestEvent")
    return Counts(len(paths), len(usages), calls, *sums(usages, "prompt_tokens", "completion_tokens"))


def openhands(paths: Sequence[Path]) -> Counts:
    events = [[document(file) for file in sorted(path.glob("events/*.json"))] for path in paths]
    asked = [event for one in events for event in one if event["kind"] == "ActionEvent"]
    states = [document(path / "base_state.json")["stats"]["usage_to_metrics"] for path in paths]
    usages = [usage for state in states for model in state.values() for usage in model["token_usages"]]
    answers = {event["llm_response_id"] for event in asked}
    return Counts(len(paths), len(answers), len(asked), *sums(usages, "prompt_tokens", "completion_tokens"))


def opencode_events(paths: Sequence[Path]) -> Counts:
    parts = [line["part"] for path in paths for line in lines(path)]
    tokens = [part["tokens"] for part in parts if part["type"] == "step-finish"]
    prompts = sum(one["input"] + one["cache"]["read"] + one["cache"]["write"] for one in tokens)
    completions = sum(one["output"] + one["reasoning"] for one in tokens)
    return Counts(len(paths), len(tokens), sum(part["type"] == "tool" for part in parts), prompts, completions)


def docent(paths: Sequence[Path]) -> Counts:
    runs = [run for path in paths for run in lines(path)]
    talks = [talk for run in runs for talk in run["transcripts"]]
    return Counts(len(runs), *of_messages(message for talk in talks for message in talk["messages"]))


def smolagents(paths: Sequence[Path]) -> Counts:
    steps = [step for path in paths for step in document(path)["steps"] if "step_number" in step]
    calls = [(step["tool_calls"], (step["model_output_message"] or {}).get("tool_calls")) for step in steps]
    usages = [step["token_usage"] for step in steps]
    made = sum(len(ran or asked or ()) for ran, asked in calls)  # a call that raised stands in the answer alone
    return Counts(len(paths), len(steps), made, *sums(usages, "input_tokens", "output_tokens"))


def agent_sdk(paths: Sequence[Path]) -> Counts:
    answers = [line for path in paths for line in lines(path) if "message_id" in line]
    usages = {answer["message_id"]: answer["usage"] for answer in answers}.values()
    calls = sum("input" in part for answer in answers for part in answer["content"])
    prompts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    tokens = (sum(usage[key] for usage in usages for key in prompts), sum(usage["output_tokens"] for usage in usages))
    return Counts(len(paths), len(usages), calls, *tokens)


def mini_swe_agent_malformed(paths: Sequence[Path]) -> Counts:
    """An answer that the agent refused is kept with the message that tells the model so."""
    messages = [message for path in paths for message in document(path)["messages"]]
    usages = [m["extra"][key]["usage"] for m in messages for key in m.get("extra", {}) if key.endswith("response")]
    return Counts(len(paths), *of_messages(messages), *sums(usages, "prompt_tokens", "completion_tokens"))


def who_and_when(paths: Sequence[Path]) -> Counts:
    names = [m.get("name") or m["role"] for path in paths for m in document(path)["history"]]
    return Counts(len(paths), sum(name not in ("Computer_terminal", "human", "user") for name in names), 0)


def swe_smith(paths: Sequence[Path]) -> Counts:
    reports = [path for path in paths if "resolved" in document(path) and "ids_resolved" not in document(path)]
    named = [(path.parents[2] / "trajectories" / path.parent.name, path.parent.name) for path in reports]
    return Counts(sum(not (folder / f"{name}.traj").exists() for folder, name in named), 0, 0)


def terminal_bench(paths: Sequence[Path]) -> Counts:
    trials = [trial for path in paths for trial in document(path)["results"]]
    return Counts(len(trials), 0, 0, *sums(trials, "total_input_tokens", "total_output_tokens"))


def printed_events(task: Path) -> list[list[dict[str, Any]]]:
    """Returns the events of `codex exec --json` that each attempt at a task of SPARK printed."""
    path = task / "trajectory.jsonl"
    made = [line for line in lines(path) if line["type"] == "execution_result"] if path.exists() else []
    printed = [(line.get("agent_stdout_full") or "").split("\n") for line in made]
    return [[json.loads(text) for text in texts if text.startswith("{")] for texts in printed]


def of_events(events: Iterable[dict[str, Any]]) -> Counts:
    """Counts one run: a turn is a message, or an action that begins when none runs and the turn has acted.

    A message that comes while the first action of such a turn runs is of that turn: the model answers no result yet.
    """
    answers, calls, usages = 0, 0, list[dict[str, Any]]()
    acted, silent, running = True, False, set[str]()
    for event in events:
        item = event.get("item", {})
        kind, done = item.get("type"), event["type"] == "item.completed"
        if event["type"] == "turn.completed":
            usages.append(event["usage"])
        elif kind == "agent_message":
            answers += not (silent and running)
            acted, silent = bool(running), False
        elif kind == "command_execution" and done:
            running.discard(item["id"])
            silent = False
        elif kind in ("command_execution", "todo_list", "file_change") and (not done or kind == "file_change"):
            silent = acted and not running and kind == "command_execution"
            answers += acted and not running
            calls, acted = calls + 1, True
            running |= {item["id"]} if kind == "command_execution" else set()
    return Counts(1, answers, calls, *sums(usages, "input_tokens", "output_tokens"))


def spark(paths: Sequence[Path]) -> Counts:
    counted = [of_events(events) for task in paths for events in printed_events(task)]
    attempts = 0
    for task in paths:
        files = [task / "trajectory.jsonl", task / "attempts.json"]
        made = [line for line in lines(files[0]) if line["type"] == "execution_result"] if files[0].exists() else []
        made += document(files[1])["attempts"] if files[1].exists() else []
        attempts += len({one["attempt"] for one in made})
    return Counts(attempts, *(sum(column) for column in list(zip(*counted, strict=True))[1:]))


def codex_exec(paths: Sequence[Path]) -> Counts:
    counted = [of_events(lines(path)) for path in paths]
    return Counts(*(sum(column) for column in zip(*counted, strict=True)))


SHARED: dict[str, tuple[Counter, str]] = {
    "tau-bench": (tau_bench, "tau-bench/*.json"),
    "agentrx": (tau_bench, "agentrx/tau_dataset_failed.json"),
    "swe-agent": (swe_agent, "swe-agent/**/*.traj"),
    "swe-agent of SWE-smith": (swe_agent, "swe-smith/**/*.traj"),
    "swe-smith": (swe_smith, "swe-smith/run_*/**/report.json"),
    "agentlens": (agentlens, "agentlens-bench/trajectories/*/*.json"),
    "who-and-when": (who_and_when, "who-and-when/**/*.json"),
    "spark": (spark, "spark-skills/*/"),
}
OWN: dict[str, tuple[Counter, str]] = {
    "claude-code": (claude_code, "sessions/claude-code/*.jsonl"),
    "claude-code with a sub-agent": (claude_code, "sessions/claude-code-sub-agent/*.jsonl"),
    "claude-code by the Agent SDK": (agent_sdk, "fixtures/claude-agent-sdk.jsonl"),
    "codex": (codex, "sessions/codex/*.jsonl"),
    "codex with a sub-agent": (codex, "sessions/codex-sub-agent/*.jsonl"),
    "pi": (pi, "sessions/pi/*.jsonl"),
    "mini-swe-agent": (mini_swe_agent, "sessions/mini-swe-agent/*.json"),
    "mini-swe-agent with a dropped turn": (mini_swe_agent_malformed, "sessions/mini-swe-agent-malformed/*.json"),
    "openhands": (openhands, "sessions/openhands"),
    "opencode": (opencode, "sessions/opencode/export.json"),
    "opencode by events": (opencode_events, "sessions/opencode/events.jsonl"),
    "pydantic-ai": (pydantic_ai, "sessions/pydantic-ai/*.json"),
    "gemini-cli": (gemini_cli, "sessions/gemini-cli/*.jsonl"),
    "langgraph": (langgraph, "sessions/langgraph/*.json"),
    "autogen": (autogen, "sessions/autogen/*.json"),
    "docent": (docent, "sessions/docent/*.jsonl"),
    "smolagents": (smolagents, "sessions/smolagents/*.json"),
    "terminal-bench": (terminal_bench, "benchmarks/terminal-bench/results.json"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", SHARED)
def test_published_runs_are_imported_with_the_counts_of_their_files(name: str, shared_data: Path) -> None:
    count, pattern = SHARED[name]
    paths = draw_sample(sorted(shared_data.glob(pattern)), 60)
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
    paths = sorted(HERE.glob(pattern))
    assert paths
    assert stored(name.split()[0], paths) == count(paths)


def test_events_of_openhands_one_a_line_have_the_totals_of_their_last_stats(tmp_path: Path) -> None:
    session = HERE / "sessions" / "openhands"
    stats = document(session / "base_state.json")["stats"]
    for metrics in stats["usage_to_metrics"].values():
        del metrics["token_usages"]  # as the program leaves them out of its events
    about = {"kind": "ConversationStateUpdateEvent", "source": "environment", "timestamp": "2026-11-22T00:31:22"}
    events = [about | {"key": "execution_status", "value": "running"}]
    events += [document(path) for path in sorted(session.glob("events/*.json"))]
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in [*events, about | {"key": "stats", "value": stats}]))
    assert stored("openhands", [path]) == openhands([session])
    ((one,), problems) = imported(ALL["openhands"], path)
    assert (one.started.model, problems) == ("openai/scripted", [])


def test_printed_events_are_imported_with_their_counts(shared_data: Path, tmp_path: Path) -> None:
    runs = [run for task in sorted((shared_data / "spark-skills").glob("*/")) for run in printed_events(task) if run]
    paths = [tmp_path / f"{number}.jsonl" for number in range(len(runs))]
    for path, run in zip(paths, runs, strict=True):
        path.write_text("".join(json.dumps(event) + "\n" for event in run))
    assert len(paths) > 40
    assert stored("codex-exec", paths) == codex_exec(paths)
