"""BFCL's `GorillaFileSystem`: files and directories, and a current directory.

Directories are objects that refer to each other, as in the original, and each is a row: a copied directory shares its
files with the one it was copied from, and what was in a directory that moved has the old one above it. A search whose
paths are too many or too deep is an error, which bounds directories that contain themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

import msgspec

from .tool_class import ClassState, Setting, ToolClass, equality_digest

_MOST_CHARACTERS: Final = 1 << 20
_MOST_LEVELS: Final = 900
_FORBIDDEN: Final = frozenset('|/\\?%*:"><')
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


class File(msgspec.Struct):
    """A file."""

    name: str
    content: str


class Directory(msgspec.Struct):
    """A directory; its entries are an object of their own, which another one may have, too."""

    name: str
    parent: int | None
    entries: int


class _Target(NamedTuple):
    """Where an entry goes."""

    directory: int
    name: str
    path: str
    """Path that the result shows."""
    is_inside: bool
    """Whether it goes into a directory that exists."""


class FileState(ClassState):
    """The objects of a file system by number; a number is never used again."""

    items: dict[int, File | Directory]
    entries: dict[int, dict[str, int]]
    root: int = 0
    current: int = 0

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:
        state = cls({}, {})
        name, content = next(iter(scenario["root"].items())) if "root" in scenario else ("/", None)
        state._add_directory(name, None)
        if content is not None:
            state._fill(0, content["contents"], setting.extension)
        return state

    def _fill(self, number: int, contents: Mapping[str, Any], extension: Mapping[str, Any] | None) -> None:
        for name, part in contents.items():
            if part["type"] == "directory":
                made = self._add_directory(name, number)
                self._fill(made, part["contents"], extension)
                self.listing(number)[name] = made
            elif part["type"] == "file":
                text = part["content"]
                if extension is not None and name not in extension["FILES_TAIL_USED"]:
                    text += extension["FILE_CONTENT_EXTENSION"]
                self.listing(number)[name] = self._add(File(name, text))
        if extension is not None and all(part["type"] != "directory" for part in contents.values()):
            for name in extension["POPULATE_FILE_EXTENSION"]:
                self.add_file(number, name, "")

    @classmethod
    def restore(cls, attributes: Mapping[str, Any]) -> Self:
        state = cls({}, {}, attributes["root"], attributes["current"])
        for name, value in attributes.items():
            kind, _, number = name.partition(" ")
            if kind == "file":
                state.items[int(number)] = File(*value)
            elif kind == "directory":
                state.items[int(number)] = Directory(*value)
            elif kind == "entries":
                state.entries[int(number)] = value
        return state

    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {"root": self.root, "current": self.current}
        for number, item in self.items.items():
            kind = "file" if isinstance(item, File) else "directory"
            found[f"{kind} {number}"] = list(msgspec.structs.astuple(item))
        return found | {f"entries {number}": entries for number, entries in self.entries.items()}

    def judged(self) -> Any:
        """Returns digests of the tree, each of which covers what is below it; a cycle is a value of its own."""
        digests: dict[int, str] = {}
        stack: list[int] = [self.root]
        open_ones: set[int] = set()
        while stack:
            number = stack[-1]
            item = self.items[number]
            if isinstance(item, File):
                digests[number] = equality_digest(["file", item.name, item.content])
            elif number not in open_ones and number not in digests:
                open_ones.add(number)
                parts_left = (part for part in self.listing(number).values() if part not in digests)
                stack += [part for part in parts_left if part not in open_ones]
                continue
            elif number not in digests:
                open_ones.discard(number)
                parts = {name: digests.get(part, "cycle") for name, part in self.listing(number).items()}
                digests[number] = equality_digest(["directory", item.name, parts])
            stack.pop()
        return digests[self.root]

    # Objects.

    def directory(self, number: int) -> Directory:
        """Returns a directory. Raises `TypeError` for a file."""
        item = self.items[number]
        if isinstance(item, File):
            raise TypeError(f"{item.name} is a file")
        return item

    def listing(self, number: int) -> dict[str, int]:
        """Returns the entries of a directory, which can be changed."""
        return self.entries[self.directory(number).entries]

    @property
    def here(self) -> dict[str, int]:
        """Entries of the current directory."""
        return self.listing(self.current)

    def find(self, name: str) -> File | Directory | None:
        """Returns an entry of the current directory; None if there is none."""
        number = self.here.get(name)
        return None if number is None else self.items[number]

    def find_file(self, name: str) -> File | None:
        """Returns a file of the current directory; None if there is none."""
        item = self.find(name)
        return item if isinstance(item, File) else None

    def add_file(self, number: int, name: str, content: str) -> None:
        """Adds a file to a directory. Raises `ValueError` if the name is taken."""
        self._require_free("File", number, name)
        self.listing(number)[name] = self._add(File(name, content))

    def add_directory(self, number: int, name: str) -> int:
        """Adds an empty directory to a directory, and returns its number. Raises `ValueError` if the name is taken."""
        self._require_free("Directory", number, name)
        made = self.listing(number)[name] = self._add_directory(name, number)
        return made

    def share_directory(self, number: int, name: str, entries: int) -> None:
        """Adds a directory that has the entries of another one."""
        made = self.directory(self.add_directory(number, name))
        del self.entries[made.entries]
        made.entries = entries

    def copy_directory(self, number: int, name: str, original: int) -> None:
        """Adds a directory that has entries of its own with the objects of another one."""
        made = self.listing(self.add_directory(number, name))
        made.update(self.listing(original))

    def _require_free(self, kind: str, number: int, name: str) -> None:
        if name in self.listing(number):
            raise ValueError(f"{kind} '{name}' already exists in directory '{self.directory(number).name}'.")

    def _add(self, item: File | Directory) -> int:
        number = max(self.items, default=-1) + 1
        self.items[number] = item
        return number

    def _add_directory(self, name: str, parent: int | None) -> int:
        entries = max(self.entries, default=-1) + 1
        self.entries[entries] = {}
        return self._add(Directory(name, parent, entries))

    def walk(self, number: int, path: str) -> Iterator[tuple[str, str, File | Directory]]:
        """Yields path, name and object of everything below a directory, each directory before what is in it.

        Raises:
            ValueError: There is too much.
        """
        levels = [(path, iter(self.listing(number).items()))]
        characters = 0
        while levels:
            base, entries = levels[-1]
            for name, part in entries:
                found = f"{base}/{name}"
                characters += len(found)
                if characters > _MOST_CHARACTERS or len(levels) > _MOST_LEVELS:
                    raise ValueError("maximum recursion depth exceeded")
                yield found, name, self.items[part]
                if isinstance(self.items[part], Directory):
                    levels.append((found, iter(self.listing(part).items())))
                    break
            else:
                levels.pop()

    def navigate(self, path: str) -> int | None:
        """Returns the directory at a path; None if there is none."""
        if path == ".":
            return self.current
        if path == "/":
            return self.root
        number = self.root if path.startswith("/") else self.current
        for name in path.strip("/").split("/"):
            found = number if name == "." else self.listing(number).get(name)
            if found is None or isinstance(self.items[found], File):
                return None
            number = found
        return number


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
