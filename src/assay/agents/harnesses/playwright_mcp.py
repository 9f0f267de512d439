"""Playwright MCP: a browser of the harness's own, on the site of the attempt (`--agent-option browser=playwright-mcp`).

The MCP server and the distribution's Chromium run in the harness's sandbox, which has no network. The name of the site
is mapped to the one address that answers there; every other name is unknown. The site's state is held and judged
outside of the sandbox, as without it.

Covered: pages of the attempt's own site alone can be loaded. Not covered: Chromium's own sandbox is off, because ours
takes its place, so a renderer that is compromised reaches the harness beside it. What the browser does is recorded as
the tool calls of the harness's model; no screens are stored.
"""

from __future__ import annotations

from typing import Final

import msgspec

from assay.agents.interface import Needs, SiteAddress, ToolServer
from assay.environments.browser.chromium import find_program

from .install import Installed
from .recipe import Npm, Recipe

RECIPE = Recipe(
    name="playwright-mcp",
    title="Playwright MCP",
    install=Npm("@playwright/mcp", "0.0.83"),
    dialects=(),
    command=(),
    side_calls="none: it is a server of tools for the other harnesses",
)
SERVER: Final = "playwright"
"""Name of the MCP server."""
FOLDER: Final = ".playwright"
"""Folder below home for its settings and files."""
NEEDS: Final = Needs(memory_mib=4096, processes=2000, open_files=4096, tmp_mib=1024)
ACT_MS: Final = 30_000
"""Longest wait for an act; Playwright's own 5 seconds end acts on a busy machine."""
_PROGRAM: Final = "node_modules/@playwright/mcp/cli.js"
_ARGUMENTS: Final = ("--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1")


def browser_config(site: SiteAddress, home: str) -> str:
    """Returns the server's settings as JSON: an isolated context of a headless Chromium that knows one name."""
    rules = f"MAP {site.host} {site.address}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    launch = {
        "executablePath": find_program(),
        "headless": True,
        "chromiumSandbox": False,
        "args": [*_ARGUMENTS, f"--host-resolver-rules={rules}"],
    }
    context = {"viewport": {"width": 1280, "height": 800}, "locale": "en-US", "timezoneId": "UTC"}
    browser = {"browserName": "chromium", "isolated": True, "launchOptions": launch, "contextOptions": context}
    config = {
        "browser": browser,
        "capabilities": ["vision"],
        "outputDir": f"{home}/{FOLDER}/files",
        "timeouts": {"action": ACT_MS},
    }
    return msgspec.json.format(msgspec.json.encode(config), indent=2).decode()


def browser_server(installed: Installed, home: str) -> ToolServer:
    """Returns the server as a harness starts it inside of the sandbox."""
    places = installed.places()
    command = (places["node"], f"{places['tree']}/{_PROGRAM}", "--config", f"{home}/{FOLDER}/config.json")
    return ToolServer(SERVER, "stdio", command=command)


def browser_note(site: SiteAddress) -> str:
    """Returns what the instruction says beside the task's own text."""
    return (
        f"\n\nThe site is at {site.url}, and no other address can be reached. Your browser is that of the MCP server "
        f"`{SERVER}`; its tools are the ones to use: open the site with `browser_navigate`."
    )
