"""Material of BFCL's long-context tasks: values that the benchmark's module `long_context.py` assigns.

The module lies where the user put it. It is parsed, and never executed: only assignments of literals are read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from assay.environments.services.data_files import DataFile, read_data_file

_MODULES: Final = "bfcl_eval/eval_checker/multi_turn_eval/func_source_code"
FILE: Final = "long_context.py"


def read_extension_file(data: str) -> DataFile:
    """Reads the module from the folder that the user names: its own, an installed package's, or a checkout.

    Raises:
        ValueError: No folder has it.
    """
    folders = ("", _MODULES, f"berkeley-function-call-leaderboard/{_MODULES}", _MODULES.partition("/")[2])
    return read_data_file([Path(data, folder) for folder in folders], [FILE])


def load_extension(data: str, sha256: str) -> Mapping[str, Any]:
    """Returns the values by name. Raises `ValueError` for another file than the one with this digest."""
    file = read_extension_file(data)
    if file.sha256 != sha256:
        raise ValueError(f"{file.path} has the digest {file.sha256}, and {sha256} is wanted")
    return _parse(file)


@lru_cache(2)
def _parse(file: DataFile) -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    try:
        for node in ast.parse(file.data).body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = ast.literal_eval(node.value)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        raise ValueError(f"{file.path} holds something else than literals: {exc}") from exc
    return values
