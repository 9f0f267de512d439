"""Files and directories of BFCL's file system, and its current directory.

Directories are objects that refer to each other, as in the original, and each is a row: a copied directory shares its
files with the one it was copied from, and what was in a directory that moved has the old one above it. A search whose
paths are too many or too deep is an error, which bounds directories that contain themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import msgspec

from .tool_class import ClassState, Setting, equality_digest

_MOST_CHARACTERS: Final = 1 << 20
_MOST_LEVELS: Final = 900


class File(msgspec.Struct):
    """A file."""

    name: str
    content: str


class Directory(msgspec.Struct):
    """A directory; its entries are an object of their own, which another one may have, too."""

    name: str
    parent: int | None
    entries: int


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
        """Returns an entry of the current directory; None without one."""
        number = self.here.get(name)
        return None if number is None else self.items[number]

    def find_file(self, name: str) -> File | None:
        """Returns a file of the current directory; None without one."""
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
        """Returns the directory at a path; None without one."""
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
