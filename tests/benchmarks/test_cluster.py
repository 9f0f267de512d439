"""The benchmark of a cluster finds an interpreter that has Ray, or says that none has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import cluster
from benchmarks._node_memory import machine_pss_mib

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


@pytest.mark.skipif(os.geteuid() != 0, reason="page frames are shown to root alone")
def test_memory_of_a_machine_counts_each_page_once() -> None:
    """Two processes share the pages of one that both were forked from."""
    code = "import os, time; b = bytearray(b'x') * (64 << 20); os.write(1, b'%d\\n' % os.fork()); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = max(int(parent.stdout.readline()), int(parent.stdout.readline()))
        try:
            both, alone = machine_pss_mib([parent.pid, child]), machine_pss_mib([parent.pid])
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()
    assert both[parent.pid] == pytest.approx(both[child], abs=8)
    assert sum(both.values()) == pytest.approx(alone[parent.pid], abs=8)
    assert alone[parent.pid] > 64
    assert machine_pss_mib([parent.pid, os.getpid()])[parent.pid] == 0
