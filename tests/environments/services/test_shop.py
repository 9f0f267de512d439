"""The shop: generator, rules of its actions, and what holds after any calls."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import msgspec
import pytest

from assay.environments.services.apps._words import PERSON_EMAIL
from assay.environments.services.apps.shop import (
    Address,
    Coupon,
    Customer,
    Exchange,
    Order,
    OrderItem,
    OrderPayment,
    PaymentMethod,
    PointEntry,
    Product,
    Return,
    Shipment,
    StockAlert,
    Ticket,
    Variant,
    shop,
)
from assay.environments.services.transaction import Transaction, shift_time
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import (
    Calls,
    Letter,
    call,
    changed_tables,
    postbox,
    refuse,
    rows,
)

SIZES = [
    {"customers": 2, "products": 2, "orders": 1},
    {},
    {"customers": 80, "products": 120, "orders": 300, "lookalikes": 50, "delays": 60, "sold_out": 40},
]
CALM = {"delays": 0, "repriced": 0, "sold_out": 0}
"""Knobs of a world in which nothing unforeseen happens."""
ONE = {"quantity": 1}


def opened(seed: int = 1, **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([shop], seed, {"shop": knobs})


def value(items: list[OrderItem]) -> int:
    return sum((item.price - item.discount) * item.quantity for item in items)


def assert_invariants(world: ServiceWorld) -> None:
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert_money(world)
    shipped: dict[str, Shipment] = {shipment.order_id: shipment for shipment in rows(world, Shipment)}
    for order in rows(world, Order):
        assert rows(world, Address, id=order.address_id)[0].customer_id == order.customer_id
        assert rows(world, PaymentMethod, id=order.payment_method_id)[0].customer_id == order.customer_id
        parcel = shipped.get(order.id)
        if parcel is None:
            assert order.status in ("pending", "packing", "cancelled")
        elif parcel.status == "lost":
            assert order.status == "cancelled"
        else:
            assert order.status == ("shipped" if parcel.delivered is None else "delivered")
    for item in rows(world, OrderItem):
        returns = [r.quantity for r in rows(world, Return, order_item_id=item.id) if r.status != "withdrawn"]
        exchanges = [e.quantity for e in rows(world, Exchange, order_item_id=item.id) if e.status != "cancelled"]
        assert item.returned == sum(returns + exchanges) <= item.quantity <= 5
        assert rows(world, Variant, id=item.variant_id)[0].product_id == item.product_id
    assert all(variant.stock >= 0 and variant.price > 0 for variant in rows(world, Variant))
    for customer in rows(world, Customer):
        entries = rows(world, PointEntry, customer_id=customer.id)
        assert customer.points == sum(entry.points for entry in entries) >= 0
        own = rows(world, Address, customer_id=customer.id, is_removed=False)
        assert sum(address.is_default for address in own) == 1


def assert_money(world: ServiceWorld) -> None:
    used: dict[str, int] = {}
    for order in rows(world, Order):
        payments = rows(world, OrderPayment, order_id=order.id)
        assert order.charged == sum(max(0, payment.amount) for payment in payments)
        assert order.refunded == sum(max(0, -payment.amount) for payment in payments)
        paid = order.charged - order.refunded
        assert paid >= 0
        if order.status in ("pending", "packing"):
            assert paid == value(rows(world, OrderItem, order_id=order.id)) + order.delivery_fee
        if order.status == "cancelled":
            assert paid == 0
        for payment in payments:
            used[payment.method_id] = used.get(payment.method_id, 0) + payment.amount
    for method in rows(world, PaymentMethod):
        if method.kind == "card":
            assert (method.loaded, method.balance) == (None, None)
        else:
            assert method.balance == method.loaded - used.get(method.id, 0) >= 0


@pytest.mark.parametrize("knobs", SIZES)
def test_generator(knobs: dict[str, int]) -> None:
    world = opened(5, **knobs)
    assert_invariants(world)
    names = [customer.name for customer in rows(world, Customer)]
    assert len(set(names)) < len(names) == knobs.get("customers", 20)
    assert len(rows(world, Order)) == knobs.get("orders", 60)
    if knobs.get("orders", 60) > 1:
        states = {order.status for order in rows(world, Order)}
        assert states == {"pending", "packing", "shipped", "delivered", "cancelled"}
        assert {parcel.status for parcel in rows(world, Return)} >= {"announced", "refunded"}
        assert {exchange.status for exchange in rows(world, Exchange)} == {"requested", "sent"}


@pytest.mark.parametrize("seed", range(2))
def test_a_busy_desk_keeps_the_ledgers(seed: int) -> None:
    world, draw = opened(seed, repriced=80, delays=60), random.Random(seed)
    accepted: set[str] = set()
    for _ in range(400):
        name, arguments = likely_call(world, draw)
        if not world.act(name, arguments).error:
            accepted.add(name)
    assert_invariants(world)
    assert len(accepted) >= 20


def likely_call(world: ServiceWorld, draw: random.Random) -> tuple[str, dict[str, Any]]:
    """Returns a call whose arguments belong together."""
    status = draw.choice(("pending", "pending", "delivered", "shipped"))
    order = draw.choice(rows(world, Order, status=status) or rows(world, Order))
    item = draw.choice(rows(world, OrderItem, order_id=order.id))
    variant = draw.choice(rows(world, Variant, product_id=item.product_id)).id
    customer, of_order, of_item = order.customer_id, {"order_id": order.id}, {"order_item_id": item.id}
    address = draw.choice(rows(world, Address, customer_id=customer)).id
    method = draw.choice(rows(world, PaymentMethod, customer_id=customer)).id
    other = draw.choice(rows(world, Variant)).id
    parcels = rows(world, Shipment, order_id=order.id) or rows(world, Shipment)
    returns, exchanges = rows(world, Return, status="announced"), rows(world, Exchange, status="requested")
    quantity, delivery = draw.choice((1, 1, 2, 5)), draw.choice(("standard", "express"))
    of_customer = {"customer_id": customer}
    pay = {"address_id": address, "payment_method_id": method, "delivery": delivery}
    reason = draw.choice(("damaged", "does_not_fit"))
    refund_to = draw.choice(("original_payment_method", "store_credit"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("place_order", {**of_customer, **pay, "variant_id": other, "quantity": quantity}),
        ("add_order_item", {**of_order, "variant_id": other, "quantity": quantity}),
        ("change_item_quantity", {**of_item, "quantity": quantity}),
        ("change_item_variant", {**of_item, "variant_id": variant}),
        ("cancel_order_item", of_item),
        ("cancel_order", {**of_order, "reason": "no_longer_needed"}),
        ("change_order_address", {**of_order, "address_id": address}),
        ("change_order_payment", {**of_order, "payment_method_id": method}),
        ("change_order_delivery", {**of_order, "delivery": delivery}),
        ("apply_coupon", {**of_order, "coupon_code": draw.choice(rows(world, Coupon)).code}),
        ("remove_coupon", of_order),
        ("announce_return", {**of_item, "quantity": quantity, "reason": reason, "refund_to": refund_to}),
        ("announce_return", {**of_item, "quantity": 1, "reason": reason, "refund_to": refund_to}),
        ("withdraw_return", {"return_id": draw.choice(returns).id if returns else ""}),
        ("request_exchange", {**of_item, "variant_id": variant, "quantity": 1}),
        ("request_exchange", {**of_item, "variant_id": variant, "quantity": 1}),
        ("cancel_exchange", {"exchange_id": draw.choice(exchanges).id if exchanges else ""}),
        ("adjust_item_price", of_item),
        ("adjust_item_price", of_item),
        ("report_missing_parcel", {"shipment_id": draw.choice(parcels).id}),
        ("give_goodwill", of_order),
        ("redeem_points", {**of_customer, "hundreds": draw.randint(5, 9)}),
        ("convert_gift_card", {"payment_method_id": method}),
        ("remove_address", {"address_id": address}),
        ("set_default_address", {"address_id": address}),
        ("wait", {"hours": draw.choice((1, 4, 9))}),
    ]
    return draw.choice(calls)


def test_months_pass() -> None:
    world = opened(3, delays=60)
    call(world, "wait", hours=24 * 31)
    call(world, "wait", hours=24 * 31)
    assert {order.status for order in rows(world, Order)} <= {"delivered", "cancelled", "shipped"}
    overdue = [parcel for parcel in rows(world, Shipment) if parcel.status == "in_transit"]
    assert overdue
    assert all(parcel.expected < "2026-03-02" for parcel in overdue)
    assert {parcel.status for parcel in rows(world, Return)} <= {"refunded", "withdrawn"}
    assert {exchange.status for exchange in rows(world, Exchange)} == {"sent"}
    assert_invariants(world)


def test_namesakes_are_told_apart_by_their_address() -> None:
    world = opened(3, orders=150)
    names = [customer.name for customer in rows(world, Customer)]
    for customer in rows(world, Customer):
        spoken = shop.descriptions[Customer](transaction(world), customer)
        assert (customer.email in spoken) == (names.count(customer.name) > 1)


def transaction(world: ServiceWorld) -> Transaction:
    return Transaction(world, world.database.connection, "shop", "system", "")


# Actions.


class Case:
    """A world in which a basic customer has just ordered a kettle or the like."""

    def __init__(self, category: str = "kitchen", quantity: int = 2, **knobs: int) -> None:
        services = [shop, postbox]
        self.world = ServiceWorld.of(services, 4, {"shop": {**CALM, "products": 60, **knobs}})
        customers = [c for c in rows(self.world, Customer, tier="basic") if len(self.addresses(c.id)) > 1]
        self.customer = customers[0]
        self.card = self.card_of(self.customer.id)
        self.product = rows(self.world, Product, category=category, is_final_sale=False)[0]
        self.variants = rows(self.world, Variant, product_id=self.product.id)
        self.variants.sort(key=lambda variant: variant.price)
        self.address = self.addresses(self.customer.id)[0]
        placed = self.place(self.variants[0], quantity)
        self.order_id, self.item_id = placed["order"]["id"], placed["items"][0]["id"]
        self.order, self.item = {"order_id": self.order_id}, {"order_item_id": self.item_id}

    def addresses(self, customer_id: str) -> list[Address]:
        return rows(self.world, Address, customer_id=customer_id)

    def card_of(self, customer_id: str) -> PaymentMethod:
        cards = rows(self.world, PaymentMethod, customer_id=customer_id, kind="card")
        return next(card for card in cards if card.expires > "2026-06")

    def place(self, variant: Variant, quantity: int = 1, **given: Any) -> Any:
        return call(self.world, "place_order", **self.basket(variant, quantity) | given)

    def basket(self, variant: Variant, quantity: int = 1) -> dict[str, Any]:
        return {
            "customer_id": self.customer.id,
            "address_id": self.address.id,
            "payment_method_id": self.card.id,
            "variant_id": variant.id,
            "quantity": quantity,
            "delivery": "standard",
        }

    def get(self, row: type[Any], key: str) -> Any:
        return rows(self.world, row, id=key)[0]

    def paid(self) -> int:
        order = self.get(Order, self.order_id)
        return int(order.charged - order.refunded)

    def call(self, name: str, /, **arguments: Any) -> Any:
        return call(self.world, name, **arguments)

    def refuse(self, name: str, /, **arguments: Any) -> str:
        return refuse(self.world, name, **arguments)

    def wait(self, days: int) -> None:
        call(self.world, "wait", hours=24 * days)

    def deliver(self) -> str:
        """Lets the order be delivered, and returns the identifier of its parcel."""
        self.wait(7)
        assert self.get(Order, self.order_id).status == "delivered"
        shipment: str = rows(self.world, Shipment, order_id=self.order_id)[0].id
        return shipment

    def promote(self, tier: str) -> None:
        self.set("customers", "tier", tier, self.customer.id)

    def set(self, table: str, column: str, new: Any, key: str) -> None:
        """Changes a cell past the application."""
        with self.world.database.transaction():
            self.world.database.connection.execute(f"UPDATE shop_{table} SET {column} = ? WHERE id = ?", (new, key))

    def insert(self, row: msgspec.Struct) -> None:
        """Adds a row past the application."""
        with self.world.database.transaction():
            transaction(self.world).insert(row)

    def give_gift_card(self, balance: int) -> PaymentMethod:
        label, expires = "gift card ending in 1000", "2027-12-31"
        card = PaymentMethod("PAY-900000", self.customer.id, "gift_card", label, expires, balance, balance)
        self.insert(card)
        return card

    def happen(self, name: str, **payload: Any) -> None:
        """Lets an event happen in an hour."""
        with self.world.database.transaction():
            self.world.schedule(shift_time(self.world.now, hours=1), "shop", name, payload)
        call(self.world, "wait", hours=1)

    def letters(self) -> list[str]:
        return [letter.text for letter in rows(self.world, Letter, recipient=self.customer.email)]


def test_place_order() -> None:
    case = Case()
    price, stock = case.variants[0].price, case.variants[0].stock
    fee = 0 if 2 * price >= 5_000 else 490
    assert case.paid() == 2 * price + fee
    assert case.get(Variant, case.variants[0].id).stock == stock - 2
    assert changed_tables(case.world) == {"orders", "order_items", "order_payments", "variants", "letters"}
    assert "Thank you" in case.letters()[0]
    express = case.place(case.variants[1], delivery="express")
    assert express["total"] == case.variants[1].price + 990
    other = next(c for c in rows(case.world, Customer) if c.id != case.customer.id)
    basket = case.basket(case.variants[0])
    theirs = {"address_id": case.addresses(other.id)[0].id}
    assert "another customer's" in case.refuse("place_order", **basket | theirs)
    theirs = {"payment_method_id": case.card_of(other.id).id}
    assert "another customer's" in case.refuse("place_order", **basket | theirs)
    case.set("variants", "stock", 1, case.variants[0].id)
    assert "Not enough in stock: 1 pieces" in case.refuse("place_order", **basket | {"quantity": 2})
    case.set("payment_methods", "expires", "2026-02-01", case.card.id)
    assert "expired on 2026-02-01" in case.refuse("place_order", **basket)
    assert "quantity" in case.refuse("place_order", **basket | {"quantity": 6})


def test_gold_members_pay_no_standard_delivery() -> None:
    case = Case("personal_care", 1)
    case.promote("gold")
    small = min(case.variants, key=lambda variant: variant.price)
    assert small.price < 5_000
    assert case.place(small)["total"] == small.price


def test_gift_cards_pay_all_or_nothing() -> None:
    case = Case()
    due = case.paid()
    card = case.give_gift_card(due + 100)
    pay = {**case.order, "payment_method_id": card.id}
    case.call("change_order_payment", **pay)
    assert case.get(PaymentMethod, card.id).balance == 100
    basket = case.basket(case.variants[0]) | {"payment_method_id": card.id}
    assert "pays all or nothing" in case.refuse("place_order", **basket)
    case.call("cancel_order", **case.order, reason="found_cheaper")
    assert case.get(PaymentMethod, card.id).balance == due + 100
    assert_invariants(case.world)


def test_what_is_left_on_a_gift_card_becomes_store_credit() -> None:
    case = Case()
    card = case.give_gift_card(1_250)
    held = [m.balance for m in rows(case.world, PaymentMethod, customer_id=case.customer.id, kind="store_credit")]
    moved = case.call("convert_gift_card", payment_method_id=card.id)
    assert (moved["kind"], moved["balance"]) == ("store_credit", sum(held) + 1_250)
    assert case.get(PaymentMethod, card.id).balance == 0
    assert "is empty" in case.refuse("convert_gift_card", payment_method_id=card.id)
    assert "is not a gift card" in case.refuse("convert_gift_card", payment_method_id=moved["id"])
    case.set("payment_methods", "expires", "2026-02-01", card.id)
    assert "expired" in case.refuse("convert_gift_card", payment_method_id=card.id)
    assert_invariants(case.world)


def test_items_of_pending_orders() -> None:
    case = Case()
    added = case.call("add_order_item", **case.order, variant_id=case.variants[1].id, **ONE)
    assert len(added["items"]) == 2
    assert case.paid() == added["total"]
    again = {**case.order, "variant_id": case.variants[1].id, **ONE}
    assert "has this variant already" in case.refuse("add_order_item", **again)
    assert "has this variant already" in case.refuse("change_item_variant", **case.item, variant_id=again["variant_id"])
    assert "2 pieces already" in case.refuse("change_item_quantity", **case.item, quantity=2)
    assert case.call("change_item_quantity", **case.item, quantity=4)["total"] == case.paid()
    case.set("variants", "stock", 0, case.variants[0].id)
    assert "Not enough in stock" in case.refuse("change_item_quantity", **case.item, quantity=5)
    left = case.call("cancel_order_item", **case.item)
    assert [item["variant_id"] for item in left["items"]] == [case.variants[1].id]
    assert "cancel the order instead" in case.refuse("cancel_order_item", order_item_id=left["items"][0]["id"])
    assert case.get(Variant, case.variants[0].id).stock == 4
    assert_invariants(case.world)


def test_change_item_variant() -> None:
    case = Case()
    dearer = case.variants[-1]
    changed = case.call("change_item_variant", **case.item, variant_id=dearer.id)
    assert (changed["items"][0]["variant_id"], changed["items"][0]["price"]) == (dearer.id, dearer.price)
    assert case.paid() == changed["total"]
    assert "this variant already" in case.refuse("change_item_variant", **case.item, variant_id=dearer.id)
    elsewhere = next(v for v in rows(case.world, Variant) if v.product_id != case.product.id)
    assert "is not a variant of" in case.refuse("change_item_variant", **case.item, variant_id=elsewhere.id)
    assert_invariants(case.world)


def test_cancel_order() -> None:
    case = Case()
    details = case.call("cancel_order", **case.order, reason="takes_too_long")
    assert (details["order"]["status"], details["order"]["cancel_reason"]) == ("cancelled", "takes_too_long")
    assert case.paid() == 0
    assert "is refunded" in case.letters()[-1]
    assert changed_tables(case.world) == {"orders", "order_items", "order_payments", "letters"}
    case.wait(3)
    assert case.get(Order, case.order_id).status == "cancelled"
    assert_invariants(case.world)


PENDING: list[tuple[str, dict[str, Any]]] = [
    ("add_order_item", ONE),
    ("change_item_quantity", ONE),
    ("change_item_variant", {}),
    ("cancel_order_item", {}),
    ("cancel_order", {"reason": "no_longer_needed"}),
    ("change_order_address", {}),
    ("change_order_payment", {}),
    ("change_order_delivery", {"delivery": "express"}),
    ("apply_coupon", {"coupon_code": "WELCOME10"}),
    ("remove_coupon", {}),
]


@pytest.mark.parametrize(("name", "given"), PENDING)
def test_only_pending_orders_are_changed(name: str, given: dict[str, Any]) -> None:
    case = Case()
    known = {
        **case.order,
        **case.item,
        "variant_id": case.variants[1].id,
        "address_id": case.addresses(case.customer.id)[1].id,
        "payment_method_id": case.card.id,
    }
    needed = shop.actions[name].parameters["properties"]
    arguments = {key: known[key] for key in needed if key in known} | given
    case.wait(1)
    assert "is packing; only pending orders can be changed" in case.refuse(name, **arguments)


def test_address_payment_and_delivery_of_orders() -> None:
    case = Case()
    other = case.addresses(case.customer.id)[1]
    assert "already" in case.refuse("change_order_address", **case.order, address_id=case.address.id)
    assert case.call("change_order_address", **case.order, address_id=other.id)["address_id"] == other.id
    stranger = next(a for a in rows(case.world, Address) if a.customer_id != case.customer.id)
    assert "another customer's" in case.refuse("change_order_address", **case.order, address_id=stranger.id)
    before = case.paid()
    faster = case.call("change_order_delivery", **case.order, delivery="express")
    assert faster["order"]["delivery_fee"] == 990
    assert case.paid() == faster["total"] > before - 990
    assert "already" in case.refuse("change_order_delivery", **case.order, delivery="express")
    case.call("change_order_delivery", **case.order, delivery="standard")
    assert case.paid() == before
    assert "already" in case.refuse("change_order_payment", **case.order, payment_method_id=case.card.id)
    card = case.give_gift_card(before - 1)
    assert "all or nothing" in case.refuse("change_order_payment", **case.order, payment_method_id=card.id)
    assert_invariants(case.world)


def test_change_order_payment() -> None:
    world = opened(4, **CALM)
    order, other = next(
        (order, card)
        for order in rows(world, Order, status="pending")
        for card in rows(world, PaymentMethod, customer_id=order.customer_id, kind="card")
        if card.id != order.payment_method_id and card.expires > world.now
    )
    details = call(world, "change_order_payment", order_id=order.id, payment_method_id=other.id)
    assert details["order"]["payment_method_id"] == other.id
    payments = call(world, "list_order_payments", order_id=order.id)
    assert sum(p["amount"] for p in payments if p["method_id"] == other.id) == details["total"]
    assert sum(p["amount"] for p in payments if p["method_id"] == order.payment_method_id) == 0
    assert_invariants(world)


def test_coupons() -> None:
    case = Case()
    case.insert(Coupon("TENTS", 10, 0, "2026-03-01", "2026-03-31", "outdoor"))
    case.insert(Coupon("BULK", 10, 2 * case.variants[0].price, "2026-03-01", "2026-03-31"))
    apply = {**case.order, "coupon_code": "WELCOME10"}
    details = case.call("apply_coupon", **apply)
    assert details["items"][0]["discount"] == case.variants[0].price // 10
    assert case.paid() == details["total"]
    assert "has the coupon WELCOME10" in case.refuse("apply_coupon", **apply)
    second = case.place(case.variants[1])["order"]["id"]
    assert "has used coupon" in case.refuse("apply_coupon", order_id=second, coupon_code="WELCOME10")
    assert case.call("remove_coupon", **case.order)["items"][0]["discount"] == 0
    assert "has no coupon" in case.refuse("remove_coupon", **case.order)
    for code in ("WINTER20", "EASTER25"):
        assert "is valid from" in case.refuse("apply_coupon", **case.order, coupon_code=code)
    assert "is for outdoor only" in case.refuse("apply_coupon", **case.order, coupon_code="TENTS")
    case.call("apply_coupon", **case.order, coupon_code="BULK")
    assert "needs goods of" in case.refuse("change_item_quantity", **case.item, quantity=1)
    case.call("remove_coupon", **case.order)
    case.call("change_item_quantity", **case.item, quantity=1)
    assert "needs goods of" in case.refuse("apply_coupon", **case.order, coupon_code="BULK")
    assert "no coupon 'FREE'" in case.refuse("apply_coupon", **case.order, coupon_code="FREE")
    assert_invariants(case.world)


def test_a_return_is_refunded_when_it_arrives() -> None:
    case = Case()
    case.deliver()
    price, stock = case.variants[0].price, case.get(Variant, case.variants[0].id).stock
    points = case.get(Customer, case.customer.id).points
    given = {**case.item, **ONE, "reason": "does_not_fit"}
    quote = case.call("quote_return", **given)
    assert (quote["refund"], quote["credit"]) == (price - 290, price)
    parcel = case.call("announce_return", **given, refund_to="original_payment_method")
    before = case.paid()
    assert "1 pieces that are not returned" in case.refuse("quote_return", **{**given, "quantity": 2})
    case.wait(6)
    assert case.paid() == before - price + 290
    assert case.get(Variant, case.variants[0].id).stock == stock + 1
    assert case.get(Customer, case.customer.id).points == points - (price - 290) // 100
    assert "is refunded" in case.refuse("withdraw_return", return_id=parcel["id"])
    damaged = {**case.item, **ONE, "reason": "damaged"}
    other = case.call("announce_return", **damaged, refund_to="store_credit")
    assert other["refund"] == price
    assert case.call("withdraw_return", return_id=other["id"])["status"] == "withdrawn"
    assert case.get(OrderItem, case.item_id).returned == 1
    case.call("announce_return", **damaged, refund_to="store_credit")
    case.wait(6)
    credit = rows(case.world, PaymentMethod, customer_id=case.customer.id, kind="store_credit")[0]
    refunds = rows(case.world, OrderPayment, order_id=case.order_id, method_id=credit.id)
    assert [payment.amount for payment in refunds] == [-price]
    assert case.get(Variant, case.variants[0].id).stock == stock + 1
    assert_invariants(case.world)


@pytest.mark.parametrize(
    ("category", "tier", "days"), [("kitchen", "basic", 30), ("electronics", "basic", 14), ("electronics", "gold", 29)]
)
def test_returns_have_a_last_day(category: str, tier: str, days: int) -> None:
    case = Case(category)
    case.promote(tier)
    shipment = case.get(Shipment, case.deliver())
    given = {**case.item, **ONE, "reason": "not_as_expected"}
    quote = case.call("quote_return", **given)
    assert quote["last_day"] == shift_time(shipment.delivered[:10], days=days)
    assert quote["refund"] == case.variants[0].price - (0 if tier == "gold" else 290)
    case.wait((date.fromisoformat(quote["last_day"]) - date.fromisoformat(case.world.now[:10])).days)
    case.call("quote_return", **given)
    case.wait(1)
    assert "the last day was" in case.refuse("announce_return", **given, refund_to="store_credit")
    case.call("quote_return", **{**given, "reason": "wrong_item"})
    case.wait(31)
    if days < 30:
        case.wait(15)
    assert "the last day was" in case.refuse("quote_return", **{**given, "reason": "wrong_item"})


def test_what_cannot_be_returned() -> None:
    case = Case("personal_care")
    given = {**case.item, **ONE, "reason": "not_as_expected"}
    assert "is pending, not delivered" in case.refuse("quote_return", **given)
    case.deliver()
    assert "personal care" in case.refuse("quote_return", **given)
    case.call("quote_return", **{**given, "reason": "damaged"})
    final = Case()
    final.set("products", "is_final_sale", 1, final.product.id)
    final.deliver()
    assert "final-sale" in final.refuse("quote_return", **{**given, **final.item})
    assert "final-sale" in final.refuse("request_exchange", **final.item, variant_id=final.variants[1].id, **ONE)


def test_exchanges() -> None:
    case = Case()
    case.deliver()
    dearer = case.variants[-1]
    given = {**case.item, "variant_id": dearer.id, **ONE}
    before, stock = case.paid(), dearer.stock
    exchange = case.call("request_exchange", **given)
    assert exchange["difference"] == dearer.price - case.variants[0].price
    assert case.paid() == before + exchange["difference"]
    assert case.get(Variant, dearer.id).stock == stock - 1
    assert "was exchanged before" in case.refuse("request_exchange", **given)
    case.call("cancel_exchange", exchange_id=exchange["id"])
    assert (case.paid(), case.get(Variant, dearer.id).stock) == (before, stock)
    assert "is cancelled" in case.refuse("cancel_exchange", exchange_id=exchange["id"])
    sent = case.call("request_exchange", **given)
    case.wait(6)
    assert "is sent" in case.refuse("cancel_exchange", exchange_id=sent["id"])
    same = {**case.item, "variant_id": case.variants[0].id}
    assert "this variant already" in case.refuse("request_exchange", **same, **ONE)
    elsewhere = next(v for v in rows(case.world, Variant) if v.product_id != case.product.id)
    assert "is not a variant" in case.refuse("request_exchange", **{**given, "variant_id": elsewhere.id})
    assert_invariants(case.world)


def test_an_exchange_for_something_cheaper_is_refunded() -> None:
    case = Case(quantity=3)
    case.deliver()
    cheaper = case.variants[1]
    case.happen("change_price", variant_id=cheaper.id, price=500)
    before = case.paid()
    assert "3 pieces" in case.refuse("request_exchange", **case.item, variant_id=cheaper.id, quantity=4)
    exchange = case.call("request_exchange", **case.item, variant_id=cheaper.id, quantity=2)
    assert exchange["difference"] == 2 * (500 - case.variants[0].price) == case.paid() - before
    case.call("cancel_exchange", exchange_id=exchange["id"])
    assert case.paid() == before
    case.set("variants", "stock", 0, cheaper.id)
    assert "Not enough" in case.refuse("request_exchange", **case.item, variant_id=cheaper.id, **ONE)
    assert_invariants(case.world)


def test_price_adjustments() -> None:
    case = Case()
    price = case.variants[0].price
    assert "costs" in case.refuse("quote_price_adjustment", **case.item)
    case.happen("change_price", variant_id=case.variants[0].id, price=price - 300)
    assert case.get(OrderItem, case.item_id).price == price
    quote = case.call("quote_price_adjustment", **case.item)
    assert (quote["paid"], quote["now"], quote["refund"]) == (price, price - 300, 600)
    before = case.paid()
    item = case.call("adjust_item_price", **case.item)
    assert (item["price"], item["is_adjusted"], case.paid()) == (price - 300, True, before - 600)
    assert "was adjusted before" in case.refuse("adjust_item_price", **case.item)
    assert_invariants(case.world)
    late = Case()
    late.wait(15)
    late.happen("change_price", variant_id=late.variants[0].id, price=100)
    assert "within 14 days" in late.refuse("adjust_item_price", **late.item)
    case = Case()
    case.happen("change_price", variant_id=case.variants[0].id, price=100)
    fork = case.world.fork()
    call(fork, "cancel_order", **case.order, reason="found_cheaper")
    assert "is cancelled" in refuse(fork, "adjust_item_price", **case.item)
    case.set("products", "is_final_sale", 1, case.product.id)
    assert "final-sale" in case.refuse("adjust_item_price", **case.item)


def test_returned_pieces_are_not_adjusted() -> None:
    case = Case()
    case.deliver()
    given = {"reason": "damaged", "refund_to": "original_payment_method"}
    case.call("announce_return", **case.item, **ONE, **given)
    case.happen("change_price", variant_id=case.variants[0].id, price=case.variants[0].price - 200)
    assert case.call("quote_price_adjustment", **case.item)["refund"] == 200
    case.call("announce_return", **case.item, **ONE, **given)
    assert "are returned or exchanged" in case.refuse("adjust_item_price", **case.item)
    case.wait(6)
    assert_invariants(case.world)


def test_a_parcel_that_is_lost_is_refunded() -> None:
    case = Case()
    case.wait(2)
    shipment = rows(case.world, Shipment, order_id=case.order_id)[0]
    parcel = {"shipment_id": shipment.id}
    assert "is expected on" in case.refuse("report_missing_parcel", **parcel)
    case.set("shipments", "expected", "2026-03-03", shipment.id)
    assert case.call("report_missing_parcel", **parcel)["status"] == "searching"
    assert "is searching" in case.refuse("report_missing_parcel", **parcel)
    assert "is searching" in case.refuse("postpone_delivery", **parcel, day="2026-03-10")
    case.wait(4)
    assert case.get(Shipment, shipment.id).status == "lost"
    assert (case.get(Order, case.order_id).status, case.paid()) == ("cancelled", 0)
    assert "lost" in case.letters()[-1]
    assert "is cancelled" in case.refuse("give_goodwill", **case.order)
    assert_invariants(case.world)


def test_a_parcel_that_was_delivered_is_found() -> None:
    case = Case()
    parcel = {"shipment_id": case.deliver()}
    returned = case.world.fork()
    call(returned, "announce_return", **case.item, **ONE, reason="damaged", refund_to="store_credit")
    assert "it arrived" in refuse(returned, "report_missing_parcel", **parcel)
    case.call("report_missing_parcel", **parcel)
    assert "is being searched for" in case.refuse("quote_return", **case.item, **ONE, reason="damaged")
    case.wait(4)
    assert case.get(Shipment, parcel["shipment_id"]).status == "delivered"
    assert "found" in case.letters()[-1]
    case.wait(7)
    assert "within 7 days" in case.refuse("report_missing_parcel", **parcel)
    assert_invariants(case.world)


def test_postpone_delivery() -> None:
    case = Case()
    case.wait(2)
    shipment = rows(case.world, Shipment, order_id=case.order_id)[0]
    parcel = {"shipment_id": shipment.id}
    assert "Choose a day after" in case.refuse("postpone_delivery", **parcel, day=shipment.expected)
    assert "Choose a day after" in case.refuse("postpone_delivery", **parcel, day="2026-04-10")
    days = [shift_time(shipment.expected, days=days) for days in range(1, 8)]
    sunday = next(day for day in days if date.fromisoformat(day).isoweekday() == 7)
    assert "is a Sunday" in case.refuse("postpone_delivery", **parcel, day=sunday)
    monday = next(day for day in days if date.fromisoformat(day).isoweekday() == 1)
    assert case.call("postpone_delivery", **parcel, day=monday)["expected"] == monday
    assert "was moved before" in case.refuse("postpone_delivery", **parcel, day=days[-1])
    case.wait(9)
    assert case.get(Shipment, shipment.id).delivered == f"{monday}T12:00"
    assert "is not a delay" in case.refuse("give_goodwill", **case.order)
    assert "is delivered" in case.refuse("postpone_delivery", **parcel, day=monday)
    overdue = Case(delays=100, orders=120)
    late = next(s for s in rows(overdue.world, Shipment, status="in_transit") if s.expected < "2026-03-02")
    assert "it cannot be moved" in overdue.refuse("postpone_delivery", shipment_id=late.id, day="2026-03-04")


@pytest.mark.parametrize(("days", "amount"), [(1, None), (2, 500), (4, 1_000), (7, 1_500)])
def test_goodwill(days: int, amount: int | None) -> None:
    case = Case()
    assert "no parcel was sent" in case.refuse("give_goodwill", **case.order)
    shipment = case.get(Shipment, case.deliver())
    case.set("shipments", "promised", shift_time(shipment.delivered[:10], days=-days), shipment.id)
    if amount is None:
        assert "is not a delay" in case.refuse("give_goodwill", **case.order)
        return
    assert case.call("give_goodwill", **case.order)["goodwill"] == amount
    assert "was given" in case.refuse("give_goodwill", **case.order)
    assert_invariants(case.world)


def test_a_delayed_parcel_arrives_later() -> None:
    case = Case()
    case.wait(2)
    shipment = rows(case.world, Shipment, order_id=case.order_id)[0]
    case.happen("delay_shipment", shipment_id=shipment.id, days=3)
    delayed = case.get(Shipment, shipment.id)
    assert delayed.expected >= shift_time(shipment.expected, days=3)
    assert delayed.expected in case.letters()[-1]
    case.wait(10)
    assert case.get(Shipment, shipment.id).delivered[:10] == delayed.expected
    assert case.call("give_goodwill", **case.order)["goodwill"] in (500, 1_000)


def test_points() -> None:
    case = Case()
    before = case.get(Customer, case.customer.id).points
    case.deliver()
    gained = case.get(Customer, case.customer.id).points - before
    earned = rows(case.world, PointEntry, customer_id=case.customer.id, reason="Order of 2026-03-02")
    assert [entry.points for entry in earned] == [case.paid() // 100]
    assert gained >= case.paid() // 100
    of_customer = {"customer_id": case.customer.id}
    assert "At least 500" in case.refuse("redeem_points", **of_customer, hundreds=4)
    assert "The customer has" in case.refuse("redeem_points", **of_customer, hundreds=50)
    rich = max(rows(case.world, Customer), key=lambda customer: customer.points)
    credit = case.call("redeem_points", customer_id=rich.id, hundreds=6)
    assert credit["kind"] == "store_credit"
    assert case.get(Customer, rich.id).points == rich.points - 600
    assert case.call("list_point_entries", customer_id=rich.id)[0]["points"] == -600
    assert_invariants(case.world)


def test_addresses() -> None:
    case = Case()
    of_customer = {"customer_id": case.customer.id}
    new = case.call("add_address", **of_customer, street="Birkenweg 112", postal_code="50667")
    assert (new["city"], new["is_default"]) == ("Cologne", False)
    assert "already" in case.refuse("add_address", **of_customer, street="Birkenweg 112", postal_code="50667")
    assert "does not deliver to" in case.refuse("add_address", **of_customer, street="Weg 1", postal_code="99999")
    assert "street and the number" in case.refuse("add_address", **of_customer, street="Weg", postal_code="50667")
    given = {"address_id": new["id"]}
    case.call("change_order_address", **case.order, **given)
    assert "on its way" in case.refuse("remove_address", **given)
    assert case.call("set_default_address", **given)["is_default"]
    assert "the default already" in case.refuse("set_default_address", **given)
    assert "make another one" in case.refuse("remove_address", **given)
    case.call("set_default_address", address_id=case.address.id)
    case.call("cancel_order", **case.order, reason="no_longer_needed")
    case.call("remove_address", **given)
    for name in ("remove_address", "set_default_address"):
        assert "was removed" in case.refuse(name, **given)
    assert "was removed" in case.refuse("place_order", **case.basket(case.variants[0]) | given)
    shown = case.call("get_customer", **of_customer)["addresses"]
    assert new["id"] not in [address["id"] for address in shown]
    assert_invariants(case.world)


def test_stock_alerts() -> None:
    case = Case()
    variant = case.variants[1]
    alert = {"customer_id": case.customer.id, "variant_id": variant.id}
    assert "in stock; order it" in case.refuse("add_stock_alert", **alert)
    case.set("variants", "stock", 0, variant.id)
    case.call("add_stock_alert", **alert)
    assert "noted already" in case.refuse("add_stock_alert", **alert)
    assert case.call("list_stock_alerts", customer_id=case.customer.id) == [alert]
    fork = case.world.fork()
    call(fork, "remove_stock_alert", **alert)
    assert "no stock alert" in refuse(fork, "remove_stock_alert", **alert)
    case.happen("restock_variant", variant_id=variant.id, pieces=7)
    assert case.get(Variant, variant.id).stock == 7
    assert rows(case.world, StockAlert, **alert) == []
    assert case.product.name in case.letters()[-1]


def test_tickets() -> None:
    case = Case()
    ticket = case.call("open_ticket", customer_id=case.customer.id, topic="returns", note="No label.")
    assert ticket["status"] == "open"
    given = {"ticket_id": ticket["id"]}
    escalated = case.call("escalate_ticket", **given, note="Two labels.")
    assert (escalated["status"], escalated["note"]) == ("escalated", "Two labels.")
    assert "is escalated" in case.refuse("escalate_ticket", **given, note="Again.")
    assert case.call("resolve_ticket", **given)["status"] == "resolved"
    assert "is resolved" in case.refuse("resolve_ticket", **given)
    assert case.call("list_tickets", customer_id=case.customer.id)[0]["id"] == ticket["id"]
    assert rows(case.world, Ticket, id=ticket["id"])


def test_what_the_person_does() -> None:
    world = opened()
    person = rows(world, Customer, email=PERSON_EMAIL)[0]
    card = {"digits": 4411, "expires": "2029-01-31"}
    assert not world.act("register_payment_card", card, role="user").error
    methods = call(world, "get_customer", customer_id=person.id)["payment_methods"]
    assert any("4411" in method["label"] for method in methods)
    assert "expired" in world.act("register_payment_card", card | {"expires": "2026-01-31"}, role="user").content
    mine = world.act("list_my_orders", {}, role="user")
    assert not mine.error
    assert "is not a customer" in world.act("list_my_orders", {}, role="user", actor="x@y.example").content
    assert world.act("cancel_order", {"order_id": "ORD-1", "reason": "found_cheaper"}, role="user").error


def test_views() -> None:
    world = opened()
    product = rows(world, Product)[0]
    assert product.id in [found["id"] for found in call(world, "search_products", text=product.name.split()[1])]
    others = call(world, "search_products", text="", category=product.category)
    assert {found["category"] for found in others} == {product.category}
    assert len(call(world, "list_variants", product_id=product.id)) > 1
    assert len(call(world, "list_coupons")) == 7
    order = rows(world, Order, status="delivered")[0]
    listed = call(world, "list_customer_orders", customer_id=order.customer_id, status="delivered")
    assert order.id in [found["id"] for found in listed]
    placed = [found["placed"] for found in listed]
    assert placed == sorted(placed, reverse=True)
    details = call(world, "get_order", order_id=order.id)
    assert call(world, "get_shipment", shipment_id=details["shipment"]["id"]) == details["shipment"]
    for parcel in rows(world, Return):
        assert parcel.id in [found["id"] for found in call(world, "list_returns", order_id=parcel.order_id)]
    for exchange in rows(world, Exchange):
        found = call(world, "list_exchanges", order_id=exchange.order_id)
        assert exchange.id in [each["id"] for each in found]


ORDER, ITEM, SHIPMENT = {"order_id": "ORD-1"}, {"order_item_id": "ITM-1"}, {"shipment_id": "SHP-1"}
FOUND: Calls = [("search_customers", {})]
SEEN: Calls = [*FOUND, ("get_order", ORDER)]
RETURN = {**ITEM, "quantity": 1, "reason": "damaged"}
CONTRACTS: list[tuple[str, Calls, Calls]] = [
    ("identify-first", [*FOUND, ("redeem_points", {})], [("redeem_points", {})]),
    ("look-at-order", [*SEEN, ("cancel_order", ORDER)], [*SEEN, ("cancel_order", {"order_id": "ORD-2"})]),
    (
        "no-express-afterwards",
        [*SEEN, ("change_order_delivery", {**ORDER, "delivery": "standard"})],
        [*SEEN, ("change_order_delivery", {**ORDER, "delivery": "express"})],
    ),
    ("look-at-items", [*SEEN, ("cancel_order_item", ITEM)], [*FOUND, ("cancel_order_item", ITEM)]),
    (
        "quote-return",
        [*FOUND, ("quote_return", RETURN), ("announce_return", RETURN)],
        [*FOUND, ("quote_return", {**RETURN, "reason": "does_not_fit"}), ("announce_return", RETURN)],
    ),
    (
        "quote-price",
        [*FOUND, ("quote_price_adjustment", ITEM), ("adjust_item_price", ITEM)],
        [*FOUND, ("quote_price_adjustment", {"order_item_id": "ITM-2"}), ("adjust_item_price", ITEM)],
    ),
    (
        "look-at-variants",
        [*SEEN, ("list_variants", {}), ("request_exchange", ITEM)],
        [*SEEN, ("request_exchange", ITEM)],
    ),
    (
        "look-at-parcel",
        [*FOUND, ("get_shipment", SHIPMENT), ("report_missing_parcel", SHIPMENT)],
        [*FOUND, ("get_shipment", {"shipment_id": "SHP-2"}), ("report_missing_parcel", SHIPMENT)],
    ),
    ("one-goodwill", [*SEEN, ("give_goodwill", ORDER)], [*SEEN, *[("give_goodwill", ORDER)] * 2]),
    (
        "no-cancel-and-reorder",
        [*SEEN, ("place_order", {}), ("cancel_order", ORDER)],
        [*SEEN, ("cancel_order", ORDER), ("place_order", {})],
    ),
]
