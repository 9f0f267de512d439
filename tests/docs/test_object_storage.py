"""The commands of the page on object storage run as they are written, on a folder of objects in place of the bucket."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from scripts.make_reference import ROOT
from tests.optional import require_packages
from tests.store.conftest import write_run

require_packages("obstore")
PAGE = (ROOT / "docs" / "how-to" / "keep-runs-in-object-storage.md").read_text()
COMMANDS = re.findall(r"^\$ (assay .+)$", PAGE, re.MULTILINE)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache-of-tables"))
    write_run(tmp_path / ".assay", "my-run", 2)
    printed = []
    for command in COMMANDS:
        words = shlex.split(command.replace("s3://my-bucket/runs", f"file://{tmp_path}/bucket"))[1:]
        words += ["--unfinished"] if words[0] == "seal" else []  # the run of the test has an attempt without an end
        done = CliRunner().invoke(build_app(), words)
        assert done.exit_code == 0, (command, done.output)
        printed.append(done.output)
    assert len(printed) == 9
    assert "copied 10 objects" in printed[1]
    assert "copied 10 objects" in printed[2]
    assert "every digest of chain and blobs holds" in printed[3]
    assert printed[5] == printed[4]  # the query in the bucket
    assert "0 problems" in printed[6]
