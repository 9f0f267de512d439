"""The benchmark of a cluster finds an interpreter that has Ray, or says that none has."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import cluster

pytestmark = pytest.mark.quick


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], dict[str, str]]]:
    """Command that this process would have been replaced by; it has no Ray, and other interpreters have."""
    calls: list[tuple[str, list[str], dict[str, str]]] = []

    def execve(path: str, words: list[str], env: dict[str, str]) -> None:
        calls.append((path, words, env))
        sys.exit(0)

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        return SimpleNamespace(returncode=0 if command[0] == "/with/python" else 1)

    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(cluster.subprocess, "run", run)
    return calls


def test_it_goes_on_in_the_interpreter_that_has_ray(replaced: Any) -> None:
    words = ["--quick", "--peer-python", "ray=/with/python"]
    with pytest.raises(SystemExit):
        cluster.main(words)
    ((path, command, env),) = replaced
    assert (path, command) == ("/with/python", ["/with/python", "-m", "benchmarks.cluster", *words])
    root = Path(cluster.__file__).parent.parent
    assert env["PYTHONPATH"].split(os.pathsep)[:2] == [f"{root}/src", str(root)]


@pytest.mark.parametrize("words", [[], ["--peer-python", "ray=/without/python"]])
def test_without_one_nothing_is_measured_and_it_says_so(replaced: Any, tmp_path: Path, words: list[str]) -> None:
    cluster.main([*words, "--into", str(tmp_path)])
    found = json.loads((tmp_path / "cluster.json").read_text())
    assert "Ray is not installed" in found["not_measured"]["all of it"]
    assert (found["rows"], replaced) == ([], [])
