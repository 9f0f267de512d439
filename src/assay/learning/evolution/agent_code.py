"""Code of an agent as a component of a search: candidates are read, checked and kept by content.

A candidate is the agent's folder with some files changed, added or removed: by a unified diff, by whole files, or by a
model's answer that holds either. It is tried only if it changes no other file than the recipe allows, is bounded, holds
no text of the held-out tasks, and if its Python, JSON and TOML files parse. The folder of each candidate is kept below
`STORE/evolution/code/` under its digest, and its digest is recomputed before every run.

Covered: nothing of a candidate is imported or executed in this process. Its program runs where the agent `command` runs
it: in the sandbox of an attempt, which sees the folder read-only. Not covered: what the program does there, which the
verifier judges like any agent's acts; a leak in another spelling (`assay.learning.skills.leaks` says which).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from assay.code.patches import PatchError, apply_patch, read_patch
from assay.code.source import SourceError, require_compiles
from assay.errors import StoreError, UserError
from assay.learning.file_tree import FileTree, TreeLimits, place_tree, read_tree
from assay.learning.skills.folder import SkillFolder
from assay.learning.skills.leaks import TaskSecrets, scan_leaks, secrets_of_task
from assay.limited_file import parse_file, read_toml
from assay.tasks import LoadedTask

from .recipe import CODE, EvolveCodeOptions, EvolveRecipe

LIMITS: Final = TreeLimits("an agent's folder", 2_000, 8 << 20, depth=16, ignored=frozenset({"__pycache__", ".git"}))
MOST_CHANGED = 32
"""Files that a candidate may change."""
MOST_FILE, MOST_LINES, MOST_TEXT = 128 << 10, 4_000, 256 << 10
"""Bytes and lines of a changed file, and bytes of all changed files together."""
_PARSERS: Mapping[str, Callable[[bytes], Any]] = {
    ".py": lambda data: require_compiles(data.decode()),
    ".json": msgspec.json.decode,
    ".toml": read_toml,
}


class CandidateError(ValueError):
    """A candidate may not be tried; the message says why."""


class CodeCandidate(NamedTuple):
    """A checked candidate that is kept in the store."""

    digest: str
    diff: str
    """Unified diff from the agent's present folder."""


class AgentCode:
    """The agent's present code and the candidates in its place.

    Args:
        options: `[code]` of the recipe.
        store: Root of the store.
        held_out: Tasks whose texts no candidate may hold.

    Raises:
        UserError: The folder cannot be read or exceeds a limit.
    """

    def __init__(self, options: EvolveCodeOptions, store: Path, held_out: Sequence[LoadedTask]) -> None:
        self._options, self._folder = options, store / "evolution" / "code"
        self._held_out = held_out
        self._secrets: list[TaskSecrets] | None = None
        path = Path(options.folder)
        self._is_file = path.is_file()
        if self._is_file:
            data = parse_file(path, bytes, holding="the program of an agent", limit=MOST_FILE)
            self.base = FileTree({path.name: data})
        else:
            self.base = read_tree(path, LIMITS, "name the folder of the agent's program, or the program")
        self._keep(self.base)

    def resolve(self, recipe: EvolveRecipe) -> tuple[EvolveRecipe, list[CodeCandidate]]:
        """Returns the recipe with digests in place of the paths of variants, so that it changes with their content.

        Raises:
            UserError: A variant may not be tried.
        """
        candidates = {str(path): self._read_variant(str(path)) for path in recipe.space.get(CODE, ())}
        space = {**recipe.space, CODE: [one.digest for one in candidates.values()]} if candidates else recipe.space
        base = {**recipe.base, CODE: self.base.digest}
        return msgspec.structs.replace(recipe, base=base, space=space), list(candidates.values())

    def run_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the agent's options with the folder of a candidate mounted. Raises as `tree_of`."""
        others = {name: value for name, value in options.items() if name != CODE}
        digest = str(options[CODE])
        tree = self.tree_of(digest)
        source = self.folder_of(digest) / next(iter(tree.files)) if self._is_file else self.folder_of(digest)
        return {**others, "mounts": {**others.get("mounts", {}), str(source): self._options.target}}

    def folder_of(self, digest: str) -> Path:
        """Returns where the code of a digest is kept."""
        return self._folder / digest.partition(":")[2][:32]

    def tree_of(self, digest: str) -> FileTree:
        """Returns kept code. Raises `StoreError` if it is not what was kept."""
        folder = self.folder_of(digest)
        try:
            tree = read_tree(folder, LIMITS)
        except UserError as exc:
            raise StoreError(f"the code {digest} cannot be read: {exc}") from exc
        if tree.digest != digest:
            raise StoreError(f"{folder} was changed: it is no longer the code {digest}; remove the folder")
        return tree

    def may_change(self, path: str) -> bool:
        """Returns whether the recipe lets candidates change, add or remove a file."""
        return any(fnmatchcase(path, pattern) for pattern in self._options.files)

    def changed_by_answer(self, digest: str, answer: str) -> CodeCandidate:
        """Returns the candidate that a model's answer makes of kept code, and keeps it. Raises `CandidateError`."""
        patch, files = read_answer(answer)
        return self._check(_overlay(_patched(self.tree_of(digest), patch), files))

    def _read_variant(self, given: str) -> CodeCandidate:
        """Returns the candidate of a patch file, or of a folder of files that replace the agent's."""
        path = Path(given)
        try:
            if path.is_dir():
                variant = read_tree(path, LIMITS)
                return self._check(_overlay(self.base, variant.files, variant.executable))
            patch = parse_file(path, bytes.decode, holding="a unified diff", limit=MOST_TEXT)
            return self._check(_patched(self.base, patch))
        except CandidateError as exc:
            raise UserError(f"space: code: {given} cannot be tried: {exc}") from exc

    def _check(self, tree: FileTree) -> CodeCandidate:
        changed = _changed_paths(self.base, tree)
        self._require_bounded(tree, changed)
        texts = {path: _decode(path, tree.files[path]) for path in changed if path in tree.files}
        for path in texts:
            _require_parses(path, tree.files[path])
        added = _added_lines(self.base, texts)
        if self._secrets is None:
            self._secrets = [secrets_of_task(one) for one in self._held_out]
        leaks = scan_leaks(SkillFolder("code", {path: text.encode() for path, text in added.items()}), self._secrets)
        if leaks:
            raise CandidateError(f"it holds a {leaks[0]}, of a task of the gate")
        self._keep(tree)
        return CodeCandidate(tree.digest, _render_diff(self.base, tree, changed))

    def _require_bounded(self, tree: FileTree, changed: Sequence[str]) -> None:
        if not changed:
            raise CandidateError("it changes nothing of the agent's folder")
        for path in changed:
            _require_plain_path(path, tree)
        forbidden = [path for path in changed if not self.may_change(path)]
        if forbidden:
            allowed = ", ".join(self._options.files)
            raise CandidateError(f"it changes {forbidden[0][:200]!r}; files that may change: {allowed}")
        if len(changed) > MOST_CHANGED:
            raise CandidateError(f"it changes {len(changed)} files; at most {MOST_CHANGED}")
        if self._is_file and list(tree.files) != list(self.base.files):
            raise CandidateError("it adds or removes files, and the agent is one file")
        sizes = {path: len(tree.files.get(path, b"")) for path in changed}
        largest = max(sizes, key=lambda path: sizes[path])
        if sizes[largest] > MOST_FILE or tree.files.get(largest, b"").count(b"\n") > MOST_LINES:
            raise CandidateError(f"{largest} is longer than {MOST_FILE >> 10} KiB or {MOST_LINES:,} lines")
        if sum(sizes.values()) > MOST_TEXT:
            raise CandidateError(f"its changed files have more than {MOST_TEXT >> 10} KiB together")
        folders = {parent for path in tree.files for parent in PurePosixPath(path).parents}
        if len(tree.files) + len(folders) > LIMITS.entries or sum(map(len, tree.files.values())) > LIMITS.size:
            raise CandidateError(
                f"the folder would have more than {LIMITS.entries:,} entries or {LIMITS.size >> 20} MiB"
            )

    def _keep(self, tree: FileTree) -> None:
        try:
            place_tree(tree, self.folder_of(tree.digest))
        except FileExistsError:
            self.tree_of(tree.digest)


def read_answer(answer: str) -> tuple[str, dict[str, bytes]]:
    """Returns the patch and the whole files of a model's answer: blocks that begin with ```diff or ```file PATH.

    A block ends with a line of as many backticks as it began with. Raises `CandidateError` where there is no block.
    """
    patches, files = list[str](), dict[str, bytes]()
    fence, kind, name, lines = "", "", "", list[str]()
    for line in answer[: 4 * MOST_TEXT].splitlines(keepends=True):
        stripped = line.strip()
        if fence and stripped == fence:
            text = "".join(lines)
            if kind in ("diff", "patch"):
                patches.append(text)
            elif kind == "file":
                files[name] = text.encode(errors="replace")
            fence = ""
        elif fence:
            lines.append(line)
        elif stripped.startswith("```"):
            fence = stripped[: len(stripped) - len(stripped.lstrip("`"))]
            kind, _, name = stripped[len(fence) :].strip().partition(" ")
            name, lines = name.strip(), []
    if not patches and not files:
        raise CandidateError("the answer holds neither a block ```diff nor a block ```file PATH that ends")
    return "".join(patches), files


def _patched(tree: FileTree, text: str) -> FileTree:
    files, executable = dict(tree.files), set(tree.executable)
    try:
        patches = read_patch(text)
        for one in patches:
            before = None if one.old is None else _text_of(files, one.old)
            after = apply_patch(one, before)
            if one.old is not None and one.old != one.new:
                files.pop(one.old, None)
                executable.discard(one.old)
            if one.new is not None and after is not None:
                files[one.new] = after.encode()
                executable |= {one.new} if one.executable else set()
    except (PatchError, UnicodeEncodeError) as exc:
        raise CandidateError(f"the diff does not apply: {exc}") from exc
    return FileTree(files, frozenset(executable))


def _text_of(files: Mapping[str, bytes], path: str) -> str | None:
    return _decode(path, files[path]) if path in files else None


def _overlay(tree: FileTree, files: Mapping[str, bytes], executable: frozenset[str] = frozenset()) -> FileTree:
    return FileTree({**tree.files, **files}, tree.executable | executable)


def _require_plain_path(path: str, tree: FileTree) -> None:
    """Raises `CandidateError` for a path that a folder of this tree cannot have, or that reading it would leave out."""
    parts = path.split("/")
    is_plain = path.isprintable() and "\\" not in path and all(part not in ("", ".", "..") for part in parts)
    if not is_plain or len(parts) > LIMITS.depth or len(path.encode(errors="replace")) > 200:
        raise CandidateError(f"{path[:200]!r} is not a plain path below the folder")
    if LIMITS.ignored & set(parts):
        raise CandidateError(f"{path!r} is in a folder that does not belong to the code")
    above = [str(parent) for parent in PurePosixPath(path).parents]
    is_folder = any(other.startswith(f"{path}/") for other in tree.files)
    if path in tree.files and (is_folder or any(parent in tree.files for parent in above)):
        raise CandidateError(f"{path!r} would be both a file and a folder, or in a file")


def _changed_paths(before: FileTree, after: FileTree) -> list[str]:
    paths = {*before.files, *after.files}
    return sorted(
        path
        for path in paths
        if before.files.get(path) != after.files.get(path) or (path in before.executable) != (path in after.executable)
    )


def _decode(path: str, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise CandidateError(f"{path} is not UTF-8 text: {exc.reason} at byte {exc.start}") from exc
    if "\0" in text:
        raise CandidateError(f"{path} holds a null character")
    return text


def _require_parses(path: str, data: bytes) -> None:
    """Raises `CandidateError` where a file that changed does not compile, as Python of this process, or parse."""
    parser = _PARSERS.get(Path(path).suffix)
    if parser is None:
        return
    try:
        parser(data)
    except (SourceError, msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise CandidateError(f"{path}: {exc}") from exc


def _added_lines(base: FileTree, texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the lines of changed files that the present ones do not have, so that the user's own text is no leak."""
    known = {path: set(base.files.get(path, b"").decode(errors="replace").splitlines()) for path in texts}
    return {
        path: "\n".join(line for line in text.splitlines() if line not in known[path]) for path, text in texts.items()
    }


def _render_diff(before: FileTree, after: FileTree, changed: Sequence[str]) -> str:
    lines = list[str]()
    for path in changed:
        old, new = before.files.get(path), after.files.get(path)
        names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
        for line in difflib.unified_diff(_lines_of(old), _lines_of(new), *names):
            lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def _lines_of(data: bytes | None) -> list[str]:
    return (data or b"").decode(errors="replace").splitlines(keepends=True)
