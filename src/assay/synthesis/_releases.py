"""Other releases of the package, used as further references to choose inputs that are fair to compare.

A release's version of a task is the reference with the changed functions replaced by the release's. If
the task's tests pass on it, it counts as correct, and inputs on which it differs from the reference are
not compared. Only those functions run, in sandboxes; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.code.function_changes import FunctionChanges
from assay.code.transplant import transplant_function
from assay.errors import UserError

from ._tree import SourceTree, read_tree

MAX_RELEASES = 8


class Release(NamedTuple):
    name: str
    """Name and version, for example `num2words 0.5.13`."""
    digest: str
    files: Mapping[str, str]
    """Path below an import root to text."""


def load_releases(paths: Sequence[str], tree: SourceTree) -> tuple[Release, ...]:
    """Reads the releases of a package (sdists, wheels or folders), sorted by name. Blocking.

    Raises:
        UserError: One cannot be read, is of another package, or is named like another one; or there are too many.
    """
    if len(paths) > MAX_RELEASES:
        raise UserError(f"{len(paths)} other releases are named; at most {MAX_RELEASES} are compared with")
    found: dict[str, Release] = {}
    for path in paths:
        other = read_tree(path, installed=False)
        if not set(other.import_names) & set(tree.import_names):
            raise UserError(
                f"{path} contains {', '.join(other.import_names)}, not a release of {', '.join(tree.import_names)}"
            )
        release = Release(other.title, other.digest, _texts_below_roots(other))
        if release.name in found:
            raise UserError(f"{path} is a second release named {release.name}: name each release once")
        found[release.name] = release
    return tuple(found[name] for name in sorted(found))


def apply_release(
    release: Release, tree: SourceTree, right: Mapping[str, str], changes: Mapping[str, FunctionChanges]
) -> dict[str, str] | None:
    """Returns the reference's files with the changed functions of a release; None if it has the same functions.

    `right` holds the reference's texts of the files that a task changes, `changes` the functions that it changes there.
    """
    made = dict(right)
    for path, changed in changes.items():
        donor = release.files.get(_below_root(path, tree.roots), "")
        for function in changed.functions:
            made[path] = transplant_function(made[path], donor, function.name) or made[path]
    return made if made != dict(right) else None


def _texts_below_roots(tree: SourceTree) -> dict[str, str]:
    return {_below_root(path, tree.roots): tree.files[path].decode("utf-8", "replace") for path in tree.modules}


def _below_root(path: str, roots: Iterable[str]) -> str:
    prefix = next((f"{root}/" for root in roots if root != "." and path.startswith(f"{root}/")), "")
    return path.removeprefix(prefix)
