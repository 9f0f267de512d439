"""Configuration of an audit. Imports no rules: `assay audit --help` shows the options."""

from __future__ import annotations

import msgspec

from assay.errors import UserError


class AuditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of an audit."""

    contracts: tuple[str, ...] = ()
    """Safety contracts, as TOML files, beside those that the attempts were held to; repeatable."""
    attempt: tuple[str, ...] = ()
    """Only these attempts; repeatable."""
    judge: str | None = None
    """A model that is asked too, named as for `assay run --model`; what it says must quote the record, and decides
    nothing. Asked once for each attempt."""
    workers: int = 0
    """Processes that judge; 0 takes one a processor."""
    dry_run: bool = False
    """Judge and show, and keep nothing."""

    def __post_init__(self) -> None:
        """Rejects invalid values."""
        if self.workers < 0:
            raise UserError(f"workers is {self.workers}: it must be 0 or more")
