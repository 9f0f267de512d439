"""Imports conversations of another tool, twice, and exports one of them as ATIF."""

import json
from pathlib import Path

from assay.rollout.exchange.config import ExportConfig, ImportConfig
from assay.rollout.exchange.exporting import export_run
from assay.rollout.exchange.importing import import_paths
from assay.settings import Settings
from assay.store import RunStore, audit

CALL = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
ROWS = [
    {
        "messages": [
            {"role": "user", "content": "What is here?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a.txt"},
            {"role": "assistant", "content": "One file, a.txt."},
        ],
        "metadata": {"task": "look", "agent": "recorded", "outcome": "pass"},
    },
    {"messages": "lost"},
]

if __name__ == "__main__":
    Path("logs").mkdir()
    Path("logs/monday.jsonl").write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in ROWS))
    settings = Settings(Path("cache"), Path(".assay"))

    for _ in range(2):
        report = import_paths(ImportConfig(("logs",), run="theirs"), settings)
        print(f"{report.read} read, {report.known} there already, {report.unreadable_total} unreadable")
    for what in report.unreadable:
        print(f"{what.file}, {what.place}: {what.problem}")

    with RunStore.open(settings.store, "theirs") as store:
        (trajectory,) = store.trajectories()
    call = trajectory.steps[1].tool_calls[0]
    print(f"{trajectory.task}: {call.name} {call.parsed} gave {trajectory.steps[1].observations[0].content!r}")
    print(f"{trajectory.outcome}, {trajectory.verdicts[0].marks[0]}; problems: {audit(settings.store, 'theirs')}")

    exported = export_run("theirs", ExportConfig("atif", "look.json"), settings)
    print(f"{json.loads(Path('look.json').read_bytes())['schema_version']}, not held: {exported.losses}")
