"""A desk that pays orders back: find the customer, find the order, and refund or decline it."""

import asyncio
import json
import random
from pathlib import Path
from typing import ClassVar

import msgspec

from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore


class FindCustomer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Find a customer by email address."""

    email: str


class ListOrders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the orders of a customer, the newest first."""

    customer: str


class Refund(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pay an order back. This ends the task."""

    order: str
    amount: int


class Decline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Decline to pay an order back. This ends the task."""

    order: str


class Now(msgspec.Struct):
    done: list[str | int] = []


class RefundDesk(Rules[WorldConfig, Now]):
    """Refund the newest order of a customer if it is paid, and decline it otherwise."""

    name = "refund-desk"
    WorldConfig, Now = WorldConfig, Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {
        "find_customer": FindCustomer,
        "list_orders": ListOrders,
        "refund": Refund,
        "decline": Decline,
    }

    def generate(self, draw: random.Random) -> None:
        names = draw.sample(["ada", "bo", "cy", "dee", "eli", "fay"], 3)
        self.customers = {f"{name}@post.example": f"C{draw.randrange(1_000, 10_000)}" for name in names}
        self.email = draw.choice(sorted(self.customers))
        self.orders = {
            customer: [
                {
                    "id": f"O{draw.randrange(1_000, 10_000)}",
                    "amount": draw.randrange(5, 99),
                    "paid": draw.random() < 0.6,
                }
                for _ in range(2)
            ]
            for customer in self.customers.values()
        }
        self.now, self.limit = Now(), 12

    def brief(self) -> str:
        return f"{self.__doc__} Its customer's address is {self.email} (nothing else is known)."

    def render(self) -> str:
        return "The desk is open."

    def do_find_customer(self, given: FindCustomer) -> Turn:
        found = self.customers.get(given.email)
        return Turn(json.dumps({"id": found}) if found else "no such customer", error=found is None)

    def do_list_orders(self, given: ListOrders) -> Turn:
        found = self.orders.get(given.customer)
        return Turn(json.dumps(found) if found else "no such customer", error=found is None)

    def do_refund(self, given: Refund) -> Turn:
        self.now.done = ["refund", given.order, given.amount]
        return Turn("paid back", float(self.solved()), True)

    def do_decline(self, given: Decline) -> Turn:
        self.now.done = ["decline", given.order]
        return Turn("declined", float(self.solved()), True)

    def constants(self) -> object:
        return [self.email, sorted(self.customers.items()), sorted(self.orders.items())]

    def wanted(self) -> list[str | int]:
        order = self.orders[self.customers[self.email]][0]
        if order["paid"]:
            return ["refund", str(order["id"]), int(order["amount"])]
        return ["decline", str(order["id"])]

    def solved(self) -> bool:
        return self.now.done == self.wanted()

    def oracle(self) -> Act | None:
        name, order, *amount = self.wanted()
        return None if self.over else (str(name), {"order": order, **({"amount": amount[0]} if amount else {})})


class RefundTasks(WorldTasks):
    """Tasks of this desk."""

    kind = f"{__file__}:RefundDesk"
    short = "refund-desk"


async def main() -> None:
    """Carries the workflow out where three in ten calls fail."""
    settings, flow = Settings(Path("cache"), Path(".assay")), str(Path(__file__).with_name("refund.toml"))
    tasks = (f"family:{__file__}:RefundTasks,n=10,seed=5,wrap=failures:rate=0.3",)
    config = RunConfig(tasks=tasks, agent="workflow", agent_options={"file": flow}, run="failing")
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "failing") as store:
        rows = store.attempts()
    print(f"{rows[0].agent}: {sum(row.outcome == 'pass' for row in rows)} of {len(rows)} passed")


if __name__ == "__main__":
    asyncio.run(main())
