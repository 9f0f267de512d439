"""Drafts a mapping for a file of an unknown format, from the names and values of its first run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from assay.formats.shared.json_stream import json_items, json_lines, json_values
from assay.formats.shared.sniffing import sniff

_ROLES = ("role", "from", "speaker", "sender", "author", "actor", "source", "who", "type", "kind", "name", "agent")
_TEXTS = ("content", "text", "message", "value", "utterance", "body", "msg", "response", "output", "data")
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
_LARGEST = 4 << 20
_DEPTH, _MOST = 4, 50


def draft_mapping(path: Path) -> str | None:
    """Returns the text of a mapping that reads `path`; None where no turns are found in its first run."""
    place_of_rows, rows = _first_rows(path)
    first = rows[0] if rows else None
    best: tuple[int, str, list[dict[str, Any]]] | None = None
    for place, turns in _arrays(first, "", _DEPTH):
        keys = set().union(*turns)
        score = 2 * bool(keys & set(_ROLES)) + 2 * bool(keys & set(_TEXTS)) + (len(turns) > 1)
        if score > (best[0] if best else 1):
            best = score, place, turns
    if best is not None:
        return _render(place_of_rows, best[1], best[2], first)
    if isinstance(first, dict) and set(first) & set(_ROLES) and set(first) & set(_TEXTS):
        return _render(place_of_rows, "", [row for row in rows if isinstance(row, dict)], {})
    return None


def _first_rows(path: Path) -> tuple[str, list[Any]]:
    """Returns the place of the rows and the first of them."""
    shape = sniff(path).shape
    if shape == "array":
        return "", [row for _, row in islice(json_items(path, (), _ignore, largest=_LARGEST), _MOST)]
    if shape == "lines":
        return "", [row for _, row in islice(json_lines(path, _ignore, largest=_LARGEST), _MOST)]
    if shape != "object":
        return "", []
    document = next((value for _, value in json_values(path, _ignore, largest=_LARGEST)), None)
    if isinstance(document, dict):
        for key, value in document.items():
            inside = value[0] if isinstance(value, list) and value else None
            if any(True for _ in _arrays(inside, "", _DEPTH)) and "." not in key:
                return key, value[:_MOST]
    return "", [document]


def _ignore(_where: str, _problem: str) -> None:
    pass


def _arrays(value: Any, place: str, depth: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yields the arrays of objects inside a value, with their places."""
    if not isinstance(value, dict) or not depth:
        return
    for key, item in value.items():
        below = f"{place}.{key}" if place else key
        if "." in key:
            continue
        turns = [one for one in item[:_MOST] if isinstance(one, dict)] if isinstance(item, list) else []
        if turns:
            yield below, turns
        yield from _arrays(item, below, depth - 1)


def _render(rows: str, place: str, turns: list[dict[str, Any]], row: Any) -> str:
    keys: dict[str, Any] = {key: value for turn in reversed(turns) for key, value in turn.items()}
    role = next((name for name in _ROLES if isinstance(keys.get(name), str)), "role")
    text = next((name for name in _TEXTS if name in keys and name != role), None)
    text = text or next((k for k, v in keys.items() if isinstance(v, str) and k != role), "content")
    lines = [f"turns = {json.dumps(place)}"]
    lines += [f"rows = {json.dumps(rows)}"] if rows else []
    lines += [f"role = {json.dumps(role)}", f"text = {json.dumps(text)}"]
    for field, names in _RUNS.items():
        found = next((n for n in names if isinstance(row, dict) and isinstance(row.get(n), str | int | float)), None)
        lines += [f"{field} = {json.dumps(found)}"] if found else []
    said = {str(turn[role])[:100]: None for turn in turns if isinstance(turn.get(role), str)}
    pairs = [f"{json.dumps(name)} = {json.dumps(_guess(name))}" for name in list(said)[:12]]
    return "\n".join([*lines, "[roles]", *pairs])


def _guess(name: str) -> str:
    words = name.lower()
    return next((role for role, hints in _WORDS.items() if any(hint in words for hint in hints)), "system")
