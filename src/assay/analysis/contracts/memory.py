"""Session risk memory: many small steps that lead to harm although each is harmless.

The structure is that of Session Risk Memory (arXiv 2603.22350): beside the gate for single calls, a centroid of the
session's topics and an exponential moving average of the gate's output above a baseline; the session is refused if the
average stays high. The paper's constants and vectors are not public. Defaults of baseline, decay, threshold and minimum
number of calls are those of an independent implementation (helm-ai-kernel, `session_risk_memory.go`); the three
directions, their words and the weights of the gate's output are ours.

Deterministic and cheap: a word count per call. It does not judge meaning: it is optional, and its denials say why.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

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
"""Words of each direction, searched in the lower-cased call."""
_HIT: Final = 0.22
_BASE: Final = 0.08
_WEIGHTS: Final = {"exfiltration": 0.60, "privilege": 0.38, "integrity": 0.26}
_REFUSED: Final = 0.18
_TEXT: Final = 20_000


class MemoryTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[memory]`: the session is refused when the average risk of its calls above the baseline reaches `deny_at`."""

    deny_at: Annotated[float, Meta(gt=0, le=1)] = 0.38
    baseline: Share = 0.08
    decay: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Weight of the newest call in the averages."""
    least: Annotated[int, Meta(ge=1)] = 2
    """Minimum number of calls before a refusal."""
    enforce: Literal["deny", "ask", "log"] = "deny"


class Memory(NamedTuple):
    """Risk memory; `Memory()` is empty."""

    calls: int = 0
    average: float = 0.0
    """Average of the risk above the baseline."""
    centroid: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Topic weights by direction."""


class Risk(NamedTuple):
    """Risk of one call."""

    alone: float
    """Risk of the call itself, in [0, 1]."""
    average: float
    """Average including the session."""
    refused: bool
    directions: dict[str, float]


def observe(memory: Memory, call: dict[str, Any], table: MemoryTable, *, refused: bool = False) -> tuple[Memory, Risk]:
    """Returns the memory with a call added, and the call's risk; `refused` says that a rule already refused it."""
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
