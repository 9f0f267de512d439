"""Journal of results by candidate digest, which lets a stopped run continue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from assay.errors import add_filename


class _Digested(Protocol):
    @property
    def digest(self) -> str: ...


Result = TypeVar("Result", bound=_Digested)


class Journal(Generic[Result]):
    """Results of one type, one JSON line each; a line that was cut by a kill is ignored."""

    def __init__(self, path: Path, kind: type[Result]) -> None:
        self._path = path
        self._results: dict[str, Result] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                result = msgspec.json.decode(line, type=kind)
            except msgspec.MsgspecError:
                continue
            self._results[result.digest] = result

    def get(self, digest: str) -> Result | None:
        """Returns the result of an earlier run; or None."""
        return self._results.get(digest)

    def add(self, results: Sequence[Result]) -> None:
        """Stores results; they are written to disk when this returns."""
        self._results |= {result.digest: result for result in results}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with add_filename(self._path), self._path.open("ab") as file:
            if file.tell():
                file.write(b"\n")
            file.write(b"\n".join(msgspec.json.encode(result) for result in results))
