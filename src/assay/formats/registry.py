"""Finds which format a path is of, by its content, among all that are installed (entry points `assay.formats`)."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import NamedTuple

from assay import plugins
from assay.errors import UserError
from assay.formats.mapped.draft import draft_mapping
from assay.formats.shared.sniffing import first_lines, sniff

from .interface import Format, Provenance

_SKIPPED_LINES = 4
_SAMPLED_LINES, _SAMPLED_BYTES = 40, 4 << 20


class FormatInfo(NamedTuple):
    """Description of a format."""

    name: str
    title: str
    provenance: Provenance
    writes: bool


def load_format(name: str) -> Format:
    """Loads the format of that name, `module:Class`, or `path/file.py`. Raises `PluginLoadError` with the nearest
    names."""
    found = plugins.load("formats", name)()
    if not isinstance(found, Format):
        missing = ", ".join(
            m for m in ("name", "title", "provenance", "writes", "recognises", "read", "write") if not hasattr(found, m)
        )
        raise UserError(f"{name} is not a format: it lacks {missing or 'methods of assay.formats.interface.Format'}")
    return found


def load_formats() -> tuple[Format, ...]:
    """Loads every installed format, by name."""
    return tuple(load_format(name) for name in sorted(plugins.names("formats")))


def list_formats() -> tuple[FormatInfo, ...]:
    """Describes every installed format."""
    return tuple(FormatInfo(f.name, f.title, f.provenance, f.writes) for f in load_formats())


def matching_formats(path: Path, among: tuple[Format, ...] | None = None) -> tuple[Format, ...]:
    """Returns the formats that recognise `path`; those marked `generic` only where no other does.

    Where none does, lines of JSON are judged without the first of them, which may be damaged.
    """
    known = load_formats() if among is None else among
    return _recognising(path, known) or _recognising_later_lines(path, known)


def _recognising(path: Path, known: tuple[Format, ...]) -> tuple[Format, ...]:
    takers = tuple(f for f in known if f.recognises(path))
    return tuple(f for f in takers if not getattr(f, "generic", False)) or takers


def _recognising_later_lines(path: Path, known: tuple[Format, ...]) -> tuple[Format, ...]:
    """Returns the formats that recognise lines of JSON without up to `_SKIPPED_LINES` first ones, at most half of the
    lines that are looked at."""
    if sniff(path).shape != "lines":
        return ()
    lines = first_lines(path, _SAMPLED_LINES, _SAMPLED_BYTES)
    with tempfile.TemporaryDirectory(prefix="assay-detect-") as scratch:
        for skipped in range(1, min(_SKIPPED_LINES, len(lines) // 2) + 1):
            later = Path(scratch) / str(skipped) / path.name
            later.parent.mkdir()
            later.write_bytes(b"".join(lines[skipped:]))
            takers = _recognising(later, known)
            if takers:
                return takers
    return ()


def find_format(path: Path, among: tuple[Format, ...] | None = None) -> Format:
    """Returns the one format that recognises `path`.

    Raises:
        UserError: No format recognises it, or several do; names the formats tried and describes the file.
    """
    tried = load_formats() if among is None else among
    found = matching_formats(path, tried)
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(f.name for f in found)
        raise UserError(f"{path.name} could be {names}: choose one with --format")
    raise UserError(describe_unknown(path, str(path), tried))


def describe_unknown(path: Path, name: str, tried: tuple[Format, ...]) -> str:
    """Returns why a file is of no known format, and how to import it with a mapping drafted from its content; `name` is
    the path that the user gives.
    """
    if path.is_file() and not path.stat().st_size:
        return f"{Path(name).name} is empty: nothing was recorded in it, or a copy failed"
    known = ", ".join(f.name for f in tried)
    said = f"{Path(name).name} is of no known format ({_describe_content(path)}); tried: {known}; "
    said += "if it is one of these, name it with --format"
    advice = advise_mapping(path, name)
    if advice is None:
        return f"{said}; a mapping file (--map) reads JSON with an array of turns, a format of your own reads the rest"
    return f"{said}. {advice}"


def advise_mapping(path: Path, name: str) -> str | None:
    """Returns how to import `name`, a file or what holds it, by a mapping drafted from `path`; None without a draft."""
    draft = draft_mapping(path)
    return draft and (
        "Otherwise write where its turns are into a file map.toml, check the lines below, and run "
        f"`assay import --map map.toml {shlex.quote(name)}`\n\n{draft}\n"
    )


def _describe_content(path: Path) -> str:
    seen = sniff(path)
    if seen.shape == "other":
        return "neither JSON, nor lines of JSON, nor an archive"
    keys = sorted(place for place in seen.paths if "." not in place.removeprefix("[]."))[:8]
    what = {"lines": "lines of JSON", "zip": "a zip archive", "tar": "a tar archive", "folder": "a folder"}
    what |= {"compressed": "a compressed file", "parquet": "a Parquet file"}
    return what.get(seen.shape, f"a JSON {seen.shape}") + (f" with {', '.join(keys)}" if keys else "")
