"""A router by the steps so far, which names the tier that is to make the next step."""

from typing import Any


def pick(prefix: Any) -> str:
    """Weak where all rows that were found are updated, so that only `submit` is left; until then mid."""
    pairs = (zip(step.tool_calls, step.observations, strict=False) for step in prefix.steps)
    seen = [(call.name, one) for pair in pairs for call, one in pair]
    rows = [len(one.content.splitlines()) for name, one in seen if name == "find"]
    updates = sum(name == "update" for name, _ in seen)
    return "weak" if updates and updates >= rows[-1] else "mid"
