"""Texts that an agent can read before it starts: the instruction and the files in the image."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from assay.agents.cheats.interface import Knowledge
from assay.tasks import LoadedTask

MOST_BYTES = 48 * 1024 * 1024
"""Bytes of all files together; the rest is skipped."""
MOST_FILE = 4 * 1024 * 1024
MOST_MEMBERS = 20_000


class AgentTexts(NamedTuple):
    """Texts that an agent can read, by source."""

    instruction: str
    """Instruction of all steps."""
    image: dict[str, bytes]
    """Path below `environment/` to content; members of archives follow a colon."""
    context: tuple[str, ...]
    """Settings of the task, and the texts before the solution changed them."""

    def mentions(self, words: str) -> bool:
        """Returns whether a text contains the words; the instruction ignores case, the image needs whole words."""
        return self.in_instruction(words) or self._in_image(words)

    def in_instruction(self, words: str) -> bool:
        """Returns whether the instruction contains the words, ignoring case."""
        return words.casefold() in self.instruction.casefold()

    def _in_image(self, words: str) -> bool:
        data = words.encode()
        if any(words in name for name in self.image) or any(words in text for text in self.context):
            return True
        pattern = re.compile(rb"(?<!\w)" + re.escape(data) + rb"(?!\w)") if re.fullmatch(r"\w+", words) else None
        holders = (text for text in self.image.values() if data in text)
        return any(pattern is None or pattern.search(text) is not None for text in holders)


def collect_agent_texts(loaded: LoadedTask, knowledge: Knowledge | None) -> AgentTexts:
    """Collects the texts within the byte limits; archives are read in memory."""
    instruction = loaded.task.instruction
    texts = [
        instruction if isinstance(instruction, str) else "\n".join(str(message.content) for message in instruction)
    ]
    texts += [step.instruction for step in loaded.steps]
    image: dict[str, bytes] = {}
    if loaded.folder is not None:
        environment = loaded.folder / "environment"
        for path, data in folder_files(environment):
            image[path] = data
            if path.endswith((".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")):
                image.update((f"{path}:{name}", member) for name, member in _list_members(data))
    before = (f.before for f in knowledge.changed) if knowledge is not None else ()
    parameters = loaded.task.environment.parameters
    settings = str([parameters.get(name) for name in ("collect", "artifacts", "env", "healthcheck", "workdir")])
    context = (settings, *(b.decode(errors="replace") for b in before if b is not None))
    return AgentTexts("\n".join(texts), image, context)


def folder_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the regular files below a folder with their relative paths, within the byte limits. Skips links."""
    left = MOST_BYTES
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_file() or path.stat().st_size > min(left, MOST_FILE):
            continue
        data = path.read_bytes()
        left -= len(data)
        yield path.relative_to(folder).as_posix(), data


@lru_cache(maxsize=1)
def _list_members(data: bytes) -> tuple[tuple[str, bytes], ...]:
    """Returns names and contents of an archive, which the tasks of a set often share."""
    return tuple(_members(data))


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    left = MOST_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for number, member in enumerate(archive):
                if number >= MOST_MEMBERS:
                    return
                if member.isfile() and member.size <= min(left, MOST_FILE):
                    opened = archive.extractfile(member)
                    content = b"" if opened is None else opened.read(MOST_FILE)
                    left -= len(content)
                    yield member.name, content
    except (tarfile.TarError, EOFError, OSError, ValueError):  # whatever is left of it is not looked at
        return
