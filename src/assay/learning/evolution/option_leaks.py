"""Screens the options of a winner before the gate: what they say, and the files that they name, may hold nothing of the
gate's tasks.

Needles are those of `skills.leaks`, and the digests of the tasks, by which a memory names what it remembers. Options
that the present configuration has are the user's own and are not read.

Not covered: files that these files name, files over 16 MiB, numbers that a model was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import UserError
from assay.learning.file_tree import TreeLimits, read_tree
from assay.learning.skills.folder import SkillFolder
from assay.learning.skills.leaks import TaskSecrets, scan_leaks, secrets_of_task
from assay.learning.skills.named_files import texts_in
from assay.tasks import LoadedTask

from .recipe import CODE

_BYTES = 16 << 20
_LIMITS = TreeLimits("an option's folder", 2_000, _BYTES)


def find_option_leak(options: Mapping[str, Any], base: Mapping[str, Any], tasks: Sequence[LoadedTask]) -> str | None:
    """Returns what an option holds of the tasks, in words; None if nothing was found.

    Raises:
        UserError: A file or folder that an option names cannot be read within the limits.
    """
    changed = {name: value for name, value in options.items() if name != CODE and value != base.get(name)}
    secrets = list[TaskSecrets]()
    for name, value in sorted(changed.items()):
        secrets = secrets or [_secrets(one) for one in tasks]
        files = {path: data for text in texts_in(value) for path, data in _files_of(text).items()}
        leaks = scan_leaks(SkillFolder("options", files), secrets)
        if leaks:
            return f"option {name} holds a {leaks[0]}, of a task of the gate"
    return None


def _secrets(loaded: LoadedTask) -> TaskSecrets:
    found = secrets_of_task(loaded)
    return found._replace(needles=(*found.needles, ("task id", loaded.task.digest)))


def _files_of(text: str) -> dict[str, bytes]:
    """Returns the text, and the files that it names, by where they are."""
    found = {"text": text.encode(errors="replace")}
    try:
        path = Path(text.partition(":")[0] if not Path(text).exists() else text)
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):  # no path
        return found
    if is_folder:
        found |= {f"{path}/{name}": data for name, data in read_tree(path, _LIMITS).files.items()}
    elif is_file:
        with path.open("rb") as file:
            data = file.read(_BYTES + 1)
        if len(data) > _BYTES:
            raise UserError(f"{path} is larger than {_BYTES >> 20} MiB, so it cannot be read for texts of the gate")
        found[str(path)] = data
    return found
