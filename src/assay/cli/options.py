"""Turns a typed configuration into a command's options; no command has a parameter list of its own.

The string under a field is its help. Named fields become arguments, tuples repeated options, mappings repeated
`key=value`, and `Limits` becomes `--max-turns`, `--max-tokens`, ... The command line overrides `--config FILE`, which
overrides the field's default.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import typer

from assay.errors import UserError
from assay.limited_file import loads_toml, require_64_bits
from assay.pairs import read_pairs
from assay.records import Limits
from assay.rollout.config import field_docs

Config = TypeVar("Config", bound=msgspec.Struct)
CONFIG_BYTES = 1 << 20
_LIMIT_HELP = "Limit of each attempt: "
_SINGULAR = {
    "agent_options": "--agent-option",
    "allocate_options": "--allocate-option",
    "agents": "--agent",
    "contracts": "--contract",
    "costs": "--cost",
    "credit_options": "--credit-option",
    "families": "--family",
    "hooks": "--hook",
    "kinds": "--kind",
    "knobs": "--knob",
    "policies": "--policy",
    "releases": "--release",
    "renderers": "--renderer",
    "requirements": "--requirement",
    "task_folders": "--task-folder",
    "tier_models": "--tier-model",
    "tiers": "--tier",
}


def takes_config(
    struct: type[Config], *, arguments: tuple[str, ...], several: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of `struct` and `--config`, before its own parameters.

    Args:
        struct: The configuration; the command's first parameter receives it, resolved.
        arguments: Fields that are positional.
        several: Fields of one text that may be given more than once, on the command line or as a list in the file. The
            configuration holds the first value, and the command's second parameter all of them, by field.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[2 if several else 1 :]
        generated = {p.name: p for p in _parameters(struct, arguments, several)}

        def command(**values: Any) -> None:
            fields = {name: values.pop(name) for name in list(values) if name in generated}
            if not several:
                function(resolve(struct, fields), **values)
                return
            config, chosen = resolve_several(struct, fields, several)
            function(config, chosen, **values)

        parameters = [*generated.values(), *own]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__doc__, command.__name__ = function.__doc__, function.__name__
        return command

    return decorate


def resolve(struct: type[Config], values: dict[str, Any]) -> Config:
    """Merges command line, file and defaults, in that precedence. Raises `UserError` that names the field."""
    return resolve_several(struct, values, ())[0]


def resolve_several(
    struct: type[Config], values: dict[str, Any], several: tuple[str, ...]
) -> tuple[Config, dict[str, tuple[str, ...]]]:
    """Merges as `resolve`; also returns all values of the fields that may be given more than once."""
    path = values.pop("config_file", None)
    data: dict[str, Any] = read_toml(Path(path), struct) if path else {}
    limits = _table(data, "limits", path)
    for name, value in values.items():
        if value is None or value == []:
            continue
        _require_choices(struct, name, value)
        if name.startswith("max_"):
            limits[name.removeprefix("max_")] = value
        elif get_origin(get_type_hints(struct).get(name)) is dict:
            pairs = read_pairs(value, _flag(name), "write it as NAME=VALUE", named=bool)  # names of images among them
            data[name] = {**_table(data, name, path), **pairs}
        else:
            data[name] = value
    if limits:
        data["limits"] = limits
    needed = [f.name for f in msgspec.structs.fields(struct) if f.required and f.name not in data]
    if needed:
        raise UserError(f"{needed[0]} is missing: set it on the command line (see --help for examples) or in --config")
    chosen = {name: _values(data, name) for name in several}
    data |= {name: found[0] for name, found in chosen.items() if found}
    in_file = None if path is None else Path(path)
    config = convert_config(data, struct, in_file, on_command_line=[name for name, value in values.items() if value])
    return config, {name: tuple(map(str, found)) for name, found in chosen.items()}


def _values(data: dict[str, Any], name: str) -> list[Any]:
    found = data.get(name, [])
    return list(dict.fromkeys(found)) if isinstance(found, list) else [found]


def read_recipe(
    path: Path, struct: type[Config], changes: Sequence[str], others: Mapping[str, type[msgspec.Struct]] | None = None
) -> Config:
    """Reads a nested configuration from a file. Raises `UserError` that names the field.

    Args:
        path: The file.
        struct: What it holds.
        changes: `table.field=VALUE`, each put in the place of what the file says; VALUE is written as in TOML, or is
            plain text.
        others: Commands that take other recipes, with what those hold.
    """
    data = read_toml(path, struct, others)
    for change in changes:
        key, sep, text = change.partition("=")
        *tables, last = key.strip().split(".")
        if not sep or not last:
            raise UserError(f"--set {change!r} is not of the form table.field=VALUE")
        at = data
        for name in tables:
            at = at.setdefault(name, {})
            if not isinstance(at, dict):
                raise UserError(f"--set {change!r}: {name} is not a table")
        at[last] = _toml_value(text)
    changed = [change.partition("=")[0].partition(".")[0].strip() for change in changes]
    return convert_config(data, struct, path, on_command_line=changed)


def _toml_value(text: str) -> Any:
    try:
        return loads_toml(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):
        return text


def convert_config(
    data: dict[str, Any], struct: type[Config], path: Path | None, *, on_command_line: Sequence[str] = ()
) -> Config:
    """Converts plain data to a configuration.

    Args:
        data: The fields.
        struct: The configuration.
        path: The file with those fields that are not `on_command_line`; None without one.
        on_command_line: Fields given on the command line.

    Raises:
        UserError: A value is invalid; the message names the field, and the line in the file.
    """
    try:
        return msgspec.convert(data, struct)
    except msgspec.ValidationError as exc:
        if isinstance(exc.__cause__, UserError):
            raise exc.__cause__ from None
        from assay.validation_messages import describe_invalid

        place, what = describe_invalid(exc, struct, data)
        in_file = path is not None and re.split(r"[.\[]", place)[0] not in on_command_line
        source = f" ({_line_in(path, place)})" if path is not None and in_file else ""
        raise UserError(f"{place or 'the configuration'}: {what}{source}") from exc


def _line_in(path: Path, field: str) -> str:
    from assay.tasks.toml_source import line_of

    try:
        line = line_of(path.read_text(encoding="utf-8"), field) if path.is_file() else None  # a pipe is read once
    except (OSError, ValueError):  # it was changed since it was read
        line = None
    return str(path) if line is None else f"{path}, line {line}"


def _table(data: dict[str, Any], name: str, path: str | None) -> dict[str, Any]:
    found = data.get(name, {})
    if not isinstance(found, dict):
        raise UserError(f"{path}: {name} is not a table; write [{name}] and below it one key = value per line")
    return dict(found)


def read_toml(
    path: Path, struct: type[msgspec.Struct], others: Mapping[str, type[msgspec.Struct]] | None = None
) -> dict[str, Any]:
    """Reads a TOML file of a configuration's fields. Raises `UserError` with file and place, and names the command of
    `others` that takes it."""
    from assay.tasks.findings import TaskFinding
    from assay.tasks.toml_source import parse_toml

    try:
        with path.open("rb") as file:
            text = file.read(CONFIG_BYTES + 1)
        if len(text) > CONFIG_BYTES:
            raise UserError(f"{path} is larger than {CONFIG_BYTES >> 10} KiB, the limit for a configuration")
        data = parse_toml(text.decode(), str(path))
    except OSError as exc:
        raise UserError(
            f"cannot read the configuration {path}: {exc.strerror}; check the path and its permissions"
        ) from exc
    except UnicodeDecodeError as exc:
        raise UserError(f"{path} is not valid TOML: it is not UTF-8 ({exc.reason}); store it as UTF-8 text") from exc
    if isinstance(data, TaskFinding):
        place = str(path) if data.line is None else f"{path}, line {data.line}"
        raise UserError(f"{place}: {data.message}; {data.fix}")
    try:
        require_64_bits(data)
    except ValueError as exc:
        raise UserError(f"{path}: {exc}") from exc
    unknown = sorted(set(data) - set(struct.__struct_fields__))
    other = next((name for name, kind in (others or {}).items() if set(data) <= set(kind.__struct_fields__)), None)
    if unknown and other is not None:
        raise UserError(f"{path} is a recipe of `{other}`: run `{other} {path}`")
    if unknown:
        known = struct.__struct_fields__
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"{path}: unknown field {unknown[0]!r}; {hint}known: {', '.join(known)}")
    return data


def _require_choices(struct: type[msgspec.Struct], name: str, value: Any) -> None:
    """Raises `UserError` that names the option where one of its values is not among those that its field may have."""
    choices = _choices(get_type_hints(struct).get(name))
    for one in value if isinstance(value, list) else [value]:
        if choices and one not in choices:
            near = difflib.get_close_matches(str(one), choices, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UserError(f"{_flag(name)} {one!r} is not a choice: {hint}use {', '.join(choices)}")


def _choices(hint: Any) -> list[str]:
    """Returns the texts of a `Literal`, also of one inside a tuple or beside None; empty for any other type."""
    if get_origin(hint) is Literal:
        return [value for value in get_args(hint) if isinstance(value, str)]
    inner = [one for one in get_args(hint) if one not in (type(None), Ellipsis)]
    return _choices(inner[0]) if len(inner) == 1 else []


def _flag(name: str) -> str:
    return _SINGULAR.get(name, "--" + name.replace("_", "-"))


_SEVERAL = "Repeatable: several agents and models make a grid, one run for each agent with each model."


def _parameters(
    struct: type[msgspec.Struct], arguments: tuple[str, ...], several: tuple[str, ...]
) -> list[inspect.Parameter]:
    docs, hints, parameters = field_docs(struct), get_type_hints(struct), []
    for field in msgspec.structs.fields(struct):
        hint, help_text = hints[field.name], docs[field.name]
        if field.name in arguments:
            argument = typer.Argument(help=help_text, show_default=False)
            kind = list[str] if get_origin(hint) is tuple else str
            parameters.append(_parameter(field.name, Annotated[kind | None, argument]))
        elif hint is Limits:
            parameters.extend(_limit_parameters())
        else:
            if field.name in several:
                hint, help_text = tuple[str, ...], f"{help_text} {_SEVERAL}"
            parameters.append(_parameter(field.name, _option(field, hint, help_text)))
    file_help = "TOML file with any of these fields; the command line overrides it."
    option = typer.Option("--config", help=file_help, show_default=False)
    return [*parameters, _parameter("config_file", Annotated[str | None, option])]


def _option(field: msgspec.structs.FieldInfo, hint: Any, help_text: str) -> Any:
    flag, origin = _flag(field.name), get_origin(hint)
    if origin is dict:
        option = typer.Option(flag, help=help_text, metavar="KEY=VALUE", show_default=False)
        return Annotated[list[str] | None, option]
    if field.default not in (None, msgspec.NODEFAULT, False, ()):
        default = ", ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        help_text += f" [default: {default}]"
    option = typer.Option(flag, help=help_text, show_default=False)
    if hint is bool:
        return Annotated[bool | None, option]
    if hint == bool | None:  # three answers: yes, no, and nothing said
        both = typer.Option(f"{flag}/--no-{flag[2:]}", help=help_text, show_default=False)
        return Annotated[bool | None, both]
    if origin is tuple:
        return Annotated[list[str] | None, option]
    return Annotated[_plain(hint) | None, option]


def _plain(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        hint = next(a for a in get_args(hint) if a is not type(None))
    return hint if hint in (int, float, str) else str


def _limit_parameters() -> list[inspect.Parameter]:
    docs, parameters = field_docs(Limits), []
    for name, hint in get_type_hints(Limits).items():
        option = typer.Option(f"--max-{name.replace('_', '-')}", help=_LIMIT_HELP + docs[name], show_default=False)
        parameters.append(_parameter(f"max_{name}", Annotated[hint, option]))
    return parameters


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=None, annotation=annotation)
