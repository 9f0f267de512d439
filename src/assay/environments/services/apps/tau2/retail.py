"""The shop of tau2-bench over its database of products, users and orders.

Source: tau2-bench (Sierra), `src/tau2/domains/retail`. Prices are floats, added in the original's order, because its
hash covers their last digits. As there, all changed items of an order get the price and options of the last new one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NoReturn, get_args

import msgspec
from msgspec import UNSET

from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

from ._arithmetic import calculate_expression
from .databases import (
    DatabaseKnobs,
    convert_database,
    hash_tables,
    read_domain_file,
    require_hash,
)
from .retail_records import (
    CancelReason,
    Order,
    OrderId,
    OrderItem,
    OrderPayment,
    Product,
    ProductId,
    ShopAddress,
    ShopPaymentMethod,
    Shopper,
    ShopperId,
    Variant,
)

tau2_retail = Service("tau2retail", "The online shop of tau2-bench.", knobs=DatabaseKnobs)


class _Database(msgspec.Struct, forbid_unknown_fields=True):
    products: dict[str, Product]
    users: dict[str, Shopper]
    orders: dict[str, Order]


_products = Documents(tau2_retail, Product, "products")
_users = Documents(tau2_retail, Shopper, "users", indexes=[("email",)])
_orders = Documents(tau2_retail, Order, "orders")


@tau2_retail.generator
def _load(make: Generator, knobs: DatabaseKnobs) -> None:
    database = convert_database(read_domain_file(knobs.data, "retail", "db.json"), _Database)
    _products.fill(make, database.products.values())
    _users.fill(make, database.users.values())
    _orders.fill(make, database.orders.values())
    require_hash(make, knobs, database_hash)


@tau2_retail.view(roles=("system",))
def database_hash(tx: Transaction) -> str:
    """Returns the hash of the state as tau2-bench computes it."""
    return hash_tables(tx, {"products": _products, "users": _users, "orders": _orders})


def _not_found(tx: Transaction, message: str) -> NoReturn:
    tx.refuse(message, "not_found")


def _order(tx: Transaction, order_id: str) -> Order:
    return _orders.get(tx, order_id) or _not_found(tx, "Order not found")


def _user(tx: Transaction, user_id: str) -> Shopper:
    return _users.get(tx, user_id) or _not_found(tx, "User not found")


def _product(tx: Transaction, product_id: str) -> Product:
    return _products.get(tx, product_id) or _not_found(tx, "Product not found")


def _method(tx: Transaction, user: Shopper, payment_method_id: str) -> ShopPaymentMethod:
    return user.payment_methods.get(payment_method_id) or _not_found(tx, "Payment method not found")


def _require_balance(tx: Transaction, method: ShopPaymentMethod, amount: float, message: str) -> None:
    tx.require(method.balance is UNSET or method.balance >= amount, message, "forbidden")


def _add_to_balance(method: ShopPaymentMethod, amount: float) -> None:
    """Changes the balance of a gift card; other methods have none."""
    if method.balance is not UNSET:
        method.balance = round(method.balance + amount, 2)


def _require_items(tx: Transaction, order: Order, item_ids: Sequence[str], message: str) -> None:
    """Refuses items that an order does not hold as often; `{item}` in the message is the first one."""
    held = [item.item_id for item in order.items]
    for item_id in item_ids:
        tx.require(item_ids.count(item_id) <= held.count(item_id), message.format(item=item_id), "not_found")


def _item_of(tx: Transaction, order: Order, item_id: str) -> OrderItem:
    for item in order.items:
        if item.item_id == item_id:
            return item
    _not_found(tx, f"Item {item_id} not found")


def _new_variant(tx: Transaction, order: Order, item_id: str, new_item_id: str) -> tuple[OrderItem, Variant]:
    item = _item_of(tx, order, item_id)
    product = _product(tx, item.product_id)
    variant = product.variants.get(new_item_id) or _not_found(tx, "Variant not found")
    tx.require(variant.available, f"New item {new_item_id} not found or available", "conflict")
    return item, variant


@tau2_retail.action()
def cancel_pending_order(tx: Transaction, order_id: OrderId, reason: str) -> Order:
    """Cancels a pending order, after the user has confirmed it; gift cards are refunded at once.

    Args:
        order_id: Identifier of the order.
        reason: `no longer needed` or `ordered by mistake`.
    """
    order = _order(tx, order_id)
    tx.require(order.status == "pending", "Non-pending order cannot be cancelled", "conflict")
    if reason not in get_args(CancelReason):
        tx.refuse("Invalid reason")
    user = _user(tx, order.user_id)
    refunds = []
    for paid in order.payment_history:
        refunds.append(OrderPayment("refund", paid.amount, paid.payment_method_id))
        _add_to_balance(_method(tx, user, paid.payment_method_id), paid.amount)
    order.status, order.cancel_reason = "cancelled", msgspec.convert(reason, CancelReason)
    order.payment_history += refunds
    _users.save(tx, user)
    _orders.save(tx, order)
    return order


@tau2_retail.action()
def exchange_delivered_order_items(
    tx: Transaction, order_id: OrderId, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Order:
    """Requests the exchange of items of a delivered order, once, after the user has confirmed it.

    Args:
        order_id: Identifier of the order.
        item_ids: Items to be exchanged; one may be named several times.
        new_item_ids: Items of the same products, in the same order.
        payment_method_id: Means by which the difference is paid or refunded.
    """
    order = _order(tx, order_id)
    tx.require(order.status == "delivered", "Non-delivered order cannot be exchanged", "conflict")
    _require_items(tx, order, item_ids, "Number of {item} not found.")
    tx.require(len(item_ids) == len(new_item_ids), "The number of items to be exchanged should match.")
    difference = 0.0
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        item, variant = _new_variant(tx, order, item_id, new_item_id)
        difference += variant.price - item.price
    difference = round(difference, 2)
    method = _method(tx, _user(tx, order.user_id), payment_method_id)
    _require_balance(tx, method, difference, "Insufficient gift card balance to pay for the price difference")
    order.status = "exchange requested"
    order.exchange_items, order.exchange_new_items = sorted(item_ids), sorted(new_item_ids)
    order.exchange_payment_method_id, order.exchange_price_difference = payment_method_id, difference
    _orders.save(tx, order)
    return order


@tau2_retail.action()
def modify_pending_order_items(
    tx: Transaction, order_id: OrderId, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Order:
    """Changes items of a pending order to others of the same products, once, after the user has confirmed it.

    Args:
        order_id: Identifier of the order.
        item_ids: Items to be changed; one may be named several times.
        new_item_ids: Items of the same products, in the same order.
        payment_method_id: Means by which the difference is paid or refunded.
    """
    order = _order(tx, order_id)
    tx.require(order.status == "pending", "Non-pending order cannot be modified", "conflict")
    _require_items(tx, order, item_ids, "{item} not found")
    tx.require(len(item_ids) == len(new_item_ids), "The number of items to be exchanged should match")
    difference, last = 0.0, None
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        tx.require(item_id != new_item_id, "The new item id should be different from the old item id")
        item, last = _new_variant(tx, order, item_id, new_item_id)
        difference += last.price - item.price
    user = _user(tx, order.user_id)
    method = _method(tx, user, payment_method_id)
    _require_balance(tx, method, difference, "Insufficient gift card balance to pay for the new item")
    kind: Literal["payment", "refund"] = "payment" if difference > 0 else "refund"
    order.payment_history.append(OrderPayment(kind, abs(difference), payment_method_id))
    _add_to_balance(method, -difference)
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        item = _item_of(tx, order, item_id)
        item.item_id = new_item_id
        if last is not None:
            item.price, item.options = last.price, last.options
    order.status = "pending (item modified)"
    _users.save(tx, user)
    _orders.save(tx, order)
    return order


@tau2_retail.action()
def modify_pending_order_payment(tx: Transaction, order_id: OrderId, payment_method_id: str) -> Order:
    """Changes the means of payment of a pending order, after the user has confirmed it.

    Args:
        order_id: Identifier of the order.
        payment_method_id: The new means of payment.
    """
    order = _order(tx, order_id)
    tx.require("pending" in order.status, "Non-pending order cannot be modified", "conflict")
    user = _user(tx, order.user_id)
    method = _method(tx, user, payment_method_id)
    history = order.payment_history
    is_single = len(history) == 1 and history[0].transaction_type == "payment"
    tx.require(is_single, "There should be exactly one payment for a pending order", "conflict")
    amount, old_id = history[0].amount, history[0].payment_method_id
    tx.require(old_id != payment_method_id, "The new payment method should be different from the current one")
    _require_balance(tx, method, amount, "Insufficient gift card balance to pay for the order")
    history += [OrderPayment("payment", amount, payment_method_id), OrderPayment("refund", amount, old_id)]
    _add_to_balance(method, -amount)
    _add_to_balance(_method(tx, user, old_id), amount)
    _users.save(tx, user)
    _orders.save(tx, order)
    return order


@tau2_retail.action()
def modify_pending_order_address(
    tx: Transaction,
    order_id: OrderId,
    *,
    address1: str,
    address2: str,
    city: str,
    state: str,
    country: str,
    zip: str,
) -> Order:
    """Changes the address of a pending order, after the user has confirmed it.

    Args:
        order_id: Identifier of the order.
        address1: First line, such as 123 Main St.
        address2: Second line, such as Apt 1; may be empty.
        city: City.
        state: State, such as CA.
        country: Country, such as USA.
        zip: Postal code.
    """
    order = _order(tx, order_id)
    tx.require("pending" in order.status, "Non-pending order cannot be modified", "conflict")
    order.address = ShopAddress(address1, address2, city, country, state, zip)
    _orders.save(tx, order)
    return order


@tau2_retail.action()
def modify_user_address(
    tx: Transaction,
    user_id: ShopperId,
    *,
    address1: str,
    address2: str,
    city: str,
    state: str,
    country: str,
    zip: str,
) -> Shopper:
    """Changes the default address of a user, after the user has confirmed it.

    Args:
        user_id: Identifier of the user.
        address1: First line, such as 123 Main St.
        address2: Second line, such as Apt 1; may be empty.
        city: City.
        state: State, such as CA.
        country: Country, such as USA.
        zip: Postal code.
    """
    user = _user(tx, user_id)
    user.address = ShopAddress(address1, address2, city, country, state, zip)
    _users.save(tx, user)
    return user


@tau2_retail.action()
def return_delivered_order_items(
    tx: Transaction, order_id: OrderId, item_ids: list[str], payment_method_id: str
) -> Order:
    """Requests the return of items of a delivered order, after the user has confirmed it.

    Args:
        order_id: Identifier of the order.
        item_ids: Items to be returned; one may be named several times.
        payment_method_id: Means of the refund: the one that was used, or a gift card.
    """
    order = _order(tx, order_id)
    tx.require(order.status == "delivered", "Non-delivered order cannot be returned", "conflict")
    method = _method(tx, _user(tx, order.user_id), payment_method_id)
    is_allowed = method.source == "gift_card" or payment_method_id == order.payment_history[0].payment_method_id
    tx.require(is_allowed, "Payment method should be the original payment method", "forbidden")
    _require_items(tx, order, item_ids, "Some item not found")
    order.status = "return requested"
    order.return_items, order.return_payment_method_id = sorted(item_ids), payment_method_id
    _orders.save(tx, order)
    return order


@tau2_retail.view()
def find_user_id_by_email(tx: Transaction, email: str) -> str:
    """Returns the identifier of the user with an email address.

    Args:
        email: Email address.
    """
    for user in _users.find(tx):
        if user.email.lower() == email.lower():
            return user.user_id
    _not_found(tx, "User not found")


@tau2_retail.view()
def find_user_id_by_name_zip(
    tx: Transaction,
    first_name: str,
    last_name: str,
    zip: str,
) -> str:
    """Returns the identifier of a user by name and postal code, if the email address is not known.

    Args:
        first_name: First name.
        last_name: Last name.
        zip: Postal code.
    """
    for user in _users.find(tx):
        names = user.name.first_name.lower(), user.name.last_name.lower()
        if names == (first_name.lower(), last_name.lower()) and user.address.zip == zip:
            return user.user_id
    _not_found(tx, "User not found")


@tau2_retail.view()
def get_order_details(tx: Transaction, order_id: OrderId) -> Order:
    """Returns an order.

    Args:
        order_id: Identifier of the order.
    """
    return _order(tx, order_id)


@tau2_retail.view()
def get_product_details(tx: Transaction, product_id: ProductId) -> Product:
    """Returns a product with all its items.

    Args:
        product_id: Identifier of the product.
    """
    return _product(tx, product_id)


@tau2_retail.view()
def get_item_details(tx: Transaction, item_id: str) -> Variant:
    """Returns an item: a product with certain options.

    Args:
        item_id: Identifier of the item, not of its product.
    """
    for product in _products.find(tx):
        if item_id in product.variants:
            return product.variants[item_id]
    _not_found(tx, "Item not found")


@tau2_retail.view()
def get_user_details(tx: Transaction, user_id: ShopperId) -> Shopper:
    """Returns a user with their means of payment and orders.

    Args:
        user_id: Identifier of the user.
    """
    return _user(tx, user_id)


@tau2_retail.view()
def list_all_product_types(tx: Transaction) -> str:
    """Returns the identifiers of all products by name, as JSON."""
    return json.dumps({product.name: product.product_id for product in _products.find(tx)}, sort_keys=True)


@tau2_retail.view()
def calculate(tx: Transaction, expression: str) -> str:
    """Returns the value of an arithmetic expression.

    Args:
        expression: Numbers, `+ - * /`, parentheses and spaces.
    """
    return calculate_expression(expression, "Invalid characters in expression")


@tau2_retail.view()
def transfer_to_human_agents(tx: Transaction, summary: str) -> str:
    """Hands the user over to a human agent, if they ask for one or if policy and tools do not allow what they want.

    Args:
        summary: What the user wants.
    """
    return "Transfer successful"
