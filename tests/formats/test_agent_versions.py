"""Older and rarer forms of agents' files, written out here as their descriptions have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.formats.interface import ImportedTrajectory
from assay.formats.shared.losses import THROWAWAY
from assay.records import AttemptEnded, ModelCalled, Noted
from tests.formats.agents import ALL, comes_back, facts_of, imported, steps_of, verdict_of


def _document(path: Path, value: Any) -> Path:
    path.write_bytes(msgspec.json.encode(value))
    return path


def _lines(path: Path, *lines: Any) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def _ended(one: ImportedTrajectory) -> AttemptEnded:
    last = one.bodies[-1]
    assert isinstance(last, AttemptEnded)
    return last


def _old_openhands() -> list[dict[str, Any]]:
    asked = {"id": "c1", "function": {"name": "execute_bash", "arguments": '{"command": "ls"}'}}
    answer = {"id": "m1", "choices": [{"message": {"tool_calls": [asked]}}]}
    told = {"function_name": "execute_bash", "tool_call_id": "c1", "model_response": answer}
    return [
        {"id": 0, "timestamp": "2025-01-01T00:00:00", "source": "agent", "action": "system", "args": {"content": "S"}},
        {
            "id": 1,
            "timestamp": "2025-01-01T00:00:01",
            "source": "user",
            "action": "message",
            "args": {"content": "Fix"},
        },
        {"id": 2, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
        {
            **{"id": 3, "source": "agent", "action": "run", "tool_call_metadata": told},
            "args": {"command": "ls", "thought": "I look.", "hidden": False},
        },
        {
            **{"id": 4, "source": "agent", "observation": "run", "cause": 3, "content": "a.py"},
            "extras": {"command": "ls", "metadata": {"exit_code": 2}},
        },
        {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": "done", "thought": ""}},
    ]


def test_openhands_before_its_sdk(tmp_path: Path) -> None:
    line = {"instance_id": "django__django-1", "history": _old_openhands()}
    line["test_result"] = {"git_patch": "diff", "report": {"resolved": True}}
    line["metrics"] = {"accumulated_cost": 0.5, "token_usages": [{"response_id": "m1", "prompt_tokens": 9}]}
    (one,) = comes_back(ALL["openhands"], _lines(tmp_path / "output.jsonl", line), tmp_path)
    system, user, acted, finished = steps_of(one)
    assert (system.actor, user.message, acted.message) == ("environment", "Fix", "I look.")
    assert (acted.tool_calls[0].name, acted.tool_calls[0].arguments) == ("execute_bash", '{"command": "ls"}')
    assert (acted.observations[0].exit_code, acted.observations[0].content) == (2, "a.py")
    assert finished.tool_calls[0].name == "finish"
    assert (verdict_of(one).status, _ended(one).metrics) == ("pass", {"cost_usd": 0.5})
    assert [b.call.usage.prompt_tokens for b in one.bodies if isinstance(b, ModelCalled)] == [9]


def test_openhands_of_old_in_pairs_and_as_a_list(tmp_path: Path) -> None:
    events = _old_openhands()
    pairs = {"instance_id": "i", "history": [[events[1], events[2]], [events[3], events[4]]]}
    (one,) = comes_back(ALL["openhands"], _lines(tmp_path / "pairs.jsonl", pairs), tmp_path)
    assert steps_of(one)[-1].observations[0].content == "a.py"
    assert ALL["openhands"].recognises(_document(tmp_path / "list.json", events))
    (tmp_path / "2").mkdir()
    (one,) = comes_back(ALL["openhands"], tmp_path / "list.json", tmp_path / "2")
    assert len(steps_of(one)) == 4


def test_codex_as_it_was_first(tmp_path: Path) -> None:
    output = '{"output":"a\\n","metadata":{"exit_code":1,"duration_seconds":0.5}}'
    path = _lines(
        tmp_path / "rollout-1.jsonl",
        {"id": "s1", "timestamp": "2025-06-01T00:00:00Z", "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": output},
        {"type": "local_shell_call", "call_id": "c2", "action": {"type": "exec", "command": ["pwd"]}},
        {"type": "function_call_output", "call_id": "c2", "output": "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n/"},
    )
    assert ALL["codex"].recognises(path)
    (one,) = comes_back(ALL["codex"], path, tmp_path)
    user, first, second = steps_of(one)
    assert (user.message, first.reasoning, first.tool_calls[0].parsed) == ("Fix it", "hm", {"command": ["ls"]})
    assert (first.observations[0].exit_code, first.observations[0].duration_s) == (1, 0.5)
    assert (second.tool_calls[0].name, second.observations[0].exit_code) == ("local_shell", 0)


def test_codex_patches_and_aborted_turns(tmp_path: Path) -> None:
    def line(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}

    path = _lines(
        tmp_path / "rollout-2.jsonl",
        line("session_meta", id="s2", cli_version="0.60", cwd="/w"),
        line("response_item", type="custom_tool_call", name="apply_patch", input="*** Begin", call_id="c"),
        line("event_msg", type="token_count", info={"last_token_usage": {"input_tokens": 5, "output_tokens": 2}}),
        line("response_item", type="custom_tool_call_output", call_id="c", output="Exit code: 0\nOutput:\nok"),
        line("event_msg", type="turn_aborted", reason="interrupted"),
    )
    (one,) = comes_back(ALL["codex"], path, tmp_path)
    (step,) = steps_of(one)
    assert step.tool_calls[0].parsed == {"input": "*** Begin"}
    assert (_ended(one).stopped, step.call) == ("cancelled", "call-0")


def test_mini_swe_agent_with_commands_in_the_text(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Fix"},
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls -F\n```"},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\nno\n</output>"},
        {"role": "assistant", "content": "no command"},
        {"role": "user", "content": "Please always provide EXACTLY ONE action"},
    ]
    info = {"exit_status": "LimitsExceeded", "submission": "", "model_stats": {"api_calls": 2}, "mini_version": "1.9"}
    found = {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1", "instance_id": "a__b-1"}
    path = _document(tmp_path / "a__b-1.traj.json", found)
    assert ALL["mini-swe-agent"].recognises(path)
    (one,) = comes_back(ALL["mini-swe-agent"], path, tmp_path)
    acted, idle = (step for step in steps_of(one) if step.actor == "agent")
    assert (acted.tool_calls[0].parsed, acted.observations[0].exit_code) == ({"command": "ls -F"}, 1)
    assert not idle.tool_calls
    assert steps_of(one)[-1].actor == "user"
    assert (one.started.task, _ended(one).stopped) == ("a__b-1", "limits")


def test_mini_swe_agent_on_responses(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"command": "ls"}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    answer = {"id": "resp", "object": "response", "output": [thought, said, call], "usage": {"input_tokens": 7}}
    result = {"type": "function_call_output", "call_id": "c", "output": "x", "extra": {"returncode": 4}}
    found = {"info": {"mini_version": "2.0"}, "messages": [{**answer, "extra": {"cost": 0.1}}, result]}
    (one,) = comes_back(ALL["mini-swe-agent"], _document(tmp_path / "x.traj.json", found), tmp_path)
    (step,) = steps_of(one)
    assert (step.message, step.reasoning, step.tool_calls[0].name) == ("I look.", "hm", "bash")
    assert step.observations[0].exit_code == 4
    (made,) = (body.call for body in one.bodies if isinstance(body, ModelCalled))
    assert (made.dialect, made.usage.prompt_tokens, made.cost_usd) == ("openai-responses", 7, 0.1)


def _claude(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content}
    message |= {"id": f"m-{uuid}"} if kind == "assistant" else {}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message, **more}


def test_claude_code_marks_what_was_left_and_what_is_aside(tmp_path: Path) -> None:
    path = _lines(
        tmp_path / "s.jsonl",
        _claude("user", "u1", None, "Fix"),
        _claude("assistant", "a1", "u1", [{"type": "text", "text": "one way"}]),
        _claude("assistant", "a2", "u1", [{"type": "tool_use", "id": "t", "name": "Task", "input": {"prompt": "p"}}]),
        _claude("user", "x1", None, "p", isSidechain=True),
        _claude("assistant", "x2", "x1", [{"type": "text", "text": "aside"}], isSidechain=True),
        _claude("user", "u2", "a2", [{"type": "tool_result", "tool_use_id": "t", "content": "done"}]),
        _claude("assistant", "a3", "u2", [{"type": "text", "text": "end"}]),
    )
    (one,) = comes_back(ALL["claude-code"], path, tmp_path)
    said = [(step.message, step.actor, step.extra.get("branch")) for step in steps_of(one)]
    assert said == [
        ("Fix", "user", None),
        ("one way", "agent", "left"),
        (None, "agent", None),
        ("p", "other_agent", "side chain"),
        ("aside", "other_agent", "side chain"),
        ("end", "agent", None),
    ]
    assert steps_of(one)[2].observations[0].content == "done"


def test_tau2_with_a_user_who_has_tools(tmp_path: Path) -> None:
    asked = {"id": "c", "name": "toggle_data", "arguments": {}, "requestor": "user"}
    messages = [
        {"role": "assistant", "content": "Hi", "turn_idx": 0, "cost": 0.1, "usage": {"prompt_tokens": 3}},
        {"role": "user", "content": None, "tool_calls": [asked]},
        {"id": "c", "role": "tool", "content": "ok", "requestor": "user", "error": False},
        {"role": "user", "content": "###STOP###"},
    ]
    reward = {"reward": 0.0, "db_check": {"db_match": False}, "reward_basis": ["DB"]}
    run = {"id": "1", "task_id": "t-1", "trial": 2, "seed": 5, "messages": messages, "reward_info": reward}
    run |= {"termination_reason": "user_stop", "agent_cost": 0.1, "start_time": "2026-01-01T00:00:00"}
    info = {"agent_info": {"implementation": "llm_agent", "llm": "m"}, "user_info": {}, "num_trials": 1}
    found = {"info": info, "tasks": [{"id": "t-1", "user_scenario": {}}], "simulations": [run]}
    path = _document(tmp_path / "results.json", found)
    assert ALL["tau2"].recognises(path)
    (one,) = comes_back(ALL["tau2"], path, tmp_path)
    user = steps_of(one)[1]
    assert (user.actor, user.tool_calls[0].name, user.observations[0].content) == ("user", "toggle_data", "ok")
    assert (verdict_of(one).status, one.started.number, one.started.seed) == ("fail", 2, 5)
    assert facts_of(one, "expectation")[0].data["db_check"] == {"db_match": False}
    assert one.started.config["imported"]["fields"]["task"]["id"] == "t-1"


def test_tau2_results_in_a_folder(tmp_path: Path) -> None:
    """As `Results.save(format="dir")` lays them out, with a file for each simulation."""
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "cost": 0.1}]
    runs = [{"id": name, "task_id": "t", "trial": n, "messages": messages} for n, name in enumerate("ab")]
    (tmp_path / "simulations").mkdir()
    for run in runs:
        _document(tmp_path / "simulations" / f"{run['id']}.json", run)
    info = {"agent_info": {"implementation": "llm_agent", "llm": "m"}, "user_info": {}, "num_trials": 2}
    index = [{"id": name} for name in "abc"]
    _document(tmp_path / "results.json", {"info": info, "tasks": [{"id": "t"}], "simulation_index": index})
    found, problems = imported(ALL["tau2"], tmp_path)
    assert [(one.key, one.started.number, len(steps_of(one))) for one in found] == [
        ("simulation a: task t trial 0", 0, 2),
        ("simulation b: task t trial 1", 1, 2),
    ]
    assert [problem.problem for problem in problems] == ["1 simulations have no file: c"]
    assert [one.key for one in imported(ALL["tau2"], tmp_path / "results.json")[0]] == [one.key for one in found]


def test_tau2_conversation_by_voice(tmp_path: Path) -> None:
    asked = {"id": "c", "name": "look", "arguments": {"a": 1}, "requestor": "assistant"}
    answered = {"id": "c", "role": "tool", "content": "ok", "error": False}
    ticks = [
        {"tick_id": 0, "user_chunk": {"content": "My"}, "agent_chunk": {"content": None}},
        {"tick_id": 1, "user_chunk": {"content": "order?"}},
        {"tick_id": 2, "agent_chunk": {"content": "One moment."}, "agent_tool_calls": [asked]},
        {"tick_id": 3, "agent_tool_results": [answered], "agent_chunk": {"content": "Found."}},
    ]
    run = {"id": "1", "task_id": "t", "trial": 0, "messages": None, "ticks": ticks, "mode": "full_duplex"}
    info = {"agent_info": {}, "user_info": {}, "num_trials": 1}
    path = _document(tmp_path / "results.json", {"info": info, "tasks": [], "simulations": [run]})
    (one,) = comes_back(ALL["tau2"], path, tmp_path)
    assert [(step.actor, step.message) for step in steps_of(one)] == [
        ("user", "My order?"),
        ("agent", "One moment."),
        ("agent", "Found."),
    ]
    assert [seen.content for seen in steps_of(one)[1].observations] == ["ok"]


def test_a_report_keyed_by_its_instance(tmp_path: Path) -> None:
    report = {"patch_exists": True, "patch_successfully_applied": True, "resolved": False, "tests_status": {}}
    path = _document(tmp_path / "report.json", {"a__b-1": report})
    (one,) = ALL["swe-smith"].read(path, THROWAWAY)
    assert (one.started.task, verdict_of(one).status) == ("a__b-1", "fail")


def test_spark_numbers_that_differ_are_both_kept(tmp_path: Path) -> None:
    line = {"type": "execution_result", "attempt": 0, "reward": 1.0, "status": "PASS", "n_passed": 2, "n_tests": 2}
    _lines(tmp_path / "trajectory.jsonl", line, {"type": "pdi_snapshot", "attempt": 0, "ts": 1.0})
    record = {"attempt": 0, "reward": 0.5, "status": "PASS", "n_passed": 1, "n_tests": 2}
    _document(tmp_path / "attempts.json", {"task_name": "t", "max_retries": 1, "attempts": [record]})
    (one,) = ALL["spark"].read(tmp_path, THROWAWAY)
    assert [f.data["counts"]["passed"] for f in facts_of(one, "test_report")] == [2, 1]
    assert [f.data["values"]["reward"] for f in facts_of(one, "reward")] == [1.0, 0.5]
    assert [body.name for body in one.bodies if isinstance(body, Noted)] == ["spark.pdi_snapshot"]
