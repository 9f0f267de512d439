"""The bank of tau2-bench's domain `banking_knowledge`: its tables, its knowledge base, and how its tools are declared.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge`. A table holds records whose fields vary, as JSON.
Most tools are *discoverable*: only documents name them, and they are called through a wrapper (`banking_agent`). The
modules `banking_accounts`, `banking_credit_cards`, `banking_credit_limits`, `banking_debit_cards` and
`banking_debit_orders` have those of the agent, `banking_person` those of the person. There are two services with the
same state; in `tau2bankingsolo` the agent has the person's tools, too.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Annotated, Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import Meta

from assay.environments.services.data_files import read_data_file
from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

from ._service_pair import WORLD, ServicePair
from .databases import (
    DatabaseKnobs,
    convert_database,
    join_json,
    list_domain_files,
    merge_changes,
    read_domain_file,
    require_hash,
    sorted_json,
    tau2_hash,
)

F = TypeVar("F", bound=Callable[..., Any])
Text = Annotated[str, Meta(min_length=1)]
TODAY: Final = date(2025, 11, 14)
TODAY_TEXT: Final = "11/14/2025"
OPEN_STATUSES: Final = ("ACTIVE", "OPEN")
_DOMAIN: Final = "banking_knowledge"
_TABLES: Final = (
    "users",
    "accounts",
    "debit_cards",
    "referrals",
    "credit_card_applications",
    "user_discoverable_tools",
    "user_discoverable_tool_calls",
    "verification_history",
    "credit_card_transaction_history",
    "cash_back_disputes",
    "bank_account_transaction_history",
    "credit_card_accounts",
    "agent_discoverable_tools",
    "task_config",
    "human_transfer_requests",
    "transaction_disputes",
    "credit_card_orders",
    "debit_card_orders",
    "credit_card_closure_reasons",
    "credit_card_account_flags",
    "credit_limit_increase_requests",
    "payment_history",
    "debit_card_disputes",
)
_ADDED: Final = 1 << 20
"""Rank of records that are added, behind all others; they are listed by their keys."""


class BankingKnobs(DatabaseKnobs, frozen=True, forbid_unknown_fields=True):
    """Options of the domain."""

    changes: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Differences from the database before the task begins, by table."""
    logged_reads: tuple[str, ...] = ()
    """Discoverable views whose calls are part of the judged state, because the task demands them."""


class Record(msgspec.Struct):
    """A row of a table."""

    record_id: str
    content: dict[str, Any]
    rank: int = _ADDED
    """Position in the file, which is the order of results."""


class KnowledgeDocument(msgspec.Struct):
    """A document of the knowledge base."""

    id: str
    title: str
    content: str


class Notes(msgspec.Struct):
    """The database's own description of a table; part of the original's hash."""

    of_table: str
    text: str


class ToolName(msgspec.Struct):
    """A discoverable tool, by its name."""

    tool: str


class _Table(msgspec.Struct):
    data: dict[str, dict[str, Any]] = {}
    notes: str = ""


tau2_banking = Service("tau2banking", "The bank of tau2-bench.", knobs=BankingKnobs)
tau2_banking_solo = Service("tau2bankingsolo", "The bank of tau2-bench and a customer's tools.", knobs=BankingKnobs)
pair: Final = ServicePair(tau2_banking, tau2_banking_solo)

_also: Final = [tau2_banking_solo]
_tables: Final = {name: Documents(tau2_banking, Record, name, also=_also) for name in _TABLES}
_notes: Final = Documents(tau2_banking, Notes, "notes", judged=False, also=_also)
documents: Final = Documents(tau2_banking, KnowledgeDocument, "documents", judged=False, also=_also)
unlocked_tools: Final = Documents(tau2_banking, ToolName, "unlocked_tools", judged=False, also=_also)
logged_reads: Final = Documents(tau2_banking, ToolName, "logged_reads", judged=False, also=_also)

person_tools: Final[list[str]] = []
"""Names of the discoverable tools of the person."""


def discoverable(registry: list[str], *, reads: bool = False) -> Callable[[F], F]:
    """Declares a discoverable tool, which is called through a wrapper and not listed.

    Args:
        registry: Names of tools, to which its own is added.
        reads: Whether it is a view; a call of one is not part of the judged state unless the task demands it.
    """

    def declare(function: F) -> F:
        for service in (tau2_banking, tau2_banking_solo):
            (service.view(roles=WORLD) if reads else service.action(roles=WORLD))(function)
        registry.append(function.__name__)
        return function

    return declare


def _load(make: Generator, knobs: BankingKnobs) -> None:
    database = convert_database(read_domain_file(knobs.data, _DOMAIN, "db.json"), dict[str, _Table])
    if unknown := sorted({*database, *knobs.changes} - set(_TABLES)):
        raise ValueError(f"The banking domain has no table {unknown[0]!r}")
    for name in _TABLES:
        table = database.get(name, _Table())
        rows = enumerate(table.data.items())
        _tables[name].fill(make, [Record(key, content, rank) for rank, (key, content) in rows])
        _notes.insert(make, Notes(name, table.notes))
    documents.fill(make, _read_documents(knobs.data))
    logged_reads.fill(make, [ToolName(name) for name in sorted(set(knobs.logged_reads))])
    require_hash(make, knobs, database_hash)
    for name, change in knobs.changes.items():
        try:
            _apply_changes(make, name, msgspec.convert(change, _Table))
        except msgspec.ValidationError as exc:
            raise ValueError(f"The change of {name} before the task: {exc}") from exc


def _apply_changes(make: Generator, name: str, changes: _Table) -> None:
    table = _tables[name]
    for at, (key, fields) in enumerate(changes.data.items()):
        before = table.get(make, key)
        if before is None:
            table.insert(make, Record(key, fields, _ADDED - len(changes.data) + at))
        else:
            table.save(make, Record(key, merge_changes(before.content, fields), before.rank))


def _read_documents(data: str) -> list[KnowledgeDocument]:
    """Reads the knowledge base: one file, or a folder with a file for each document as a checkout has it."""
    files = list_domain_files(data, _DOMAIN, "documents")
    if not files:
        found = convert_database(read_domain_file(data, _DOMAIN, "documents.json"), dict[str, KnowledgeDocument])
        return list(found.values())
    return [convert_database(read_data_file([path.parent], [path.name]), KnowledgeDocument) for path in files]


for _service in (tau2_banking, tau2_banking_solo):
    _service.generator(_load)


@pair.tool(WORLD, reads=True)
def database_hash(tx: Transaction) -> str:
    """Returns the hash of the state as tau2-bench computes it."""
    notes = {note.of_table: note.text for note in _notes.find(tx)}
    parts = {}
    for name, table in _tables.items():
        data = join_json(table.render(tx, _content_json))
        parts[name] = join_json({"data": data, "notes": sorted_json(notes[name])})
    return tau2_hash(parts)


def _content_json(record: Record) -> str:
    return sorted_json(record.content)


@pair.tool(WORLD, reads=True)
def was_called(tx: Transaction, action: str, arguments: dict[str, Any]) -> bool:
    """Returns whether an action was called with these arguments, whatever its others were.

    Args:
        action: Name of the action.
        arguments: Some of its arguments.
    """
    return pair.has_call(tx, action, arguments)


# What tools have in common.


def find_records(tx: Transaction, table: str, **equal: Any) -> list[Record]:
    """Returns the records whose fields have these values, in their order."""
    rows = sorted(_tables[table].find(tx), key=lambda row: (row.rank, row.record_id))
    wanted = equal.items()
    return [row for row in rows if all(row.content.get(name) == value for name, value in wanted)]


def list_records(tx: Transaction, table: str, **equal: Any) -> list[dict[str, Any]]:
    """Returns the same records as results of tools, with their keys."""
    return [{"record_id": row.record_id, **row.content} for row in find_records(tx, table, **equal)]


def get_record(tx: Transaction, table: str, key: str, noun: str) -> Record:
    """Returns a record. Refuses the action without one.

    Args:
        tx: The state.
        table: Name of the table.
        key: Key of the record.
        noun: What it is, as the first word of the error.
    """
    return _tables[table].get(tx, key) or refuse_unknown(tx, f"{noun} '{key}' not found.")


def has_record(tx: Transaction, table: str, key: str) -> bool:
    return _tables[table].get(tx, key) is not None


def add_record(tx: Transaction, table: str, key: str, content: Mapping[str, Any]) -> bool:
    """Adds a record and returns whether it is new; one that exists stays as it is."""
    if has_record(tx, table, key):
        return False
    _tables[table].insert(tx, Record(key, dict(content)))
    return True


def add_new_record(tx: Transaction, table: str, key: str, content: Mapping[str, Any], taken: str) -> None:
    """Adds a record. Refuses the action with the message `taken` if one has its key."""
    tx.require(add_record(tx, table, key, content), taken, "conflict")


def update_record(tx: Transaction, table: str, record: Record, **fields: Any) -> None:
    """Changes fields of a record in place, and stores it."""
    record.content |= fields
    _tables[table].save(tx, record)


def put_record(tx: Transaction, table: str, key: str, content: Mapping[str, Any]) -> None:
    """Adds a record, or replaces the one with its key."""
    if not add_record(tx, table, key, content):
        known = get_record(tx, table, key, "Record")
        known.content = dict(content)
        _tables[table].save(tx, known)


def refuse_unknown(tx: Transaction, message: str) -> NoReturn:
    tx.refuse(message, "not_found")


def derive_id(seed: str, length: int = 16) -> str:
    """Returns an identifier that depends on a text: the beginning of its SHA-256, as the original has it."""
    return hashlib.sha256(seed.encode()).hexdigest()[:length]


def read_amount(value: Any) -> float:
    """Returns an amount that is a number or a text such as `$2,850.00`; 0 for anything else."""
    if isinstance(value, str):
        try:
            return float(value.replace("$", "").replace(",", ""))
        except ValueError:
            return 0.0
    return float(value) if isinstance(value, int | float) else 0.0


def account_balance(account: Record) -> float:
    content = account.content
    return read_amount(content.get("current_holdings", content.get("balance", 0)))


def read_time(value: Any) -> tuple[int, ...]:
    """Returns year, month, day, hour, minute and second of a time such as `11/14/2025`; nothing for other values."""
    for form in ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y"):
        try:
            return tuple(time.strptime(str(value), form)[:6])
        except ValueError:
            continue
    return ()


def age_in_days(account: Record) -> int | None:
    """Returns for how many days an account has been open; None if its record has no date."""
    opened = read_time(account.content.get("date_opened"))
    return (TODAY - date(*opened[:3])).days if opened else None


def write_report(title: str, fields: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """Returns the text of a result: a title, a line for each field, and what else is to be known."""
    lines = [f"  - {name.replace('_', ' ')}: {value}" for name, value in fields.items()]
    return "\n".join([title, *lines, *notes])
