"""The package as a program."""

from __future__ import annotations

import subprocess
import sys

from assay import __version__


def test_python_m_assay_is_the_command() -> None:
    told = subprocess.run([sys.executable, "-m", "assay", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == f"assay {__version__}\n"
