"""Signals of installed packages are counted where the built-in ones are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Verdict,
    VerdictAdded,
)
from assay.store import RunStore
from assay.viewer.failures import cluster_failures

pytestmark = pytest.mark.quick
SILENT = """
import pyarrow as pa
import pyarrow.compute as pc
class Silent:
    name = "silent"
    signals = ("silent.calls",)
    def counts(self, steps):
        called = pc.greater(pc.list_value_length(steps["tools"]), 0)
        silent = pc.and_(called, pc.equal(pc.list_value_length(steps["outputs"]), 0))
        flags = pa.table({"chain": steps["chain"], "n": pc.cast(silent, "int64")})
        found = flags.group_by("chain", use_threads=False).aggregate([("n", "sum")])
        return pa.table({"chain": found["chain"], "silent.calls": found["n_sum"]})
class Fails(Silent):
    def counts(self, steps):
        raise KeyError("no column")
class Short(Silent):
    def counts(self, steps):
        return pa.table({"chain": ["a", "b"], "silent.calls": [1, 2]})
class Same(Silent):
    pass
class Empty:
    pass
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    call = ToolCall("c", "shell", "{}", {})
    loud = (Observation("command not found", "c"),)
    bodies: list[Body] = [AttemptStarted("r", "t@0", "t", "d", "a", None, 1, 0, at=1.0)]
    bodies += [
        StepAdded(Step(n, "agent", tool_calls=(call,), observations=seen)) for n, seen in enumerate([loud, (), ()])
    ]
    with RunStore.create(tmp_path / "store", "r", {}) as store:
        store.append("t@0.0", [*bodies, VerdictAdded(Verdict("c", "outcome", "fail", 0.0, "no")), AttemptEnded("done")])
    return tmp_path / "store"


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *classes: str) -> None:
    """Makes an installed package register classes of `SILENT` as sets of signals."""
    site = tmp_path / f"site-{'-'.join(classes)}"
    metadata = site / "silent-1.0.dist-info"
    metadata.mkdir(parents=True)
    module = f"silent_{'_'.join(classes).lower()}"
    (site / f"{module}.py").write_text(SILENT)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: silent\nVersion: 1.0\n")
    lines = [f"{name.lower()} = {module}:{name}" for name in classes]
    (metadata / "entry_points.txt").write_text("\n".join(["[assay.signals]", *lines, ""]))
    monkeypatch.syspath_prepend(str(site))


def show(root: Path, *words: str) -> str:
    result = CliRunner().invoke(build_app(), ["show", "t@0", "--store", str(root), *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_installed_set_is_listed_shown_and_clustered(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "silent" not in show(root)
    install(tmp_path, monkeypatch, "Silent")
    listed = json.loads(CliRunner().invoke(build_app(), ["plugins", "--json"]).stdout)["plugins"]
    assert [one["package"] for one in listed if one["kind"] == "signals" and one["name"] == "silent"] == ["silent"]
    assert "signals: execution.failure.tool_not_found 1, execution.loops.retry 1, silent.calls 2;" in show(root)
    found = json.loads(CliRunner().invoke(build_app(), ["show", "t@0", "--store", str(root), "--json"]).stdout)[
        "signals"
    ]
    assert found["counts"]["silent.calls"] == 2
    assert found["severities"]["execution.failure"] == 1
    clusters = [one for one in cluster_failures(root, "r")["clusters"] if one["source"] == "signal"]
    assert "silent.calls" in {one["name"] for one in clusters}


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        (("Fails",), "signals 'fails' failed: KeyError"),
        (("Short",), "signals 'short': `counts` must return one row for each attempt"),
        (("Same", "Silent"), "signals 'same' and 'silent' both have 'silent.calls'"),
        (("Empty",), "signals 'empty' is not a set of signals"),
    ],
)
def test_a_set_that_fails_is_named_and_the_attempt_is_shown(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classes: tuple[str, ...], problem: str
) -> None:
    install(tmp_path, monkeypatch, *classes)
    text = " ".join(show(root).split())
    assert f"warning: no signals: {problem}" in text
    assert "verdict c: fail" in text
