"""Admits the fresh verifiers with the default battery, prints the table and writes `fresh/results.json`.

    python -m tests.holes [OUT]

Takes about ten minutes on two free cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from .fresh_verifiers import RESULTS, admit_folders, folders_of


def main(out: Path) -> None:
    """Measures all folders and writes what was found, with the commit."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as store:
        found = admit_folders([*folders_of("holed"), *folders_of("sound")], Path(store))
    rows = [msgspec.to_builtins(one) for one in found.values()]
    out.write_text(json.dumps({"commit": commit, "verifiers": rows}, indent=1) + "\n")
    for one in found.values():
        sys.stdout.write(f"{one.task:24} {one.result:8} {one.attempts:3} attempts  {', '.join(one.weak)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
