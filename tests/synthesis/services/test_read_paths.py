"""The reads before a write: they go through what a row refers to, not through rows that happen to refer to it."""

from __future__ import annotations

import random
from typing import Annotated, Literal

import msgspec
import pytest

from assay.environments.services.declaration import Service
from assay.environments.services.plans import PlannedCall
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.environments.services.world import ServiceWorld
from assay.synthesis.services.walk import PersonFact, Walk, Walker

OwnerId = Annotated[str, identifier("owner", "OWN-")]
CardId = Annotated[str, identifier("card", "CRD-")]
GiftId = Annotated[str, identifier("gift", "GFT-")]

wallet = Service("wallet", "Cards, and gifts that other people paid for with them.")


@wallet.table()
class Owner(msgspec.Struct, frozen=True):
    id: OwnerId
    name: str


@wallet.table()
class Card(msgspec.Struct, frozen=True):
    id: CardId
    owner_id: OwnerId
    status: Literal["open", "blocked"] = "open"


@wallet.table()
class Gift(msgspec.Struct, frozen=True):
    """A gift to one owner, paid with the card of another."""

    id: GiftId
    card_id: CardId
    owner_id: OwnerId


@wallet.view()
def find_owner(tx: Transaction, name: str) -> list[Owner]:
    """Returns owners by name."""
    return tx.find(Owner, name=name)


@wallet.view()
def find_gifts(tx: Transaction, owner_id: OwnerId) -> list[Gift]:
    """Returns the gifts to an owner, with the cards that they were paid with."""
    return tx.find(Gift, owner_id=owner_id)


@wallet.view()
def list_cards(tx: Transaction, owner_id: OwnerId) -> list[Card]:
    """Returns the cards of an owner."""
    return tx.find(Card, owner_id=owner_id)


@wallet.view()
def read_gift(tx: Transaction, gift_id: GiftId) -> Gift:
    """Returns a gift."""
    return tx.get(Gift, gift_id)


@wallet.action(wish="block {card_id}")
def block_card(tx: Transaction, card_id: CardId) -> Card:
    """Blocks a card."""
    return tx.update(tx.get(Card, card_id), status="blocked")


@wallet.action(wish="thank for {gift_id}")
def thank_for_gift(tx: Transaction, gift_id: GiftId) -> None:
    """Removes a gift from the list of those to be thanked for."""
    tx.delete(tx.get(Gift, gift_id))


@wallet.generator
def fill(make: Generator, knobs: object) -> None:
    # The receiver's identifier sorts before the payer's.
    make.insert_all([Owner("OWN-100001", "Ada"), Owner("OWN-100002", "Zeno")])
    make.insert_all([Card("CRD-100001", "OWN-100002")])
    make.insert_all([Gift("GFT-100001", "CRD-100001", "OWN-100001")])


def drawn(world: ServiceWorld, action: str) -> list[Walk]:
    """Returns walks whose only write is an action."""
    walks = [Walker(world).walk(1, random.Random(seed)) for seed in range(60)]
    return [walk for walk in walks if walk is not None and walk.writes[0].action == action]


def test_a_card_is_read_through_its_owner_and_not_through_a_gift() -> None:
    walk = drawn(ServiceWorld.of([wallet]), "block_card")[0]
    assert walk.plan == (
        PlannedCall("find_owner", {"name": "Zeno"}),
        PlannedCall("list_cards", {"owner_id": "OWN-100002"}),
        PlannedCall("block_card", {"card_id": "CRD-100001"}),
    )
    assert walk.known == (PersonFact("words", "Zeno"),)


def test_a_gift_is_read_through_its_receiver_though_the_payer_can_be_reached_too() -> None:
    walk = drawn(ServiceWorld.of([wallet]), "thank_for_gift")[0]
    assert [call.action for call in walk.plan] == ["find_owner", "find_gifts", "thank_for_gift"]
    assert walk.known == (PersonFact("words", "Ada"),)


def test_rows_that_refer_to_it_are_used_where_its_own_row_leads_nowhere() -> None:
    walker = Walker(ServiceWorld.of([wallet]))
    walker._views = [view for view in walker._views if view.name != "list_cards"]
    walks = [walker.walk(1, random.Random(seed)) for seed in range(60)]
    walk = next(walk for walk in walks if walk is not None and walk.writes[0].action == "block_card")
    assert [call.action for call in walk.plan] == ["find_owner", "find_gifts", "block_card"]
    assert walk.known == (PersonFact("words", "Ada"),)


@pytest.mark.long
def test_the_reads_for_an_order_of_the_shop_concern_its_customer_alone() -> None:
    """A payment method is referred to by orders, and a variant by orders of many customers."""
    world = ServiceWorld({"services": ["shop"]}, 3)
    seen = set[str]()
    walker = Walker(world)
    for seed in range(150):
        walk = walker.walk(1, random.Random(seed))
        if walk is None or walk.writes[0].action not in ("change_order_payment", "place_order", "request_exchange"):
            continue
        seen.add(walk.writes[0].action)
        assert [call.action for call in walk.plan].count("search_customers") == 1, walk.plan
    assert seen == {"change_order_payment", "place_order", "request_exchange"}
