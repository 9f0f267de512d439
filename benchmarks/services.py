"""Cost of a world of services beside bare SQLite that does the same: open, fork, call, digest, difference, judging.

The service has 20,000 rows in four tables. Each row of the table is measured by turns with statements on a database of
the same image, made by hand: `bare_us` is connect and deserialise for an open or a fork, and the statements of the
action in one transaction for a call. Judging compares a state of eight changes with the wanted outcome.

    python -m benchmarks.services
    python -m benchmarks.services --quick
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from assay.agents.interface import Attempt
from assay.environments.services.declaration import Service
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.schema import Cents, identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.world import ServiceWorld
from assay.records import Check, EnvironmentSpec, Task, ToolCall, digest_record
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from benchmarks._measure import QUIET_US, REFERENCE, cpu_seconds, reference_us
from benchmarks._report import Report, Target, options

HOW = (
    "one core, in process; medians over rounds of CPU microseconds; bare: the same statements on SQLite alone; "
    f"bars are of a machine whose reference loop takes {QUIET_US} us a turn, and measured times are scaled to it"
)
COLUMNS = ("what", "count", "cpu_us", "bare_us", "times_bare", "per_s")
ROWS = 5_000
"""Rows of each of the four tables."""

CustomerId = Annotated[str, identifier("customer", "CUS-")]
OrderId = Annotated[str, identifier("order", "ORD-")]
ItemId = Annotated[str, identifier("item", "ITM-")]
PaymentId = Annotated[str, identifier("payment", "PAY-")]

orders = Service("orders", "Orders, as much of a shop as a benchmark needs.")


@orders.table()
class Customer(msgspec.Struct, frozen=True):
    """A customer."""

    id: CustomerId
    name: str
    email: str


@orders.table(indexes=[("customer_id",)])
class Order(msgspec.Struct, frozen=True):
    """An order."""

    id: OrderId
    customer_id: CustomerId
    status: Literal["pending", "shipped", "cancelled"]
    total: Cents
    note: str | None = None


@orders.table(indexes=[("order_id",)])
class Item(msgspec.Struct, frozen=True):
    """A line of an order."""

    id: ItemId
    order_id: OrderId
    name: str
    quantity: int
    price: Cents


@orders.table(indexes=[("order_id",)])
class Payment(msgspec.Struct, frozen=True):
    """A payment of an order."""

    id: PaymentId
    order_id: OrderId
    amount: Cents


@orders.view()
def get_order(tx: Transaction, order_id: OrderId) -> Order:
    """Returns an order."""
    return tx.get(Order, order_id)


@orders.action()
def note_order(tx: Transaction, order_id: OrderId, note: str) -> Order:
    """Writes a note on an order."""
    return tx.update(tx.get(Order, order_id), note=note)


@orders.generator
def fill(make: Generator, _: Any) -> None:
    """Fills all tables."""
    draw = make.draw
    customers = [Customer(make.new_id(Customer), f"Name {n}", f"c{n}@example.org") for n in range(ROWS)]
    bought = [
        Order(make.new_id(Order), draw.choice(customers).id, "pending", draw.randint(100, 99_999)) for _ in range(ROWS)
    ]
    make.insert_all(customers)
    make.insert_all(bought)
    make.insert_all([Item(make.new_id(Item), order.id, f"Thing {n}", 1, order.total) for n, order in enumerate(bought)])
    make.insert_all([Payment(make.new_id(Payment), order.id, order.total) for order in bought])


class OrderTasks:
    """One task: write many notes."""

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        """Returns the task."""
        environment = EnvironmentSpec("services", {"services": [f"{__file__}:orders"]}, seed)
        checks = (Check("initial", "facts", {"expected": {"services": ["clock", "orders"]}}),)
        return (Task("notes", "Write notes.", environment, checks, digest_record([environment, checks])),)


class Noter:
    """Writes notes on orders; one step a call."""

    name = "noter"
    needs_model = False

    def __init__(self, calls: int = 100) -> None:
        self._calls = calls

    async def run(self, attempt: Attempt) -> None:
        """Makes the calls."""
        ids = _order_ids(ServiceWorld.of([orders], attempt.task.environment.seed))
        for number in range(self._calls):
            arguments = {"order_id": ids[number % len(ids)], "note": f"note {number}"}
            text = msgspec.json.encode(arguments).decode()
            await attempt.act([ToolCall(f"c{number}", "note_order", text, arguments)])
        attempt.finish("noted")


class Asked(NamedTuple):
    """How much to measure."""

    count: int
    rounds: int


def main(arguments: list[str] | None = None) -> Report:
    """Measures, prints, writes."""
    given = options("services", "What a world of services costs.").parse_args(arguments)
    asked = Asked(20, 1) if given.quick else Asked(300, 9)
    rows = measured_rows(asked)
    by_name = {row["what"]: row for row in rows}
    slower = by_name[REFERENCE]["cpu_us"] / QUIET_US

    def quiet_us(name: str, *, beyond_sql: bool = False) -> float:
        row = by_name[name]
        return (row["cpu_us"] - (row["bare_us"] if beyond_sql else 0.0)) / slower

    targets = [
        Target("open", "ms", 1.0, quiet_us("open") / 1e3),
        Target("fork after eight changes", "ms", 1.0, quiet_us("fork") / 1e3),
        Target("digest after a call", "ms", 0.1, quiet_us("digest after a call") / 1e3),
        Target("a write beyond its SQL", "us", 30, quiet_us("write", beyond_sql=True)),
        Target("a read beyond its SQL", "us", 30, quiet_us("read", beyond_sql=True)),
        Target("judging", "ms", 5.0, quiet_us("judging") / 1e3),
    ]
    absent = {
        "tau2's environment": "its package cannot be installed on Python 3.11 and is not on PyPI under its name",
        "AppWorld 0.1.3": "it installs, and its databases are not in the package: they could not be downloaded",
        "ToolSandbox": "it is not on PyPI",
    }
    report = Report("services", HOW, rows, targets, absent)
    report.finish(COLUMNS, given.into)
    return report


def measured_rows(asked: Asked) -> list[dict[str, Any]]:
    """Measures each operation and its counterpart by turns."""
    world = ServiceWorld.of([orders], 1)
    ids, image = _order_ids(world), world.database.image.data
    changed = world.fork()
    for number in range(8):
        changed.act("note_order", {"order_id": ids[number], "note": "changed"})
    counted = world.fork()
    bare = _connect(image)
    numbers = iter(range(1 << 30))

    def write() -> None:
        number = next(numbers)
        world.act("note_order", {"order_id": ids[number % ROWS], "note": f"note {number}"})

    def write_bare() -> None:
        number = next(numbers)
        bare.execute("BEGIN")
        bare.execute("SELECT * FROM orders_orders WHERE id = ?", (ids[number % ROWS],)).fetchone()
        bare.execute("UPDATE orders_orders SET note = ? WHERE id = ?", (f"note {number}", ids[number % ROWS]))
        bare.execute("COMMIT")

    def read_bare() -> None:
        bare.execute("SELECT * FROM orders_orders WHERE id = ?", (ids[next(numbers) % ROWS],)).fetchone()

    def digest() -> None:
        with counted.database.transaction():
            counted.database.connection.execute("UPDATE orders_orders SET total = total + 1 WHERE id = ?", (ids[0],))
        counted.database.digest()

    def digest_bare() -> None:
        bare.execute("UPDATE orders_orders SET total = total + 1 WHERE id = ?", (ids[0],))

    outcome = {"changes": as_json(expected_changes(changed.composition.tables, changed.database.changes()))}
    check = Check("state", "state", {"outcomes": [outcome]})
    task = Task("t", "", EnvironmentSpec("services"), (check,), "blake3:0")

    def judge() -> None:
        result = asyncio.run(StateCheck().judge_world(WorldInput(task, check, changed.facts(), None)))
        assert result.verdict.status == "pass", result.verdict.reason

    def opened() -> None:
        ServiceWorld.of([orders], 1).database.close()

    def forked() -> None:
        changed.fork().database.close()

    pairs: list[tuple[str, Callable[[], object], Callable[[], object] | None]] = [
        ("open", opened, lambda: _connect(image).close()),
        ("fork", forked, lambda: _connect(image).close()),
        ("read", lambda: world.act("get_order", {"order_id": ids[next(numbers) % ROWS]}), read_bare),
        ("write", write, write_bare),
        ("digest after a call", digest, digest_bare),
        ("difference in words", changed.facts, None),
        ("judging", judge, None),
    ]
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name, _, _ in pairs}
    references = []
    for _ in range(asked.rounds):
        references.append(reference_us())
        for name, ours, theirs in pairs:
            found[name][0].append(_cpu_us(ours, asked.count))
            if theirs is not None:
                found[name][1].append(_cpu_us(theirs, asked.count))
    rows = [_row(name, *found[name], asked) for name, _, _ in pairs]
    reference = {"what": REFERENCE, "count": 5_000 * asked.rounds, "cpu_us": round(statistics.median(references), 2)}
    return [*rows, _recorded(asked), reference]


def _row(name: str, ours_us: list[float], bare_us: list[float], asked: Asked) -> dict[str, Any]:
    cost = statistics.median(ours_us)
    row: dict[str, Any] = {"what": name, "count": asked.count * asked.rounds, "cpu_us": round(cost, 1)}
    if bare_us:
        row |= {
            "bare_us": round(statistics.median(bare_us), 1),
            "times_bare": round(cost / statistics.median(bare_us), 2),
        }
    return row | {"per_s": round(1e6 / cost)}


def _recorded(asked: Asked) -> dict[str, Any]:
    """Measures a write on record (step, chain, database, digest): a long run less a short one, an attempt each."""
    calls = asked.count * 4
    costs = [(_run_cpu(calls + 50) - _run_cpu(50)) / calls for _ in range(asked.rounds)]
    cost = statistics.median(costs) * 1e6
    return {
        "what": "write on record",
        "count": calls * asked.rounds,
        "cpu_us": round(cost, 1),
        "per_s": round(1e6 / cost),
    }


def _run_cpu(calls: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(Path(folder) / "cache", Path(folder) / "store")
        config = RunConfig(
            tasks=(f"family:{__file__}:OrderTasks,n=1",), agent=f"{__file__}:Noter", agent_options={"calls": calls}
        )
        started = cpu_seconds()
        asyncio.run(start_run(config, settings, Tally()))
        return cpu_seconds() - started


def _cpu_us(act: Callable[[], object], count: int) -> float:
    act()
    started = time.process_time()
    for _ in range(count):
        act()
    return (time.process_time() - started) / count * 1e6


def _connect(image: bytes) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(image)
    connection.execute("SELECT count(*) FROM clock_time").fetchone()
    return connection


def _order_ids(world: ServiceWorld) -> list[str]:
    return [row[0] for row in world.database.connection.execute("SELECT id FROM orders_orders")]


if __name__ == "__main__":
    main()
