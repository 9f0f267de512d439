"""A small service for tests, and a plan on it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from assay.environments.services.declaration import Policy, Service
from assay.environments.services.schema import Cents, identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.world import ServiceWorld

shop = Service("shop", "A shop.", policy=Policy("Cancel only pending orders."))
OrderId = Annotated[str, identifier("order", "ORD-")]


@shop.table(indexes=[("status",)])
class Order(msgspec.Struct, frozen=True):
    """An order."""

    id: OrderId
    status: Literal["pending", "cancelled"]
    total: Cents
    note: str | None = None


@shop.action()
def cancel_order(tx: Transaction, order_id: OrderId, reason: str = "") -> Order:
    """Cancels a pending order. It cannot be undone.

    Args:
        reason: Why the customer wants it.
    """
    order = tx.get(Order, order_id)
    tx.require(order.status == "pending", f"Order {order_id} is {order.status}.", "conflict")
    return tx.update(order, status="cancelled", note=reason)


@shop.action()
def add_order(tx: Transaction, total: Cents) -> Order:
    """Adds an order."""
    return tx.insert(Order(tx.new_id(Order), "pending", total))


@shop.action()
def close_shop(tx: Transaction) -> str:
    """Closes the shop."""
    tx.refuse("Only the owner closes the shop.", "forbidden")


@shop.view()
def list_orders(tx: Transaction, status: Literal["pending", "cancelled"] | None = None, limit: int = 3) -> list[Order]:
    """Lists orders."""
    wanted = {} if status is None else {"status": status}
    return tx.find(Order, limit=limit, **wanted)


@shop.generator
def fill(make: Generator, knobs: object) -> None:
    make.insert_all([Order(make.new_id(Order), "pending", make.draw.randint(1, 9999)) for _ in range(20)])


def open_world(seed: int = 1) -> ServiceWorld:
    return ServiceWorld.of([shop], seed)


FIRST: Final[str] = open_world().act("list_orders", {"limit": 1}).content[8:18]
PLAN: Final[list[tuple[str, dict[str, Any]]]] = [
    ("list_orders", {"limit": 2}),
    ("current_time", {}),
    ("cancel_order", {"order_id": FIRST, "reason": "äöü 'quoted' \"twice\" $HOME\nline"}),
    ("cancel_order", {"order_id": FIRST}),  # refused: conflict
    ("cancel_order", {"order_id": "ORD-1"}),  # refused: not found
    ("add_order", {"total": 1250}),
    ("add_order", {"total": "many"}),  # refused: invalid
    ("close_shop", {}),  # refused: forbidden
    ("wait", {"hours": 3}),
]


def planned() -> tuple[list[str], str]:
    """Returns the results of the plan and the digest after it, by calls in process."""
    world = open_world()
    return [world.act(name, arguments).content for name, arguments in PLAN], world.database.digest()
