"""Progress reports of synthesis. The command line prints them with an estimate of the time left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Progress = Callable[[str, int, int], None]
"""Called with the current activity, the number of completed units, and the total; a total of 1 is not counted."""


def ignore_progress(_what: str, _done: int, _total: int) -> None:
    """Does nothing."""


def counted(what: str, total: int, tell: Progress) -> Callable[[Any], None]:
    """Reports the start of an activity of `total` units, if there are any; returns a callback that counts one unit."""
    done = 0
    if total:
        tell(what, 0, total)

    def count(_: Any) -> None:
        nonlocal done
        done += 1
        tell(what, done, total)

    return count
