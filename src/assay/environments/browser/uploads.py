"""Files that an agent chooses in a page: those of the attempt's world, by name.

Covered: a file is made in the page from bytes of the world, so the browser is given no path and reads no file of any
machine; an agent can name only files that the world has. Files that a script of the page chose itself are not kept with
the state, which is said in the record.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from blake3 import blake3

from assay.environments.services.files import FileStore, StoredFile, media_type

from . import acts
from .tab import ActProblem, Tab

LOST: Final = "chosen files"
_MOST_CHOSEN: Final = 20


async def upload(tab: Tab, number: int, names: Sequence[str], store: FileStore | None) -> None:
    """Chooses files in a file field, in place of those chosen before. Raises `ActProblem`."""
    if len(names) > _MOST_CHOSEN:
        raise ActProblem(f"A file field takes at most {_MOST_CHOSEN} files at a time.")
    files = [_named(name, store) for name in names]
    acts.require_done(await tab.evaluate("upload", tab.element(number), _as_data(files)), number)


def _named(name: str, store: FileStore | None) -> StoredFile:
    found = None if store is None else store.named(name)
    if found is None:
        known = ", ".join([] if store is None else store.names) or "none"
        raise ActProblem(f"There is no file {name[:100]!r} here; paths are not taken. Files: {known}.")
    return found


async def restore_files(tab: Tab, kept: Sequence[Any], store: FileStore | None) -> list[str]:
    """Chooses the files of a kept page again; returns what could not be chosen. Raises `ActProblem`."""
    lost = False
    for at, name, chosen in kept:
        # By digest: the world may have another file of this name since it was chosen.
        found = [None if store is None else store.content_of(str(digest)) for _, digest in chosen]
        files = [
            StoredFile(str(file), media_type(str(file), one.content), one.content)
            for (file, _), one in zip(chosen, found, strict=True)
            if one is not None
        ]
        is_whole = len(files) == len(chosen)
        lost = lost or not is_whole or await tab.evaluate("restoreFiles", at, name, _as_data(files)) is not True
    return [LOST] if lost else []


def _as_data(files: Sequence[StoredFile]) -> list[list[str]]:
    return [
        [file.name, file.media_type, base64.b64encode(file.content).decode(), blake3(file.content).hexdigest()]
        for file in files
    ]
