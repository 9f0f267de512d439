"""Two tasks whose verifiers are sound under Assay's default verification."""

from __future__ import annotations

from tests.agents.cheats.bench import Small
from tests.agents.cheats.naive import BY_PYTEST, TEST, answer, module, script

TREES = "\n\ndef test_tree():\n    assert plural('tree') == 'trees'\n"
CHECK = """
import json, os, stat
path = "/workspace/answer.json"
status = os.lstat(path)
assert stat.S_ISREG(status.st_mode) and status.st_nlink == 1, "a plain file"
found = json.load(open(path))
assert type(found) is dict and set(found) == {"total", "names"}
assert type(found["total"]) is int and found["total"] == sum(map(int, open("/tests/data.txt").read().split()))
assert type(found["names"]) is list and found["names"] == ["four", "eight"]
"""
SOUND: dict[str, Small] = {
    "module": module(BY_PYTEST, test_words_py=TEST + TREES),
    "answer": answer(
        "/workspace/answer.json",
        '{"total": 108, "names": ["four", "eight"]}\n',
        script("/usr/bin/env python3 -I /tests/check.py"),
        check_dot_py=CHECK,
        data_dot_txt="4 8 15 16 23 42\n",
    ),
}
WORTH_MORE: dict[tuple[str, str], str] = {}
"""What passes all the same, and why."""
