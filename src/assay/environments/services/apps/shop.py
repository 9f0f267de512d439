"""Shop: an online shop for the home, with orders, parcels, returns, exchanges, coupons, gift cards and points.

The agent is the customer service: it acts for any customer whom it has identified. A person who is signed in, by
identifier or email address, sees their own orders. Prices include taxes; a discount belongs to each piece.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from assay.environments.services.clock import START
from assay.environments.services.declaration import Policy, Role, Service
from assay.environments.services.schema import Cents, Date, FreeText, Timestamp, format_cents, identifier
from assay.environments.services.transaction import Generator, Transaction, shift_time, without_none

from ._requests import Limit, Offset, Words, find_caller
from ._shop_policy import CONTRACTS, POLICY
from ._words import OFFICE_FIRST_NAMES, OFFICE_SURNAMES, PERSON_EMAIL, PERSON_NAME, spoken_date, words


class ShopKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the generator."""

    customers: Annotated[int, Meta(ge=2, le=5_000)] = 20
    products: Annotated[int, Meta(ge=2, le=600)] = 24
    orders: Annotated[int, Meta(ge=1, le=10_000)] = 60
    lookalikes: Annotated[int, Meta(ge=0, le=100)] = 15
    """Percentage of customers who share their name with another one."""
    delays: Annotated[int, Meta(ge=0, le=100)] = 25
    """Percentage of parcels that are, were, or will be late or lost."""
    repriced: Annotated[int, Meta(ge=0, le=100)] = 40
    """Percentage of variants whose price changed in the last two weeks or will change in the next."""
    sold_out: Annotated[int, Meta(ge=0, le=90)] = 12
    """Percentage of variants that are out of stock."""


shop = Service(
    "shop",
    "Orders, parcels, returns, coupons and points of an online shop.",
    knobs=ShopKnobs,
    policy=Policy(POLICY, CONTRACTS),
)

ADDRESS: Final = "service@lindenrow.example"
BOTH: Final[tuple[Role, ...]] = ("agent", "user")
MOST_PIECES: Final = 5
STANDARD_FEE: Final = 490
FREE_FROM: Final = 5_000
EXPRESS_FEE: Final = 990
LABEL_FEE: Final = 290
GOLD_DAYS: Final = 15
FAULT_DAYS: Final = 60
ADJUSTMENT_DAYS: Final = 14
SEARCH_DAYS: Final = 7
SEARCH_HOURS: Final = 72
POSTPONE_DAYS: Final = 7
LATE_DAYS: Final = 2
RETURN_TRANSIT_DAYS: Final = 5
PACKING_HOURS: Final = {"standard": 20, "express": 6}
TRANSIT_DAYS: Final = {"standard": 4, "express": 2}

# Identifiers and values.

EmailAddress = Annotated[str, identifier("email address")]
Street = Annotated[str, identifier("street", description="Street and number, such as Birkenweg 12")]
PostalCode = Annotated[str, identifier("postal code", description="Postal code of five digits")]
CouponCode = Annotated[str, identifier("coupon code", description="Code of the coupon, such as SPRING10")]
CustomerId = Annotated[str, identifier("customer", "CUS-")]
AddressId = Annotated[str, identifier("address", "ADR-")]
PaymentMethodId = Annotated[str, identifier("payment method", "PAY-")]
ProductId = Annotated[str, identifier("product", "PRD-")]
VariantId = Annotated[str, identifier("variant", "VAR-")]
OrderId = Annotated[str, identifier("order", "ORD-")]
OrderItemId = Annotated[str, identifier("order item", "ITM-")]
OrderPaymentId = Annotated[str, identifier("order payment", "OPM-")]
ShipmentId = Annotated[str, identifier("shipment", "SHP-")]
ReturnId = Annotated[str, identifier("return", "RTN-")]
ExchangeId = Annotated[str, identifier("exchange", "EXC-")]
TicketId = Annotated[str, identifier("ticket", "TIC-")]

CategoryName = Literal["kitchen", "living", "clothing", "electronics", "outdoor", "personal_care"]
Tier = Literal["basic", "silver", "gold"]
OrderStatus = Literal["pending", "packing", "shipped", "delivered", "cancelled"]
Delivery = Literal["standard", "express"]
ShipmentStatus = Literal["in_transit", "delivered", "searching", "lost"]
ReturnStatus = Literal["announced", "refunded", "withdrawn"]
ExchangeStatus = Literal["requested", "sent", "cancelled"]
ReturnReason = Literal["does_not_fit", "not_as_expected", "damaged", "wrong_item"]
CancelReason = Literal["no_longer_needed", "ordered_by_mistake", "found_cheaper", "takes_too_long"]
RefundTo = Literal["original_payment_method", "store_credit"]
Topic = Literal["delivery", "payment", "product_quality", "returns", "invoices"]
Purpose = Literal["order", "change", "exchange", "refund"]
Pieces = Annotated[int, Meta(ge=1, le=MOST_PIECES)]
TicketNote = Annotated[
    FreeText,
    Meta(
        examples=[
            "the customer wants to be called back",
            "the carrier does not answer",
            "the invoice names another firm",
        ]
    ),
]

RETURN_DAYS: Final[dict[CategoryName, int]] = {
    "kitchen": 30,
    "living": 30,
    "clothing": 30,
    "electronics": 14,
    "outdoor": 30,
    "personal_care": 0,
}
"""Days after delivery in which items of a category can be returned; 0 if they cannot."""
AT_FAULT: Final[tuple[ReturnReason, ...]] = ("damaged", "wrong_item")
"""Reasons for which the shop bears the cost of a return."""

# Tables.


@shop.table(unique=[("name",)], indexes=[("category",)])
class Product(msgspec.Struct, frozen=True):
    id: ProductId
    name: str
    category: CategoryName
    is_final_sale: bool


@shop.table(unique=[("product_id", "options")])
class Variant(msgspec.Struct, frozen=True):
    id: VariantId
    product_id: ProductId
    options: str
    price: Cents
    stock: int
    """Pieces that can be ordered."""


@shop.table()
class Coupon(msgspec.Struct, frozen=True):
    code: CouponCode
    percent: int
    least: Cents
    """Value of goods from which it can be used."""
    first_day: Date
    last_day: Date
    category: CategoryName | None = None
    """Its discount is for items of this category only; None for all."""


@shop.table(unique=[("email",)], indexes=[("name",)])
class Customer(msgspec.Struct, frozen=True):
    id: CustomerId
    name: str
    email: EmailAddress
    phone: str
    tier: Tier
    points: int
    """Sum of the point entries."""


@shop.table("point_entries", key=("customer_id", "number"))
class PointEntry(msgspec.Struct, frozen=True):
    customer_id: CustomerId
    number: int
    at: Timestamp
    points: int
    reason: str


@shop.table("addresses", indexes=[("customer_id",)])
class Address(msgspec.Struct, frozen=True):
    id: AddressId
    customer_id: CustomerId
    street: Street
    postal_code: PostalCode
    city: str
    is_default: bool
    is_removed: bool = False
    """Removed addresses stay for the orders that went there."""


@shop.table(indexes=[("customer_id",)])
class PaymentMethod(msgspec.Struct, frozen=True):
    id: PaymentMethodId
    customer_id: CustomerId
    kind: Literal["card", "gift_card", "store_credit"]
    label: str
    expires: Date | None = None
    loaded: Cents | None = None
    """Amount put on a gift card or the store credit, refunds of orders aside; None for cards."""
    balance: Cents | None = None
    """Amount that a gift card or the store credit holds; None for cards."""


@shop.table(indexes=[("customer_id",)])
class Order(msgspec.Struct, frozen=True):
    id: OrderId
    customer_id: CustomerId
    placed: Timestamp
    status: OrderStatus
    address_id: AddressId
    payment_method_id: PaymentMethodId
    delivery: Delivery
    delivery_fee: Cents
    coupon_code: CouponCode | None = None
    charged: Cents = 0
    """Sum of the payments for it."""
    refunded: Cents = 0
    """Sum of the refunds for it."""
    goodwill: Cents = 0
    """Store credit given for a late parcel."""
    cancel_reason: CancelReason | None = None


@shop.table(unique=[("order_id", "variant_id")], indexes=[("variant_id",)])
class OrderItem(msgspec.Struct, frozen=True):
    id: OrderItemId
    order_id: OrderId
    product_id: ProductId
    variant_id: VariantId
    quantity: int
    price: Cents
    """Price of one piece."""
    discount: Cents
    """Discount of the coupon for one piece."""
    returned: int = 0
    """Pieces that are returned or exchanged, or announced to be."""
    is_adjusted: bool = False
    """True if its price was lowered after the order."""


@shop.table(indexes=[("order_id",)])
class OrderPayment(msgspec.Struct, frozen=True):
    id: OrderPaymentId
    order_id: OrderId
    method_id: PaymentMethodId
    at: Timestamp
    purpose: Purpose
    amount: Cents
    """Negative for refunds."""


@shop.table(unique=[("order_id",)])
class Shipment(msgspec.Struct, frozen=True):
    id: ShipmentId
    order_id: OrderId
    carrier: str
    shipped: Timestamp
    promised: Date
    expected: Date
    """Day of delivery as it is known now."""
    status: ShipmentStatus
    delivered: Timestamp | None = None
    is_postponed: bool = False
    """True if the customer moved the delivery."""


@shop.table(indexes=[("order_id",), ("order_item_id",)])
class Return(msgspec.Struct, frozen=True):
    id: ReturnId
    order_id: OrderId
    order_item_id: OrderItemId
    quantity: int
    reason: ReturnReason
    refund_to: RefundTo
    refund: Cents
    """Amount refunded when the parcel has come back."""
    announced: Timestamp
    status: ReturnStatus


@shop.table(indexes=[("order_id",), ("order_item_id",)])
class Exchange(msgspec.Struct, frozen=True):
    id: ExchangeId
    order_id: OrderId
    order_item_id: OrderItemId
    variant_id: VariantId
    """Variant sent instead."""
    quantity: int
    difference: Cents
    """Amount charged for it; negative if it was refunded."""
    requested: Timestamp
    status: ExchangeStatus


@shop.table(key=("customer_id", "variant_id"))
class StockAlert(msgspec.Struct, frozen=True):
    customer_id: CustomerId
    variant_id: VariantId


@shop.table(indexes=[("customer_id",)])
class Ticket(msgspec.Struct, frozen=True):
    id: TicketId
    customer_id: CustomerId
    topic: Topic
    opened: Timestamp
    status: Literal["open", "escalated", "resolved"]
    note: TicketNote


# Descriptions: how a person refers to a row.


def _spoken_time(time: str, *, with_hour: bool) -> str:
    return f"{spoken_date(time)} at {time[11:]}" if with_hour else spoken_date(time)


@shop.describe(Customer)
def describe_customer(tx: Transaction, customer: Customer) -> str:
    is_alone = tx.count(Customer, "name = ?", customer.name) == 1
    return customer.name if is_alone else f"{customer.name} ({customer.email})"


def _named(tx: Transaction, customer_id: str) -> str:
    return describe_customer(tx, tx.get(Customer, customer_id))


@shop.describe(Address)
def describe_address(tx: Transaction, address: Address) -> str:
    return f"the address {address.street} in {address.postal_code} {address.city} of {_named(tx, address.customer_id)}"


@shop.describe(PaymentMethod)
def describe_payment_method(tx: Transaction, method: PaymentMethod) -> str:
    return f"the {method.label} of {_named(tx, method.customer_id)}"


@shop.describe(Coupon)
def describe_coupon(tx: Transaction, coupon: Coupon) -> str:
    return coupon.code


@shop.describe(Product)
def describe_product(tx: Transaction, product: Product) -> str:
    return f"the {product.name}"


@shop.describe(Variant)
def describe_variant(tx: Transaction, variant: Variant) -> str:
    return f"the {tx.get(Product, variant.product_id).name} ({variant.options})"


@shop.describe(Order)
def describe_order(tx: Transaction, order: Order) -> str:
    same_day = "customer_id = ? AND substr(placed, 1, 10) = ?"
    is_alone = tx.count(Order, same_day, order.customer_id, order.placed[:10]) == 1
    # Another order may follow today, so the hour is said of those of today.
    placed = _spoken_time(order.placed, with_hour=not is_alone or order.placed[:10] == tx.today)
    return f"the order that {_named(tx, order.customer_id)} placed on {placed}"


@shop.describe(OrderItem, noun="item")
def describe_order_item(tx: Transaction, item: OrderItem) -> str:
    variant, order = tx.get(Variant, item.variant_id), tx.get(Order, item.order_id)
    return f"{describe_variant(tx, variant)} from {describe_order(tx, order)}"


@shop.describe(Shipment, noun="parcel")
def describe_shipment(tx: Transaction, shipment: Shipment) -> str:
    return f"the parcel with {describe_order(tx, tx.get(Order, shipment.order_id))}"


@shop.describe(Return)
def describe_return(tx: Transaction, parcel: Return) -> str:
    item = describe_order_item(tx, tx.get(OrderItem, parcel.order_item_id))
    return f"the return, announced on {spoken_date(parcel.announced)}, of {item}"


@shop.describe(Exchange)
def describe_exchange(tx: Transaction, exchange: Exchange) -> str:
    item = describe_order_item(tx, tx.get(OrderItem, exchange.order_item_id))
    return f"the exchange, requested on {spoken_date(exchange.requested)}, of {item}"


@shop.describe(Ticket)
def describe_ticket(tx: Transaction, ticket: Ticket) -> str:
    like_it = "customer_id = ? AND topic = ? AND substr(opened, 1, 10) = ?"
    is_alone = tx.count(Ticket, like_it, ticket.customer_id, ticket.topic, ticket.opened[:10]) == 1
    opened = _spoken_time(ticket.opened, with_hour=not is_alone)
    return f"the ticket about {ticket.topic.replace('_', ' ')} that {_named(tx, ticket.customer_id)} opened on {opened}"


# Views.


class CustomerDetails(msgspec.Struct, frozen=True):
    """A customer with addresses and payment methods."""

    customer: Customer
    addresses: list[Address]
    payment_methods: list[PaymentMethod]


class OrderDetails(msgspec.Struct, frozen=True):
    """An order with all that belongs to it."""

    order: Order
    items: list[OrderItem]
    shipment: Shipment | None
    total: Cents
    """Value of its items after discounts, and the delivery fee."""


class ReturnQuote(msgspec.Struct, frozen=True):
    """Effect of returning pieces of an item."""

    order_item_id: OrderItemId
    refund: Cents
    """Refund to the original payment method, after the fee of the label."""
    credit: Cents
    """Refund to the store credit, which costs no fee."""
    last_day: Date


class AdjustmentQuote(msgspec.Struct, frozen=True):
    """Refund that adjusting the price of an item would bring."""

    order_item_id: OrderItemId
    paid: Cents
    """Price of a piece in the order."""
    now: Cents
    """Price of a piece now."""
    refund: Cents


@shop.view(roles=BOTH)
def search_products(
    tx: Transaction, text: Words, category: CategoryName | None = None, limit: Limit = 20, offset: Offset = 0
) -> list[Product]:
    """Finds products by words of their name.

    Args:
        text: Words that must all occur; empty for all products.
    """
    filters = without_none(category=category)
    return tx.search(Product, text, "name", order_by="name", limit=limit, offset=offset, **filters)


@shop.view(roles=BOTH)
def list_variants(tx: Transaction, product_id: ProductId) -> list[Variant]:
    """Lists the variants of a product with price and stock."""
    tx.get(Product, product_id)
    return tx.find(Variant, product_id=product_id, order_by="options")


@shop.view()
def list_coupons(tx: Transaction) -> list[Coupon]:
    """Lists the coupons with their days and conditions."""
    return tx.find(Coupon)


@shop.view()
def search_customers(tx: Transaction, text: Words, limit: Limit = 20, offset: Offset = 0) -> list[Customer]:
    """Finds customers by words of their name, email address or phone number. Names are not unique.

    Args:
        text: Words that must all occur.
    """
    return tx.search(Customer, text, "name", "email", "phone", order_by="name", limit=limit, offset=offset)


@shop.view()
def get_customer(tx: Transaction, customer_id: CustomerId) -> CustomerDetails:
    """Returns a customer with addresses, payment methods, tier and points."""
    customer = tx.get(Customer, customer_id)
    return CustomerDetails(
        customer,
        tx.find(Address, customer_id=customer_id, is_removed=False),
        tx.find(PaymentMethod, customer_id=customer_id),
    )


@shop.view()
def list_point_entries(tx: Transaction, customer_id: CustomerId, limit: Limit = 20) -> list[PointEntry]:
    """Lists what a customer earned and spent in points, the newest first."""
    tx.get(Customer, customer_id)
    return tx.find(PointEntry, customer_id=customer_id, order_by="-number", limit=limit)


@shop.view()
def list_customer_orders(
    tx: Transaction, customer_id: CustomerId, status: OrderStatus | None = None, limit: Limit = 50
) -> list[Order]:
    """Lists the orders of a customer, the newest first."""
    tx.get(Customer, customer_id)
    filters = without_none(customer_id=customer_id, status=status)
    return tx.find(Order, order_by="-placed", limit=limit, **filters)


@shop.view()
def get_order(tx: Transaction, order_id: OrderId) -> OrderDetails:
    """Returns an order with its items, parcel and total."""
    order, items = tx.get(Order, order_id), tx.find(OrderItem, order_id=order_id)
    return OrderDetails(
        order,
        items,
        _shipment_of(tx, order_id),
        _value(items) + order.delivery_fee,
    )


@shop.view()
def get_shipment(tx: Transaction, shipment_id: ShipmentId) -> Shipment:
    """Returns a parcel: carrier, promised and expected day, status, and time of delivery."""
    return tx.get(Shipment, shipment_id)


@shop.view()
def list_order_payments(tx: Transaction, order_id: OrderId) -> list[OrderPayment]:
    """Lists the payments and refunds of an order, the oldest first."""
    tx.get(Order, order_id)
    return tx.find(OrderPayment, order_id=order_id, order_by="at")


@shop.view()
def list_returns(tx: Transaction, order_id: OrderId) -> list[Return]:
    """Lists the returns of an order."""
    tx.get(Order, order_id)
    return tx.find(Return, order_id=order_id)


@shop.view()
def list_exchanges(tx: Transaction, order_id: OrderId) -> list[Exchange]:
    """Lists the exchanges of an order."""
    tx.get(Order, order_id)
    return tx.find(Exchange, order_id=order_id)


@shop.view()
def quote_return(tx: Transaction, order_item_id: OrderItemId, quantity: Pieces, reason: ReturnReason) -> ReturnQuote:
    """Returns what returning pieces of a delivered item would bring, and until when it is possible.

    Args:
        quantity: Number of pieces.
    """
    item = tx.get(OrderItem, order_item_id)
    refund, fee, last_day = _returnable(tx, item, quantity, reason)
    return ReturnQuote(order_item_id, max(0, refund - fee), refund, last_day)


@shop.view()
def quote_price_adjustment(tx: Transaction, order_item_id: OrderItemId) -> AdjustmentQuote:
    """Returns what would be refunded because an item is cheaper now than when it was ordered."""
    item = tx.get(OrderItem, order_item_id)
    adjusted = _adjusted(tx, item)
    return AdjustmentQuote(order_item_id, item.price, adjusted.price, _kept_value(item) - _kept_value(adjusted))


@shop.view()
def list_stock_alerts(tx: Transaction, customer_id: CustomerId) -> list[StockAlert]:
    """Lists the variants about which a customer gets mail when they are back in stock."""
    tx.get(Customer, customer_id)
    return tx.find(StockAlert, customer_id=customer_id)


@shop.view()
def list_tickets(tx: Transaction, customer_id: CustomerId) -> list[Ticket]:
    """Lists the tickets of a customer, the newest first."""
    tx.get(Customer, customer_id)
    return tx.find(Ticket, customer_id=customer_id, order_by="-opened")


@shop.view(roles=("user",))
def list_my_orders(tx: Transaction, limit: Limit = 20) -> list[Order]:
    """Lists the orders of the person who is signed in, the newest first."""
    return tx.find(Order, customer_id=_signed_in(tx).id, order_by="-placed", limit=limit)


# Questions.


@shop.question(get_order, "tell me what {order_id} costs in all")
def order_total(found: OrderDetails) -> Cents:
    return found.total


@shop.question(get_shipment, "tell me for which day {shipment_id} is announced")
def expected_day(found: Shipment) -> Date:
    return found.expected


@shop.question(quote_price_adjustment, "tell me what adjusting the price of {order_item_id} would give back")
def price_difference(quote: AdjustmentQuote) -> Cents:
    return quote.refund


@shop.question(list_returns, "list what was given back for each return of {order_id}")
def return_refunds(found: list[Return]) -> list[Cents]:
    return [parcel.refund for parcel in found if parcel.status == "refunded"]


@shop.question(list_stock_alerts, "tell me how many stock alerts {customer_id} has")
def waiting_for(found: list[StockAlert]) -> int:
    return len(found)


# Rules, for the actions below.


def _signed_in(tx: Transaction) -> Customer:
    customer = find_caller(tx, Customer, PERSON_EMAIL)
    if customer is None:
        tx.refuse(f"{tx.actor or PERSON_EMAIL!r} is not a customer of this shop.", "forbidden")
    return customer


def _value(items: list[OrderItem]) -> int:
    """Returns the value of items after discounts."""
    return sum((item.price - item.discount) * item.quantity for item in items)


def _kept_value(item: OrderItem) -> int:
    """Returns the value of the pieces of an item that are not returned."""
    return (item.price - item.discount) * (item.quantity - item.returned)


def _paid(order: Order) -> int:
    return order.charged - order.refunded


def _shipment_of(tx: Transaction, order_id: str) -> Shipment | None:
    found = tx.find(Shipment, order_id=order_id)
    return found[0] if found else None


def _days_between(start: str, end: str) -> int:
    return (date.fromisoformat(end[:10]) - date.fromisoformat(start[:10])).days


def _pending_order(tx: Transaction, order_id: str) -> Order:
    order = tx.get(Order, order_id)
    tx.require(order.status == "pending", f"Order {order_id} is {order.status}; only pending orders can be changed.")
    return order


def _delivery_fee(tier: Tier, delivery: Delivery, value: int) -> int:
    if delivery == "express":
        return EXPRESS_FEE
    return 0 if tier == "gold" or value >= FREE_FROM else STANDARD_FEE


def _discount(coupon: Coupon | None, category: CategoryName, price: int) -> int:
    if coupon is None or coupon.category not in (None, category):
        return 0
    return price * coupon.percent // 100


def _own_address(tx: Transaction, customer_id: str, address_id: str) -> Address:
    """Returns an address of a customer. Refuses those of others and removed ones."""
    address = tx.get(Address, address_id)
    tx.require(address.customer_id == customer_id, f"Address {address_id} is another customer's.", "forbidden")
    tx.require(not address.is_removed, f"Address {address_id} was removed.", "not_found")
    return address


def _take_stock(tx: Transaction, variant_id: str, pieces: int) -> Variant:
    """Takes pieces of a variant from the stock; gives them back if the number is negative."""
    variant = tx.get(Variant, variant_id)
    tx.require(
        pieces <= variant.stock,
        f"Not enough in stock: {variant.stock} pieces of {describe_variant(tx, variant)}.",
        "unavailable",
    )
    return tx.update(variant, stock=variant.stock - pieces)


def _charge(tx: Transaction, order: Order, method_id: str, amount: int, purpose: Purpose) -> Order:
    """Takes money for an order from a payment method of its customer."""
    method = tx.get(PaymentMethod, method_id)
    tx.require(
        method.customer_id == order.customer_id, f"Payment method {method_id} is another customer's.", "forbidden"
    )
    if amount == 0:
        return order
    tx.require(method.expires is None or method.expires >= tx.today, f"The {method.label} expired on {method.expires}.")
    if method.balance is not None:
        tx.require(
            method.balance >= amount,
            f"The {method.label} holds {format_cents(method.balance)}, and {format_cents(amount)} is due; "
            "it pays all or nothing.",
        )
        tx.update(method, balance=method.balance - amount)
    tx.insert(OrderPayment(tx.new_id(OrderPayment), order.id, method_id, tx.now, purpose, amount))
    return tx.update(order, charged=order.charged + amount)


def _refund(tx: Transaction, order: Order, amount: int, to: RefundTo = "original_payment_method") -> Order:
    """Gives money back, at most what was paid: to the methods that an order was paid with, the last first, or to the
    store credit."""
    amount = min(amount, _paid(order))
    if to == "store_credit":
        shares = [(_store_credit(tx, order.customer_id).id, amount)]
    else:
        net: dict[str, int] = {}
        for payment in tx.find(OrderPayment, order_id=order.id, order_by="at"):
            net[payment.method_id] = net.get(payment.method_id, 0) + payment.amount
        shares = _shares([(method_id, max(0, paid)) for method_id, paid in reversed(net.items())], amount)
    for method_id, part in shares:
        if part:
            tx.insert(OrderPayment(tx.new_id(OrderPayment), order.id, method_id, tx.now, "refund", -part))
            method = tx.get(PaymentMethod, method_id)
            if method.balance is not None:
                tx.update(method, balance=method.balance + part)
    return tx.update(order, refunded=order.refunded + sum(part for _, part in shares))


def _shares(available: list[tuple[str, int]], amount: int) -> list[tuple[str, int]]:
    """Splits an amount over what is available, in order."""
    shares = []
    for name, most in available:
        part = min(most, amount)
        amount -= part
        shares.append((name, part))
    return shares


def _store_credit(tx: Transaction, customer_id: str) -> PaymentMethod:
    """Returns the store credit of a customer, which is opened for who has none."""
    found = tx.find(PaymentMethod, customer_id=customer_id, kind="store_credit")
    if found:
        return found[0]
    method = PaymentMethod(tx.new_id(PaymentMethod), customer_id, "store_credit", "store credit", loaded=0, balance=0)
    return tx.insert(method)


def _add_credit(tx: Transaction, customer_id: str, amount: int) -> PaymentMethod:
    method = _store_credit(tx, customer_id)
    return tx.update(method, loaded=(method.loaded or 0) + amount, balance=(method.balance or 0) + amount)


def _settle(tx: Transaction, order: Order) -> OrderDetails:
    """Computes discounts, delivery fee and total of a pending order anew, and charges or refunds the difference."""
    coupon = None if order.coupon_code is None else tx.get(Coupon, order.coupon_code)
    items = []
    for item in tx.find(OrderItem, order_id=order.id):
        discount = _discount(coupon, tx.get(Product, item.product_id).category, item.price)
        items.append(item if discount == item.discount else tx.update(item, discount=discount))
    goods = sum(item.price * item.quantity for item in items)
    if coupon is not None:
        tx.require(
            goods >= coupon.least,
            f"Coupon {coupon.code} needs goods of {format_cents(coupon.least)}, and these are {format_cents(goods)}.",
        )
    fee = _delivery_fee(tx.get(Customer, order.customer_id).tier, order.delivery, _value(items))
    if fee != order.delivery_fee:
        order = tx.update(order, delivery_fee=fee)
    difference = _value(items) + fee - _paid(order)
    if difference > 0:
        _charge(tx, order, order.payment_method_id, difference, "change" if order.charged else "order")
    elif difference < 0:
        _refund(tx, order, -difference)
    return get_order(tx, order.id)


def _add_item(tx: Transaction, order_id: str, variant_id: str, quantity: int) -> None:
    variant = _take_stock(tx, variant_id, quantity)
    tx.require(
        not tx.find(OrderItem, order_id=order_id, variant_id=variant_id),
        "The order has this variant already; change its quantity.",
        "conflict",
    )
    item = OrderItem(
        tx.new_id(OrderItem), order_id, variant.product_id, variant_id, quantity, variant.price, discount=0
    )
    tx.insert(item)


def _pending_item(tx: Transaction, order_item_id: str) -> tuple[OrderItem, Order]:
    item = tx.get(OrderItem, order_item_id)
    return item, _pending_order(tx, item.order_id)


def _delivered_at(tx: Transaction, order: Order) -> str:
    """Returns when an order was delivered. Refuses orders that were not."""
    shipment = _shipment_of(tx, order.id)
    if order.status != "delivered" or shipment is None or shipment.delivered is None:
        tx.refuse(f"Order {order.id} is {order.status}, not delivered.")
    tx.require(shipment.status == "delivered", f"The parcel with order {order.id} is being searched for.")
    return shipment.delivered


def _last_day(tx: Transaction, item: OrderItem, *, is_at_fault: bool = False) -> str:
    """Returns the last day for returns and exchanges of a delivered item. Refuses what cannot be given back."""
    order, product = tx.get(Order, item.order_id), tx.get(Product, item.product_id)
    delivered, days = _delivered_at(tx, order), RETURN_DAYS[product.category]
    if is_at_fault:
        days = FAULT_DAYS
    else:
        tx.require(not product.is_final_sale, f"The {product.name} is a final-sale item.", "forbidden")
        tx.require(days, f"The {product.name} is for personal care and cannot be returned.", "forbidden")
        is_gold = tx.get(Customer, order.customer_id).tier == "gold"
        days += GOLD_DAYS if is_gold else 0
    last_day = shift_time(delivered[:10], days=days)
    tx.require(
        tx.today <= last_day, f"The {product.name} was delivered on {delivered[:10]}; the last day was {last_day}."
    )
    return last_day


def _require_pieces(tx: Transaction, item: OrderItem, quantity: int) -> None:
    left = item.quantity - item.returned
    tx.require(
        quantity <= left, f"Item {item.id} has {left} pieces that are not returned or exchanged, not {quantity}."
    )


def _returnable(tx: Transaction, item: OrderItem, quantity: int, reason: ReturnReason) -> tuple[int, int, str]:
    """Returns the value, the fee and the last day of a return. Refuses those that the rules do not permit."""
    is_at_fault = reason in AT_FAULT
    last_day = _last_day(tx, item, is_at_fault=is_at_fault)
    _require_pieces(tx, item, quantity)
    order = tx.get(Order, item.order_id)
    is_free = is_at_fault or tx.get(Customer, order.customer_id).tier == "gold"
    return (item.price - item.discount) * quantity, 0 if is_free else LABEL_FEE, last_day


def _adjusted(tx: Transaction, item: OrderItem) -> OrderItem:
    """Returns an item at today's price. Refuses where no difference is due."""
    order, product = tx.get(Order, item.order_id), tx.get(Product, item.product_id)
    tx.require(order.status != "cancelled", f"Order {order.id} is cancelled.")
    tx.require(not product.is_final_sale, f"The {product.name} is a final-sale item.", "forbidden")
    tx.require(
        order.placed[:10] >= tx.later(days=-ADJUSTMENT_DAYS)[:10],
        f"Order {order.id} was placed on {order.placed[:10]}; prices are adjusted within {ADJUSTMENT_DAYS} days.",
    )
    tx.require(not item.is_adjusted, f"The price of item {item.id} was adjusted before.", "conflict")
    now = tx.get(Variant, item.variant_id).price
    tx.require(
        now < item.price,
        f"The {product.name} costs {format_cents(now)} now and {format_cents(item.price)} in the order.",
    )
    tx.require(item.returned < item.quantity, f"All pieces of {item.id} are returned or exchanged.")
    coupon = None if order.coupon_code is None else tx.get(Coupon, order.coupon_code)
    return replace(item, price=now, discount=_discount(coupon, product.category, now))


def _add_points(tx: Transaction, customer: Customer, points: int, reason: str) -> Customer:
    if points == 0:
        return customer
    number = tx.count(PointEntry, "customer_id = ?", customer.id) + 1
    tx.insert(PointEntry(customer.id, number, tx.now, points, reason))
    return tx.update(customer, points=customer.points + points)


def _earned(tier: Tier, paid: int) -> int:
    """Returns the points for an amount: one for each whole unit, two for gold members."""
    return paid // 100 * (2 if tier == "gold" else 1)


def _send(tx: Transaction, customer_id: str, subject: str, text: str) -> None:
    recipient = tx.get(Customer, customer_id).email
    tx.publish("mail.deliver", sender=ADDRESS, recipient=recipient, subject=subject, text=text)


def _tell(tx: Transaction, order: Order, text: str) -> None:
    _send(tx, order.customer_id, f"Your order of {order.placed[:10]}", text)


# Actions on pending orders.


@shop.action(
    wish="order {variant_id} (number of pieces: {quantity}) for {customer_id}, sent by {delivery} delivery to "
    "{address_id} and paid with {payment_method_id}"
)
def place_order(
    tx: Transaction,
    customer_id: CustomerId,
    address_id: AddressId,
    payment_method_id: PaymentMethodId,
    variant_id: VariantId,
    *,
    quantity: Pieces,
    delivery: Delivery,
) -> OrderDetails:
    """Places an order for one variant and charges it; `add_order_item` adds others.

    Args:
        payment_method_id: A means of payment of the customer. Gift cards and store credit must cover the whole amount.
        quantity: Number of pieces.
    """
    tx.get(Customer, customer_id)
    _own_address(tx, customer_id, address_id)
    order = Order(
        tx.new_id(Order), customer_id, tx.now, "pending", address_id, payment_method_id, delivery, delivery_fee=0
    )
    tx.insert(order)
    _add_item(tx, order.id, variant_id, quantity)
    placed = _settle(tx, order)
    tx.schedule(tx.later(hours=PACKING_HOURS[delivery]), pack_order, order_id=order.id)
    _tell(tx, order, f"Thank you for your order over {format_cents(placed.total)}.")
    return get_order(tx, order.id)


@shop.action(wish="add {variant_id} (number of pieces: {quantity}) to {order_id}")
def add_order_item(tx: Transaction, order_id: OrderId, variant_id: VariantId, quantity: Pieces) -> OrderDetails:
    """Adds a variant to a pending order, at today's price; what is due is charged at its payment method.

    Args:
        quantity: Number of pieces.
    """
    order = _pending_order(tx, order_id)
    _add_item(tx, order_id, variant_id, quantity)
    return _settle(tx, order)


@shop.action(wish="change the number of pieces to {quantity} for {order_item_id}")
def change_item_quantity(tx: Transaction, order_item_id: OrderItemId, quantity: Pieces) -> OrderDetails:
    """Changes the number of pieces of an item in a pending order; the difference is charged or refunded.

    Args:
        quantity: New number of pieces.
    """
    item, order = _pending_item(tx, order_item_id)
    tx.require(quantity != item.quantity, f"Item {order_item_id} has {quantity} pieces already.")
    _take_stock(tx, item.variant_id, quantity - item.quantity)
    tx.update(item, quantity=quantity)
    return _settle(tx, order)


@shop.action(wish="change {order_item_id} to {variant_id}")
def change_item_variant(tx: Transaction, order_item_id: OrderItemId, variant_id: VariantId) -> OrderDetails:
    """Changes an item of a pending order to another variant of the same product, at today's price."""
    item, order = _pending_item(tx, order_item_id)
    variant = tx.get(Variant, variant_id)
    _require_same_product(tx, item, variant)
    tx.require(
        not tx.find(OrderItem, order_id=order.id, variant_id=variant_id),
        "The order has this variant already; change its quantity.",
        "conflict",
    )
    _take_stock(tx, item.variant_id, -item.quantity)
    _take_stock(tx, variant_id, item.quantity)
    tx.update(item, variant_id=variant_id, price=variant.price, is_adjusted=False)
    return _settle(tx, order)


def _require_same_product(tx: Transaction, item: OrderItem, variant: Variant) -> None:
    tx.require(variant.id != item.variant_id, f"Item {item.id} is this variant already.")
    name = tx.get(Product, item.product_id).name
    tx.require(variant.product_id == item.product_id, f"Variant {variant.id} is not a variant of the {name}.")


@shop.action(wish="cancel {order_item_id} and keep the other items")
def cancel_order_item(tx: Transaction, order_item_id: OrderItemId) -> OrderDetails:
    """Removes an item from a pending order that has others, and refunds what it cost."""
    item, order = _pending_item(tx, order_item_id)
    tx.require(tx.count(OrderItem, "order_id = ?", order.id) > 1, "It is the only item; cancel the order instead.")
    _take_stock(tx, item.variant_id, -item.quantity)
    tx.delete(item)
    return _settle(tx, order)


@shop.action(wish="cancel {order_id} (reason: {reason})")
def cancel_order(tx: Transaction, order_id: OrderId, reason: CancelReason) -> OrderDetails:
    """Cancels a pending order and refunds all that was paid."""
    order = _pending_order(tx, order_id)
    for item in tx.find(OrderItem, order_id=order_id):
        _take_stock(tx, item.variant_id, -item.quantity)
    order = _refund(tx, order, _paid(order))
    order = tx.update(order, status="cancelled", cancel_reason=reason)
    _tell(tx, order, f"Your order is cancelled; {format_cents(order.refunded)} is refunded.")
    return get_order(tx, order_id)


@shop.action(wish="have {order_id} sent to {address_id}")
def change_order_address(tx: Transaction, order_id: OrderId, address_id: AddressId) -> Order:
    """Changes where a pending order goes."""
    order = _pending_order(tx, order_id)
    _own_address(tx, order.customer_id, address_id)
    tx.require(order.address_id != address_id, f"Order {order_id} goes to this address already.")
    return tx.update(order, address_id=address_id)


@shop.action(wish="change the payment method of {order_id} to {payment_method_id}")
def change_order_payment(tx: Transaction, order_id: OrderId, payment_method_id: PaymentMethodId) -> OrderDetails:
    """Refunds a pending order and charges it at another payment method of the customer."""
    order = _pending_order(tx, order_id)
    tx.require(order.payment_method_id != payment_method_id, f"Order {order_id} is paid with this method already.")
    due = _paid(order)
    order = _charge(tx, _refund(tx, order, due), payment_method_id, due, "change")
    tx.update(order, payment_method_id=payment_method_id)
    return get_order(tx, order_id)


@shop.action(wish="switch {order_id} to {delivery} delivery")
def change_order_delivery(tx: Transaction, order_id: OrderId, delivery: Delivery) -> OrderDetails:
    """Changes a pending order to standard or express delivery; the difference is charged or refunded."""
    order = _pending_order(tx, order_id)
    tx.require(order.delivery != delivery, f"Order {order_id} is sent by {delivery} delivery already.")
    return _settle(tx, tx.update(order, delivery=delivery))


@shop.action(wish="redeem {coupon_code} for {order_id}")
def apply_coupon(tx: Transaction, order_id: OrderId, coupon_code: CouponCode) -> OrderDetails:
    """Applies a coupon to a pending order that has none, and refunds the discount. Once per customer."""
    order, coupon = _pending_order(tx, order_id), tx.get(Coupon, coupon_code)
    tx.require(order.coupon_code is None, f"Order {order_id} has the coupon {order.coupon_code}.", "conflict")
    tx.require(
        coupon.first_day <= tx.today <= coupon.last_day,
        f"Coupon {coupon_code} is valid from {coupon.first_day} to {coupon.last_day}.",
    )
    used = tx.count(
        Order, "customer_id = ? AND coupon_code = ? AND status <> 'cancelled'", order.customer_id, coupon_code
    )
    tx.require(not used, f"The customer has used coupon {coupon_code}.", "forbidden")
    details = _settle(tx, tx.update(order, coupon_code=coupon_code))
    tx.require(any(item.discount for item in details.items), f"Coupon {coupon_code} is for {coupon.category} only.")
    return details


@shop.action(wish="take the coupon off {order_id}")
def remove_coupon(tx: Transaction, order_id: OrderId) -> OrderDetails:
    """Takes the coupon off a pending order and charges its discount; the customer can use it for another order."""
    order = _pending_order(tx, order_id)
    tx.require(order.coupon_code is not None, f"Order {order_id} has no coupon.", "not_found")
    return _settle(tx, tx.update(order, coupon_code=None))


# Actions on delivered items, prices and parcels.


@shop.action(
    wish="return {order_item_id} (number of pieces: {quantity}, reason: {reason}), with the refund going to the "
    "{refund_to}"
)
def announce_return(
    tx: Transaction, order_item_id: OrderItemId, quantity: Pieces, reason: ReturnReason, refund_to: RefundTo
) -> Return:
    """Announces the return of pieces of a delivered item. The refund follows when the parcel has come back.

    Args:
        quantity: Number of pieces.
        refund_to: The means of payment that were used, or the store credit if the customer asks for it.
    """
    item = tx.get(OrderItem, order_item_id)
    refund, fee, _ = _returnable(tx, item, quantity, reason)
    refund = refund if refund_to == "store_credit" else max(0, refund - fee)
    tx.update(item, returned=item.returned + quantity)
    parcel = Return(tx.new_id(Return), item.order_id, item.id, quantity, reason, refund_to, refund, tx.now, "announced")
    tx.insert(parcel)
    tx.schedule(tx.later(days=RETURN_TRANSIT_DAYS), receive_return, return_id=parcel.id)
    _tell(
        tx, tx.get(Order, item.order_id), f"Send the parcel back; {format_cents(refund)} is refunded when it arrives."
    )
    return parcel


@shop.action(wish="withdraw {return_id}, because the customer keeps the item")
def withdraw_return(tx: Transaction, return_id: ReturnId) -> Return:
    """Withdraws a return that has not been refunded."""
    parcel = tx.get(Return, return_id)
    tx.require(parcel.status == "announced", f"Return {return_id} is {parcel.status}.")
    item = tx.get(OrderItem, parcel.order_item_id)
    tx.update(item, returned=item.returned - parcel.quantity)
    return tx.update(parcel, status="withdrawn")


@shop.action(wish="exchange {order_item_id} (number of pieces: {quantity}) for {variant_id}")
def request_exchange(tx: Transaction, order_item_id: OrderItemId, variant_id: VariantId, quantity: Pieces) -> Exchange:
    """Exchanges pieces of a delivered item for another variant of the same product, within the days for returns.

    The difference in price is charged at the payment method of the order or refunded at once.

    Args:
        quantity: Number of pieces.
    """
    item, variant = tx.get(OrderItem, order_item_id), tx.get(Variant, variant_id)
    _last_day(tx, item)
    _require_same_product(tx, item, variant)
    _require_pieces(tx, item, quantity)
    earlier = tx.count(Exchange, "order_item_id = ? AND status <> 'cancelled'", item.id)
    tx.require(not earlier, f"Item {order_item_id} was exchanged before.", "conflict")
    _take_stock(tx, variant_id, quantity)
    order = tx.get(Order, item.order_id)
    coupon = None if order.coupon_code is None else tx.get(Coupon, order.coupon_code)
    price = variant.price - _discount(coupon, tx.get(Product, item.product_id).category, variant.price)
    difference = (price - item.price + item.discount) * quantity
    _charge_difference(tx, order, difference)
    tx.update(item, returned=item.returned + quantity)
    exchange = Exchange(tx.new_id(Exchange), order.id, item.id, variant_id, quantity, difference, tx.now, "requested")
    tx.insert(exchange)
    tx.schedule(tx.later(days=RETURN_TRANSIT_DAYS), send_exchange, exchange_id=exchange.id)
    _tell(tx, order, f"Send the item back; {describe_variant(tx, variant)} is on its way when it arrives.")
    return exchange


def _charge_difference(tx: Transaction, order: Order, difference: int) -> None:
    if difference > 0:
        _charge(tx, order, order.payment_method_id, difference, "exchange")
    elif difference < 0:
        _refund(tx, order, -difference)


@shop.action(wish="call off {exchange_id}")
def cancel_exchange(tx: Transaction, exchange_id: ExchangeId) -> Exchange:
    """Calls off an exchange that was not sent; the difference in price is given back or charged."""
    exchange = tx.get(Exchange, exchange_id)
    tx.require(exchange.status == "requested", f"Exchange {exchange_id} is {exchange.status}.")
    item = tx.get(OrderItem, exchange.order_item_id)
    _take_stock(tx, exchange.variant_id, -exchange.quantity)
    _charge_difference(tx, tx.get(Order, exchange.order_id), -exchange.difference)
    tx.update(item, returned=item.returned - exchange.quantity)
    return tx.update(exchange, status="cancelled")


@shop.action(wish="refund the drop in price of {order_item_id}")
def adjust_item_price(tx: Transaction, order_item_id: OrderItemId) -> OrderItem:
    """Refunds the difference if an item is cheaper now, within 14 days of the order and once per item.

    Pieces that are returned or exchanged do not count. The item has today's price from now on.
    """
    item = tx.get(OrderItem, order_item_id)
    adjusted, order = _adjusted(tx, item), tx.get(Order, item.order_id)
    amount = min(_kept_value(item) - _kept_value(adjusted), _paid(order))
    _refund(tx, order, amount)
    _tell(tx, order, f"The price was adjusted: {format_cents(amount)} is refunded.")
    return tx.update(item, price=adjusted.price, discount=adjusted.discount, is_adjusted=True)


@shop.action(wish="start a search for {shipment_id}, which has not arrived")
def report_missing_parcel(tx: Transaction, shipment_id: ShipmentId) -> Shipment:
    """Asks the carrier for a parcel that is overdue, or marked as delivered within 7 days and not there.

    The carrier answers within three days; if the parcel is lost, all is refunded.
    """
    shipment = tx.get(Shipment, shipment_id)
    if shipment.status == "in_transit":
        tx.require(shipment.expected < tx.today, f"The parcel is expected on {shipment.expected}.")
    else:
        tx.require(shipment.status == "delivered", f"The parcel is {shipment.status}.", "conflict")
        since = tx.later(days=-SEARCH_DAYS)
        tx.require(
            (shipment.delivered or "") >= since,
            f"The parcel was delivered on {(shipment.delivered or '')[:10]}; "
            f"parcels are searched for within {SEARCH_DAYS} days.",
        )
        returns = tx.count(Return, "order_id = ? AND status <> 'withdrawn'", shipment.order_id)
        exchanges = tx.count(Exchange, "order_id = ? AND status <> 'cancelled'", shipment.order_id)
        tx.require(not returns + exchanges, "Something of this parcel was returned or exchanged; it arrived.")
    tx.schedule(tx.later(hours=SEARCH_HOURS), close_search, shipment_id=shipment_id)
    return tx.update(shipment, status="searching")


@shop.action(wish="postpone the delivery of {shipment_id} to {day}")
def postpone_delivery(tx: Transaction, shipment_id: ShipmentId, day: Date) -> Shipment:
    """Moves the delivery of a parcel on its way to a later day within a week, not a Sunday; once.

    Args:
        day: New day of delivery.
    """
    shipment = tx.get(Shipment, shipment_id)
    tx.require(shipment.status == "in_transit", f"The parcel is {shipment.status}.")
    tx.require(shipment.expected > tx.today, f"The parcel was expected on {shipment.expected}; it cannot be moved.")
    tx.require(not shipment.is_postponed, "The delivery was moved before.", "conflict")
    last = shift_time(shipment.expected, days=POSTPONE_DAYS)
    tx.require(shipment.expected < day <= last, f"Choose a day after {shipment.expected} and not after {last}.")
    tx.require(date.fromisoformat(day).isoweekday() < 7, f"{day} is a Sunday; parcels are not delivered then.")
    tx.schedule(f"{day}T12:00", deliver_shipment, shipment_id=shipment_id)
    return tx.update(shipment, expected=day, promised=max(day, shipment.promised), is_postponed=True)


@shop.action(wish="give goodwill credit for the delay of {order_id}")
def give_goodwill(tx: Transaction, order_id: OrderId) -> Order:
    """Gives store credit for a parcel two days late or more: 5.00, 10.00 from four days on, 15.00 from seven; once."""
    order, shipment = tx.get(Order, order_id), _shipment_of(tx, order_id)
    if shipment is None:
        tx.refuse(f"Order {order_id} is {order.status}; no parcel was sent.")
    tx.require(order.status != "cancelled", f"Order {order_id} is cancelled.")
    arrival = shipment.delivered or max(shipment.expected, tx.today)
    late = _days_between(shipment.promised, arrival)
    tx.require(late >= LATE_DAYS, f"The parcel was promised for {shipment.promised}; {arrival[:10]} is not a delay.")
    tx.require(not order.goodwill, f"Credit was given for order {order_id} before.", "conflict")
    amount = 1_500 if late >= 7 else 1_000 if late >= 4 else 500
    _add_credit(tx, order.customer_id, amount)
    _tell(tx, order, f"We are sorry for the delay; {format_cents(amount)} of store credit is yours.")
    return tx.update(order, goodwill=amount)


# Actions on customers.


@shop.action(wish="turn points of {customer_id} into store credit, {hundreds} times a hundred of them")
def redeem_points(
    tx: Transaction, customer_id: CustomerId, hundreds: Annotated[int, Meta(ge=1, le=50)]
) -> PaymentMethod:
    """Turns points of a customer into store credit: 1.00 for each hundred, 500 points or more at a time.

    Args:
        hundreds: Number of points divided by 100.
    """
    customer = tx.get(Customer, customer_id)
    tx.require(hundreds >= 5, "At least 500 points are turned into credit at a time.")
    tx.require(customer.points >= 100 * hundreds, f"The customer has {customer.points} points.")
    _add_points(tx, customer, -100 * hundreds, "Turned into store credit")
    return _add_credit(tx, customer_id, 100 * hundreds)


@shop.action(wish="move what is left on {payment_method_id} to the store credit")
def convert_gift_card(tx: Transaction, payment_method_id: PaymentMethodId) -> PaymentMethod:
    """Moves what is left on a gift card to the store credit of the same customer."""
    card = tx.get(PaymentMethod, payment_method_id)
    tx.require(card.kind == "gift_card", f"The {card.label} is not a gift card.")
    tx.require(card.expires is None or card.expires >= tx.today, f"The {card.label} expired on {card.expires}.")
    tx.require(card.balance, f"The {card.label} is empty.")
    left = card.balance or 0
    tx.update(card, loaded=(card.loaded or 0) - left, balance=0)
    return _add_credit(tx, card.customer_id, left)


@shop.action(wish="add {street}, {postal_code}, to the addresses of {customer_id}")
def add_address(tx: Transaction, customer_id: CustomerId, street: Street, postal_code: PostalCode) -> Address:
    """Adds an address to which orders can be sent; the city follows from the postal code."""
    tx.get(Customer, customer_id)
    tx.require(postal_code in CITIES, f"The shop does not deliver to {postal_code}.", "unavailable")
    parts = street.rsplit(" ", 1)
    tx.require(len(parts) == 2 and parts[1][:1].isdecimal(), "Write the street and the number, as in Birkenweg 12.")
    known = tx.find(Address, customer_id=customer_id, is_removed=False)
    tx.require(
        all((other.street, other.postal_code) != (street, postal_code) for other in known),
        "The customer has this address already.",
        "conflict",
    )
    address = Address(tx.new_id(Address), customer_id, street, postal_code, CITIES[postal_code], is_default=not known)
    return tx.insert(address)


@shop.action(wish="remove {address_id}")
def remove_address(tx: Transaction, address_id: AddressId) -> Address:
    """Removes an address that is not the default and to which no order is on its way."""
    address = tx.get(Address, address_id)
    tx.require(not address.is_removed, f"Address {address_id} was removed.", "not_found")
    tx.require(not address.is_default, "It is the default address; make another one the default first.")
    ahead = tx.count(Order, "address_id = ? AND status IN ('pending', 'packing', 'shipped')", address_id)
    tx.require(not ahead, "An order is on its way to this address.", "conflict")
    return tx.update(address, is_removed=True)


@shop.action(wish="use {address_id} as the default address from now on")
def set_default_address(tx: Transaction, address_id: AddressId) -> Address:
    """Makes an address the default one of its customer."""
    address = tx.get(Address, address_id)
    tx.require(not address.is_removed, f"Address {address_id} was removed.", "not_found")
    tx.require(not address.is_default, f"Address {address_id} is the default already.", "conflict")
    for other in tx.find(Address, customer_id=address.customer_id, is_default=True):
        tx.update(other, is_default=False)
    return tx.update(address, is_default=True)


@shop.action(wish="let {customer_id} know by mail as soon as the shop has {variant_id} again")
def add_stock_alert(tx: Transaction, customer_id: CustomerId, variant_id: VariantId) -> StockAlert:
    """Notes that a customer gets mail when a variant that is out of stock is back."""
    variant, _ = tx.get(Variant, variant_id), tx.get(Customer, customer_id)
    tx.require(variant.stock == 0, f"Variant {variant_id} has {variant.stock} pieces in stock; order it.")
    noted = tx.get_or_none(StockAlert, customer_id, variant_id)
    tx.require(noted is None, "This is noted already.", "conflict")
    return tx.insert(StockAlert(customer_id, variant_id))


@shop.action(wish="cancel the stock alert of {customer_id} for {variant_id}")
def remove_stock_alert(tx: Transaction, customer_id: CustomerId, variant_id: VariantId) -> StockAlert:
    """Removes the note that a customer gets mail when a variant is back in stock."""
    alert = tx.get(StockAlert, customer_id, variant_id)
    tx.delete(alert)
    return alert


@shop.action(wish="open a ticket about {topic} for {customer_id}: {note}")
def open_ticket(tx: Transaction, customer_id: CustomerId, topic: Topic, note: TicketNote) -> Ticket:
    """Opens a ticket for what cannot be settled at once.

    Args:
        note: What it is about.
    """
    tx.get(Customer, customer_id)
    return tx.insert(Ticket(tx.new_id(Ticket), customer_id, topic, tx.now, "open", note))


@shop.action(wish="escalate {ticket_id} to the specialists: {note}")
def escalate_ticket(tx: Transaction, ticket_id: TicketId, note: TicketNote) -> Ticket:
    """Hands an open ticket over to the specialists.

    Args:
        note: What they must know; it is put in place of the old note.
    """
    ticket = tx.get(Ticket, ticket_id)
    tx.require(ticket.status == "open", f"Ticket {ticket_id} is {ticket.status}.", "conflict")
    return tx.update(ticket, status="escalated", note=note)


@shop.action(wish="mark {ticket_id} as resolved")
def resolve_ticket(tx: Transaction, ticket_id: TicketId) -> Ticket:
    """Closes a ticket that is settled."""
    ticket = tx.get(Ticket, ticket_id)
    tx.require(ticket.status != "resolved", f"Ticket {ticket_id} is resolved.", "conflict")
    return tx.update(ticket, status="resolved")


# What the person does without customer service.


@shop.action(roles=("user",))
def register_payment_card(
    tx: Transaction, digits: Annotated[int, Meta(ge=0, le=9_999)], expires: Date
) -> PaymentMethod:
    """Registers a card of the person who is signed in.

    Args:
        digits: Its last four digits.
        expires: Its last day; not in the past.
    """
    tx.require(expires >= tx.today, f"A card that expired on {expires} cannot be registered.")
    label = f"card ending in {digits:04}"
    return tx.insert(PaymentMethod(tx.new_id(PaymentMethod), _signed_in(tx).id, "card", label, expires))


# Events.


@shop.event()
def pack_order(tx: Transaction, order_id: OrderId) -> None:
    """Packs a pending order, which cannot be changed any more."""
    order = _pending_order(tx, order_id)
    tx.update(order, status="packing")
    tx.schedule(tx.later(hours=5), ship_order, order_id=order_id)


@shop.event()
def ship_order(tx: Transaction, order_id: OrderId) -> None:
    """Hands the parcel of an order to the carrier."""
    order = tx.get(Order, order_id)
    tx.require(order.status == "packing", f"Order {order_id} is {order.status}.")
    order = tx.update(order, status="shipped")
    day = _working_day(tx.later(days=TRANSIT_DAYS[order.delivery])[:10])
    carrier = CARRIERS[1] if order.delivery == "express" else CARRIERS[0]
    shipment = Shipment(tx.new_id(Shipment), order_id, carrier, tx.now, day, day, "in_transit")
    tx.insert(shipment)
    tx.schedule(f"{day}T12:00", deliver_shipment, shipment_id=shipment.id)
    _tell(tx, order, f"Your parcel is on its way and arrives on {day}.")


def _working_day(day: str) -> str:
    return shift_time(day, days=1) if date.fromisoformat(day).isoweekday() == 7 else day


@shop.event()
def delay_shipment(tx: Transaction, shipment_id: ShipmentId, days: int) -> None:
    """Moves the expected day of a parcel that is on its way."""
    shipment = tx.get(Shipment, shipment_id)
    tx.require(shipment.status == "in_transit", f"The parcel is {shipment.status}.")
    day = _working_day(shift_time(max(shipment.expected, tx.today), days=days))
    tx.update(shipment, expected=day)
    tx.schedule(f"{day}T12:00", deliver_shipment, shipment_id=shipment_id)
    _tell(tx, tx.get(Order, shipment.order_id), f"Your parcel is late; it arrives on {day}.")


@shop.event()
def deliver_shipment(tx: Transaction, shipment_id: ShipmentId) -> None:
    """Delivers a parcel on its expected day; the customer earns points."""
    shipment = tx.get(Shipment, shipment_id)
    tx.require(shipment.status == "in_transit" and shipment.expected == tx.today, "It arrives on another day.")
    tx.update(shipment, status="delivered", delivered=tx.now)
    order = tx.update(tx.get(Order, shipment.order_id), status="delivered")
    customer = tx.get(Customer, order.customer_id)
    _add_points(tx, customer, _earned(customer.tier, _paid(order)), f"Order of {order.placed[:10]}")
    _tell(tx, order, "Your parcel was delivered.")


@shop.event()
def close_search(tx: Transaction, shipment_id: ShipmentId) -> None:
    """Ends the search for a parcel: one that was delivered is found with a neighbour, another one is lost."""
    shipment = tx.get(Shipment, shipment_id)
    tx.require(shipment.status == "searching", f"The parcel is {shipment.status}.")
    order = tx.get(Order, shipment.order_id)
    if shipment.delivered is not None:
        tx.update(shipment, status="delivered")
        _tell(tx, order, "Your parcel was found: a neighbour has taken it.")
        return
    tx.update(shipment, status="lost")
    order = tx.update(_refund(tx, order, _paid(order)), status="cancelled")
    _tell(tx, order, "Your parcel is lost; all is refunded.")


@shop.event()
def receive_return(tx: Transaction, return_id: ReturnId) -> None:
    """Refunds a return whose parcel has come back; points of the refund are taken back, and goods put into stock."""
    parcel = tx.get(Return, return_id)
    tx.require(parcel.status == "announced", f"Return {return_id} is {parcel.status}.")
    item, order = tx.get(OrderItem, parcel.order_item_id), tx.get(Order, parcel.order_id)
    _refund(tx, order, parcel.refund, parcel.refund_to)
    customer = tx.get(Customer, order.customer_id)
    points = min(customer.points, _earned(customer.tier, parcel.refund))
    _add_points(tx, customer, -points, f"Return of {parcel.announced[:10]}")
    if parcel.reason != "damaged":
        _take_stock(tx, item.variant_id, -parcel.quantity)
    tx.update(parcel, status="refunded")
    _tell(tx, order, f"Your return has arrived; {format_cents(parcel.refund)} is refunded.")


@shop.event()
def send_exchange(tx: Transaction, exchange_id: ExchangeId) -> None:
    """Sends what was asked for in exchange, and puts the old item into stock."""
    exchange = tx.get(Exchange, exchange_id)
    tx.require(exchange.status == "requested", f"Exchange {exchange_id} is {exchange.status}.")
    _take_stock(tx, tx.get(OrderItem, exchange.order_item_id).variant_id, -exchange.quantity)
    tx.update(exchange, status="sent")
    _tell(tx, tx.get(Order, exchange.order_id), "What you asked for in exchange is on its way.")


@shop.event()
def change_price(tx: Transaction, variant_id: VariantId, price: Cents) -> None:
    """Changes the price of a variant; orders keep theirs."""
    tx.update(tx.get(Variant, variant_id), price=price)


@shop.event()
def restock_variant(tx: Transaction, variant_id: VariantId, pieces: int) -> None:
    """Puts new pieces into stock; customers who asked for it get mail."""
    variant = _take_stock(tx, variant_id, -pieces)
    for alert in tx.find(StockAlert, variant_id=variant_id):
        _send(tx, alert.customer_id, "Back in stock", f"You can order {describe_variant(tx, variant)} again.")
        tx.delete(alert)


# Generator.

CARRIERS: Final = ("Parcel Union", "Swift Courier")
"""Carriers of standard and express parcels."""
CITIES: Final = {
    "10115": "Berlin",
    "20095": "Hamburg",
    "24103": "Kiel",
    "28195": "Bremen",
    "30159": "Hanover",
    "39104": "Magdeburg",
    "44135": "Dortmund",
    "50667": "Cologne",
    "55116": "Mainz",
    "60311": "Frankfurt",
    "70173": "Stuttgart",
    "80331": "Munich",
    "90402": "Nuremberg",
    "99084": "Erfurt",
}
"""City by postal code: where the shop delivers."""
STREETS: Final = words(
    """
    Birkenweg Lindenallee Gartenstrasse Mozartstrasse Seestrasse Hauptstrasse Rosenweg Schillerplatz Kastanienallee
    Bergstrasse Uferweg Marktplatz Wiesengrund Fliederweg Talstrasse Waldweg Bachstrasse Eichenweg
    """
)
SERIES: Final = words(
    """
    Alto Bento Calma Delta Elba Faro Gala Halo Idra Juno Kivo Luma Mira Nova Orla Pico Quilo Riva Solo Tara Ultra Vega
    Zola Fjord
    """
)
NOUNS: Final[dict[CategoryName, tuple[str, ...]]] = {
    "kitchen": words("kettle pan teapot grater toaster carafe scale"),
    "living": words("lamp cushion blanket vase mirror clock rug"),
    "clothing": words("jacket sweater shirt scarf coat cardigan"),
    "electronics": words("headphones speaker charger keyboard radio projector"),
    "outdoor": words("tent backpack lantern hammock flask stove"),
    "personal_care": words("soap shampoo lotion razor toothbrush perfume"),
}
PRICES: Final[dict[CategoryName, tuple[int, int]]] = {
    "kitchen": (1_490, 8_990),
    "living": (990, 11_990),
    "clothing": (1_990, 12_990),
    "electronics": (1_990, 24_990),
    "outdoor": (1_490, 19_990),
    "personal_care": (390, 4_990),
}
COLOURS: Final = words("white black blue green grey red sand")
CARDS: Final = ("Visa card", "Mastercard", "Amex card", "debit card")


def _day(days: int) -> str:
    """Returns the day so many days after the start."""
    return shift_time(START[:10], days=days)


COUPONS: Final = (
    Coupon("WELCOME10", 10, 0, _day(-200), _day(200)),
    Coupon("SPRING15", 15, 6_000, _day(-10), _day(30)),
    Coupon("WINTER20", 20, 8_000, _day(-90), _day(-2)),
    Coupon("EASTER25", 25, 10_000, _day(14), _day(40)),
    Coupon("KITCHEN10", 10, 3_000, _day(-30), _day(60), "kitchen"),
    Coupon("OUTDOOR15", 15, 4_000, _day(-20), _day(45), "outdoor"),
    Coupon("STYLE10", 10, 5_000, _day(-60), _day(20), "clothing"),
)
AGES: Final = (1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 16, 20, 25, 29, 34, 40, 50, 62, 75)
"""Days since delivered orders arrived."""
NOTES: Final[dict[Topic, tuple[str, ...]]] = {
    "delivery": ("Asks when the parcel arrives.", "The courier left the parcel in the rain."),
    "payment": ("Was charged twice, as the bank says.", "The gift card was not accepted."),
    "product_quality": ("The handle came off.", "Asks whether spare parts are sold."),
    "returns": ("Has no printer for the label.", "Sent two orders back in one parcel."),
    "invoices": ("Needs one with a company name.", "Asks for all of last year."),
}


class _Goods(NamedTuple):
    """A generated product with its variants, and the prices of each with the time from which they held."""

    product: Product
    variants: list[Variant]
    prices: dict[str, list[tuple[str, int]]]

    def price_at(self, variant: Variant, time: str) -> int:
        return [price for since, price in self.prices[variant.id] if since <= time][-1]


class _Books:
    """Generated rows of customers and orders, in lists that are inserted at the end."""

    def __init__(self, make: Generator, goods: list[_Goods]) -> None:
        self.make = make
        self.goods = goods
        self.customers: list[Customer] = []
        self.addresses: dict[str, list[Address]] = {}
        self.methods: dict[str, PaymentMethod] = {}
        self.orders: list[Order] = []
        self.items: list[OrderItem] = []
        self.payments: list[OrderPayment] = []
        self.shipments: list[Shipment] = []
        self.returns: list[Return] = []
        self.exchanges: list[Exchange] = []
        self.points: dict[str, list[tuple[str, int, str]]] = {}
        """Time, points and reason by customer."""
        self.coupons_used: set[tuple[str, str]] = set()

    def pay(self, order: Order, method_id: str, at: str, purpose: Purpose, amount: int) -> Order:
        """Adds a payment, or a refund if the amount is negative, and returns the order after it."""
        self.payments.append(OrderPayment(self.make.new_id(OrderPayment), order.id, method_id, at, purpose, amount))
        method = self.methods[method_id]
        if method.balance is not None:
            self.methods[method_id] = replace(method, balance=method.balance - amount)
        if amount < 0:
            return replace(order, refunded=order.refunded - amount)
        return replace(order, charged=order.charged + amount)


@shop.generator
def _fill_shop(make: Generator, knobs: ShopKnobs) -> None:
    make.insert_all(COUPONS)
    books = _Books(make, _make_catalogue(make, knobs))
    _make_customers(books, knobs)
    for _ in range(knobs.orders):
        _make_order(books, knobs)
    _insert_books(books)
    _make_tickets(books)
    _make_stock_alerts(books)


def _make_catalogue(make: Generator, knobs: ShopKnobs) -> list[_Goods]:
    """Makes products with their variants, prices and price changes, and schedules what changes later."""
    draw, catalogue = make.draw, list[_Goods]()
    kinds = [(category, noun, series) for category, nouns in NOUNS.items() for noun in nouns for series in SERIES]
    for category, noun, series in draw.sample(kinds, knobs.products):
        product = Product(make.new_id(Product), f"{series} {noun}", category, is_final_sale=draw.randrange(10) == 0)
        low, high = PRICES[category]
        base = draw.randint(low // 100, high // 100) * 100 + 90
        goods = _Goods(product, [], {})
        for options, extra in _make_options(make, category):
            stock = 0 if draw.randrange(100) < knobs.sold_out else draw.randint(2, 60)
            variant = Variant(make.new_id(Variant), product.id, options, base + extra, stock)
            prices = [(shift_time(START, days=-150), base + extra)]
            goods.prices[variant.id] = prices
            if draw.randrange(100) < knobs.repriced:
                percent = draw.choice((75, 80, 85, 90, 90, 110))
                price = (base + extra) * percent // 1_000 * 10
                when = shift_time(START, minutes=draw.choice((-1, -1, -1, 1)) * draw.randint(300, 14 * 1_440))
                if when < START:
                    prices.append((when, price))
                else:
                    make.schedule(when, change_price, variant_id=variant.id, price=price)
            if stock == 0:
                when = shift_time(START, hours=draw.randint(5, 400))
                make.schedule(when, restock_variant, variant_id=variant.id, pieces=draw.randint(5, 40))
            goods.variants.append(replace(variant, price=prices[-1][1]))
        catalogue.append(goods)
    make.insert_all([goods.product for goods in catalogue])
    make.insert_all([variant for goods in catalogue for variant in goods.variants])
    return catalogue


def _make_options(make: Generator, category: CategoryName) -> list[tuple[str, int]]:
    """Returns the options of a product's variants, and what each costs more than the cheapest."""
    if category == "personal_care":
        return [("small", 0), ("medium", 300), ("large", 700)]
    colours = make.draw.sample(COLOURS, make.draw.randint(2, 3))
    if category == "clothing":
        return [(f"{colour}, size {size}", 0) for colour in colours[:2] for size in "SML"]
    return [(colour, 500 * (at == 2)) for at, colour in enumerate(colours)]


def _make_customers(books: _Books, knobs: ShopKnobs) -> None:
    """Makes customers; the first is the person whom agents serve in other applications, too."""
    draw, make = books.make.draw, books.make
    for at in range(knobs.customers):
        name = f"{draw.choice(OFFICE_FIRST_NAMES)} {draw.choice(OFFICE_SURNAMES)}"
        if at == 0:
            name = PERSON_NAME
        elif at == knobs.customers - 1 or draw.randrange(100) < knobs.lookalikes:
            name = draw.choice(books.customers).name
        email = PERSON_EMAIL if at == 0 else f"{name.lower().replace(' ', '.')}.{at}@post.example"
        phone = f"+49 {draw.randint(30, 89)} {draw.randint(1_000_000, 9_999_999)}"
        tier: Tier = draw.choice(("basic", "basic", "silver", "gold"))
        customer = Customer(make.new_id(Customer), name, email, phone, tier, points=0)
        books.customers.append(customer)
        books.points[customer.id] = [
            (shift_time(START, days=-120), draw.choice((40, 160, 420, 700, 1_300, 2_600)), "Carried over")
        ]
        numbers = draw.sample(range(1, 100), draw.choice((1, 2, 2, 3)))
        books.addresses[customer.id] = [
            _make_address(make, customer.id, number, is_default=number == numbers[0]) for number in numbers
        ]
        for method in _make_payment_methods(make, customer.id):
            books.methods[method.id] = method


def _make_address(make: Generator, customer_id: str, number: int, *, is_default: bool) -> Address:
    code = make.draw.choice(list(CITIES))
    street = f"{make.draw.choice(STREETS)} {number}"
    return Address(make.new_id(Address), customer_id, street, code, CITIES[code], is_default)


def _make_payment_methods(make: Generator, customer_id: str) -> list[PaymentMethod]:
    """Makes one or two cards, and for some customers an expired card, a gift card, or store credit."""
    draw, methods = make.draw, list[PaymentMethod]()
    digits = draw.sample(range(1_000, 10_000), 4)
    for at in range(1 + draw.randrange(2)):
        label, expires = f"{draw.choice(CARDS)} ending in {digits[at]}", f"{draw.randint(2027, 2030)}-08-31"
        methods.append(PaymentMethod(make.new_id(PaymentMethod), customer_id, "card", label, expires))
    if draw.randrange(6) == 0:
        label = f"{draw.choice(CARDS)} ending in {digits[2]}"
        methods.append(PaymentMethod(make.new_id(PaymentMethod), customer_id, "card", label, "2026-01-31"))
    value = 100 * draw.choice((15, 25, 50, 100, 250))
    if draw.randrange(5) < 2:
        label, method_id = f"gift card ending in {digits[3]}", make.new_id(PaymentMethod)
        methods.append(PaymentMethod(method_id, customer_id, "gift_card", label, "2027-12-31", value, value))
    if draw.randrange(5) < 2:
        method_id = make.new_id(PaymentMethod)
        methods.append(PaymentMethod(method_id, customer_id, "store_credit", "store credit", None, value, value))
    return methods


class _Times(NamedTuple):
    """When a generated order was placed and sent, and when it was promised and arrives."""

    status: OrderStatus
    placed: str
    shipped: str = ""
    promised: str = ""
    expected: str = ""


def _make_order(books: _Books, knobs: ShopKnobs) -> None:
    """Makes an order in one of its states, with items, payment, parcel, and perhaps a return or an exchange."""
    make, draw = books.make, books.make.draw
    customer = draw.choice(books.customers)
    delivery: Delivery = draw.choice(("standard", "standard", "express"))
    times = _draw_times(books, delivery, knobs)
    order = Order(
        make.new_id(Order),
        customer.id,
        times.placed,
        times.status,
        draw.choice(books.addresses[customer.id]).id,
        "",
        delivery,
        delivery_fee=0,
    )
    goods = draw.sample(books.goods, min(len(books.goods), draw.choice((1, 1, 2, 2, 3))))
    coupon = _draw_coupon(books, order)
    items = [_make_item(books, order, each, coupon) for each in goods]
    is_reached = coupon is not None and sum(item.price * item.quantity for item in items) >= coupon.least
    if coupon is not None and is_reached and any(item.discount for item in items):
        order = replace(order, coupon_code=coupon.code)
        if times.status != "cancelled":
            books.coupons_used.add((customer.id, coupon.code))
    else:
        items = [replace(item, discount=0) for item in items]
    order = replace(order, delivery_fee=_delivery_fee(customer.tier, delivery, _value(items)))
    due = _value(items) + order.delivery_fee
    method = _draw_method(books, customer.id, due)
    order = books.pay(replace(order, payment_method_id=method.id), method.id, order.placed, "order", due)
    if times.status == "cancelled":
        reason: CancelReason = draw.choice(("no_longer_needed", "ordered_by_mistake", "found_cheaper"))
        order = books.pay(order, method.id, shift_time(order.placed, minutes=90), "refund", -due)
        order = replace(order, cancel_reason=reason)
    elif times.status in ("pending", "packing"):
        _schedule_packing(make, order)
    else:
        shipment = _make_shipment(books, order, times, knobs)
        if shipment.delivered is not None:
            paid = _earned(customer.tier, due)
            books.points[customer.id].append((shipment.delivered, paid, f"Order of {order.placed[:10]}"))
            for at, item in enumerate(items):
                order, items[at] = _give_back(books, order, item, customer, shipment.delivered)
    books.orders.append(order)
    books.items += items


def _draw_times(books: _Books, delivery: Delivery, knobs: ShopKnobs) -> _Times:
    """Draws the state of an order and the times that fit it."""
    draw, status = books.make.draw, books.make.draw.choice(STATES)
    packing, transit = PACKING_HOURS[delivery] * 60, TRANSIT_DAYS[delivery]
    is_late = draw.randrange(100) < knobs.delays
    if status == "pending":
        return _Times(status, shift_time(START, minutes=-draw.randint(10, packing - 30)))
    if status == "packing":
        return _Times(status, shift_time(START, minutes=-packing - draw.randint(10, 270)))
    if status == "cancelled":
        return _Times(status, shift_time(START, minutes=-draw.randint(3_000, 60_000)))
    late = draw.choice((2, 3, 4, 5, 7, 9)) if is_late else 0
    if status == "delivered":
        expected = _working_day(shift_time(START[:10], days=-draw.choice(AGES)))
        expected = min(expected, shift_time(START[:10], days=-1 if draw.randrange(2) else -2))
        promised = shift_time(expected, days=-late)
    else:
        ahead = draw.randrange(transit)
        expected = _working_day(shift_time(START[:10], days=ahead))
        promised = shift_time(expected, days=-late)
        if is_late and draw.randrange(2):  # overdue: it does not come
            promised = expected = shift_time(START[:10], days=-draw.randint(1, 6))
    shipped = f"{shift_time(promised, days=-transit)}T{draw.randint(6, 8):02}:{draw.randrange(60):02}"
    placed = shift_time(shipped, minutes=-packing - 300)
    return _Times(status, placed, shipped, promised, expected)


STATES: Final[tuple[OrderStatus, ...]] = (
    *("pending",) * 5,
    "packing",
    *("shipped",) * 4,
    *("delivered",) * 9,
    "cancelled",
)
"""States of orders by how often they occur."""


def _draw_coupon(books: _Books, order: Order) -> Coupon | None:
    """Draws a coupon that was valid when an order was placed and that its customer has not used."""
    coupon = books.make.draw.choice(COUPONS)
    is_used = (order.customer_id, coupon.code) in books.coupons_used
    is_valid = coupon.first_day <= order.placed[:10] <= coupon.last_day and not is_used
    return coupon if is_valid and books.make.draw.randrange(5) < 2 else None


def _draw_method(books: _Books, customer_id: str, due: int) -> PaymentMethod:
    """Draws a means of payment that covers an amount."""
    own = [method for method in books.methods.values() if method.customer_id == customer_id]
    usable = [
        method
        for method in own
        if (method.expires is None or method.expires > START[:10]) and (method.balance is None or method.balance >= due)
    ]
    return books.make.draw.choice(usable)


def _make_item(books: _Books, order: Order, goods: _Goods, coupon: Coupon | None) -> OrderItem:
    draw, variant = books.make.draw, books.make.draw.choice(goods.variants)
    price = goods.price_at(variant, order.placed)
    discount = _discount(coupon, goods.product.category, price)
    quantity = draw.choice((1, 1, 1, 2, 2, 3))
    item_id = books.make.new_id(OrderItem)
    return OrderItem(item_id, order.id, goods.product.id, variant.id, quantity, price, discount)


def _schedule_packing(make: Generator, order: Order) -> None:
    packed = shift_time(order.placed, hours=PACKING_HOURS[order.delivery])
    if order.status == "pending":
        make.schedule(packed, pack_order, order_id=order.id)
    else:
        make.schedule(shift_time(packed, hours=5), ship_order, order_id=order.id)


def _make_shipment(books: _Books, order: Order, times: _Times, knobs: ShopKnobs) -> Shipment:
    """Makes the parcel of an order; one that is on its way arrives, is delayed, or stays away."""
    make, draw = books.make, books.make.draw
    carrier = CARRIERS[1] if order.delivery == "express" else CARRIERS[0]
    shipment = Shipment(
        make.new_id(Shipment), order.id, carrier, times.shipped, times.promised, times.expected, "in_transit"
    )
    if times.status == "delivered":
        at = f"{times.expected}T{draw.randint(9, 17):02}:{draw.randrange(60):02}"
        shipment = replace(shipment, status="delivered", delivered=at)
    elif times.expected >= START[:10]:
        make.schedule(f"{times.expected}T12:00", deliver_shipment, shipment_id=shipment.id)
        if times.expected > START[:10] and draw.randrange(100) < knobs.delays:
            when = shift_time(START, hours=draw.randint(1, 12))
            make.schedule(when, delay_shipment, shipment_id=shipment.id, days=draw.randint(2, 5))
    books.shipments.append(shipment)
    return shipment


def _give_back(
    books: _Books, order: Order, item: OrderItem, customer: Customer, delivered: str
) -> tuple[Order, OrderItem]:
    """Returns or exchanges pieces of some delivered items; gives the order and the item after it."""
    make, draw = books.make, books.make.draw
    goods = next(goods for goods in books.goods if goods.product.id == item.product_id)
    at = shift_time(delivered, minutes=draw.randint(300, 5_000))
    kind = draw.randrange(7)
    if kind > 3 or at >= START or goods.product.is_final_sale or goods.product.category == "personal_care":
        return order, item
    pieces = draw.randint(1, item.quantity)
    arrives = shift_time(at, days=RETURN_TRANSIT_DAYS)
    others = [variant for variant in goods.variants if variant.id != item.variant_id and variant.price == item.price]
    if kind < 2 and others and item.discount == 0:
        status: ExchangeStatus = "sent" if arrives <= START else "requested"
        exchange_id, other = make.new_id(Exchange), draw.choice(others)
        books.exchanges.append(Exchange(exchange_id, order.id, item.id, other.id, pieces, 0, at, status))
        if arrives > START:
            make.schedule(arrives, send_exchange, exchange_id=exchange_id)
        return order, replace(item, returned=pieces)
    reason: ReturnReason = draw.choice(("does_not_fit", "not_as_expected", "damaged", "wrong_item"))
    fee = 0 if reason in AT_FAULT or customer.tier == "gold" else LABEL_FEE
    refund = max(0, (item.price - item.discount) * pieces - fee)
    parcel = Return(
        make.new_id(Return), order.id, item.id, pieces, reason, "original_payment_method", refund, at, "announced"
    )
    if draw.randrange(8) == 0:
        books.returns.append(replace(parcel, status="withdrawn"))
        return order, item
    if arrives <= START:
        parcel = replace(parcel, status="refunded")
        if refund:
            order = books.pay(order, order.payment_method_id, arrives, "refund", -refund)
        taken = -_earned(customer.tier, refund)
        books.points[customer.id].append((arrives, taken, f"Return of {at[:10]}"))
    else:
        make.schedule(arrives, receive_return, return_id=parcel.id)
    books.returns.append(parcel)
    return order, replace(item, returned=pieces)


def _insert_books(books: _Books) -> None:
    """Inserts what was made, and the point entries in order of time."""
    make, entries, customers = books.make, list[PointEntry](), list[Customer]()
    for customer in books.customers:
        lines = [line for line in sorted(books.points[customer.id]) if line[1]]
        entries += [PointEntry(customer.id, number, *line) for number, line in enumerate(lines, 1)]
        customers.append(replace(customer, points=sum(points for _, points, _ in lines)))
    books.customers = customers
    make.insert_all(customers)
    make.insert_all([address for addresses in books.addresses.values() for address in addresses])
    make.insert_all(list(books.methods.values()))
    make.insert_all(books.orders)
    make.insert_all(books.items)
    make.insert_all(books.payments)
    make.insert_all(books.shipments)
    make.insert_all(books.returns)
    make.insert_all(books.exchanges)
    make.insert_all(entries)


def _make_tickets(books: _Books) -> None:
    make, draw, tickets = books.make, books.make.draw, list[Ticket]()
    for customer in books.customers:
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            topic: Topic = draw.choice(tuple(NOTES))
            opened = shift_time(START, minutes=-draw.randint(60, 30_000))
            status: Literal["open", "escalated", "resolved"] = draw.choice(("open", "open", "escalated", "resolved"))
            note = draw.choice(NOTES[topic])
            tickets.append(Ticket(make.new_id(Ticket), customer.id, topic, opened, status, note))
    make.insert_all(tickets)


def _make_stock_alerts(books: _Books) -> None:
    """Notes some customers for variants that are out of stock."""
    draw, alerts = books.make.draw, list[StockAlert]()
    for goods in books.goods:
        for variant in goods.variants:
            if variant.stock == 0:
                waiting = draw.sample(books.customers, draw.randint(0, min(2, len(books.customers))))
                alerts += [StockAlert(customer.id, variant.id) for customer in waiting]
    books.make.insert_all(alerts)
