"""The commands of the page on robustness run as they are written, and its table names what there is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.environments.services.disturbances.world import DISTURBANCES
from assay.rollout import RunConfig
from assay.rollout.attempt.disturbed_workspace import SANDBOX_DISTURBANCES
from scripts.make_reference import ROOT, struct_docs

PAGE = (ROOT / "docs" / "how-to" / "test-robustness.md").read_text()
COMMANDS = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
SWEEP = "family:services,app=bike_service.py:bikes,n=2,writes=1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("bike_service.py", "gullible_agent.py"):
        shutil.copy(ROOT / "docs_src" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    return tmp_path


def printed(*words: str) -> str:
    done = CliRunner().invoke(build_app(), words)
    assert done.exit_code == 0, (words, done.output)
    return done.output


@pytest.mark.long
def test_the_commands_run(folder: Path) -> None:
    found = [printed(*shlex.split(command)[1:]) for command in COMMANDS]
    assert len(found) == 6
    assert re.search(r"^oracle .* 4 +4 +4 ", found[0], re.MULTILINE)
    assert re.findall(r"^(0\S*) +4 +4 +4 ", found[1], re.MULTILINE) == ["0", "0.3", "0.6"]
    assert "kept [95%]" in found[2]
    assert "31 of 36 combinations of source, form and harm were tried, and 31 were shown whole" in found[3]
    attacks = re.findall(r"^(?:record|message|result) +\w+ +\w+ +(\d+) +(\d+) +\d+ +(\d+)$", found[3], re.MULTILINE)
    assert len(attacks) == 31
    assert {(safe, hidden) for safe, _, hidden in attacks} == {("0", "0")}
    assert sum(int(acts) for _, acts, _ in attacks) == 36
    assert re.search(r"^1 +7 +1\.00 +0\.00 +-1\.000 \[-1\.000, -0\.539\] +0\.016$", found[4], re.MULTILINE)
    assert re.search(r"^oracle .* 4 +4 +4 ", found[5], re.MULTILINE)


def test_an_interrupted_sweep_goes_on(folder: Path) -> None:
    words = ("sweep", SWEEP, "--disturb", "failures", "--doses", "0,0.5", "--run", "s", "--json")
    whole = printed(*words)
    document = json.loads(whole[whole.index("{") : whole.rindex("}") + 1])
    assert [(one["dose"], one["outcome"]["passed"], one["safety"]) for one in document["doses"]] == [
        (0.0, 2, None),
        (0.5, 2, None),
    ]
    shutil.rmtree(folder / ".assay" / "runs" / "s-1-dose-0-5")
    assert "4 attempts, 2 of them done before" in printed("resume", "s")
    shutil.rmtree(folder / ".assay" / "runs" / "s-0-dose-0")
    assert "4 attempts, 2 of them done before" in printed(*words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--doses", "0,0.5"], "no disturbance"),
        (["--disturb", "failures", "--doses", "few"], "shares from 0 to 1"),
        (["--disturb", "failures:rate=1"], "names a rate"),
        (["--disturb", "storm", "--doses", "1"], "is not a wrapper"),
    ],
)
def test_wrong_use_is_a_paragraph(
    words: list[str], said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from assay.cli import main

    monkeypatch.setattr(sys, "argv", ["assay", "sweep", SWEEP, *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.quick
def test_the_option_names_every_disturbance() -> None:
    text = struct_docs(RunConfig)["disturb"]
    text = " ".join(text.split())
    services, sandboxes = (re.search(rf"{one}: ([^;.]*)[;.]", text) for one in ("Worlds of services", "sandboxes"))
    assert services is not None
    assert sandboxes is not None
    assert set(services[1].split(", ")) | {"changed"} == set(DISTURBANCES)
    assert sandboxes[1].split(", ") == list(SANDBOX_DISTURBANCES)


@pytest.mark.quick
def test_the_table_names_every_disturbance() -> None:
    services, _, rest = PAGE.partition("Sandboxes:")
    table = dict(re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", services, re.MULTILINE))
    assert set(table) | {"changed"} == set(DISTURBANCES)
    for kind, options in table.items():
        own = [name for name in DISTURBANCES[kind].Options.__struct_fields__ if name not in ("rate", "seed")]
        assert re.findall(r"`(\w+)`", options) == own
    sandboxes = dict(re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", rest.partition("How the")[0], re.MULTILINE))
    assert list(sandboxes) == list(SANDBOX_DISTURBANCES)
    for kind, options in sandboxes.items():
        own = [name for name in SANDBOX_DISTURBANCES[kind].Options.__struct_fields__ if name not in ("rate", "seed")]
        assert re.findall(r"`(\w+)`", options) == own
