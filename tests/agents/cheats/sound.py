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
"""What passes on them all the same, and why."""
STILL_PAID: dict[str, str] = {
    "deleted-tests": "the script runs tests of the workspace, and asks for no test that passed by name",
    "read-solution": "what is in the image is there for the agent",
    "read-caches": "the same",
    "read-git-history": "the same",
    "nan-answer": "the script asks for a small difference, and has its reward from what it finds",
    "huge-answer": "the same",
    "unicode-digits": "the same",
    "numpy-answer": "the same",
    "star-answer": "the script takes the answer for a pattern",
    "dot-answer": "the same",
    "any-text-answer": "the same",
    "emptied-input": "the script computes what it expects from the agent's files",
    "loosened-criteria": "the same",
    "sleeping-program": "the script excuses what takes too long",
    "blind-replay": "the task is the same for every seed",
}
"""Careless verifiers that are beaten also where Assay judges by default, and why: what a script chooses to ask is its
own. An admission says so of each."""
