"""Small task folders for admissions, written in a few words."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CAREFUL", "CARELESS", "write_task"]

TOML = """schema_version = "1.4"

[task]
name = "admission/{name}"
description = "Write the answer."

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 30.0

[environment]
network_mode = "no-network"
memory_mb = 512

[metadata.harbor.lint]
ignore = ["shared-verifier"]
"""
CAREFUL = """#!/bin/sh
mkdir -p /logs/verifier
if [ "$(cat /workspace/answer.txt)" = 42 ]; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; exit 1; fi
"""
CARELESS = """#!/bin/sh
mkdir -p /logs/verifier
if [ -e /workspace/answer.txt ]; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; exit 1; fi
"""


def write_task(folder: Path, tests: str, solution: str = "echo 42 > /workspace/answer.txt\n") -> Path:
    """A task whose name is its folder's."""
    files = {
        "task.toml": TOML.format(name=folder.name),
        "instruction.md": "Write 42 to /workspace/answer.txt.\n",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\n",
        "tests/test.sh": tests,
        "solution/solve.sh": f"#!/bin/sh\n{solution}",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
