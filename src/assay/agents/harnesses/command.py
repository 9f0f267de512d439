"""Any command line as an agent: it finds the model in its environment, whatever API it speaks.

    assay run TASKS --agent command --model openai:NAME --agent-option 'command=my-agent --yes' \\
        --agent-option 'mounts={"/host/folder/of/my-agent": "/opt/my-agent"}'

A command given as one text is run by `/bin/sh -c`, a list of words as it is. The task's text is its standard input, and
is in the file that `$ASSAY_INSTRUCTION` names; in a list of words, `{instruction}` as a whole word is the text itself.
The environment has `OPENAI_BASE_URL` and `OPENAI_API_BASE` (with `/v1`), `OPENAI_API_KEY`, `OPENAI_MODEL`, the three of
`ANTHROPIC_`, `GOOGLE_GEMINI_BASE_URL`, `GEMINI_API_KEY`, `GEMINI_MODEL`, and `ASSAY_MODEL_URL`, `ASSAY_MODEL_KEY` and
`ASSAY_MODEL`.

The command runs in the sandbox and sees what is there: the image, the mounts, and with `harnesses` the folders of
installed ones (`/opt/agents/NAME`).
"""

from __future__ import annotations

import copy
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from assay.agents._calls import instruction_of
from assay.agents._options import read_options, require_known_options
from assay.agents.interface import Attempt, Endpoint, Needs
from assay.environments.interface import Mount
from assay.errors import AgentError, UserError
from assay.records import Evidence, digest_record
from assay.settings import Settings

from .agent import HOME, describe_exit, home_of
from .install import find_installed
from .recipe import plain_model

_OWN = f"{HOME}/.assay-command"
_ASSIGNMENT = re.compile(r"\w+=")
_STARTER = re.compile(r"(?:python|node|sh|bash|env|exec|uv|npx)[\d.]*")
"""Programs that say nothing of the agent which they start."""
_TEST_COMMAND = re.compile(r"\s*\[\[?\s")
"""The shell's `[ -f FILE ]`, which is no list of words."""
Count = Annotated[int, msgspec.Meta(ge=0)]


class CommandOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the agent `command`."""

    command: str | tuple[str, ...]
    """Command to run: a text for the shell, or (as a JSON list) words."""
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=80)] | None = None
    """Name of the agent in records and tables: attempts of one name are one agent. Default: the program or script, and
    after it six characters that stand for the whole command if there is more than one word."""
    env: dict[str, str] = {}
    """Variables added to its environment."""
    mounts: dict[str, str] = {}
    """Host folder or file to where the sandbox shows it, read-only."""
    harnesses: tuple[str, ...] = ()
    """Names of installed harnesses and libraries whose folders it needs."""
    own: tuple[str, ...] = ()
    """Folders of its own, absolute: they start empty and are no part of the state."""
    memory_mib: Count = 0
    """At least this much memory; 0 leaves it to the task."""
    processes: Count = 0
    """At least this many processes; 0 leaves it to the task."""


class CommandAgent:
    """Runs one command line. Its options are the fields of `CommandOptions`."""

    name = "command"
    needs_model = True
    host_options = frozenset({"mounts"})
    """Options that name files of the machine that runs the agent."""

    def __init__(self, **options: Any) -> None:
        require_known_options(CommandOptions, options, self.name)
        if "command" not in options:
            raise UserError("agent 'command' runs a command line: give --agent-option 'command=...'")
        given = read_options(CommandOptions, {**options, "command": _words(options["command"])}, self.name)
        self._options, self.is_named = given, given.name is not None
        self.name = given.name or name_command(given.command)
        self.mounts: tuple[Mount, ...] = (*_given_mounts(given.mounts), *_harness_mounts(given.harnesses))
        self.needs: Needs = Needs(given.memory_mib, given.processes, tmpfs=(_OWN, *given.own))

    def with_name(self, name: str) -> CommandAgent:
        """Returns the same agent under another name."""
        renamed = copy.copy(self)
        renamed.name = name
        return renamed

    async def run(self, attempt: Attempt) -> None:
        workspace = attempt.workspace
        if workspace is None:
            raise UserError(
                f"a command needs a sandbox, and the environment {attempt.task.environment.kind!r} has none"
            )
        home, instruction = await home_of(workspace), instruction_of(attempt.task)
        endpoint = await attempt.endpoint()
        await workspace.write(f"{_OWN}/instruction.md", instruction.encode())
        env = environment_of(endpoint) | {"ASSAY_INSTRUCTION": f"{home}{_OWN[len(HOME) :]}/instruction.md"}
        command = self._options.command
        if not isinstance(command, str):
            command = tuple(
                instruction.replace("\0", "\ufffd") if word == "{instruction}" else word for word in command
            )
        started = time.time()
        result = await workspace.exec(command, env={**env, **self._options.env}, stdin=instruction.encode())
        data = {"command": self._options.command, "exit_code": result.exit_code, "killed_by": result.killed_by}
        attempt.note(Evidence(id="harness", channel="audit", kind="harness", data=data, at=started))
        if result.exit_code in {126, 127} and result.duration_s < 5:
            said = f"the command did not start: {result.stderr.strip()[-500:] or result.exit_code}"
            raise AgentError(said + explain_link(command, self.mounts))
        attempt.finish(describe_exit("the command", result))


def name_command(command: str | tuple[str, ...]) -> str:
    """Returns a name for a command: its program, or the script of an interpreter; with a digest if it has options."""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:
        words = str(command).split()
    named = [PurePosixPath(word).name for word in words if not word.startswith("-") and not _ASSIGNMENT.match(word)]
    program = next((name for name in named if not _STARTER.fullmatch(name)), named[0] if named else "")
    short = re.sub(r"[^\w.-]+", "-", program).strip("-.")[:40] or CommandAgent.name
    return short if len(words) == 1 else f"{short}-{digest_record(command).partition(':')[2][:6]}"


def explain_link(command: str | tuple[str, ...], mounts: Sequence[Mount]) -> str:
    """Returns why a mounted program cannot start though it exists on the host: it is a link to a file outside of the
    mounts, as the Python of a virtual environment is; empty if that is not the cause."""
    words = command.split() if isinstance(command, str) else command
    program = words[0] if words else ""
    for mount in mounts:
        if not f"{program}/".startswith(f"{mount.target}/"):
            continue
        found = Path(mount.source, program[len(mount.target) :].lstrip("/"))
        if found.exists() and not found.resolve().is_relative_to(Path(mount.source).resolve()):
            return (
                f"; {program} is a link to {found.resolve()}, which the sandbox does not show: mount a folder of "
                "packages (pip install --target FOLDER ...), name it in PYTHONPATH, and start the sandbox's own python3"
            )
    return ""


def environment_of(endpoint: Endpoint) -> dict[str, str]:
    """The variables by which clients of every API find the model."""
    url, key, model = endpoint.url, endpoint.key, plain_model(endpoint.model)
    return {
        "ASSAY_MODEL_URL": url,
        "ASSAY_MODEL_KEY": key,
        "ASSAY_MODEL": model,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": key,
        "OPENAI_MODEL": model,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": key,
        "ANTHROPIC_MODEL": model,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": key,
        "GEMINI_MODEL": model,
    }


def _words(given: Any) -> Any:
    """A list of words given as JSON text, as on a command line; anything else as it is.

    Option parsing takes `true` and `false` for booleans, which are commands too."""
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, str) and given.lstrip().startswith("["):
        try:
            return msgspec.json.decode(given, type=tuple[str, ...])
        except msgspec.DecodeError as exc:
            if _TEST_COMMAND.match(given):
                return given
            raise UserError(
                f"agent 'command': command starts with [ and is not a JSON list of words ({exc}): write for example "
                """'command=["python3", "agent.py"]', or for the shell a space after the bracket"""
            ) from exc
    return given


def _given_mounts(given: dict[str, str]) -> tuple[Mount, ...]:
    mounts = []
    for source, target in given.items():
        if not Path(source).exists():
            raise UserError(
                f"agent 'command': mounts: {Path(source).absolute()} does not exist (a relative path starts at the "
                "current folder): correct the path, or run the command where the folder is"
            )
        if not target.startswith("/") or ".." in target.split("/"):
            raise UserError(f"agent 'command': mounts: {target!r} must be an absolute path inside the sandbox")
        mounts.append(Mount(str(Path(source).resolve()), target))
    return tuple(mounts)


def _harness_mounts(names: tuple[str, ...]) -> tuple[Mount, ...]:
    from . import find_recipe

    if not names:
        return ()
    cache = Settings.from_environment().cache
    found = [mount for name in names for mount in find_installed(cache, find_recipe(name)).mounts()]
    return tuple(dict.fromkeys(found))
