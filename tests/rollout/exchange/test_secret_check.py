"""No export carries a secret out of the store unless it is asked to."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.errors import UserError
from assay.formats.interface import Loss
from assay.learning.curation.config import CurateConfig
from assay.learning.curation.curate import curate
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Check,
    EnvironmentSpec,
    Evidence,
    EvidenceAdded,
    Observation,
    Step,
    StepAdded,
    Task,
    ToolCall,
    Truncation,
)
from assay.rollout.exchange.config import ExportConfig
from assay.rollout.exchange.exporting import ExportReport, LossFile, export_run
from assay.rollout.exchange.secret_check import SecretCheck
from assay.settings import Settings
from assay.store import RunStore

pytestmark = pytest.mark.newest
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KNOWN = "correct-horse-battery"


def record(
    root: Path, *texts: str, cut: bytes | None = None, manifest: dict[str, Any] | None = None, source: str = ""
) -> Settings:
    """A run with an attempt for each text, which a command printed, at a task that has this source."""
    asked = StepAdded(Step(0, "user", "Look."))
    task = Task("t", "Look.", EnvironmentSpec("w"), (Check("c", "k"),), "d", source=source or None)
    with RunStore.create(root, "r", manifest or {}) as store:
        about = EvidenceAdded(Evidence("e", "audit", "task", {"record": store.blobs.put(msgspec.json.encode(task))}))
        truncated = None if cut is None else Truncation(len(cut), store.blobs.put(cut))
        for number, text in enumerate(texts):
            call = ToolCall("c", "shell", '{"command": "cat it"}', {"command": "cat it"})
            step = Step(0, "agent", "I look.", None, (call,), (Observation(text, "c", truncated=truncated),))
            started = AttemptStarted("r", f"t@{number}", "t", "d", "loop", None, 1, number, at=1.0)
            store.append(f"t@{number}.0", [started, about, asked, StepAdded(step), AttemptEnded("done", at=2.0)])
    return Settings(root / "cache", root, openai_api_key=KNOWN)


def export(settings: Settings, name: str, **options: Any) -> tuple[ExportReport, str]:
    out = settings.store / name
    report = export_run("r", ExportConfig("chat", str(out), **options), settings)
    return report, out.read_text()


def test_an_attempt_with_a_secret_is_left_out_and_listed(tmp_path: Path) -> None:
    settings = record(tmp_path, "nothing here", f"token {TOKEN}", f"key {KNOWN}")
    report, text = export(settings, "rows.jsonl")
    assert (report.written, report.secret) == (1, ("t@1", "t@2"))
    assert (TOKEN in text, KNOWN in text) == (False, False)
    losses = json.loads((tmp_path / "rows.jsonl.losses.json").read_text())["losses"]
    reasons = {one["attempt"]: one["why"] for one in losses if one["field"] == "trajectory"}
    assert reasons["t@1"] == "left out: it holds github_token (--with-secrets writes such attempts too)"
    assert "OPENAI_API_KEY" in reasons["t@2"]


def test_secrets_are_exported_when_asked_for(tmp_path: Path) -> None:
    settings = record(tmp_path, f"token {TOKEN}")
    report, text = export(settings, "rows.jsonl", with_secrets=True)
    assert (report.written, report.secret, TOKEN in text) == (1, (), True)


def test_a_variable_that_the_run_passed_is_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "a value of my own")
    settings = record(tmp_path, "a value of my own", manifest={"config": {"pass_env": ["MY_TOKEN"]}})
    assert export(settings, "rows.jsonl")[0].secret == ("t@0",)


def test_the_command_names_what_it_left_out(tmp_path: Path) -> None:
    record(tmp_path, "fine", f"token {TOKEN}")
    words = ["export", "r", "--to", "chat", "--out", str(tmp_path / "rows.jsonl"), "--store", str(tmp_path)]
    result = CliRunner().invoke(build_app(), words)
    assert result.exit_code == 0, result.output
    assert "left out, because a secret is in it: 1 attempt (t@1); the list names it, --with-secrets" in result.stderr


def test_pages_with_a_secret_are_not_exported(tmp_path: Path) -> None:
    record(tmp_path, f"token {TOKEN}")
    words = ["view", "r", "--export", str(tmp_path / "site"), "--store", str(tmp_path)]
    result = CliRunner().invoke(build_app(), words)
    assert (result.exit_code, (tmp_path / "site").exists()) == (2, False)
    assert "1 of its attempts hold a secret, first t@0 (github_token); --with-secrets exports" in result.stderr
    assert CliRunner().invoke(build_app(), [*words, "--with-secrets"]).exit_code == 0


def test_training_rows_leave_attempts_with_a_secret_out(tmp_path: Path) -> None:
    settings = record(tmp_path, "nothing here", f"token {TOKEN}")
    config = WriteConfig(to="openai", out=str(tmp_path / "rows.jsonl"), include="all")
    report = export_for_training("r", config, settings)
    assert (report.written, report.secret) == (1, ("t@1",))
    assert TOKEN not in (tmp_path / "rows.jsonl").read_text()


def test_the_list_of_losses_holds_no_secret(tmp_path: Path) -> None:
    stream = io.BytesIO()
    losses = LossFile(stream, {"run": "r"}, SecretCheck([], Settings(tmp_path, tmp_path)))
    losses.lost(Loss("t@0", "verdict", f"its reason {TOKEN} has no field"))
    losses.close([])
    assert TOKEN not in stream.getvalue().decode()
    assert json.loads(stream.getvalue())["losses"][0]["why"] == "its reason [redacted:github_token] has no field"


def test_a_secret_in_the_source_of_a_task_leaves_its_attempts_out(tmp_path: Path) -> None:
    settings = record(tmp_path, "fine", source=f"https://me:{TOKEN}@example.org/tasks")
    config = WriteConfig(to="hf-dataset", out=str(tmp_path / "data"))
    with pytest.raises(UserError, match=r"nothing to write for hf-dataset: .*: it holds github_token"):
        export_for_training("r", config, settings)
    report = export_for_training("r", msgspec.structs.replace(config, with_secrets=True), settings)
    assert (report.written, TOKEN in (tmp_path / "data" / "README.md").read_text()) == (1, True)


def test_a_file_of_out_has_no_secret(tmp_path: Path) -> None:
    record(tmp_path, f"token {TOKEN}")
    words = ["show", "t@0", "--run", "r", "--store", str(tmp_path)]
    for name in ("shown.txt", "shown.json"):
        result = CliRunner().invoke(build_app(), [*words, "--out", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert f"written to {tmp_path / name}, without github_token: a secret was redacted" in result.stderr
        assert "[redacted:github_token]" in (tmp_path / name).read_text()
        assert TOKEN not in (tmp_path / name).read_text()
    assert TOKEN in CliRunner().invoke(build_app(), words).stdout


def test_a_table_whose_escapes_hide_a_secret_is_not_written(tmp_path: Path) -> None:
    record(tmp_path, f"token {TOKEN}")
    words = ["query", f"select '{TOKEN}' as said", "--store", str(tmp_path), "--out"]
    for name, code in (("rows.md", 2), ("rows.tex", 2), ("rows.csv", 0)):
        result = CliRunner().invoke(build_app(), [*words, str(tmp_path / name)])
        assert (result.exit_code, (tmp_path / name).exists()) == (code, code == 0), result.output
    assert (tmp_path / "rows.csv").read_text() == "said\n[redacted:github_token]\n"


def test_a_receipt_with_a_secret_in_its_events_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "fine", f"token {TOKEN}")
    out = tmp_path / "one.receipt"
    words = ["receipt", "r", "--store", str(tmp_path), "--out", str(out), "--attempt", "t@1", "--events"]
    result = CliRunner().invoke(build_app(), words)
    assert (result.exit_code, out.exists()) == (2, False)
    assert "the events of t@1 hold a secret (github_token)" in result.stderr
    assert CliRunner().invoke(build_app(), [*words, "--with-secrets"]).exit_code == 0
    assert TOKEN in out.read_text()


def test_a_view_with_a_secret_is_not_exported(tmp_path: Path) -> None:
    settings = record(tmp_path, "the beginning", cut=f"token {TOKEN}".encode())
    words = ["view", "r", "--export", str(tmp_path / "site"), "--store", str(settings.store)]
    result = CliRunner().invoke(build_app(), words)
    assert result.exit_code == 0, result.output
    assert "left out: view with a secret, 1 (--with-secrets writes it)" in result.stderr
    written = b"".join(path.read_bytes() for path in (tmp_path / "site").rglob("*.js"))
    assert TOKEN.encode() not in written


def test_curated_files_have_no_secret(tmp_path: Path) -> None:
    settings = record(tmp_path, "nothing here", f"token {TOKEN}")
    report = curate(CurateConfig(runs=("r",), out=str(tmp_path / "o"), where=()), settings)
    assert (report.stages, report.conversations) == ((("secrets", 2, 1),), 1)
    decisions = [json.loads(line) for line in (tmp_path / "o" / "decisions.jsonl").read_text().splitlines()]
    assert [one["why"] for one in decisions] == [["no secret was found"], ["it holds github_token"]]
    assert TOKEN not in "".join(path.read_text() for path in (tmp_path / "o").iterdir())
    config = CurateConfig(runs=("r",), out=str(tmp_path / "p"), where=(), with_secrets=True)
    assert curate(config, settings).conversations == 2
    assert TOKEN in (tmp_path / "p" / "conversations.jsonl").read_text()


def test_what_a_stage_says_of_an_attempt_is_redacted(tmp_path: Path) -> None:
    settings = record(tmp_path, "fine")
    (tmp_path / "stage.py").write_text(
        "from assay.learning.curation.interface import Selection\n"
        f"def tells(candidates):\n    return [Selection(True, {TOKEN!r}) for _ in candidates]\n"
    )
    where = (f"{tmp_path / 'stage.py'}:tells",)
    report = curate(CurateConfig(runs=("r",), out=str(tmp_path / "o"), where=where), settings)
    assert report.not_written == {"it holds github_token (--with-secrets writes it too)": 1}
    assert TOKEN not in "".join(path.read_text() for path in (tmp_path / "o").iterdir())
