"""Real harnesses, untouched, in real sandboxes with no network: those of docs/harnesses.md that install quickly.

`make test` installs them into the cache first (scripts/harnesses-for-tests.sh).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from assay.environments.interface import Backend
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import init_task
from scripts.harness_matrix import COLUMNS, PAGE, RESULTS, ROWS, load_results, table
from scripts.harness_scenarios import HANDS, KNOWN, ROUGH, SCENARIOS, run_cell
from tests.sampling import WHOLE

Need = Callable[[str], None]
ALL = ("plain", "malformed", "errors", "cut", "compaction")
CASES = [
    ("pi", "openai-chat", ROUGH),
    ("claude-code", "anthropic-messages", ROUGH),
    ("codex", "openai-responses", ROUGH),
    ("openai-agents", "openai-chat", "cut"),
    ("smolagents", "openai-chat", ROUGH),
]
"""Each harness goes once through everything; `make campaign` adds each fault by itself, and the other dialects."""
SINGLE = [
    *(("pi", dialect, name) for dialect in ("openai-chat", "openai-responses", "anthropic-messages") for name in ALL),
    *(("claude-code", "anthropic-messages", name) for name in (*ALL, "sub_agent")),
    *(("codex", "openai-responses", name) for name in (*ALL, "sub_agent")),
    ("openai-agents", "openai-responses", "cut"),
    *(("smolagents", "openai-chat", name) for name in ("malformed", "errors")),
]


@pytest.mark.long
@pytest.mark.parametrize(("harness", "dialect", "scenario"), CASES + (SINGLE if WHOLE else []))
async def test_scenario(harness: str, dialect: str, scenario: str, sandboxes: Backend, need_installed: Need) -> None:
    need_installed(harness)
    cell, driven = await run_cell(sandboxes, harness, dialect, scenario)
    expected = "fail" if (harness, dialect, scenario) in KNOWN else "pass"
    assert cell.status == expected, (cell, driven.results if driven else None)
    assert not [path for path in cell.state if path != "/workspace/log"]


@pytest.mark.long
@pytest.mark.parametrize("harness", ["claude-code", "codex", "pi"] if WHOLE else ["codex"])
async def test_a_whole_attempt_is_judged_by_its_state(harness: str, tmp_path: Path, need_installed: Need) -> None:
    need_installed(harness)
    init_task(tmp_path / "hello")
    shell = "awk '{s+=$1} END {print s}' /workspace/numbers.txt > /workspace/sum.txt"
    name, arguments = HANDS[harness].shell(shell)
    replies = [{"tool_calls": [{"name": name, "arguments": arguments}]}, "Done."]
    (tmp_path / "script.json").write_bytes(msgspec.json.encode(replies))
    model = f"scripted:{tmp_path / 'script.json'}"
    settings = Settings(cache=Settings.from_environment().cache, store=tmp_path / "store")
    config = RunConfig(tasks=(str(tmp_path / "hello"),), agent=harness, model=model, run="r")
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        (row,) = store.attempts()
    assert (row.outcome, row.agent) == ("pass", harness)


@pytest.mark.quick
def test_table_is_what_was_recorded() -> None:
    assert table(load_results()) in PAGE.read_text(), "stale: run scripts/harness_matrix.py --table"
    recorded = {(cell.harness, cell.dialect, cell.scenario) for cell in load_results().cells}
    assert {(harness, dialect, name) for harness, dialect in ROWS for name in SCENARIOS} <= recorded
    assert set(COLUMNS) >= set(SCENARIOS)
    assert RESULTS.is_file()
