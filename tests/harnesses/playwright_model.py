"""A scripted model that does a task of the site “museum” by the tools of Playwright MCP, as their snapshots show it.

`scripted:tests.harnesses.playwright_model:answer` is the model. It opens the site, goes a way, takes a screenshot, and
tries another site. Before each act it takes snapshots until one shows the element; an act that failed is done again.
"""

from __future__ import annotations

import re
from typing import Any

from assay.agents._calls import text_of
from assay.gateway.interface import ModelRequest

SITE = "http://museum.test/"
ELSEWHERE = "http://example.com/"
WAY = ("Museum", "Open exhibitions", "Open guided tours", "Back to home", "Open exhibitions", "Code", "Redeem discount")
"""Names of the elements to use in turn; `Code` is filled in with what the page of tours showed."""
LAST = (
    ("browser_take_screenshot", {"type": "png", "scale": "css"}),
    ("browser_navigate", {"url": ELSEWHERE}),
)
CODE = re.compile(r"DISCOUNT-\d+")
MOST_CALLS = 60
PREFIX = "mcp__playwright__"


def answer(request: ModelRequest) -> Any:
    """Returns the call that follows what was done so far."""
    calls = [call["function"]["name"] for message in request.messages for call in message.get("tool_calls") or ()]
    names = [name.removeprefix(PREFIX) for name in calls]
    outputs = [text_of(message["content"]) for message in request.messages if message["role"] == "tool"]
    if not names:
        return _call("browser_navigate", {"url": SITE})
    if len(names) >= MOST_CALLS:
        return "Nothing more is tried."
    acts = zip(names, outputs, strict=True)
    done = sum(name in ("browser_click", "browser_type") and "### Error" not in output for name, output in acts)
    if done == len(WAY):
        after = len(names) - 1 - max(at for at, name in enumerate(names) if name == "browser_click")
        return _call(*LAST[after]) if after < len(LAST) else "Done."
    found = re.findall(rf'(?:link|button|textbox) "{WAY[done]}"[^\n]*\[ref=(\w+)\]', outputs[-1])
    if names[-1] != "browser_snapshot" or not found:
        return _call("browser_snapshot", {})
    target = {"element": WAY[done], "target": found[-1]}
    if WAY[done] != "Code":
        return _call("browser_click", target)
    code = next(found for text in outputs for found in CODE.findall(text))
    return _call("browser_type", {**target, "text": code})


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"name": f"{PREFIX}{name}", "arguments": arguments}]}
