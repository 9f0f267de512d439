"""Server-sent events, read as they arrive."""

from __future__ import annotations

__all__ = ["Events"]


class Events:
    """Cuts a byte stream into the data of its events. Event names and comments are dropped: the data say all.

    Holds one unfinished event; whoever feeds it bounds the whole.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that are complete now."""
        if not self._rest and not self._data and chunk.startswith(b"data:") and chunk.endswith(b"\n\n"):
            whole = chunk[5:-2].split(b"\n\ndata:")  # mostly whole events of one line each arrive
            if b"\r" not in chunk and not any([b"\n" in data for data in whole]):
                return whole
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        if self._rest:
            chunk = b"".join([*self._rest, chunk])
        *lines, rest = chunk.split(b"\n")
        self._rest = [rest] if rest else []
        found: list[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:])
            elif self._data and line in {b"", b"\r"}:
                found.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
        return found
