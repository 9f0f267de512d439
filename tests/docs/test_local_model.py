"""`make model` says which build of PyTorch is installed, how large it is, and how to get the other one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
case "$*" in
    *freeze*) echo '{installed}' ;;
    *install*) exit {code} ;;
    *) echo '2.13.0 without CUDA' ;;
esac
"""


def install(venv: Path, installed: str = "numpy==1", code: int = 0) -> tuple[int, str]:
    """Runs the script with a `python` that installs nothing; returns exit code and stderr."""
    python = venv / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON.format(installed=installed, code=code))
    python.chmod(0o755)
    done = subprocess.run(["sh", "scripts/local-model.sh", str(venv)], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_an_installed_build_is_kept(tmp_path: Path) -> None:
    code, err = install(tmp_path / "v", "torch==2.13.0+cpu")
    assert (code, err.splitlines()[0]) == (0, "assay: PyTorch 2.13.0+cpu is installed and is kept")
    assert f"assay: PyTorch 2.13.0 without CUDA is installed; {tmp_path}/v has" in err
    assert "GB" not in err


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="a machine with a GPU needs no other build")
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="Linux alone gets the build with CUDA by default")
def test_default_build_is_announced_with_its_size_and_the_alternative(tmp_path: Path) -> None:
    code, err = install(tmp_path / "v")
    assert (code, "the default build for Linux: about 6 GB, 2 to 10 minutes" in err) == (0, True)
    assert f"torch==2.13.0 into {tmp_path}/v with the command on PyTorch's installation page" in err


def test_failed_installation_says_what_is_lost(tmp_path: Path) -> None:
    code, err = install(tmp_path / "v", code=1)
    assert (code, "the tests that need it will be skipped" in err) == (1, True)
