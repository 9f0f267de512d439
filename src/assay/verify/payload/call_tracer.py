"""Runs calls of functions and reports their local variables after chosen lines. Standard library, Python 3.8.

Started in a sandbox as `call_tracer.py`, with the request of `call_programs` on standard input. Each program has beside
its operations a `target`: the file, name and possible first lines of a function, and the names that lines assign. The
first run of that function is traced. For making tasks, never for judging.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

FOLDER = str(pathlib.Path(__file__).resolve().parent)
sys.path.insert(0, FOLDER)
import call_programs  # type: ignore[import-not-found]  # noqa: E402 - a sibling, by the folder above
import value_codec  # type: ignore[import-not-found]  # noqa: E402 - a sibling, by the folder above

sys.path.remove(FOLDER)
MAX_SNAPSHOTS = 400
MAX_RAN = 200


class Tracer:
    """A trace function for one call; `target` has `file`, `name`, `first_lines`, and `lines`: line (as text) to the
    names that it assigns."""

    def __init__(self, target: dict[str, Any], roots: tuple[str, ...]) -> None:
        self._target, self._roots = target, roots
        self._lines = {int(line): names for line, names in target["lines"].items()}
        self._counts: dict[int, int] = {}
        self._line: int | None = None
        self._frame: Any = None
        self.snapshots: list[list[Any]] = []
        self.ran: list[list[Any]] = []

    def on_call(self, frame: Any, event: str, _argument: Any) -> Any:
        """Notes which functions of the package run, and follows the first run of the target."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._roots):
            return None
        place = [code.co_filename, code.co_firstlineno]
        if place not in self.ran and len(self.ran) < MAX_RAN:
            self.ran.append(place)
        fits = code.co_filename == self._target["file"] and code.co_name == self._target["name"]
        if self._frame is None and fits and code.co_firstlineno in self._target["first_lines"]:
            self._frame = frame
            return self.on_line
        return None

    def on_line(self, frame: Any, event: str, _argument: Any) -> Any:
        """Notes the variables of a line when the next one begins or the function returns."""
        if event == "exception":
            self._line = None
        else:
            self._note(frame)
            self._line = frame.f_lineno if event == "line" else None
        return self.on_line

    def _note(self, frame: Any) -> None:
        names = self._lines.get(self._line, ()) if self._line is not None else ()
        if not names or self._line is None:
            return
        count = self._counts[self._line] = self._counts.get(self._line, 0) + 1
        for name in names:
            if name in frame.f_locals and len(self.snapshots) < MAX_SNAPSHOTS:
                try:
                    tree = value_codec.Encoder(_nothing, _nothing, instances=False).encode(frame.f_locals[name])
                except Exception:  # noqa: BLE001 - code of the package runs while a value is read
                    continue
                self.snapshots.append([self._line, count, name, tree])


def _nothing(_value: Any) -> None:
    """Returns None: no handle and no name is known."""


def execute_traced(program: dict[str, Any], roots: tuple[str, ...]) -> dict[str, Any]:
    """Returns the answers of a program, the variables seen and the functions that ran."""
    tracer = Tracer(program["target"], roots)
    sys.settrace(tracer.on_call)
    try:
        answer = call_programs.execute_plainly(program, roots)
    finally:
        sys.settrace(None)
    return {"answer": answer, "snapshots": tracer.snapshots, "ran": tracer.ran}


if __name__ == "__main__":
    call_programs.main(execute_traced)
