"""When a model call is worth another try, and how long to wait first.

Retried: 408, 425, 429 (unless the quota itself is spent), 5xx that another try can change, connections that broke,
and time-outs. Never retried: anything that the same bytes will get again.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

__all__ = ["ClientOptions", "back_off", "retry_after", "worth_retrying"]

_NEVER_AGAIN = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


class ClientOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How patient a model client is, and how much it reads."""

    max_tries: int = 5
    """Tries of one call, the first included."""
    connect_s: float = 15.0
    """Seconds until a connection must stand."""
    timeout_s: float = 600.0
    """Seconds for one try, from sending to the last byte."""
    total_s: float = 1800.0
    """Seconds after which no further try of the same call is started."""
    back_off_s: float = 0.5
    """The first wait; each further one is twice as long, with jitter."""
    back_off_max_s: float = 30.0
    retry_after_max_s: float = 120.0
    """The longest `Retry-After` that is waited for; a longer one is an error at once."""
    max_reply_bytes: int = 32 * 1024 * 1024
    """A longer reply is an error."""
    seed: int = 0
    """Of the jitter."""

    def __post_init__(self) -> None:
        """Refuses what cannot work, before anything starts."""
        if self.max_tries < 1:
            raise ValueError(f"max_tries must be at least 1, got {self.max_tries}")
        waits = (self.connect_s, self.timeout_s, self.total_s, self.back_off_s, self.back_off_max_s)
        if not all(math.isfinite(wait) and wait > 0 for wait in waits) or self.max_reply_bytes < 1:
            raise ValueError("every time and size of a model client must be a finite number above 0")


def worth_retrying(status: int, code: str) -> bool:
    """Whether a reply with this status and error code may be different next time."""
    if status == 429:
        return code not in _NEVER_AGAIN
    return status in {408, 425} or (status >= 500 and status not in {501, 505})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait, from `Retry-After-Ms` or `Retry-After` (seconds or a date); else None."""
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


def back_off(options: ClientOptions, tries: int, asked_s: float | None, jitter: random.Random) -> float:
    """Seconds to wait after `tries` failed tries: what the server asked for, else exponential with jitter."""
    if asked_s is not None:
        return asked_s + jitter.random() * min(options.back_off_s, 0.1 + asked_s * 0.1)
    longest = min(options.back_off_max_s, options.back_off_s * 2.0 ** min(tries - 1, 30))
    return longest * (0.5 + 0.5 * jitter.random())
