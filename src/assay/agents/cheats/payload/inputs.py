"""Empties the data files of the workspace: tables keep their heading, JSON its type.

Arguments: `workdir`; `spared`: excluded paths.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", "site-packages", "tests", "test"})
DATA = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt", ".log", ".dat", ".list", ".xml", ".text")
CRITERIA = re.compile(
    r"setting|config|requirement|licen|readme|package|expect|golden|sha\d+|md5|checksum", re.IGNORECASE
)
MOST_FILES, MOST_BYTES = 200, 1 << 20


def data_files(workdir: str) -> list[str]:
    """Returns the files below the workspace that look like inputs."""
    found: list[str] = []
    for folder, folders, names in os.walk(workdir):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        for name in sorted(names):
            path = os.path.join(folder, name)
            plain = os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) <= MOST_BYTES
            if plain and name.lower().endswith(DATA) and not CRITERIA.search(name):
                found.append(path)
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def zeros(value: Any) -> Any:
    """Returns the value with every list, text and number in it emptied."""
    if isinstance(value, dict):
        return {key: zeros(inner) for key, inner in value.items()}
    return None if value is None else type(value)()


def emptied(path: str, text: str) -> str:
    """Returns what an empty file of this kind holds."""
    if path.endswith((".csv", ".tsv")):
        return "".join(text.splitlines(keepends=True)[:1])
    if path.endswith(".json"):
        try:
            return json.dumps(zeros(json.loads(text))) + "\n"
        except (ValueError, RecursionError):
            return "{}\n"
    return ""


def main() -> None:
    given = json.loads(sys.argv[1])
    for path in data_files(given["workdir"]):
        if path in given["spared"]:
            continue
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(emptied(path, text))
        except (OSError, ValueError):
            continue
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
