"""Name, version and licence that a package declares in its metadata or project files.

Reads the first `MAX_BYTES` of `PKG-INFO`, `METADATA`, `pyproject.toml`, `setup.cfg` and `setup.py`, and runs none of
them. Files come from strangers: one that cannot be parsed declares nothing, and what is returned is one bounded line.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.message import Message
from email.parser import HeaderParser
from typing import Any, NamedTuple

from assay.code.source import parse_tree
from assay.limited_file import loads_toml
from assay.tasks.assay_config import NOT_DECLARED

MAX_BYTES = 1 << 20
MAX_HEADER_BYTES = 1 << 16
MAX_LICENCE = 100
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][A-Za-z0-9.+!_-]{0,60}")
_CLASSIFIER = "License ::"
_GENERIC = "OSI Approved"


class _Licences(NamedTuple):
    texts: list[Any]
    """SPDX expressions and free text, the most specific field first."""
    classifiers: list[Any]
    files: list[Any]


def find_name_and_version(files: Mapping[str, bytes], fallback: str) -> tuple[str, str]:
    """Returns name and version from the metadata or the project's files, else from the file or folder name."""
    for name, version in _declared_names(files):
        if _NAME.fullmatch(name):
            return name, version if _VERSION.fullmatch(version) else ""
    match = re.match(r"(?P<name>[A-Za-z0-9._-]+?)-(?P<version>[0-9][A-Za-z0-9.+!]*)", fallback)
    return (match["name"], match["version"]) if match else (re.sub(r"[^A-Za-z0-9._-]", "-", fallback) or "code", "")


def find_licence(files: Mapping[str, bytes]) -> str:
    """Returns the declared licence: an SPDX expression, else classifiers, else the first line of free text, else `see
    FILE`, else `not declared`."""
    found = _Licences([], [], [])
    for one in (*map(_of_headers, _metadata_headers(files)), *_of_projects(files), _of_setup_cfg(files),
                _of_setup_py(files)):  # fmt: skip
        for into, more in zip(found, one, strict=True):
            into.extend(text for text in more if isinstance(text, str) and text.strip())
    expressions = (_spdx_expression(text) for text in found.texts)
    licence = next((one for one in expressions if one), "") or _join_classifiers(found.classifiers)
    licence = licence or next(filter(None, map(_first_line, found.texts)), "")
    named = _first_line(", ".join(dict.fromkeys(map(_first_line, found.files))))
    return licence or (f"see {named}" if named else NOT_DECLARED)


def _spdx_expression(text: str) -> str:
    """Returns the normalised SPDX expression; empty if the text is not a valid expression."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    if len(text) > MAX_LICENCE:
        return ""
    try:
        return str(canonicalize_license_expression(text))
    except (InvalidLicenseExpression, RecursionError, MemoryError):
        return ""


def _join_classifiers(classifiers: list[str]) -> str:
    names = {text.rpartition("::")[2].strip() for text in classifiers if text.strip().startswith(_CLASSIFIER)}
    return _first_line(", ".join(sorted(names - {_GENERIC} or names)))


def _first_line(text: str) -> str:
    """Returns the first line that is not empty, with printable characters only, cut at `MAX_LICENCE` characters."""
    lines = ("".join(c if c.isprintable() else " " for c in line) for line in text[: 10 * MAX_LICENCE].splitlines())
    line = next(filter(None, (" ".join(line.split()) for line in lines)), "")
    return line if len(line) <= MAX_LICENCE else line[: MAX_LICENCE - 3] + "..."


def _declared_names(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    for headers in _metadata_headers(files):
        if headers["Name"] and headers["Version"]:
            yield str(headers["Name"]), str(headers["Version"])
    for table in _project_tables(files):
        yield str(table.get("name", "")), str(table.get("version", ""))
    metadata = _setup_cfg(files)
    yield metadata.get("name", ""), metadata.get("version", "")


def _metadata_headers(files: Mapping[str, bytes]) -> Iterator[Message]:
    for path in sorted(files):
        if path == "PKG-INFO" or (path.endswith(".dist-info/METADATA") and path.count("/") == 1):  # no vendored one
            yield HeaderParser().parsestr(files[path][:MAX_HEADER_BYTES].decode(errors="replace"))


def _of_headers(headers: Message) -> _Licences:
    texts = [*headers.get_all("License-Expression", []), *headers.get_all("License", [])]
    return _Licences(
        [*map(str, texts)],
        [*map(str, headers.get_all("Classifier", []))],
        [*map(str, headers.get_all("License-File", []))],
    )


def _project_tables(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Returns the tables `[project]` and `[tool.poetry]` of `pyproject.toml`."""
    with suppress(ValueError, RecursionError):  # no TOML, or no UTF-8
        project = loads_toml(files.get("pyproject.toml", b"")[:MAX_BYTES].decode())
        tools = project.get("tool")
        tables = (project.get("project"), tools.get("poetry") if isinstance(tools, dict) else None)
        return [table for table in tables if isinstance(table, dict)]
    return []


def _of_projects(files: Mapping[str, bytes]) -> Iterator[_Licences]:
    for table in _project_tables(files):
        licence, named = table.get("license"), table.get("license-files")
        old = licence if isinstance(licence, dict) else {}
        text = licence if isinstance(licence, str) else old.get("text", "")
        yield _Licences([text], _listed(table.get("classifiers")), [*_listed(named), old.get("file", "")])


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _setup_cfg(files: Mapping[str, bytes]) -> dict[str, str]:
    """Returns the section `[metadata]` of `setup.cfg`."""
    with suppress(configparser.Error, ValueError):
        read = configparser.ConfigParser(interpolation=None)
        read.read_string(files.get("setup.cfg", b"")[:MAX_BYTES].decode())
        return dict(read["metadata"]) if read.has_section("metadata") else {}
    return {}


def _of_setup_cfg(files: Mapping[str, bytes]) -> _Licences:
    metadata = _setup_cfg(files)
    named = metadata.get("license_files", "") or metadata.get("license_file", "")
    return _Licences(
        [metadata.get("license", "")], metadata.get("classifiers", "").splitlines(), re.split(r"[,\n]", named)
    )


def _of_setup_py(files: Mapping[str, bytes]) -> _Licences:
    """Returns the literal arguments `license` and `classifiers` of calls in `setup.py`."""
    values: dict[str, Any] = {}
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(parse_tree(files.get("setup.py", b"")[:MAX_BYTES])):
            if isinstance(node, ast.keyword) and node.arg in ("license", "classifiers"):
                with suppress(ValueError, TypeError):
                    values.setdefault(node.arg, ast.literal_eval(node.value))
    return _Licences([values.get("license", "")], _listed(values.get("classifiers")), [])
