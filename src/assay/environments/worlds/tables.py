"""Order database: find the requested rows over one, two or three tables, and change them.

Reading grows with the number of joined tables, writing with the number of requested orders.
"""

from __future__ import annotations

import random
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Rules, WorldConfig

Word = Annotated[str, Meta(max_length=100)]
_NAMES = ("Ada", "Boris", "Chen", "Dalia", "Emil", "Farah", "Goran", "Hana", "Ivo", "Jun", "Kofi", "Lena")
_GOODS = ("lamp", "chair", "desk", "clock", "vase", "shelf", "stool", "mirror", "rug", "kettle", "scale", "easel")
_STATES = ("new", "paid", "packed", "sent")
_COLUMNS = {
    "customers": ("id", "name"),
    "products": ("id", "name"),
    "orders": ("id", "customer", "product", "status"),
}


class TablesConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `tables`. `turns` 0 means three times the necessary acts."""

    rows: Annotated[int, Meta(ge=4, le=200)] = 12
    """Number of orders."""
    tables: Annotated[int, Meta(ge=1, le=3)] = 2
    """Necessary tables: 1 orders, 2 also customers, 3 also products."""
    writes: Annotated[int, Meta(ge=1, le=20)] = 2
    """Number of orders to change."""


class _Find(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of a table of which a column has a value."""

    table: Literal["customers", "products", "orders"]
    column: Word
    value: Word


class _Update(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Change the status of an order."""

    order: Word
    status: Literal["new", "paid", "packed", "sent"]


class _Submit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Say that all is changed. This ends it."""


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    status: dict[str, str]
    known: list[str]
    """Necessary rows already looked up, sorted: the agent's knowledge."""
    submitted: bool = False


class Tables(Rules[TablesConfig, _Now]):
    """Order database world."""

    name: ClassVar[str] = "tables"
    WorldConfig = TablesConfig
    Now = _Now
    path_facts = frozenset({"turns", "submitted"})
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"find": _Find, "update": _Update, "submit": _Submit}

    def generate(self, draw: random.Random) -> None:
        config = self.config
        if config.writes >= config.rows or not config.solvable:
            message = (
                f"writes={config.writes} of rows={config.rows}, solvable={config.solvable}: fewer orders are changed"
            )
            message += " than there are, and this world has no unsolvable twin"
            raise ValueError(message)
        customers = draw.sample(_NAMES, min(len(_NAMES), 3 + config.rows // 4))
        goods = draw.sample(_GOODS, min(len(_GOODS), 3 + config.rows // 4))
        self._customers = {f"c{number}": name for number, name in enumerate(customers, 1)}
        self._products = {f"p{number}": name for number, name in enumerate(goods, 1)}
        self._customer, self._product = draw.choice(list(self._customers)), draw.choice(list(self._products))
        self._to = draw.choice(_STATES[1:])
        before = [state for state in _STATES if state != self._to]
        meant = set(draw.sample(range(config.rows), config.writes))
        self._orders: dict[str, tuple[str, str]] = {}
        status: dict[str, str] = {}
        for number in range(config.rows):
            self._orders[f"o{number + 1}"] = self._pair(draw, meant=number in meant)
            status[f"o{number + 1}"] = draw.choice(before)
        self._target_orders = sorted(f"o{number + 1}" for number in meant)
        self._first = dict(status)
        self.limit = config.turns or 3 * self._shortest()
        self.now = _Now(status, [])

    def _pair(self, draw: random.Random, *, meant: bool) -> tuple[str, str]:
        """Returns customer and product of an order; without a named product, every order of the customer is
        requested."""
        by_product = self.config.tables == 3
        if meant:
            return self._customer, self._product if by_product else draw.choice(list(self._products))
        while True:
            pair = draw.choice(list(self._customers)), draw.choice(list(self._products))
            if pair != (self._customer, self._product) and (by_product or pair[0] != self._customer):
                return pair

    def _shortest(self) -> int:
        return self.config.tables + self.config.writes

    def brief(self) -> str:
        whose = self._customer if self.config.tables == 1 else self._customers[self._customer]
        what = f" for the product {self._products[self._product]}" if self.config.tables == 3 else ""
        return f"Set the status of every order of the customer {whose}{what} to {self._to}, then submit."

    def render(self) -> str:
        return "; ".join(f"table {name}: {', '.join(columns)}" for name, columns in _COLUMNS.items())

    def _rows(self, table: str) -> list[tuple[str, ...]]:
        if table == "orders":
            return [(name, *pair, self.now.status[name]) for name, pair in self._orders.items()]
        return list((self._customers if table == "customers" else self._products).items())

    def do_find(self, given: _Find) -> Turn:
        columns = _COLUMNS[given.table]
        if given.column not in columns:
            said = f"the table {given.table} has no column {given.column[:40]!r}; it has {', '.join(columns)}"
            return Turn(said, error=True)
        at = columns.index(given.column)
        found = [row for row in self._rows(given.table) if row[at] == given.value]
        needed = next((name for name, act in self._lookups() if act[1] == msgspec.to_builtins(given)), None)
        if needed is not None and needed not in self.now.known:
            self.now.known = sorted([*self.now.known, needed])
        return Turn("\n".join(" ".join(row) for row in found) or "no rows")

    def do_update(self, given: _Update) -> Turn:
        """Changes a status; the reward comes with `submit`."""
        if given.order not in self._orders:
            return Turn(f"there is no order {given.order[:40]!r}", error=True)
        self.now.status[given.order] = given.status
        return Turn("changed")

    def do_submit(self, _: _Submit) -> Turn:
        self.now.submitted = True
        return Turn("right", 1.0, True) if self.solved() else Turn("wrong", 0.0, True)

    def constants(self) -> Any:
        return [self._customers, self._products, self._orders, self._first, self.brief()]

    def check(self, now: _Now) -> None:
        if now.status.keys() != self._orders.keys():
            raise ValueError(f"{len(now.status)} orders are not those of this world")

    def solved(self) -> bool:
        """Returns whether exactly the requested orders were changed."""
        return self.now.status == {**self._first, **dict.fromkeys(self._target_orders, self._to)}

    def extra_facts(self) -> dict[str, Any]:
        changed = {name: to for name, to in self.now.status.items() if self._first[name] != to}
        return {"changed": changed, "submitted": self.now.submitted, "shortest": self._shortest() + 1}

    def _lookups(self) -> list[tuple[str, Act]]:
        names: list[tuple[str, Act]] = [
            ("customer", ("find", _find_arguments("customers", "name", self._customers[self._customer]))),
            ("product", ("find", _find_arguments("products", "name", self._products[self._product]))),
        ]
        return [
            *names[: self.config.tables - 1],
            ("orders", ("find", _find_arguments("orders", "customer", self._customer))),
        ]

    def oracle(self) -> Act | None:
        """Looks up what is necessary, corrects what is wrong, and submits."""
        if self.over:
            return None
        for name, act in self._lookups():
            if name not in self.now.known:
                return act
        wanted = {**self._first, **dict.fromkeys(self._target_orders, self._to)}
        for order, status in self.now.status.items():
            if status != wanted[order]:
                return "update", {"order": order, "status": wanted[order]}
        return "submit", {}

    def progress(self) -> float | None:
        """Returns the share of lookups and changes done, less wrong changes."""
        wanted = {**self._first, **dict.fromkeys(self._target_orders, self._to)}
        wrong = sum(self.now.status[name] != to for name, to in wanted.items())
        done = len(self.now.known) + self.config.writes - wrong
        return max(0.0, min(1.0, done / self._shortest()))

    def choices(self) -> list[Act]:
        """Returns lookups by name, the next status of each order, and `submit`."""
        if self.over:
            return []
        finds: list[Act] = [("find", _find_arguments("customers", "name", name)) for name in self._customers.values()]
        finds += [("find", _find_arguments("products", "name", name)) for name in self._products.values()]
        finds += [("find", _find_arguments("orders", "customer", number)) for number in self._customers]
        updates: list[Act] = [("update", {"order": order, "status": self._to}) for order in self._orders]
        return [*finds[:45], *updates[:54], ("submit", {})]


def _find_arguments(table: str, column: str, value: str) -> dict[str, Any]:
    return {"table": table, "column": column, "value": value}
