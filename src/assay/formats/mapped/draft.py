"""Drafts a mapping for a file of an unknown format, from the names and values of its first runs.

The array whose items look most like turns (a speaker, a text) is taken for the turns; the array of documents around it
for the runs. What the file alone cannot tell, such as who of several named speakers is the agent, is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from assay.formats.mapped.mapping import Mapping
from assay.formats.shared.json_stream import json_items, json_lines, json_values
from assay.formats.shared.messages import KNOWN_ROLES
from assay.formats.shared.round_trip_builder import value_at
from assay.formats.shared.sniffing import sniff

_SPEAKERS = ("role", "from", "speaker", "sender", "author", "actor", "source", "who")
_ROLES = (*_SPEAKERS, "type", "kind", "name", "agent")
_TEXTS = ("content", "text", "message", "value", "utterance", "body", "msg", "response", "output", "data")
_REASONING = ("reasoning", "reasoning_content", "thought", "thinking", "rationale")
_TIMES = ("timestamp", "time", "created_at", "at", "ts")
_CALL_NAMES = ("name", "tool", "tool_name", "function", "function_name", "function.name")
_CALL_ARGUMENTS = ("arguments", "args", "input", "parameters", "params", "kwargs", "with", "function.arguments")
_CALL_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
_ANSWERS = ("tool_call_id", "call_id", "tool_use_id", "id")
_RESULTS = ("result", "observation", "tool_result", "tool_output", "saw", "output", "response", "results")
_RUNS = {
    "task": ("task_id", "instance_id", "task", "problem_id", "question_id", "id"),
    "agent": ("agent", "agent_name", "scaffold"),
    "model": ("model", "model_name"),
    "reward": ("reward", "score", "success", "passed", "resolved", "correct", "is_correct"),
}
_WORDS = {
    "user": ("user", "human", "customer", "client", "question", "prompt"),
    "assistant": ("assistant", "agent", "bot", "ai", "model", "gpt", "llm", "action", "answer"),
    "tool": ("tool", "function", "observation", "environment", "env", "result", "api"),
    "system": ("system", "developer", "instruction"),
}
_SHORT = 3
"""Hints up to this length are looked for at the ends of words: `ai` is not meant by `waiter`."""
_PARTS = frozenset({"text", "input_text", "output_text", "image", "image_url", "tool_use", "tool_result", "thinking"})
"""Values of `type` in the parts of a content, which look like turns and are none."""
_LARGEST = 4 << 20
_DEPTH, _MOST = 4, 50


class _Candidate(NamedTuple):
    """Arrays that may hold the turns of runs."""

    score: int
    rows: str
    """Place of the array of runs."""
    turns: str
    """Place of the turns in a run."""
    runs: Sequence[Any]


def draft_mapping(path: Path) -> str | None:
    """Returns the text of a mapping that reads `path`; None where no turns are found in its first runs."""
    shape, rows = _first_rows(path)
    best: _Candidate | None = None
    for found in _candidates(rows, single=shape == "object"):
        best = found if best is None or found.score > best.score else best
    return None if best is None else _render(best)


def _first_rows(path: Path) -> tuple[str, list[Any]]:
    """Returns the shape of a file and the first of its documents, lines or items."""
    shape = sniff(path).shape
    if shape == "array":
        return shape, [row for _, row in islice(json_items(path, (), _ignore, largest=_LARGEST), _MOST)]
    if shape == "lines":
        return shape, [row for _, row in islice(json_lines(path, _ignore, largest=_LARGEST), _MOST)]
    if shape == "object":
        return shape, [value for _, value in islice(json_values(path, _ignore, largest=_LARGEST), 1)]
    return shape, []


def _ignore(_where: str, _problem: str) -> None:
    pass


def _candidates(rows: list[Any], *, single: bool) -> Iterator[_Candidate]:
    """Yields the arrays that hold turns, those that are least deep first."""
    inside: dict[str, list[Any]] = {"": rows}
    for row in rows:
        for place, items in _arrays(row, "", _DEPTH):
            inside.setdefault(place, []).extend(items)
    for place, runs in inside.items():
        turns: dict[str, int] = {}
        for run in runs[:_MOST]:
            for below, items in _arrays(run, "", _DEPTH):
                turns[below] = max(turns.get(below, 0), _likeness(items))
        for below, score in turns.items():
            if score > (2 if not place else 4):
                yield _Candidate(score, place, below, runs[:_MOST])
    if not single and (score := _likeness([row for row in rows if isinstance(row, dict)])) > 4:
        yield _Candidate(score, "", "", rows)


def _likeness(items: list[dict[str, Any]]) -> int:
    """Returns how far objects look like turns; 5 and more where they have a speaker and a text."""
    if not items or all("role" not in item and str(item.get("type")) in _PARTS for item in items):
        return 0
    keys = set().union(*items)
    role = 3 if keys & set(_SPEAKERS) else 2 if keys & set(_ROLES) else 0
    known = {_guess(name) for name in _names(items, _role_key(items))} - {None}
    return role + 3 * bool(keys & set(_TEXTS)) + (len(items) > 1) + (len(known) > 1)


def _arrays(value: Any, place: str, depth: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields the arrays of objects inside a value, with their places."""
    if not isinstance(value, dict) or not depth:
        return
    for key, item in value.items():
        below = f"{place}.{key}" if place else key
        if "." in key:
            continue
        items = [one for one in item[:_MOST] if isinstance(one, dict)] if isinstance(item, list) else []
        if items:
            yield below, items
        yield from _arrays(item, below, depth - 1)


def _render(found: _Candidate) -> str:
    seen = [value_at(run, found.turns) if found.turns else [run] for run in found.runs]
    turns = [turn for items in seen if isinstance(items, list) for turn in items if isinstance(turn, dict)]
    keys: dict[str, Any] = {key: value for turn in reversed(turns) for key, value in turn.items() if value is not None}
    role = _role_key(turns)
    text = next((name for name in _TEXTS if name in keys and name != role), None)
    text = text or next((k for k, v in keys.items() if isinstance(v, str) and k != role), "content")
    places = {"turns": found.turns, "rows": found.rows, "role": role, "text": text}
    places |= {"reasoning": _first(keys, _REASONING, str), "time": _first(keys, _TIMES, str | int | float)}
    acting = _call_places(turns, {role, text})
    run = next((run for run in found.runs if isinstance(run, dict)), {}) if found.turns else {}
    places |= acting | {field: _first(run, names, str | int | float) for field, names in _RUNS.items()}
    unset = Mapping(found.turns)
    lines = [
        f"{field} = {_quote(place)}"
        for field, place in places.items()
        if field in ("turns", "role", "text") or place not in ("", getattr(unset, field))
    ]
    callers = {str(turn.get(role)) for turn in turns if turn.get(acting.get("calls", "")) not in (None, [])}
    roles = _roles(_names(turns, role), callers)
    pairs = [f"{_quote(name)} = {_quote(kind)}" for name, kind in islice(roles.items(), _MOST)]
    return "\n".join([*lines, "[roles]", *pairs])


def _quote(text: str) -> str:
    """Returns a string of TOML, whose escapes know no surrogates."""
    whole = text.encode("utf-8", "replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")


def _first(value: dict[str, Any], names: Sequence[str], kind: Any) -> str:
    """Returns the first of the names whose value is of a kind; empty without one."""
    return next((name for name in names if isinstance(value.get(name), kind)), "")


def _role_key(turns: list[dict[str, Any]]) -> str:
    """Returns the key of the speaker: that whose values say most about who speaks."""
    named = [key for key in _ROLES if any(isinstance(turn.get(key), str) for turn in turns)]
    return max(named, key=lambda key: len({_guess(name) for name in _names(turns, key)} - {None}), default="role")


def _names(turns: list[dict[str, Any]], key: str) -> list[str]:
    """Returns the speakers in order, each once."""
    return list(dict.fromkeys(turn[key] for turn in turns if isinstance(turn.get(key), str)))


def _call_places(turns: list[dict[str, Any]], taken: set[str]) -> dict[str, str]:
    """Returns where the calls of turns, their parts and their results are; empty where no turn has calls."""
    for turn in turns:
        for key, value in turn.items():
            calls = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
            name = next((n for n in _CALL_NAMES for c in calls if isinstance(value_at(c, n), str)), None)
            arguments = next((n for n in _CALL_ARGUMENTS for c in calls if value_at(c, n) is not None), None)
            if key in taken or "." in key or name is None or (arguments is None and set(calls[0]) - {name, *_CALL_IDS}):
                continue
            found = {"calls": key, "call_name": name, "call_arguments": arguments or "arguments"}
            found["call_id"] = _first(calls[0], _CALL_IDS, str)
            acting = [one for one in turns if one.get(key)]
            results = [n for n in _RESULTS if n not in {key, *taken} and any(one.get(n) is not None for one in acting)]
            inside = [f"{key}.{n}" for n in _RESULTS if isinstance(value, dict) and n in value]
            found["result"] = next(iter([*results, *inside]), "")
            answering = {k: v for one in turns if not one.get(key) for k, v in one.items()}
            return found | {"answers": _first(answering, _ANSWERS, str)}
    return {}


def _roles(names: list[str], callers: set[str]) -> dict[str, str]:
    """Returns the roles of speakers; where none has the name of an agent, those who call tools or are unknown are."""
    guessed = {name: name if name in KNOWN_ROLES else _guess(name) for name in names}
    unknown = [name for name, kind in guessed.items() if kind is None]
    if "assistant" not in guessed.values():
        agents = [name for name in unknown if name in callers] or unknown
        guessed |= dict.fromkeys(agents, "assistant")
    return {name: kind or "system" for name, kind in guessed.items() if name not in KNOWN_ROLES}


def _guess(name: str) -> str | None:
    """Returns the role that a speaker's name tells of; None where it tells none."""
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    for role, hints in _WORDS.items():
        for hint in hints:
            if any(word.endswith(hint) if len(hint) <= _SHORT else hint in word for word in words):
                return role
    return None
