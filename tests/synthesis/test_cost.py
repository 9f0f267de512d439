"""The yield of making tasks is measured apart from what is the same each time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.synthesis import CostMeter, SynthesisCost, SynthesisReport, write_cost

REPORT = SynthesisReport("p 1", "blake3:0", "sdist", 0, (), 1, 2, 3, 9, (), {}, (), kept=4, not_separate=2)


def spend(cpu_s: float) -> None:
    meter = CostMeter()
    while meter.measure(REPORT).cpu_s < cpu_s:
        sum(range(10_000))


def test_rate_is_kept_tasks_over_measured_cpu_minutes() -> None:
    meter = CostMeter()
    spend(0.05)
    cost = meter.measure(REPORT)
    assert cost.cpu_s >= 0.05
    assert cost.kept_per_cpu_minute == pytest.approx(60 * 4 / cost.cpu_s, rel=0.05)
    assert (cost.candidates, cost.kept, cost.not_separate) == (9, 4, 2)


def test_no_rate_is_given_where_an_earlier_run_did_a_part() -> None:
    cost = CostMeter().measure(REPORT, from_journal=5)
    assert cost.kept_per_cpu_minute is None
    assert "5 judged before" in cost.sentence()


def test_sentence_names_every_count() -> None:
    cost = SynthesisCost(9, 4, 2, 60.0, 4.0)
    assert cost.sentence() == (
        "9 candidates: 4 kept, 2 dropped for want of a separate test; 60 CPU seconds, 4.00 kept tasks a CPU minute"
    )


def test_cost_has_a_file_of_its_own(tmp_path: Path) -> None:
    cost = SynthesisCost(9, 4, 2, 60.0, 4.0)
    write_cost(tmp_path, cost)
    assert [path.name for path in tmp_path.iterdir()] == ["synthesis-cost.json"]
    assert msgspec.json.decode((tmp_path / "synthesis-cost.json").read_bytes(), type=SynthesisCost) == cost
    assert b"cpu" not in msgspec.json.encode(REPORT)


@pytest.mark.long
def test_verb_prints_and_writes_the_yield(sdist: Path, tmp_path: Path) -> None:
    options = ["--count", "1", "--candidates", "3", "--test-files", "1", "--repetitions", "1"]
    options += ["--separation", "off", "--kind", "operator", "--seed", "77"]
    result = CliRunner().invoke(build_app(), ["synth", "repository", str(sdist), "--out", str(tmp_path), *options])
    assert result.exit_code == 0, result.output
    cost = msgspec.json.decode((tmp_path / "synthesis-cost.json").read_bytes(), type=SynthesisCost)
    assert cost.sentence() in " ".join(result.output.split())
    assert (cost.kept, cost.cpu_s > 0) == (1, True)
    manifest = msgspec.json.decode((tmp_path / "manifest.json").read_bytes(), type=SynthesisReport)
    assert (manifest.kept, manifest.candidates, manifest.not_separate) == (1, cost.candidates, 0)
