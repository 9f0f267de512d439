"""Tool names of known harnesses, and the arguments that hold a command, a path or a text.

Names are compared by lower-case letters and digits, so `read_file`, `ReadFile` and `readFile` are equal. Other names
make a plain `tool`: nothing is guessed from arguments.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .interface import ActionKind

_SHELL = """shell bash sh terminal executebash execbash runinterminal runbash runshellcommand runterminalcmd
    runterminalcommand executecommand executeshell executeshellcommand exec execcommand localshell localshellcall
    shellcommand containerexec bashcommand runcommand runcommands cmdrun commandexecution shellinafork sandboxexec
    terminalexecute tmux run"""
_READ = """read readfile view viewfile openfile catfile readmanyfiles fsread notebookread viewimage open goto scrollup
    scrolldown readtextfile readmultiplefiles getfilecontents filereader readnotebook"""
_EDIT = """edit write writefile createfile create replace replacestringinfile multireplacestringinfile strreplace insert
    insertedit insertedittofile inserteditintofile applypatch multiedit notebookedit editfile searchreplace
    searchandreplace writetofile applydiff replaceinfile undoedit deletefile filechange editnotebook
    insertcontent fswrite createdirectory movefile newfile append writetextfile patch"""
_SEARCH = """grep glob search findfile findfiles searchfile searchdir searchfiles listdir ls listfiles listdirectory
    searchfilecontent grepsearch filesearch codebasesearch semanticsearch find rg ripgrep grepfiles listcodeusages
    globfilesearch searchcode directorytree searchrepo"""
_BROWSE = """browse browser webfetch websearch googlewebsearch fetch fetchurl fetchwebpage gotourl openurl
    browseinteractive browseraction visitpage visitwebpage navigate webbrowser websearchpreview browserun
    searchweb googlesearch internetsearch"""
_THINK = """think sequentialthinking todowrite todoread todo updateplan tasktracker taskcreate taskupdate tasklist
    taskget plan writetodos managetodolist todolist exitplanmode enterplanmode savememory"""
_FINISH = """finish submit finalanswer attemptcompletion completetask marktaskcomplete taskcomplete taskdone done
    exitforfeit complete endtask submitanswer finishtask"""
_KINDS: dict[str, ActionKind] = {}
_LISTS: tuple[tuple[ActionKind, str], ...] = (
    ("shell", _SHELL),
    ("read", _READ),
    ("edit", _EDIT),
    ("search", _SEARCH),
    ("browse", _BROWSE),
    ("think", _THINK),
    ("finish", _FINISH),
)
_KINDS.update({name: kind for kind, names in _LISTS for name in names.split()})
MULTI_TOOLS = frozenset({"strreplaceeditor", "strreplacebasededittool", "fileeditor", "texteditor", "editanthropic"})
"""Editors whose argument `command` selects viewing or writing."""
PATCH_TOOLS = frozenset({"applypatch", "patch", "applydiff"})
_CODE = """executeipythoncell ipython python pythoninterpreter runipython executepython runpython codeinterpreter
    executecode runcode jupyter pythonexec notebookrun"""
CODE_TOOLS = frozenset(_CODE.split())
"""Tools that run program text in another language than shell."""
_PREFIX = re.compile(r"^(?:mcp__.+?__|functions?[._]|default_api[:.])", re.DOTALL)
_BROWSER = re.compile(r"^(?:browser|playwright|puppeteer|chrome)")
_NOT_NAME = re.compile(r"[^a-z0-9]+")
_COMMAND = ("command", "cmd", "script", "commands", "keystrokes", "CommandLine", "shell_command", "bash_command")
_PATHS = (
    "path", "file_path", "filePath", "filepath", "file", "filename", "file_name", "target_file", "absolute_path",
    "notebook_path", "relative_workspace_path", "paths", "files", "dir_path", "dirPath", "directory", "dir",
    "AbsolutePath", "TargetFile", "source", "destination", "old_path", "new_path",
)  # fmt: skip
_TEXTS: dict[ActionKind, tuple[str, ...]] = {
    "edit": (
        "content", "contents", "file_text", "fileText", "new_str", "new_string", "newString", "newText", "new",
        "insert_text", "new_source", "replacement", "replace", "text", "code_edit", "code", "diff", "patch", "input",
    ),
    "think": ("thought", "thoughts", "text", "explanation", "content"),
    "finish": ("message", "answer", "final_answer", "result", "summary", "output", "final_thought", "text"),
}  # fmt: skip


def plain_name(tool: str) -> str:
    """Returns the table form of a name: no server prefix, lower case, letters and digits alone."""
    return _plain_name(tool[:256])


@lru_cache(maxsize=1_024)
def _plain_name(tool: str) -> str:
    return _NOT_NAME.sub("", _PREFIX.sub("", tool).lower())


def known_kind(name: str, arguments: dict[str, Any]) -> ActionKind:
    """Returns the kind of a tool by its plain name, `tool` if unknown."""
    if name in MULTI_TOOLS:
        return "read" if arguments.get("command") == "view" else "edit"
    kind = _KINDS.get(name)
    if kind is not None:
        return "browse" if kind == "read" and "url" in arguments and "path" not in arguments else kind
    return "browse" if _BROWSER.match(name) else "tool"


def words_in(arguments: dict[str, Any], fields: str) -> tuple[str, ...]:
    """Returns every text of the fields for a `command` or `paths`, flattening lists."""
    names = _COMMAND if fields == "command" else _PATHS
    if arguments.keys().isdisjoint(names):
        return ()
    found: list[str] = []
    for field in names:
        value = arguments.get(field)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            found += (each for each in value if isinstance(each, str))
    return tuple(dict.fromkeys(each for each in found if each))


def text_in(kind: ActionKind, arguments: dict[str, Any]) -> str:
    """Returns the new text of an edit, thought or final message, one line per replacement."""
    for field in _TEXTS.get(kind, ()):
        value = arguments.get(field)
        if isinstance(value, str):
            return value
    edits = arguments.get("edits") or arguments.get("replacements") or arguments.get("changes")
    if not isinstance(edits, list):
        return ""
    return "\n".join(text for each in edits if isinstance(each, dict) and (text := text_in(kind, each)))
