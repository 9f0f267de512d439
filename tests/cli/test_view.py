"""`assay view` finds what is meant, serves it or writes it, and says what it cannot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from assay.cli.app import build_app
from assay.viewer.interface import view_name
from tests.viewer.made_runs import small_run

pytestmark = pytest.mark.quick


def said(*words: str) -> Result:
    return CliRunner().invoke(build_app(), ["view", *words])


def test_an_export_says_where_it_is(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    result = said("r", "--store", str(tmp_path / "store"), "--export", str(tmp_path / "site"))
    assert result.exit_code == 0
    assert result.stdout.replace("\n", "") == str(tmp_path / "site" / "index.html")


def test_several_runs_are_exported_as_one_folder_of_pages(tmp_path: Path) -> None:
    for name in ("r", "other"):
        small_run(tmp_path / "store", name)
    result = said("r", "other", "--store", str(tmp_path / "store"), "--export", str(tmp_path / "site"))
    assert (result.exit_code, "runs r, other" in result.stderr) == (0, True)
    pages = "".join(path.read_text() for path in (tmp_path / "site" / "data").rglob("*.js"))
    assert "This is a copy of 2 runs" in pages
    assert all(f"Assay.provide({json.dumps(view_name('run', name, 'rows'))}," in pages for name in ("r", "other"))


def test_runs_of_two_stores_are_refused_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        small_run(tmp_path / name)
    result = said("r", str(tmp_path / "two"), "--store", str(tmp_path / "one"))
    assert (result.exit_code, "name several runs of one store" in result.stderr) == (2, True)


def test_a_folder_of_a_run_is_understood(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    result = said(str(tmp_path / "store" / "runs" / "r"), "--export", str(tmp_path / "site"))
    assert result.exit_code == 0


def test_other_folders_are_refused_with_what_to_do(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    result = said(str(tmp_path), "--store", str(tmp_path / "store"))
    assert result.exit_code == 2
    assert "assay import" in result.stderr


def test_a_missing_run_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    result = said("q", "--store", str(tmp_path / "store"))
    assert result.exit_code == 2
    assert "the newest are r" in result.stderr


def test_an_empty_store_is_refused(tmp_path: Path) -> None:
    assert "make one with `assay run`" in said("--store", str(tmp_path)).stderr


@pytest.mark.long
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    words = ["view", "r", "--no-open", "--store", str(tmp_path / "store")]
    command = [sys.executable, "-c", "from assay.cli import main; main()", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address.partition("#")[0], timeout=10) as answer:
            assert b"<title>Assay</title>" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 0
