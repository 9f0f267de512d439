"""Lines of a log that occur again word for word, in a log that was written twice or joined with a copy of itself.

Only lines that name themselves (by an id, or by a time to the millisecond) are compared, because two turns may well say
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from assay.formats.interface import ImportContext, ReadProblem

MOST_COMPARED = 1_000_000
"""Lines that later ones are compared with."""


def unrepeated_lines(
    lines: Iterable[tuple[str, Any]], reading: ImportContext, file: str, is_named: Callable[[dict[str, Any]], bool]
) -> Iterator[tuple[str, Any]]:
    """Yields place and value of each line, without those that repeat an earlier one, which are remarked on.

    Args:
        lines: Place and value of each line.
        reading: Gets the remarks.
        file: Name of the file, for the remarks.
        is_named: Returns whether a line names itself, so that an equal one is the same line.
    """
    places: dict[bytes, str] = {}
    for where, line in lines:
        if isinstance(line, dict) and is_named(line):
            key = blake2b(msgspec.json.encode(line), digest_size=16).digest()
            if (first := places.get(key)) is not None:
                reading.report_problem(ReadProblem(file, where, f"repeats {first}: it is read once", is_remark=True))
                continue
            if len(places) < MOST_COMPARED:
                places[key] = where
        yield where, line
