"""How a trial's acting ended."""

from __future__ import annotations

import msgspec

from assay.crash import describe_crash
from assay.errors import BoundaryError, ProviderError


class ActingEnd(msgspec.Struct):
    """End of acting; filled in phase by phase."""

    ended: str | None = None
    stopped: str | None = None
    broke: str | None = None
    error: str | None = None
    retryable: bool = True
    retry_after_s: float | None = None
    traceback: str | None = None

    def record_failure(self, exc: BoundaryError) -> None:
        """Records whose boundary failed; the first failure is kept."""
        if self.broke is None:
            crash = describe_crash(exc)
            place = "" if crash.place is None else f" ({crash.place})"
            self.broke, self.error, self.traceback = exc.name, f"{exc}{place}", crash.traceback
            if isinstance(exc, ProviderError):
                self.retryable, self.retry_after_s = exc.retryable, exc.retry_after_s
