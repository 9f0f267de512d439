"""Evaluation logs, rollouts, conversations and traces are imported with the counts of the files' own JSON."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from assay import plugins
from tests.formats import test_counts
from tests.formats.counting import Counter, Counts, document, lines, of_messages, stored, sums
from tests.formats.test_chat import TALK
from tests.formats.test_chat_shapes import ANTHROPIC
from tests.formats.test_claude_stream import LINES as STREAM
from tests.formats.test_nemo_gym import QUOTING, ROLLOUT

HERE = Path(__file__).parent
_CALL = re.compile(r"^[a-z_]+\(", re.MULTILINE)


def content(path: Path, info: zipfile.ZipInfo) -> bytes:
    """Returns a member of an archive; Zstandard, which `zipfile` does not know, is decoded by its number, 93."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        if info.compress_type != 93:
            return archive.read(info)
        stream.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", stream.read(4))
        stream.seek(name + extra, 1)
        return bytes(pyarrow.decompress(stream.read(info.compress_size), info.file_size, "zstd", asbytes=True))


def samples(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".json":
        return list(document(path).get("samples") or ())
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.startswith("samples/")]
    return [json.loads(content(path, info)) for info in members]


def inspect(paths: Sequence[Path]) -> Counts:
    """The calls are those of the model's answers: a solver may take a call out of the messages that it leaves."""
    found = [sample for path in paths for sample in samples(path)]
    answers, _ = of_messages(message for sample in found for message in sample["messages"])
    events = [e for s in found for e in s.get("events") or s.get("transcript", {}).get("events", ())]
    outputs = [event["output"] for event in events if event["event"] == "model"]
    calls = [len(output["choices"][0]["message"].get("tool_calls") or ()) for output in outputs]
    usages = [output.get("usage") for output in outputs]
    return Counts(len(found), answers, sum(calls), *sums(usages, "input_tokens", "output_tokens"))


def atif(paths: Sequence[Path]) -> Counts:
    steps = [step for path in paths for step in document(path)["steps"] if step["source"] == "agent"]
    calls = sum(len(step.get("tool_calls") or ()) for step in steps)
    usages = [step.get("metrics") for step in steps]
    return Counts(len(paths), len(steps), calls, *sums(usages, "prompt_tokens", "completion_tokens"))


def harbor(paths: Sequence[Path]) -> Counts:
    trials = [document(file) for path in paths for file in path.glob("*/result.json")]
    parts = [part for trial in trials for part in trial.get("step_results") or [trial]]
    acted = atif([file for path in paths for file in path.glob("*/**/agent/trajectory.json")])
    tokens = sums((part["agent_result"] for part in parts), "n_input_tokens", "n_output_tokens")
    return Counts(len(trials), acted.answers, acted.tool_calls, *tokens)


def verifiers(paths: Sequence[Path]) -> Counts:
    traces = [trace for path in paths for episode in lines(path) for trace in episode["traces"]]
    sampled = [node["message"] for trace in traces for node in trace["nodes"] if node["sampled"]]
    usages = [call.get("usage") for trace in traces for call in trace["calls"]]
    prompts, completions = sums(usages, "prompt_tokens", "completion_tokens")
    cached, _ = sums(usages, "cached_input_tokens", "")  # not among the prompt's tokens there
    return Counts(len(traces), *of_messages(sampled), prompts + cached, completions)


def nemo_gym(paths: Sequence[Path]) -> Counts:
    rows = [row for path in paths for row in lines(path)]
    counted = [of_items(row["response"]["output"]) for row in rows]
    usages = [row["response"].get("usage") for row in rows]
    tokens = sums(usages, "input_tokens", "output_tokens")
    more = sums(usages, "prompt_tokens", "completion_tokens")  # as servers of Chat Completions name them
    tokens = (tokens[0] + more[0], tokens[1] + more[1])
    return Counts(len(rows), sum(turns for turns, _ in counted), sum(calls for _, calls in counted), *tokens)


def of_items(items: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Counts the turns and calls of Responses items: reasoning, a message and calls, in this order, are one turn."""
    ranks = {"reasoning": 0, "message": 1, "function_call": 2}
    turns, calls, last = 0, 0, 3
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call_output" or item.get("role", "assistant") != "assistant":
            last = 3
        elif kind in ranks:
            turns += last == 3 or ranks[kind] < last or (ranks[kind] == last == 1)
            calls, last = calls + (kind == "function_call"), ranks[kind]
    return turns, calls


def openai_items(paths: Sequence[Path]) -> Counts:
    counted = [of_items(document(path)) for path in paths]
    return Counts(len(paths), sum(turns for turns, _ in counted), sum(calls for _, calls in counted))


def openai_responses(paths: Sequence[Path]) -> Counts:
    answers = [row["response"] for path in paths for row in lines(path)]
    usages = [answer["usage"] for answer in answers]
    return Counts(len(paths), len(answers), calls_in(answers), *sums(usages, "input_tokens", "output_tokens"))


def chat(paths: Sequence[Path]) -> Counts:
    """Rows of messages, Anthropic's blocks among them, or the messages of a call beside its response."""
    written: list[Any] = [row for path in paths for row in lines(path)]
    rows: list[dict[str, Any]] = [{"messages": row} if isinstance(row, list) else row for row in written]
    answers = [message for row in rows for message in row["messages"] if message["role"] == "assistant"]
    answers += [row["response"]["choices"][0]["message"] for row in rows if "response" in row]
    usages = [row["response"]["usage"] for row in rows if "response" in row]
    return Counts(len(rows), len(answers), calls_in(answers), *sums(usages, "prompt_tokens", "completion_tokens"))


def bare_array(paths: Sequence[Path]) -> Counts:
    return Counts(len(paths), *of_messages(message for path in paths for message in document(path)))


def sharegpt(paths: Sequence[Path]) -> Counts:
    turns = [turn for path in paths for row in lines(path) for turn in row["conversations"]]
    kinds = [turn["from"] for turn in turns]
    return Counts(sum(len(lines(path)) for path in paths), kinds.count("gpt"), kinds.count("function_call"))


def tau2(paths: Sequence[Path]) -> Counts:
    runs = [run for path in paths for run in document(path)["simulations"]]
    messages = [message for run in runs for message in run["messages"]]
    calls = sum(len(message.get("tool_calls") or ()) for message in messages)  # the user has tools too
    usages = [message.get("usage") for message in messages]
    answers, _ = of_messages(messages)
    return Counts(len(runs), answers, calls, *sums(usages, "prompt_tokens", "completion_tokens"))


def calls_in(value: Any) -> int:
    """Counts the tool calls anywhere in answers of a model, in the shapes of Gemini's, OpenAI's and similar APIs."""
    if isinstance(value, list):
        return sum(map(calls_in, value))
    if not isinstance(value, dict):
        return 0
    called = value.get("type") in ("tool_call", "function_call", "tool_use") or bool(value.get("function_call"))
    called = called or ("function" in value and "name" in value["function"])
    return 1 if called else sum(map(calls_in, value.values()))


# Traces


def attributes(paths: Sequence[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the trace and the attributes of the spans that OpenTelemetry wrote, flat or as OTLP."""
    for line in (line for path in paths for line in lines(path)):
        if "resourceSpans" not in line:
            yield line["context"]["trace_id"], line["attributes"]
            continue
        scopes = [scope for resource in line["resourceSpans"] for scope in resource["scopeSpans"]]
        for span in (span for scope in scopes for span in scope["spans"]):
            values = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
            tokens = {key: int(value) for key, value in values.items() if key.endswith("_tokens")}
            yield span["traceId"], values | tokens


def gen_ai(paths: Sequence[Path]) -> Counts:
    spans = list(attributes(paths))
    models = [one for _, one in spans if one.get("gen_ai.operation.name") == "chat"]
    calls = calls_in([json.loads(one["gen_ai.output.messages"]) for one in models])
    tokens = sums(models, "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
    return Counts(len({trace for trace, _ in spans}), len(models), calls, *tokens)


def openinference(paths: Sequence[Path]) -> Counts:
    spans = list(attributes(paths))
    models = [one for _, one in spans if one["openinference.span.kind"] == "LLM"]
    keys = [key for one in models for key in one if key.startswith("llm.output_messages.")]
    calls = sum(key.endswith(".tool_call.function.name") for key in keys)
    tokens = sums(models, "llm.token_count.prompt", "llm.token_count.completion")
    return Counts(len({trace for trace, _ in spans}), len(models), calls, *tokens)


def langsmith(paths: Sequence[Path]) -> Counts:
    runs = [run for path in paths for run in lines(path)]
    models = [run for run in runs if run["run_type"] == "llm"]
    answers = [run["outputs"]["generations"][0][0]["message"]["kwargs"] for run in models]
    calls = sum(len(answer["tool_calls"]) for answer in answers)
    usages = [answer["usage_metadata"] for answer in answers]
    tokens = sums(usages, "input_tokens", "output_tokens")
    return Counts(len({run["trace_id"] for run in runs}), len(models), calls, *tokens)


def langfuse(paths: Sequence[Path]) -> Counts:
    made = [one for path in paths for one in document(path)["observations"] if one["type"] == "GENERATION"]
    usages = [one["usageDetails"] for one in made]
    calls = calls_in([one["output"] for one in made])
    return Counts(len(paths), len(made), calls, *sums(usages, "input", "output"))


def mlflow(paths: Sequence[Path]) -> Counts:
    """MLflow writes each attribute's value as JSON."""
    spans = [span["attributes"] for path in paths for span in document(path)["data"]["spans"]]
    models = [span for span in spans if json.loads(span["mlflow.spanType"]) == "CHAT_MODEL"]
    usages = [json.loads(span["mlflow.chat.tokenUsage"]) for span in models]
    calls = calls_in([json.loads(span["mlflow.spanOutputs"]) for span in models])
    return Counts(len(paths), len(models), calls, *sums(usages, "input_tokens", "output_tokens"))


def openai_agents(paths: Sequence[Path]) -> Counts:
    spans = [line["span_data"] for path in paths for line in lines(path) if line["object"] == "trace.span"]
    models = [span for span in spans if span["type"] in ("generation", "response")]
    usages = [span["usage"] for span in models]
    calls = sum(span["type"] == "function" for span in spans)  # a span of a response holds no output
    return Counts(len(paths), len(models), calls, *sums(usages, "input_tokens", "output_tokens"))


def weave(paths: Sequence[Path]) -> Counts:
    calls = [call for path in paths for call in lines(path)]
    answers = [call["output"] for call in calls if call["attributes"]["weave"]["kind"] == "llm"]
    usages = [answer["usage"] for answer in answers]
    tokens = sums(usages, "prompt_tokens", "completion_tokens")
    return Counts(len({call["trace_id"] for call in calls}), len(answers), calls_in(answers), *tokens)


def webarena_verified(paths: Sequence[Path]) -> Counts:
    """Returns a run with one answer for each folder; what a browser requested is no call of a tool."""
    answered = [path for path in paths if document(path)["status"]]
    return Counts(len({path.parent for path in paths}), len(answered), 0, 0, 0)


def agentlab(paths: Sequence[Path]) -> Counts:
    """Counts the steps of the summaries, and the calls that the logs quote; actions themselves are pickled."""
    answers = sum(document(path / "summary_info.json")["n_steps"] for path in paths)
    logs = [(path / "experiment.log").read_text(encoding="utf-8") for path in paths]
    return Counts(len(paths), answers, sum(len(_CALL.findall(log)) for log in logs), 0, 0)


def agent_reward_bench(paths: Sequence[Path]) -> Counts:
    actions = [step["action"] for path in paths for step in document(path)["steps"] if step["action"]]
    return Counts(len(paths), len(actions), sum(len(_CALL.findall(action)) for action in actions), 0, 0)


SHARED: dict[str, tuple[Counter, str]] = {
    "inspect": (inspect, "inspect-logs/*.eval"),
    "inspect in JSON": (inspect, "inspect-logs/*_log*__[!s]*.json"),
    "webarena-verified": (webarena_verified, "environments/webarena/agent_logs/*/agent_response.json"),
    "chat of SWE-smith": (chat, "swe-smith/ft_xml_example.jsonl"),
}
OWN: dict[str, tuple[Counter, str]] = {
    "inspect": (inspect, "fixtures/inspect-react.eval"),
    "harbor": (harbor, "fixtures/harbor/[!r]*"),
    "atif": (atif, "fixtures/harbor/**/agent/trajectory.json"),
    "agentlab": (agentlab, "benchmarks/agentlab/scripted-on-miniwob/*_Scripted_*"),
    "agent-reward-bench": (agent_reward_bench, "benchmarks/agent-reward-bench/*.json"),
    "verifiers": (verifiers, "fixtures/verifiers-traces.jsonl"),
    "chat of LiteLLM": (chat, "fixtures/litellm-rows.jsonl"),
    "chat of DSPy": (chat, "fixtures/dspy-history.jsonl"),
    "otel-genai": (gen_ai, "fixtures/otel-genai-flat.jsonl"),
    "otel-genai as OTLP": (gen_ai, "fixtures/otel-genai-otlp.jsonl"),
    "langfuse": (langfuse, "traces/langfuse/*.json"),
    "langsmith": (langsmith, "traces/written/langsmith.jsonl"),
    "mlflow": (mlflow, "traces/written/mlflow.json"),
    "openai-agents": (openai_agents, "traces/written/openai-agents-*.jsonl"),
    "openai-responses": (openai_responses, "traces/written/openai-responses.jsonl"),
    "openai-responses as items": (openai_items, "traces/written/openai-responses-items.json"),
    "openinference": (openinference, "traces/written/openinference.jsonl"),
    "openllmetry": (gen_ai, "traces/written/openllmetry.jsonl"),
    "weave": (weave, "traces/written/weave.jsonl"),
}
TURNS = [("human", "Go."), ("gpt", "I look."), ("function_call", '{"name": "ls", "arguments": {}}'), ("tool", "a")]
ASKED = {"id": "c", "name": "look", "arguments": {}, "requestor": "user"}
SIMULATION: dict[str, Any] = {
    "id": "1", "task_id": "t", "trial": 0,
    "messages": [
        {"role": "assistant", "content": "Hi", "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
        {"role": "user", "content": None, "tool_calls": [ASKED], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        {"id": "c", "role": "tool", "content": "ok", "requestor": "user", "error": False},
        {"role": "assistant", "content": None, "tool_calls": [ASKED | {"id": "d", "requestor": "assistant"}]},
    ],
}  # fmt: skip
CHAT_USAGE = {"usage": {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32}}
DESCRIBED: dict[str, tuple[Counter, list[Any]]] = {
    "chat": (chat, [TALK, TALK]),
    "chat of Anthropic": (chat, [ANTHROPIC]),
    "chat of arrays": (chat, [TALK["messages"], ANTHROPIC["messages"]]),
    "chat of one array": (bare_array, TALK["messages"]),
    "claude-code by stream-json": (test_counts.claude_code, STREAM),
    "nemo-gym": (nemo_gym, [ROLLOUT, ROLLOUT]),
    "nemo-gym that quotes": (nemo_gym, [QUOTING, QUOTING | {"response": QUOTING["response"] | CHAT_USAGE}]),
    "sharegpt": (sharegpt, [{"conversations": [{"from": who, "value": text} for who, text in TURNS]}]),
    "tau2": (tau2, [{"info": {"agent_info": {}, "user_info": {}}, "tasks": [], "simulations": [SIMULATION]}]),
}
"""Formats, and shapes of them, that only a description defines, with what it describes."""


@pytest.mark.parametrize("name", SHARED)
def test_published_logs_are_imported_with_the_counts_of_their_files(name: str, shared_data: Path) -> None:
    count, pattern = SHARED[name]
    paths = sorted(shared_data.glob(pattern))
    assert paths
    assert stored(name.split()[0], paths) == count(paths)


@pytest.mark.parametrize("name", OWN)
def test_written_files_are_imported_with_the_counts_of_their_files(name: str) -> None:
    count, pattern = OWN[name]
    paths = sorted(HERE.glob(pattern))
    assert paths
    assert stored(name.split()[0], paths) == count(paths)


@pytest.mark.parametrize("name", DESCRIBED)
def test_described_files_are_imported_with_the_counts_of_their_files(name: str, tmp_path: Path) -> None:
    count, rows = DESCRIBED[name]
    path = tmp_path / "rows.jsonl"
    whole = name.endswith("one array")
    path.write_text(json.dumps(rows) if whole else "".join(json.dumps(row) + "\n" for row in rows))
    assert stored(name.split()[0], [path]) == count([path])


def test_every_format_is_counted() -> None:
    named = [*SHARED, *OWN, *DESCRIBED, *test_counts.SHARED, *test_counts.OWN, "codex-exec"]
    assert {name.split()[0] for name in named} == set(plugins.names("formats"))
