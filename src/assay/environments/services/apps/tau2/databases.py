"""Databases of tau-bench and tau2-bench: where their files lie, and how those benchmarks hash a state."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from assay.environments.services.data_files import DataFile, read_data_file
from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

T = TypeVar("T")

_FOLDERS: Final = (
    "",
    "{domain}",
    "domains/{domain}",
    "data/tau2/domains/{domain}",
    "tau_bench/envs/{domain}/data",
    "tau_bench/envs/{domain}",
)
"""Where a domain's files are, from the folder that the user names: the domain's own, a data folder, or a checkout."""


class DatabaseKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a domain over a database in files."""

    data: str = ""
    """Folder of the domain's files, of several domains, or a checkout of the benchmark."""
    hash: str = ""
    """Hash that the database must have, by the benchmark's rule; empty for any."""


class InitialCall(msgspec.Struct, frozen=True):
    """A call that a task makes before it begins."""

    func_name: str
    arguments: dict[str, Any] = {}
    env_type: Literal["user", "assistant"] = "user"


def run_initial_call(make: Generator, service: Service, call: InitialCall) -> None:
    """Runs a call that precedes a task, without what follows a call of the action.

    Raises:
        ValueError: The function is unknown, or an argument is invalid.
    """
    action = service.actions.get(call.func_name)
    if action is None:
        raise ValueError(f"The service {service.name} has no function {call.func_name!r}")
    try:
        arguments = msgspec.convert(call.arguments, action.arguments)
    except msgspec.ValidationError as exc:
        raise ValueError(f"{call.func_name} before the task: {exc}") from exc
    inspect.unwrap(action.function)(make, **{name: getattr(arguments, name) for name in arguments.__struct_fields__})


def merge_changes(before: Any, changes: Any) -> Any:
    """Returns JSON data with changes; objects are merged field by field, anything else is replaced."""
    if not (isinstance(before, dict) and isinstance(changes, dict)):
        return changes
    return before | {name: merge_changes(before.get(name), value) for name, value in changes.items()}


def read_domain_file(data: str, domain: str, *names: str) -> DataFile:
    """Reads a file of a domain. Raises `ValueError` if no folder has it."""
    if not data:
        raise ValueError(f"The domain {domain!r} needs the knob `data`: the folder of its files, or a checkout")
    return read_data_file([Path(data, folder.format(domain=domain)) for folder in _FOLDERS], names)


def list_domain_files(data: str, domain: str, folder: str) -> list[Path]:
    """Returns the JSON files in a folder of a domain, sorted by name; none without the folder."""
    for parent in _FOLDERS:
        found = sorted(Path(data, parent.format(domain=domain), folder).glob("*.json"))
        if found:
            return found
    return []


def convert_database(file: DataFile, kind: type[T]) -> T:
    """Returns the content of a file as typed data. Raises `ValueError` that names what does not fit."""
    try:
        return msgspec.convert(file.parse(), kind)
    except msgspec.ValidationError as exc:
        raise ValueError(f"{file.path} is not a database of this domain: {exc}") from exc


def require_hash(make: Generator, knobs: DatabaseKnobs, compute: Callable[[Transaction], str]) -> None:
    """Raises `ValueError` if a database differs from the one that the knobs name."""
    if knobs.hash and (found := compute(make)) != knobs.hash:
        raise ValueError(f"The database in {knobs.data} has the hash {found}, and {knobs.hash} is wanted")


def tau2_hash(content: Mapping[str, str]) -> str:
    """Returns the hash of a state as tau2-bench computes it: SHA-256 of its JSON with sorted keys.

    Args:
        content: JSON with sorted keys, by field of the database.
    """
    return _sha256(join_json(content))


def hash_tables(tx: Transaction, tables: Mapping[str, Documents[Any]]) -> str:
    """Returns the hash, as tau2-bench computes it, of tables whose documents are found by their keys."""
    return tau2_hash({name: join_json(table.render(tx, sorted_json)) for name, table in tables.items()})


def join_json(parts: Mapping[str, str]) -> str:
    """Returns the JSON of a table, with sorted keys, from the JSON of its values."""
    return f"{{{', '.join(f'{json.dumps(key)}: {parts[key]}' for key in sorted(parts))}}}"


def sorted_json(document: Any) -> str:
    """Returns a document as JSON with sorted keys."""
    return json.dumps(msgspec.to_builtins(document), sort_keys=True)


def tau_bench_hash(content: Mapping[str, str]) -> str:
    """Returns the hash of a state as tau-bench computes it: SHA-256 of the text of nested, sorted tuples.

    Args:
        content: Texts of tuples, by name of the table.
    """
    return _sha256(join_tuples(content))


def join_tuples(parts: Mapping[str, str]) -> str:
    """Returns the text of a table as sorted pairs, from the texts of its values."""
    pairs = [f"({key!r}, {parts[key]})" for key in sorted(parts)]
    return f"({', '.join(pairs)}{',' if len(pairs) == 1 else ''})"


def tuple_text(document: Any) -> str:
    """Returns the text of a document as nested, sorted tuples."""
    return str(_nested_tuples(msgspec.to_builtins(document)))


def _nested_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _nested_tuples(part)) for key, part in sorted(value.items()))
    return tuple(_nested_tuples(part) for part in value) if isinstance(value, list) else value


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
