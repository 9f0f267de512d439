"""What is known of a command-line agent: how it installs, how it is started, how it is told where the model is.

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

__all__ = ["DialectName", "Npm", "Pip", "Recipe", "fill_template", "plain_model"]

DialectName = Literal["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
_UNPLAIN = re.compile(r"[^A-Za-z0-9._-]+")


class Npm(msgspec.Struct, frozen=True, tag="npm"):
    """An npm package. No install script of it, or of what it requires, is run."""

    package: str
    version: str
    native: dict[str, str] = {}
    """Machine (`x86_64`, `aarch64`) to the file below `node_modules` that is its program, where that is no script."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is asked of the registry."""
        return (f"{self.package}@{self.version}",)


class Pip(msgspec.Struct, frozen=True, tag="pip"):
    """Python packages, wheels alone, with a Python of their own."""

    packages: tuple[str, ...]
    """Pinned, `name==version`; the first is the one that gives the version."""
    python: tuple[int, int] = (3, 11)
    """The oldest Python that they run on."""
    built: tuple[str, ...] = ()
    """Packages that have no wheel: their own set-up program runs on this machine when they are installed."""

    @property
    def version(self) -> str:
        """Of the first package."""
        return self.packages[0].partition("==")[2]

    @property
    def requirements(self) -> tuple[str, ...]:
        """What is asked of the index."""
        return self.packages


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One harness."""

    name: str
    title: str
    install: Npm | Pip
    dialects: tuple[DialectName, ...]
    """The APIs that it can be made to speak; the first is the default."""
    command: tuple[str, ...]
    """Words; what fills in to nothing is left out."""
    after: tuple[str, ...] = ()
    """Words that come after the ones that a user adds."""
    lean: tuple[str, ...] = ()
    """Words that make it offer fewer tools and a shorter prompt."""
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Path below home to text: its settings, and nothing of the task."""
    own: tuple[str, ...] = ()
    """Folders below home that are its own: they start empty and are no part of the state that is judged."""
    by_dialect: dict[DialectName, dict[str, str]] = {}
    endpoint_settings: str
    """How it is told the endpoint, for readers."""
    side_calls: str
    """Model calls that it makes beside the conversation, for readers."""
    as_root: str = ""
    """What it needs where it runs as root, for readers; the sandbox's agent is no root."""
    notes: str = ""
    needs: Needs = Needs(memory_mib=2048, processes=256, open_files=1024, tmp_mib=256)
    """What it was tried with; a task that allows less is given as much."""

    @property
    def version(self) -> str:
        """The pinned version."""
        return self.install.version

    @property
    def is_library(self) -> bool:
        """Whether it is no agent by itself: programs that use it run through the agent `command`."""
        return not self.command


def fill_template(text: str, values: dict[str, str]) -> str:
    """A recipe's text with its names filled in. A name that is not known raises `KeyError`: the recipe is wrong."""
    return Template(text).substitute(values)


def plain_model(name: str) -> str:
    """A model's name that no command line, URL path or configuration file takes for anything else."""
    return _UNPLAIN.sub("-", name).strip("-.")[:80] or "model"
