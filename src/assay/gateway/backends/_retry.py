"""Retry policy and backoff of model calls.

Retried: 408, 425, 429 (unless the quota is exhausted), 5xx except 501 and 505, broken connections and timeouts. Not
retried: errors that the same request would get again.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from assay.errors import ProviderError

OVERLOADED = frozenset({429, 503, 529})
_PERMANENT_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


class ClientOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Timeouts, retries and size limits of a model client."""

    max_tries: int = 5
    """Maximum tries of one call, the first included."""
    connect_s: float = 15.0
    """Connect timeout in seconds."""
    timeout_s: float = 600.0
    """Timeout in seconds of one try, from sending to the last byte."""
    total_s: float = 1800.0
    """Seconds after which a call is not retried."""
    back_off_s: float = 0.5
    """First delay in seconds; each further one is twice as long, with jitter."""
    back_off_max_s: float = 30.0
    retry_after_max_s: float = 120.0
    """Longest accepted `Retry-After` in seconds; a longer one fails at once."""
    max_reply_bytes: int = 32 * 1024 * 1024
    """Maximum reply size in bytes."""
    seed: int = 0
    """Seed of the jitter."""

    def __post_init__(self) -> None:
        """Rejects invalid values."""
        if self.max_tries < 1:
            raise ValueError(f"max_tries must be at least 1, got {self.max_tries}")
        waits = (self.connect_s, self.timeout_s, self.total_s, self.back_off_s, self.back_off_max_s)
        if not all(math.isfinite(wait) and wait > 0 for wait in waits) or self.max_reply_bytes < 1:
            raise ValueError("every time and size of a model client must be a finite number above 0")


def is_retryable(status: int, code: str) -> bool:
    """Returns whether an error with this status and code may succeed on retry."""
    if status == 429:
        return code not in _PERMANENT_CODES
    return status in {408, 425} or (status >= 500 and status not in {501, 505})


def is_overload(error: ProviderError) -> bool:
    """Returns whether an error is a sign that the server has too much to do: 429 (unless the quota is exhausted), 503,
    529, a broken connection or no answer in time."""
    if error.status is None:
        return error.retryable and isinstance(error.__cause__, OSError)
    return error.retryable and error.status in OVERLOADED


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds of `Retry-After-Ms` or `Retry-After` (seconds or a date), else None."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or given is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def backoff_delay(options: ClientOptions, tries: int, asked_s: float | None, jitter: random.Random) -> float:
    """Returns the delay in seconds after `tries` failed tries: the server's, else exponential with jitter."""
    if asked_s is not None:
        return asked_s + jitter.random() * min(options.back_off_s, 0.1 + asked_s * 0.1)
    longest = min(options.back_off_max_s, options.back_off_s * 2.0 ** min(tries - 1, 30))
    return longest * (0.5 + 0.5 * jitter.random())
