"""A run, read by a user who may not write its folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

READ = """
import os, sys, blake3, urllib.parse  # what is imported late may lie where this user cannot read
from pathlib import Path
from assay.store import RunStore
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
store = RunStore.open(Path(sys.argv[1]), sys.argv[2])
attempts = store.attempts()
print(len(attempts), len(list(store.events(attempts[0].chain))))
"""


def read_as_nobody(root: Path, run: str) -> subprocess.CompletedProcess[str]:
    """Prints how many attempts a run has, and how many events its first one has.

    Reads a copy outside pytest's folders: every pytest that starts on the machine closes those to other users.
    """
    with tempfile.TemporaryDirectory(prefix="assay-test-") as made:
        copy = Path(made)
        copy.chmod(0o755)
        shutil.copytree(root / "runs" / run, copy / "runs" / run)
        if (root / "blobs").is_dir():
            shutil.copytree(root / "blobs", copy / "blobs")
        (copy / "runs" / run).chmod(0o555)
        done = subprocess.run([sys.executable, "-c", READ, str(copy), run], capture_output=True, text=True)
        (copy / "runs" / run).chmod(0o755)
    return done
