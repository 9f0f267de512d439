"""Actions of a trajectory's agents in one form, for all harnesses.

A tool is classified by its name alone (`_tools`), a command by its text, which is never run (`commands`). An unknown
tool is a `tool`; only literally named files are listed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec

from assay.records import Observation, Step, ToolCall, Trajectory, pair_observations

from ._files import FileUse, code_files, command_files, patch_files
from ._memo import cached_by_identity
from ._tests import test_commands
from ._tools import CODE_TOOLS, PATCH_TOOLS, known_kind, plain_name, text_in, words_in
from .commands import simple_commands
from .interface import Action, ActionKind

_TEST_TOOLS = frozenset({"runtests", "runtest", "executetests", "testfailure", "runpytest", "pytest", "unittest"})
_SUBMITTED = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
# Only where no exit code was recorded, and only where the harness itself puts it: at the very end or beginning.
_EXIT_LAST = re.compile(
    r"(?:\[The command completed with exit code (-?\d{1,4})\.\]|Process exited with code (-?\d{1,4})"
    r"|\[Command finished with exit code (-?\d{1,4})\])\s*\Z"
)
_EXIT_FIRST = re.compile(r"\A\s*(?:<returncode>(-?\d{1,4})</returncode>|Exit code:? (-?\d{1,4})\s*$)", re.MULTILINE)
_OF_SWE_AGENT = re.compile(
    r"\A\s*(str_replace_editor|find_file|search_file|search_dir|submit|exit_forfeit|scroll_up|scroll_down|goto|open"
    r"|create|edit|insert)(?=\s|\Z)"
)
_SWE_KINDS: dict[str, ActionKind] = {
    "find_file": "search", "search_file": "search", "search_dir": "search", "submit": "finish",
    "exit_forfeit": "finish", "scroll_up": "read", "scroll_down": "read", "goto": "read", "open": "read",
    "create": "edit", "edit": "edit", "insert": "edit",
}  # fmt: skip


class ActionReader:
    """Reads the actions of a trajectory step by step."""

    def __init__(self) -> None:
        self._found: list[Action] = []
        self._opened: str | None = None

    def add(self, step: Step) -> None:
        """Adds the actions of the next step; a step of another actor than an agent has none."""
        if step.actor not in ("agent", "other_agent"):
            return
        for made in _step_actions(step, self._opened):
            if made.kind in ("read", "edit") and made.paths:
                self._opened = made.paths[-1]
            self._found.append(_at_position(made, len(self._found)))

    @property
    def actions(self) -> tuple[Action, ...]:
        """Returns the actions so far, in order."""
        return tuple(self._found)


def actions_of(trajectory: Trajectory) -> tuple[Action, ...]:
    """Returns the actions of the agents of `trajectory` (actors `agent` and `other_agent`), in the order of its steps.

    A tool call is an action; so is a step without calls that says or thinks something. A call's observations are those
    with its id, else the next without one (`pair_observations`), joined by line ends, standard error after the output.
    """
    reader = ActionReader()
    for step in trajectory.steps:
        reader.add(step)
    return reader.actions


def actions_of_step(step: Step, opened: str | None = None) -> tuple[Action, ...]:
    """Returns the actions of one step of an agent, from 0; `opened` is the file of tools without a path."""
    return tuple(_at_position(made, position) for position, made in enumerate(_step_actions(step, opened)))


def _at_position(made: Action, index: int) -> Action:
    return msgspec.structs.replace(made, index=index) if index else made


def _step_actions(step: Step, opened: str | None) -> Iterator[Action]:
    if not step.tool_calls:
        text, seen = step.message or step.reasoning or "", step.observations
        if text or seen:
            yield Action(
                index=0,
                step=step.index,
                call=-1,
                kind="say" if step.message or not step.reasoning else "think",
                tool="",
                text=text,
                observation=_output_text(seen),
                exit_code=_exit_code(seen),
                error=any(each.error or each.timed_out for each in seen),
            )
        return
    paired = pair_observations(step.tool_calls, step.observations)
    for position, (call, seen) in enumerate(zip(step.tool_calls, paired, strict=True)):
        yield _action(step.index, position, call, seen, opened)


def _output_text(seen: tuple[Observation, ...]) -> str | None:
    if not seen:
        return None
    if len(seen) == 1 and not seen[0].stderr:
        return seen[0].content
    return "\n".join(each.content + ("\n" + each.stderr if each.stderr else "") for each in seen)


def _exit_code(seen: tuple[Observation, ...]) -> int | None:
    for each in reversed(seen):
        if each.exit_code is not None:
            return each.exit_code
    return None


def _action(step: int, position: int, call: ToolCall, seen: tuple[Observation, ...], opened: str | None) -> Action:
    arguments = call.parsed if call.parsed is not None else {}
    name = plain_name(call.name)
    kind = known_kind(name, arguments)
    raw = "" if call.parsed is not None or call.error is not None else call.arguments
    output = _output_text(seen)
    base = Action(
        index=0,
        step=step,
        call=position,
        kind=kind,
        tool=call.name,
        paths=words_in(arguments, "paths"),
        text=text_in(kind, arguments),
        arguments=arguments,
        observation=output,
        exit_code=_exit_code(seen),
        error=call.error is not None or any(each.error or each.timed_out for each in seen),
    )
    if kind == "shell":
        return _shell(base, _command(arguments, raw), opened)
    typed = arguments.get("command") if len(arguments) == 1 else None
    if isinstance(typed, str) and (tool := _OF_SWE_AGENT.match(typed)) is not None:
        return _swe_agent(base, tool[1], typed, opened)
    if name in PATCH_TOOLS:
        return _patched(base, base.text or raw or "\n".join(words_in(arguments, "command")))
    if kind == "edit" and not base.paths and opened is not None:
        return msgspec.structs.replace(base, paths=(opened,))
    if name in CODE_TOOLS:
        code = arguments.get("code") or arguments.get("input") or raw
        return msgspec.structs.replace(base, text=code if isinstance(code, str) else "")
    return base


def _command(arguments: dict[str, Any], raw: str) -> str | None:
    """Returns the shell text of a call; lists of words are quoted."""
    for field in ("command", "cmd", "action"):
        value = arguments.get(field)
        if isinstance(value, dict):  # Codex: {"action": {"command": [...]}}
            return _command(value, raw)
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            words = [str(each) for each in value]
            scripted = len(words) == 3 and words[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh")
            return words[2] if scripted and words[1] in ("-c", "-lc") else shlex.join(words)
    given = words_in(arguments, "command")
    return given[0] if given else raw or None


def _shell(base: Action, command: str | None, opened: str | None) -> Action:
    exit_code = base.exit_code if base.exit_code is not None else _written_exit_code(base.observation)
    base = msgspec.structs.replace(base, command=command, exit_code=exit_code)
    if command is None:
        return base
    if (tool := _OF_SWE_AGENT.match(command)) is not None:
        return _swe_agent(base, tool[1], command, opened)
    simple = simple_commands(command)
    program = simple[0].program if simple else ""
    if program in ("apply_patch", "applypatch"):
        return _patched(base, "\n".join((*simple[0].words[1:], simple[0].stdin or "")))
    if program == "echo" and any(word in _SUBMITTED for word in simple[0].words):
        return msgspec.structs.replace(base, kind="finish")
    use = command_files(command)
    return msgspec.structs.replace(base, paths=tuple(dict.fromkeys(use.written + use.read + use.removed)))


def _patched(base: Action, patch: str) -> Action:
    use = patch_files(patch)
    paths = tuple(dict.fromkeys(base.paths + use.written + use.removed))
    return msgspec.structs.replace(base, kind="edit", text=patch, paths=paths)


def _swe_agent(base: Action, tool: str, command: str, opened: str | None) -> Action:
    """Parses a SWE-agent tool called as text at its shell prompt; an edit is of the file opened last."""
    head, _, body = command.strip().partition("\n")
    simple = simple_commands(command.strip() if tool == "str_replace_editor" else head)
    words = [word for word in simple[0].words if not word.startswith("-")] if simple else [tool]
    if tool == "str_replace_editor":
        looks = len(words) > 1 and words[1] == "view"
        return msgspec.structs.replace(
            base, kind="read" if looks else "edit", paths=tuple(words[2:3]), text="" if looks else command
        )
    kind = _SWE_KINDS[tool]
    named = tuple(words[1:2]) if tool in ("open", "create") else tuple(words[2:3]) if kind == "search" else ()
    paths = named or ((opened,) if kind in ("read", "edit") and opened is not None else ())
    return msgspec.structs.replace(base, kind=kind, paths=paths, text=body)


def _written_exit_code(observation: str | None) -> int | None:
    if observation is None:
        return None
    found = _EXIT_LAST.search(observation[-200:]) or _EXIT_FIRST.match(observation[:200])
    return None if found is None else int(next(each for each in found.groups() if each is not None))


def is_test_run(action: Action) -> bool:
    """Returns whether an action runs tests: a test runner, or a program named like a test (`python test_it.py`)."""
    if plain_name(action.tool) in _TEST_TOOLS:
        return True
    if action.command is not None:
        return bool(test_commands(action.command))
    return action.kind == "tool" and bool(re.search(r"\b(?:pytest|unittest)\.main\(", action.text))


_NO_FILES = FileUse()


def file_use(action: Action) -> FileUse:
    """Returns the files that an action writes, reads and removes."""
    if action.kind == "tool" and not action.text:
        return _NO_FILES
    if action.kind == "shell" or (action.kind == "finish" and action.command is not None):
        return command_files(action.command) if action.command is not None else FileUse()
    if action.kind == "edit":
        use = patch_files(action.text) if plain_name(action.tool) in PATCH_TOOLS or action.command else FileUse()
        removes = plain_name(action.tool) == "deletefile"
        named = () if removes else tuple(path for path in action.paths if path not in use.removed)
        removed = action.paths if removes else use.removed
        return FileUse(written=named, removed=removed)
    if action.kind in ("read", "search"):
        return FileUse(read=action.paths)
    return code_files(action.text) if plain_name(action.tool) in CODE_TOOLS else FileUse()


@cached_by_identity(1)
def writing_actions(actions: tuple[Action, ...]) -> tuple[tuple[Action, tuple[str, ...]], ...]:
    """Returns the actions that create or change files, each with these files (`written_paths`)."""
    return tuple((action, written) for action in actions if (written := written_paths(action)))


def written_paths(action: Action) -> tuple[str, ...]:
    """Returns files created or changed, as written: by an edit, redirection, `sed -i`, `cp`, patch, Python text."""
    return file_use(action).written


def read_paths(action: Action) -> tuple[str, ...]:
    """Returns files and folders read, as written; a shell listing of names (`ls`, `find`) is excluded."""
    return file_use(action).read


def removed_paths(action: Action) -> tuple[str, ...]:
    """Returns files removed or moved away, as written."""
    return file_use(action).removed
