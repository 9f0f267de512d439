"""Writes a minimal valid task: its oracle passes, doing nothing fails."""

from __future__ import annotations

from pathlib import Path

from .assay_config import AssayTable, CheckTable
from .harbor_config import EnvironmentTable, HarborAgentTable, HarborTask, VerifierTable
from .load import LoadedTask, load_task
from .write import TaskDraft, write_task

_FILES = {
    "instruction.md": """\
Write the sum of the numbers in `/workspace/numbers.txt`, one number a line, to `/workspace/sum.txt`.
""",
    "environment/Dockerfile": """\
FROM scratch
WORKDIR /workspace
COPY numbers.txt /workspace/numbers.txt
""",
    "environment/numbers.txt": "3\n14\n15\n",
    "tests/test.sh": """\
#!/bin/sh
# Judges the final state. The reward goes to /logs/verifier/reward.txt; the exit code says the same.
# This sandbox holds nothing that the agent wrote but the check's `outputs`, as data. To start one of its programs:
#     assay-judge run -- python3 /workspace/program.py ARGUMENTS
reward=0
if [ "$(cat /workspace/sum.txt)" = 32 ]; then
    reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
[ "$reward" = 1 ]
""",
    "solution/solve.sh": """\
#!/bin/sh
set -e
total=0
while read -r number; do
    total=$((total + number))
done < /workspace/numbers.txt
echo "$total" > /workspace/sum.txt
""",
}


def init_task(folder: Path | str, *, exist_ok: bool = False) -> LoadedTask:
    """Writes a task folder as a starting point. With `exist_ok`, a task folder that exists is returned as it is.

    Raises:
        UserError: The folder exists (with `exist_ok`: and is not a valid task folder), or cannot be written.
    """
    folder = Path(folder)
    if exist_ok and folder.exists():
        return load_task(folder)
    config = HarborTask(
        agent=HarborAgentTable(timeout_sec=300.0),
        verifier=VerifierTable(timeout_sec=60.0, environment_mode="separate"),
        environment=EnvironmentTable(network_mode="no-network", workdir="/workspace"),
        artifacts=("/workspace/sum.txt",),
    )
    check = CheckTable("tests", "script", {"outputs": ["/workspace/sum.txt"]})
    return write_task(folder, TaskDraft(files=_FILES, config=config, assay=AssayTable(checks=(check,))))
