"""Runs the notebooks of docs/notebooks in empty folders and writes their outputs: `python scripts/run_notebooks.py`.

Needs nbclient and ipykernel, which `make test` installs from requirements-local.txt.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
TIMEOUT_S = 120


def run_notebook(path: Path, folder: Path) -> dict[str, Any]:
    """Returns the notebook with the outputs of a fresh kernel that works in `folder`.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raises.
    """
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as scratch:
        config = Config()
        config.KernelManager.transport = "ipc"  # a Unix socket: no port that another process could take first
        config.KernelManager.connection_file = f"{scratch}/kernel.json"
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(notebook, timeout=TIMEOUT_S, config=config, resources=resources, record_timing=False)
        client.execute(env=os.environ | {"IPYTHONDIR": scratch, "PYDEVD_DISABLE_FILE_VALIDATION": "1"})
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    found: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return found


def main() -> None:
    """Writes the outputs."""
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            found = run_notebook(path, Path(folder))
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
