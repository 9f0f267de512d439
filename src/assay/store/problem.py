"""What an audit finds."""

from __future__ import annotations

import msgspec

__all__ = ["Problem"]


class Problem(msgspec.Struct, frozen=True):
    """One thing that does not hold, and where."""

    run: str
    chain: str | None
    index: int | None
    """Of the event; None where it concerns more than one."""
    what: str

    def __str__(self) -> str:
        """One line for a person."""
        place = self.run if self.chain is None else f"{self.run}, chain {self.chain}"
        return f"{place if self.index is None else f'{place}, event {self.index}'}: {self.what}"
