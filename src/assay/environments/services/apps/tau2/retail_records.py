"""Records of tau2-bench's shop.

Source: tau2-bench (Sierra), `src/tau2/domains/retail/data_model.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from assay.environments.services.schema import identifier

OrderId = Annotated[str, identifier("shop order", description="Identifier of the order with its #, such as #W0000000")]
ShopperId = Annotated[str, identifier("shopper", description="Identifier of the user, such as sara_doe_496")]
ProductId = Annotated[str, identifier("shop product", description="Identifier of the product, not of an item of it")]
OrderStatus = Literal[
    "processed",
    "pending",
    "pending (item modified)",
    "delivered",
    "cancelled",
    "exchange requested",
    "return requested",
]
CancelReason = Literal["no longer needed", "ordered by mistake"]


class Variant(msgspec.Struct, forbid_unknown_fields=True):
    item_id: str
    options: dict[str, str]
    available: bool
    price: float


class Product(msgspec.Struct, forbid_unknown_fields=True):
    product_id: ProductId
    name: str
    variants: dict[str, Variant]


class ShopperName(msgspec.Struct, forbid_unknown_fields=True):
    first_name: str
    last_name: str


class ShopAddress(msgspec.Struct, forbid_unknown_fields=True):
    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


class ShopPaymentMethod(msgspec.Struct, forbid_unknown_fields=True):
    source: Literal["credit_card", "gift_card", "paypal"]
    id: str
    brand: str | UnsetType = UNSET
    last_four: str | UnsetType = UNSET
    balance: float | UnsetType = UNSET
    """In dollars; of gift cards alone."""


class Shopper(msgspec.Struct, forbid_unknown_fields=True):
    user_id: ShopperId
    name: ShopperName
    address: ShopAddress
    email: str
    payment_methods: dict[str, ShopPaymentMethod]
    orders: list[str]


class Fulfillment(msgspec.Struct, forbid_unknown_fields=True):
    tracking_id: list[str]
    item_ids: list[str]


class OrderItem(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    product_id: str
    item_id: str
    price: float
    options: dict[str, str]


class OrderPayment(msgspec.Struct, forbid_unknown_fields=True):
    transaction_type: Literal["payment", "refund"]
    amount: float
    payment_method_id: str


class Order(msgspec.Struct, forbid_unknown_fields=True):
    order_id: OrderId
    user_id: ShopperId
    address: ShopAddress
    items: list[OrderItem]
    status: OrderStatus
    fulfillments: list[Fulfillment]
    payment_history: list[OrderPayment]
    cancel_reason: CancelReason | None = None
    exchange_items: list[str] | None = None
    exchange_new_items: list[str] | None = None
    exchange_payment_method_id: str | None = None
    exchange_price_difference: float | None = None
    return_items: list[str] | None = None
    return_payment_method_id: str | None = None
