"""A service, its tasks, and a run of the reference solution on them."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay.environments.services.declaration import Policy, Service
from assay.environments.services.schema import Cents, identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore

RiderId = Annotated[str, identifier("rider", "RID-")]
BikeId = Annotated[str, identifier("bike", "BIK-")]
Email = Annotated[str, identifier("email address")]


class BikeKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    riders: Annotated[int, Meta(ge=1, le=1000)] = 12
    bikes: Annotated[int, Meta(ge=1, le=1000)] = 20


POLICY = Policy(
    "Look a rider up before you rent a bike to them. Broken bikes are not rented.",
    (
        """
contract = "bikes"
[[rules]]
name = "look-up-first"
kind = "precondition"
when = 'call.name == "rent_bike"'
require = 'earlier(call.name == "find_rider" and result.ok)'
""",
    ),
)

bikes = Service("bikes", "Bikes for rent in a town.", knobs=BikeKnobs, policy=POLICY)


@bikes.table(unique=[("email",)])
class Rider(msgspec.Struct, frozen=True):
    id: RiderId
    email: Email
    balance: Cents


@bikes.table()
class Bike(msgspec.Struct, frozen=True):
    id: BikeId
    name: str
    status: Literal["free", "rented", "broken"]
    rider_id: RiderId | None = None


@bikes.view()
def find_rider(tx: Transaction, email: Email) -> Rider:
    """Returns the rider with an email address."""
    found = tx.find(Rider, email=email)
    tx.require(found, f"No rider has the email address {email}.", "not_found")
    return found[0]


@bikes.view()
def search_bikes(tx: Transaction, text: str, limit: Annotated[int, Meta(ge=1, le=50)] = 10) -> list[Bike]:
    """Returns bikes by name.

    Args:
        text: Words of the name.
        limit: Maximum number of bikes.
    """
    return tx.search(Bike, text, "name", limit=limit)


@bikes.action(wish="rent {bike_id} to {rider_id}")
def rent_bike(tx: Transaction, bike_id: BikeId, rider_id: RiderId) -> Bike:
    """Rents a free bike for 4.50, which is taken from the rider's balance."""
    bike, rider = tx.get(Bike, bike_id), tx.get(Rider, rider_id)
    tx.require(bike.status == "free", f"{bike.name} is {bike.status}.", "conflict")
    tx.require(rider.balance >= 450, f"The balance of {rider.email} is too low.", "forbidden")
    tx.update(rider, balance=rider.balance - 450)
    return tx.update(bike, status="rented", rider_id=rider_id)


@bikes.action(wish="report that {bike_id} is broken")
def report_broken(tx: Transaction, bike_id: BikeId) -> Bike:
    """Takes a bike out of service."""
    return tx.update(tx.get(Bike, bike_id), status="broken", rider_id=None)


@bikes.describe(Bike)
def describe_bike(tx: Transaction, bike: Bike) -> str:
    return f"the bike called {bike.name}"


@bikes.describe(Rider)
def describe_rider(tx: Transaction, rider: Rider) -> str:
    return f"the rider with the address {rider.email}"


@bikes.generator
def fill(make: Generator, knobs: BikeKnobs) -> None:
    colours = ("red", "blue", "green", "black", "white")
    make.insert_all(
        [
            Rider(make.new_id(Rider), f"rider{number}@example.org", make.draw.randint(0, 2000))
            for number in range(knobs.riders)
        ]
    )
    make.insert_all(
        [
            Bike(
                make.new_id(Bike), f"{make.draw.choice(colours)} {number}", make.draw.choice(["free", "free", "broken"])
            )
            for number in range(knobs.bikes)
        ]
    )


if __name__ == "__main__":
    family = f"family:services,app={__file__}:bikes,n=4,writes=1"
    config = RunConfig(tasks=(family,), agent="oracle")
    done = asyncio.run(start_run(config, Settings(Path("cache"), Path(".assay")), Tally()))
    with RunStore.open(done.store, done.run) as store:
        for row in store.attempts():
            facts = next(e.data["facts"] for e in store.trajectory(row.chain).evidence if e.kind == "facts")
            print(row.task.removeprefix("services-"), row.outcome, *facts["difference"], sep="\n  ")
