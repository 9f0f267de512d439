"""Finds by-products: files that the solution adds and that no verifier reads (scripts, notes, logs).

A cheat in such a file, or a change to it, says nothing about the verifier. Invariant: a file is a by-product only where
another one is named, and where the verifier's files show all that they start and read by name. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

from assay.agents.cheats.interface import SolutionFile

_LISTS = re.compile(r"glob|listdir|scandir|iterdir|os\.walk|\bfind\b|\bls\b|copytree|\bcp -|/\*|\*\.")
"""Matches verifiers that read every file of a folder."""
_READ_UNNAMED = re.compile(
    r"(?:^|/)(?:conftest|__init__|__main__|setup|sitecustomize|usercustomize)\.py$|\.(?:toml|cfg|ini|pth|mk)$|(?:^|/)Makefile$"
)
"""Files that programs read by convention."""


def find_byproducts(
    files: Sequence[SolutionFile], artifacts: Iterable[str], verifier: str, agent_texts: Iterable[str]
) -> frozenset[str]:
    """Returns the paths of added files that neither the task, the verifier nor a file in use names.

    Everything below `artifacts` is in use; `verifier` is empty where the verifier's files are not all known.
    """
    if not verifier or _LISTS.search(verifier):
        return frozenset()
    declared = tuple(artifacts)
    texts = [verifier, *agent_texts]
    used: set[str] = set()
    rest = list(files)
    while found := [file for file in rest if _is_used(file, declared, texts)]:
        used |= {file.path for file in found}
        texts = [(file.after or b"").decode(errors="replace") for file in found]
        rest = [file for file in rest if file.path not in used]
    return frozenset(file.path for file in rest) if used else frozenset()


def _is_used(file: SolutionFile, declared: Sequence[str], texts: Iterable[str]) -> bool:
    if file.before is not None or file.after is None or _READ_UNNAMED.search(file.path):
        return True
    if any(file.path == path or file.path.startswith(path.rstrip("/") + "/") for path in declared):
        return True
    name = posixpath.basename(file.path)
    patterns = [rf"(?<![\w-]){re.escape(name)}(?![\w-])"]
    if name.endswith(".py"):
        module = re.escape(name.removesuffix(".py"))
        patterns.append(rf"(?:import|from|-m)\s[^\n]*\b{module}\b|[\"'.]{module}\b")
    return any(re.search(one, text) for text in texts for one in patterns)
