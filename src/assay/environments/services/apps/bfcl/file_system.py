"""BFCL's `GorillaFileSystem`: a simple file system with a current directory."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .file_tree import Directory, File, FileState
from .tool_class import ToolClass

_FORBIDDEN: Final = frozenset('|/\\?%*:"><')
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


class _Target(NamedTuple):
    """Where an entry goes."""

    directory: int
    name: str
    path: str
    """Path that the result shows."""
    is_inside: bool
    """True if it goes into a directory that exists."""


files: Final = ToolClass("GorillaFileSystem", "bfclfiles", "A simple file system.", FileState)
service: Final = files.service


def _has_forbidden(name: str) -> bool:
    return not _FORBIDDEN.isdisjoint(name)


@files.tool
def pwd(state: FileState) -> Any:
    """Returns the path of the current directory."""
    names: list[str] = []
    number: int | None = state.current
    while number is not None:
        directory = state.directory(number)
        names.append(directory.name)
        number = directory.parent
    return {"current_working_directory": "/" + "/".join(reversed(names))}


@files.tool
def ls(state: FileState, a: bool = False) -> Any:  # noqa: FBT001 - the original's parameter
    """Lists the entries of the current directory.

    Args:
        a: True to list hidden ones, too.
    """
    return {"current_directory_content": [name for name in state.here if a or not name.startswith(".")]}


@files.tool
def cd(state: FileState, folder: str) -> Any:
    """Changes the current directory, by one level at a time.

    Args:
        folder: Name of a directory in the current one, or .. for the one above.
    """
    folder = folder.rstrip("/") or "/"
    if folder not in {".", "..", "/"} and "/" in folder:
        return {"error": f"cd: {folder}: Unsupported path. Only one folder level at a time is supported."}
    if folder == "..":
        parent = state.directory(state.current).parent
        if parent is None:
            return {"error": "Current directory is already the root. Cannot go back."}
        state.current = parent
        return {}
    found = state.navigate(folder)
    if found is None:
        return {"error": f"cd: '{folder}': No such file or directory"}
    state.current = found
    return {"current_working_directory": state.directory(found).name}


@files.tool
def mkdir(state: FileState, dir_name: str) -> Any:
    """Makes a directory in the current one.

    Args:
        dir_name: Name of the new directory.
    """
    if _has_forbidden(dir_name):
        return {"error": f"mkdir: cannot create directory '{dir_name}': Invalid character"}
    if dir_name in state.here:
        return {"error": f"mkdir: cannot create directory '{dir_name}': File exists"}
    state.add_directory(state.current, dir_name)
    return None


@files.tool
def touch(state: FileState, file_name: str) -> Any:
    """Makes an empty file in the current directory.

    Args:
        file_name: Name of the new file; no path.
    """
    if _has_forbidden(file_name):
        return {"error": f"touch: cannot touch '{file_name}': Invalid character"}
    if file_name in state.here:
        return {"error": f"touch: cannot touch '{file_name}': File exists"}
    state.add_file(state.current, file_name, "")
    return None


@files.tool
def echo(state: FileState, content: str, file_name: str | None = None) -> Any:
    """Writes a text to a file of the current directory, or shows it.

    Args:
        content: The text.
        file_name: Name of the file, which exists; without it the text is shown.
    """
    if not file_name:
        return {"terminal_output": content}
    if _has_forbidden(file_name):
        return {"error": f"echo: cannot write to '{file_name}': Invalid character"}
    item = state.find(file_name)
    if item is None:
        return {"error": f"echo: cannot write to '{file_name}': No such file"}
    if isinstance(item, Directory):
        raise AttributeError("'Directory' object has no attribute '_write'")  # noqa: TRY004 - the original's error
    item.content = content
    return None


@files.tool
def cat(state: FileState, file_name: str) -> Any:
    """Shows the content of a file of the current directory.

    Args:
        file_name: Name of the file; no path.
    """
    if _has_forbidden(file_name):
        return {"error": f"cat: '{file_name}': Invalid character"}
    item = state.find(file_name)
    if item is None:
        return {"error": f"cat: '{file_name}': No such file or directory"}
    return (
        {"file_content": item.content} if isinstance(item, File) else {"error": f"cat: '{file_name}': Is a directory"}
    )


@files.tool
def find(state: FileState, path: str = ".", name: str | None = None) -> Any:
    """Finds files and directories below a directory.

    Args:
        path: Path of the directory; default: the current one.
        name: Text that their names contain; without it all are listed.
    """
    start = state.navigate(path)
    if start is None:
        return {"error": f"find: '{path}': No such file or directory"}
    walked = state.walk(start, path.rstrip("/"))
    return {"matches": [found for found, own, _ in walked if name is None or name in own]}


@files.tool
def wc(state: FileState, file_name: str, mode: str = "l") -> Any:
    """Counts the lines, words or characters of a file of the current directory.

    Args:
        file_name: Name of the file.
        mode: l for lines, w for words, c for characters.
    """
    if mode not in ("l", "w", "c"):
        return {"error": f"wc: invalid mode '{mode}'"}
    file = state.find_file(file_name)
    if file is None:
        return {"error": f"wc: {file_name}: No such file or directory"}
    if mode == "c":
        return {"count": len(file.content), "type": "characters"}
    parts, kind = (file.content.splitlines(), "lines") if mode == "l" else (file.content.split(), "words")
    return {"count": len(parts), "type": kind}


@files.tool
def sort(state: FileState, file_name: str) -> Any:
    """Shows the lines of a file of the current directory in order; the file stays as it is.

    Args:
        file_name: Name of the file.
    """
    file = state.find_file(file_name)
    if file is None:
        return {"error": f"sort: {file_name}: No such file or directory"}
    return {"sorted_content": "\n".join(sorted(file.content.splitlines()))}


@files.tool
def grep(state: FileState, file_name: str, pattern: str) -> Any:
    """Shows the lines of a file of the current directory that contain a text.

    Args:
        file_name: Name of the file; no path.
        pattern: The text.
    """
    file = state.find_file(file_name)
    if file is None:
        return {"error": f"grep: {file_name}: No such file or directory"}
    return {"matching_lines": [line for line in file.content.splitlines() if pattern in line]}


@files.tool
def du(state: FileState, human_readable: bool = False) -> Any:  # noqa: FBT001 - the original's parameter
    """Returns the size of the current directory and everything below it.

    Args:
        human_readable: True for a unit such as KB.
    """
    walked = state.walk(state.current, "")
    size: float = sum(len(item.content.encode()) for _, _, item in walked if isinstance(item, File))
    if not human_readable:
        return {"disk_usage": f"{size} bytes"}
    for unit in _UNITS:
        if size < 1024:
            return {"disk_usage": f"{size:.2f} {unit}"}
        size /= 1024
    return {"disk_usage": f"{size:.2f} PB"}


@files.tool
def tail(state: FileState, file_name: str, lines: int = 10) -> Any:
    """Shows the last lines of a file of the current directory.

    Args:
        file_name: Name of the file; no path.
        lines: Number of lines.
    """
    file = state.find_file(file_name)
    if file is None:
        return {"error": f"tail: {file_name}: No such file or directory"}
    content = file.content.splitlines()
    return {"last_lines": "\n".join(content[-min(lines, len(content)) :])}


@files.tool
def diff(state: FileState, file_name1: str, file_name2: str) -> Any:
    """Compares two files of the current directory line by line.

    Args:
        file_name1: Name of the first file.
        file_name2: Name of the second file.
    """
    first, second = state.find_file(file_name1), state.find_file(file_name2)
    if first is None or second is None:
        return {"error": f"diff: {file_name1} or {file_name2}: No such file or directory"}
    pairs = zip(first.content.splitlines(), second.content.splitlines(), strict=False)
    return {"diff_lines": "\n".join(f"- {one}\n+ {other}" for one, other in pairs if one != other)}


@files.tool
def mv(state: FileState, source: str, destination: str) -> Any:
    """Moves or renames a file or directory of the current directory.

    Args:
        source: Its name.
        destination: Name of a directory of the current directory into which it is moved, or its new name; no path.
    """
    target = _find_target(state, "mv: cannot move", source, destination)
    if isinstance(target, dict):
        return target
    if target.is_inside and target.name in state.listing(target.directory):
        return {"error": f"mv: cannot move '{source}' to '{target.path}': File exists"}
    item = state.items[state.here.pop(source)]
    if isinstance(item, File):
        state.add_file(target.directory, target.name, item.content)
    else:
        state.share_directory(target.directory, target.name, item.entries)
    return {"result": f"'{source}' moved to '{target.path}'"}


@files.tool
def cp(state: FileState, source: str, destination: str) -> Any:
    """Copies a file or directory of the current directory.

    Args:
        source: Its name.
        destination: Name of a directory of the current directory into which it is copied, or a new name; no path.
    """
    target = _find_target(state, "cp: cannot copy", source, destination)
    if isinstance(target, dict):
        return target
    number = state.here[source]
    item = state.items[number]
    if isinstance(item, File):
        state.add_file(target.directory, target.name, item.content)
    else:
        state.copy_directory(target.directory, target.name, number)
    return {"result": f"'{source}' copied to '{target.path}'"}


def _find_target(state: FileState, verb: str, source: str, destination: str) -> _Target | dict[str, str]:
    """Returns where an entry of the current directory goes, or an error."""
    if source not in state.here:
        return {"error": f"{verb} '{source}': No such file or directory"}
    if "/" in destination:
        command = verb.partition(":")[0]
        return {"error": f"{command}: path not allowed in destination. Provide only a file or directory name."}
    number = state.here.get(destination)
    if number is None:
        return _Target(state.current, destination, destination, is_inside=False)
    if isinstance(state.items[number], File):
        return {"error": f"{verb} '{source}' to '{destination}': Not a directory"}
    return _Target(number, source, f"{destination}/{source}", is_inside=True)


@files.tool
def rm(state: FileState, file_name: str) -> Any:
    """Removes a file or directory of the current directory.

    Args:
        file_name: Its name.
    """
    if file_name not in state.here:
        return {"error": f"rm: cannot remove '{file_name}': No such file or directory"}
    del state.here[file_name]
    return {"result": f"'{file_name}' removed"}


@files.tool
def rmdir(state: FileState, dir_name: str) -> Any:
    """Removes an empty directory of the current directory.

    Args:
        dir_name: Its name.
    """
    item = state.find(dir_name)
    if item is None:
        return {"error": f"rmdir: cannot remove '{dir_name}': No such file or directory"}
    if isinstance(item, File):
        return {"error": f"rmdir: cannot remove '{dir_name}': Not a directory"}
    if state.entries[item.entries]:
        return {"error": f"rmdir: cannot remove '{dir_name}': Directory not empty"}
    del state.here[dir_name]
    return {"result": f"'{dir_name}' removed"}
