"""What a guard remembers of a session: many small steps that lead somewhere bad, each of them harmless.

The structure is that of Session Risk Memory (arXiv 2603.22350): beside the gate that looks at one call at a time, a
centroid of what the session has been about, and an exponential moving average of the gate's output above a baseline;
the session is refused when the average stays high. The paper's constants and its vectors are not public. The defaults
for baseline, decay, threshold and the least number of calls are those of an independent implementation (helm-ai-kernel,
`session_risk_memory.go`); the three directions, their words and the weights of the gate's output are our own choice.

Deterministic and cheap: a word count a call. Not a judge of meaning: it is an option, and its denials say why.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

__all__ = ["DIRECTIONS", "Memory", "MemoryTable", "Risk", "observe"]

Share = Annotated[float, Meta(ge=0, le=1)]
DIRECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "exfiltration": (
        "curl", "wget", "upload", "webhook", "post http", "scp ", "rsync ", "nc ", "base64", "export", "share",
        "forward", "send_email", "send_message", "external", "dump", "archive", "tar c",
    ),
    "privilege": (
        "sudo", "su -", "chmod", "chown", "setuid", "root", "admin", "token", "password", "passwd", "credential",
        "secret", "api_key", "ssh", ".env", "grant", "role", "iptables",
    ),
    "integrity": (
        "delete", "drop ", "truncate", "rm -", "overwrite", "disable", "bypass", "ignore previous", "force", "audit",
        "history", "unset", "kill", "mask", "override", "tests/", "reward", "verifier",
    ),
}  # fmt: skip
"""Of each direction the words that count for it, looked for in the lower-cased call."""
_HIT: Final = 0.22
_BASE: Final = 0.08
_WEIGHTS: Final = {"exfiltration": 0.60, "privilege": 0.38, "integrity": 0.26}
_REFUSED: Final = 0.18
_TEXT: Final = 20_000


class MemoryTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[memory]`: the session is refused when the average of its calls' risk above the baseline reaches `deny_at`."""

    deny_at: Annotated[float, Meta(gt=0, le=1)] = 0.38
    baseline: Share = 0.08
    decay: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Weight of the newest call in the averages."""
    least: Annotated[int, Meta(ge=1)] = 2
    """Calls before anything is refused."""
    enforce: Literal["deny", "ask", "log"] = "deny"


class Memory(NamedTuple):
    """What is remembered; the empty one is `Memory()`."""

    calls: int = 0
    average: float = 0.0
    """Of the risk above the baseline."""
    centroid: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """What the session has been about, by direction."""


class Risk(NamedTuple):
    """What one call adds."""

    alone: float
    """In [0, 1], by itself."""
    average: float
    """With the session."""
    refused: bool
    directions: dict[str, float]


def observe(memory: Memory, call: dict[str, Any], table: MemoryTable, *, refused: bool = False) -> tuple[Memory, Risk]:
    """Takes a call into account.

    Args:
        memory: Of the session.
        call: A position of a trace; its call and act are looked at.
        table: The constants.
        refused: Whether a rule refused it already.

    Returns:
        The memory with this call, and what it means.
    """
    text = _text(call)
    vector = tuple(min(1.0, _HIT * sum(word in text for word in words)) for words in DIRECTIONS.values())
    named = dict(zip(DIRECTIONS, vector, strict=True))
    alone = _BASE + sum(_WEIGHTS[name] * value for name, value in named.items()) + _REFUSED * refused
    alone = min(1.0, alone)
    keep = 1 - table.decay
    above = max(0.0, alone - table.baseline)
    average = table.decay * above + keep * memory.average
    centroid = tuple(table.decay * new + keep * old for new, old in zip(vector, memory.centroid, strict=True))
    now = Memory(memory.calls + 1, average, (centroid[0], centroid[1], centroid[2]))
    return now, Risk(alone, average, now.calls >= table.least and average >= table.deny_at, named)


def _text(call: dict[str, Any]) -> str:
    found = call.get("call")
    act = call.get("act")
    parts = [str(found.get(key, "")) for key in ("name", "raw")] if isinstance(found, dict) else []
    if isinstance(act, dict) and isinstance(act.get("command"), str):
        parts.append(act["command"])
    return " ".join(parts)[:_TEXT].lower()
