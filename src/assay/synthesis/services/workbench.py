"""The task family `workbench`: tasks of WorkBench over its databases, which the user names by a folder.

An attempt passes if its state is the one that the reference calls lead to, as WorkBench compares them: rows, their
order and labels, without regard to case but for lists, boards and statuses. Where the reference changes nothing, doing
nothing passes: `metadata.changes` is 0 there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.environments.services.apps.workbench.frames import find_file, parse_csv
from assay.environments.services.declaration import Service
from assay.environments.services.outcome import as_json, expected_changes, fold_case
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.schema import Table
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.plugins import load
from assay.records import Check, EnvironmentSpec, Task, digest_record

_INSTRUCTION: Final = (
    "Do what is asked with the tools, and nothing else. Questions are not answered. Today is Thursday, 2023-11-30, and "
    "the time is 00:00:00. Meetings must not start before 9:00 or end after 18:00."
)


class _Domain(NamedTuple):
    service: str
    """Entry point of the service."""
    file: str
    """Name of its database."""


_DIRECTORY: Final = "company_directory"
_DOMAINS: Final[Mapping[str, _Domain]] = {
    "calendar": _Domain("workbench-calendar", "calendar_events.csv"),
    "email": _Domain("workbench-email", "emails.csv"),
    "analytics": _Domain("workbench-analytics", "analytics_data.csv"),
    "project_management": _Domain("workbench-projects", "project_tasks.csv"),
    "customer_relationship_manager": _Domain("workbench-customers", "customer_relationship_manager_data.csv"),
    _DIRECTORY: _Domain("workbench-directory", "email_addresses.csv"),
}
_SETS: Final = (
    "multi_domain",
    "email",
    "calendar",
    "analytics",
    "project_management",
    "customer_relationship_manager",
)
_ALIASES: Final = {"crm": "customer_relationship_manager"}
"""Names that the queries of several domains have for some."""
_COLUMNS: Final = ("query", "answer", "base_template", "domains")
_FOLDERS: Final = ("queries_and_answers", "data/processed/queries_and_answers")
_CASED: Final = frozenset({"status", "list_name", "board"})
"""Columns in which WorkBench tells upper from lower case."""


class _Query(NamedTuple):
    """A row of a file of queries."""

    domain: str
    number: int
    """Its position in the file, from 0."""
    text: str
    plan: tuple[PlannedCall, ...]
    template: str
    domains: tuple[str, ...]


class WorkBenchTasks:
    """Tasks of WorkBench.

    Args:
        data: Folder of the CSV files, with the folder `queries_and_answers`, or a checkout of WorkBench.
        domain: One of WorkBench's six sets of queries; empty for all.
        tools: `all`, or `domains` for the tools of a query's domains and the directory alone.
    """

    def __init__(self, *, data: str, domain: str = "", tools: str = "all") -> None:
        if domain and domain not in _SETS:
            raise UserError(f"domain={domain} of the family 'workbench': expected {', '.join(_SETS)}")
        if tools not in ("all", "domains"):
            raise UserError(f"tools={tools} of the family 'workbench': expected all or domains")
        self._data = str(Path(data).resolve())
        self._sets = (domain,) if domain else _SETS
        self._only_own_tools = tools == "domains"
        self._worlds: dict[tuple[str, ...], ServiceWorld] = {}

    def tasks(self, n: int, seed: int) -> Iterator[Task]:
        """Yields the first `n` tasks, in the benchmark's order; the seed changes nothing."""
        queries = (query for domain in self._sets for query in self._read(domain))
        for query, _ in zip(queries, range(n), strict=False):
            yield self._build(query)

    def _read(self, domain: str) -> Iterator[_Query]:
        name = f"{domain}_queries_and_answers.csv"
        try:
            rows = parse_csv(find_file(self._data, name, _FOLDERS), _COLUMNS)
            for number, (text, answer, template, domains) in enumerate(rows):
                calls = [_require_call(call) for call in _read_texts(answer)]
                own = tuple(_ALIASES.get(one, one) for one in _read_texts(domains))
                yield _Query(domain, number, text or "", tuple(calls), template or "", own)
        except ValueError as exc:
            raise UserError(str(exc)) from exc

    @cached_property
    def _services(self) -> Mapping[str, str]:
        """Name of each domain's service."""
        services: dict[str, Service] = {name: load("services", domain.service) for name, domain in _DOMAINS.items()}
        return {name: service.name for name, service in services.items()}

    @cached_property
    def _hashes(self) -> Mapping[str, str]:
        """SHA-256 of each domain's database."""
        try:
            return {name: find_file(self._data, domain.file).sha256 for name, domain in _DOMAINS.items()}
        except ValueError as exc:
            raise UserError(str(exc)) from exc

    def _parameters(self, names: Sequence[str], data: str | None) -> dict[str, Any]:
        """Returns the parameters of a world of domains, without their plan."""
        folder = {} if data is None else {"data": data}
        knobs = {self._services[name]: {**folder, "hash": self._hashes[name]} for name in names}
        return {"services": [_DOMAINS[name].service for name in names], "knobs": knobs}

    def _world(self, names: tuple[str, ...]) -> ServiceWorld:
        if names not in self._worlds:
            try:
                self._worlds[names] = ServiceWorld(self._parameters(names, self._data), 0)
            except ValueError as exc:
                raise UserError(str(exc)) from exc
        return self._worlds[names]

    def _build(self, query: _Query) -> Task:
        name = f"{query.domain}-{query.number}"
        names = tuple(_DOMAINS)
        if self._only_own_tools:
            names = tuple(domain for domain in _DOMAINS if domain in (*query.domains, _DIRECTORY))
        world = self._world(names)
        done = play(world, query.plan)
        tables = world.composition.tables
        caseless = caseless_columns(tables)
        changes = fold_case(done.database.changes(judged_only=True), caseless)
        outcome = {"changes": as_json(expected_changes(tables, changes))}
        checks = (Check("state", "state", {"outcomes": [outcome], "caseless": list(caseless)}),)
        plan = {"plan": msgspec.to_builtins(query.plan)}
        instruction = f"{_INSTRUCTION}\n\n{query.text}"
        environment = EnvironmentSpec("services", self._parameters(names, self._data) | plan, 0)
        anywhere = replace(environment, parameters=self._parameters(names, None) | plan)
        return Task(
            id=f"workbench-{name}",
            instruction=instruction,
            environment=environment,
            checks=checks,
            digest=digest_record([instruction, anywhere, checks]),
            tags=("workbench", query.domain),
            source=f"WorkBench, {query.domain}, query {query.number}",
            metadata={
                "query": query.text,
                "template": query.template,
                "domains": list(query.domains),
                "changes": len(changes),
            },
        )


def caseless_columns(tables: Sequence[Table]) -> tuple[str, ...]:
    """Returns the columns in which WorkBench does not tell upper from lower case, as `table.column`."""
    return tuple(
        f"{table.sql_name}.{column.name}"
        for table in tables
        if table.judged
        for column in table.columns
        if column.kind is str and column.name not in _CASED and column.name not in table.key
    )


def read_call(text: str) -> PlannedCall | None:
    """Reads a call as WorkBench writes it, `calendar.delete_event.func(event_id="00000001")`.

    Nothing is executed. Returns None for a text that is not a call of a tool of a domain with texts by name.
    """
    try:
        call = ast.parse(text.replace("\n", "\\n"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call) or call.args:
        return None
    domain, _, tool = ast.unparse(call.func).partition(".")
    action, _, rest = tool.partition(".")
    if domain not in _DOMAINS or rest != "func":
        return None
    arguments = {}
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(str(name), ast.Constant(str(value))):
                arguments[name] = value
            case _:
                return None
    return PlannedCall(action, arguments)


def _require_call(text: str) -> PlannedCall:
    call = read_call(text)
    if call is None:
        raise ValueError(f"A reference of WorkBench is not a call of a tool: {text[:200]}")
    return call


def _read_texts(cell: str | None) -> list[str]:
    """Returns the list of texts that a cell holds as Python literal. Raises `ValueError`."""
    try:
        found = ast.literal_eval(cell or "")
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as exc:
        raise ValueError(f"A cell of WorkBench's queries cannot be read: {exc}") from exc
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"A cell of WorkBench's queries is not a list of texts: {str(cell)[:200]}")
    return found
