"""Tasks in a file, one record a line, and the family that reads them: `family:written,path=tasks.jsonl`.

Covered: any `Task` without files. A file is data of whoever wrote it: a task that names Python code is refused unless
the option `allow_code` permits it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from assay.errors import UserError, describe_os_error
from assay.records import Task, canonical_bytes
from assay.tasks import LoadedTask
from assay.tasks.named_code import find_code_of

_MOST_BYTES: Final = 256 << 20


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Writes tasks, one a line, in place of the file. Raises `UserError` if the disk refuses."""
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(b"".join(canonical_bytes(task) + b"\n" for task in tasks))
        aside.rename(path)
    except OSError as exc:
        raise UserError(f"the tasks cannot be written: {describe_os_error(exc, path)}") from exc


class WrittenTasks:
    """Tasks that `assay synth rewrite`, `twins` and `augment` wrote.

    Args:
        path: The file, one task a line.
        allow_code: Whether tasks may name Python code (`file.py:attribute`), which runs in this process.
    """

    def __init__(self, *, path: str, allow_code: bool = False) -> None:
        self._path = Path(str(path))
        self._may_name_code = allow_code is True

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        """Returns the first `n` tasks of the file, whatever the seed.

        Raises:
            UserError: The file cannot be read, a line is no task, or a task names code.
        """
        found: list[Task] = []
        for number, line in enumerate(self._lines(), 1):
            if len(found) == n:
                break
            try:
                task = msgspec.json.decode(line, type=Task)
            except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
                raise UserError(f"{self._path}: line {number} is not a task: {exc}") from exc
            code = find_code_of(LoadedTask(task, None))
            if code and not self._may_name_code:
                raise UserError(
                    f"{self._path}: line {number}: the task names Python code, {', '.join(code)}, which runs in this "
                    "process: allow_code=true permits it"
                )
            found.append(task)
        return tuple(found)

    def _lines(self) -> list[bytes]:
        try:
            if not self._path.is_file():  # a pipe would wait for its writer
                raise UserError(f"the tasks cannot be read: {self._path} is not a file")
            with self._path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)  # whatever size the file says that it has
            if len(content) > _MOST_BYTES:
                raise UserError(f"{self._path} has more than {_MOST_BYTES >> 20} MiB")
            return [line for line in content.split(b"\n") if line.strip()]
        except OSError as exc:
            raise UserError(f"the tasks cannot be read: {describe_os_error(exc, self._path)}") from exc
