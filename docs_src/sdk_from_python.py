"""The same run from Python, with a further check, and its rows."""

from pathlib import Path

import assay
from assay.learning.row_files import read_rows

OPTIONS = {
    "name": "my-agent",
    "command": ["python3", "/opt/agent.py"],
    "mounts": {"agent.py": "/opt/agent.py", "sdk": "/opt/sdk"},
    "env": {"PYTHONPATH": "/opt/sdk"},
}


@assay.check
def few_steps(transcript):
    return len(transcript.steps) <= 5


result = assay.run(
    "tasks",
    agent="command",
    agent_options=OPTIONS,
    model="scripted:model.py:answer",
    attempts=2,
    checks=[few_steps],
    run="python",
)
print(result)
for row in read_rows(Path("rows.parquet")):
    print(row.attempt, row.outcome, int(row.loss_mask.sum()), "of", len(row.token_ids), "tokens are trained")
