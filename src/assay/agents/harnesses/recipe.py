"""Recipes of command-line agents: installation, invocation and endpoint settings.

A recipe is data. Texts in it may hold `${...}`, filled in when it runs:

| name | what |
|---|---|
| `url`, `openai` | the endpoint, and the same with `/v1` |
| `key`, `model` | what opens the endpoint; the model's name, reduced to letters, digits, `.`, `_` and `-` |
| `dialect` | the one that was chosen; `by_dialect` adds names of its own |
| `tree`, `node`, `python` | the installed folder, a Node, a Python, as the sandbox sees them |
| `home` | the home folder inside |
| `context`, `output` | tokens of the model's context and of one answer, where a harness wants to be told |
| `instruction` | the task's text, as one whole word of the command; without it the text is the command's input |

Nothing here runs anything: `install` fetches, `agent` runs.
"""

from __future__ import annotations

import re
from string import Template
from typing import Literal

import msgspec

from assay.agents.interface import Needs

DialectName = Literal["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
_UNPLAIN = re.compile(r"[^A-Za-z0-9._-]+")


class Npm(msgspec.Struct, frozen=True, tag="npm"):
    """An npm package. Its install scripts and its dependencies' are not run."""

    package: str
    version: str
    native: dict[str, str] = {}
    """Machine (`x86_64`, `aarch64`) to its program below `node_modules`, if that is native."""

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"{self.package}@{self.version}",)


class Pip(msgspec.Struct, frozen=True, tag="pip"):
    """Python packages, wheels alone, with their own Python."""

    packages: tuple[str, ...]
    """Pinned, `name==version`; the first gives the version."""
    python: tuple[int, int] = (3, 11)
    """Minimum Python version."""
    built: tuple[str, ...] = ()
    """Packages without a wheel: their set-up program runs on this machine at installation."""

    @property
    def version(self) -> str:
        return self.packages[0].partition("==")[2]

    @property
    def requirements(self) -> tuple[str, ...]:
        return self.packages


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a harness is told of MCP servers."""

    style: Literal["claude", "codex", "gemini", "opencode", "openhands", "pi"]
    """Format of an entry (`tool_servers`)."""
    file: str
    """Settings file below home; one of the recipe's own is extended."""
    files: dict[str, str] = {}
    """Path below home to text of further files where there are servers."""
    words: tuple[str, ...] = ()
    """Words of the command line where there are servers."""
    env: dict[str, str] = {}
    """Variables where there are servers."""
    transports: tuple[Literal["http", "sse", "stdio"], ...] = ("http", "sse", "stdio")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Recipe of one harness."""

    name: str
    title: str
    install: Npm | Pip
    dialects: tuple[DialectName, ...]
    """Supported APIs; the first is the default."""
    command: tuple[str, ...]
    """Words; those that expand to nothing are omitted."""
    after: tuple[str, ...] = ()
    """Words after the user's own."""
    lean: tuple[str, ...] = ()
    """Words that reduce tools and prompt."""
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Path below home to text: its settings, without the task."""
    own: tuple[str, ...] = ()
    """Folders below home for its own files: they start empty and are excluded from the judged state."""
    by_dialect: dict[DialectName, dict[str, str]] = {}
    servers: ServerSettings | None = None
    """How it is told of MCP servers; None if it takes none."""
    skills: str = ""
    """Folder below home where it looks for skills; empty if it has none."""
    side_calls: str
    """Model calls beside the conversation, for readers."""
    needs: Needs = Needs(memory_mib=2048, processes=256, open_files=1024, tmp_mib=256)
    """Tested resources; a task's lower limits are raised to them."""

    @property
    def version(self) -> str:
        return self.install.version

    @property
    def is_library(self) -> bool:
        """Returns whether it is a library for programs that the agent `command` runs."""
        return not self.command


def fill_template(text: str, values: dict[str, str]) -> str:
    """Fills in a recipe's text. An unknown name raises `KeyError`: the recipe is wrong."""
    return Template(text).substitute(values)


def plain_model(name: str) -> str:
    """Returns the model's name reduced to characters safe in command lines, URL paths and configuration files."""
    return _UNPLAIN.sub("-", name).strip("-.")[:80] or "model"
