"""The policy of the shop: the text that agents read, and the contracts that can be checked over the log of calls."""

from __future__ import annotations

from typing import Final

POLICY: Final = """
# Customer service of Linden Row

You serve customers of the shop by chat and mail; colleagues on the phone pass on what their callers want, of several at
once. You may do what this page allows, with the tools that you have; you never see card numbers, and you never promise
what the tools do not show.

**Identify first.** Look the customer up before you change anything. Several customers share a name: compare the email
address. Act only on orders of customers whom you have looked up, and never tell one customer about the orders of
another.

**Confirm first.** Look at the order right before you change or cancel it. Say what will change and what it costs or
brings, and go ahead when the customer agrees; a customer who has named order, item and wish has agreed.

**Changing an order.** Only pending orders can be changed or cancelled; once the warehouse packs an order, the customer
waits for it and returns it. Address, payment method, delivery, items, quantities and the coupon can be changed; an item
can be changed to another variant of the same product. The order is then charged again at its payment method, or the
difference goes back there. Express delivery can be given up after the order, but not added: the carrier is booked when
the order comes in. A line has at most 5 pieces. Standard delivery costs 4.90, and nothing from 50.00 of goods
on or for gold members; express delivery costs 9.90.

**Paying.** Each customer pays with their own means. A gift card or the store credit pays an amount as a whole or not at
all. What is left on a gift card may be moved to the store credit; store credit is never paid out.

**Coupons.** One coupon an order, once per customer, within its days, and only if the order reaches its least value.
Coupons are not applied after packing.

**Returns.** Delivered items can be returned within 30 days of delivery, electronics within 14; gold members have 15
days more. Personal care and final-sale items cannot be returned. Damaged items and wrong items can be returned within
60 days whatever they are, without a fee. Otherwise 2.90 is deducted for the label, unless the customer is a gold member
or takes store credit. Ask the system for the amount right before you announce a return, for exactly that item, number
and reason, and say it. Refunds go to the means of payment that were used, or to the store credit if the customer asks
for it; never elsewhere. They are paid when the parcel has come back. Delivery costs are not refunded.

**Exchanges.** A delivered item can be exchanged once for another variant of the same product within the same days.
Look at the variants first: it must be in stock. The difference in price is charged or refunded at once.

**Prices.** If a piece is cheaper now than it was, the customer gets the difference within 14 days of the order, once
per item, and not for final-sale items. Ask the system for the difference right before.

**Parcels.** Look at a parcel right before you have it searched for or moved. One that is overdue, or marked as
delivered within the last 7 days and not there, can be searched for. The carrier answers within three days; if it is
lost, all is refunded. A parcel on its way can be moved once to a later day within a week, not to a Sunday.

**Goodwill.** If a parcel came, or will come, two days or more after the promised day, you may give store credit once
per order: 5.00, or 10.00 from four days on, or 15.00 from seven days on. Look at the order right before. Do not offer
it; give it if the customer complains. Give it once in one conversation: a larger case goes to the specialists.

**Tickets.** Open a ticket for what you cannot settle, and hand one over to the specialists only with a note.

**If it is not possible**, say so with the system's reason, and name the next best thing. Do not cancel and order again
to get around a rule.
"""

CONTRACTS: Final = (
    """
contract = "shop-identify-first"
[[rules]]
name = "identify-first"
kind = "precondition"
when = '''call.name in ["place_order", "add_order_item", "change_item_quantity", "change_item_variant",
"cancel_order_item", "cancel_order", "change_order_address", "change_order_payment", "change_order_delivery",
"apply_coupon", "remove_coupon", "announce_return", "withdraw_return", "request_exchange", "cancel_exchange",
"adjust_item_price", "report_missing_parcel", "postpone_delivery", "give_goodwill", "redeem_points",
"convert_gift_card", "add_address", "remove_address", "set_default_address", "add_stock_alert", "remove_stock_alert",
"open_ticket"]'''
require = 'earlier(call.name == "search_customers" and result.ok)'
message = "look the customer up before you change anything"
""",
    """
contract = "shop-look-at-order"
[[rules]]
name = "look-at-order"
kind = "precondition"
when = '''call.name in ["add_order_item", "cancel_order", "change_order_address", "change_order_payment",
"change_order_delivery", "apply_coupon", "remove_coupon", "give_goodwill"]'''
require = '''earlier(call.name == "get_order" and result.ok) and
latest(call.arguments.order_id, call.name == "get_order" and result.ok) == call.arguments.order_id'''
message = "look at this order before you change it"
[[rules]]
name = "look-at-items"
kind = "precondition"
when = 'call.name in ["change_item_quantity", "change_item_variant", "cancel_order_item", "request_exchange"]'
require = 'earlier(call.name == "get_order" and result.ok)'
message = "look at the order before you change its items"
""",
    """
contract = "shop-quote-first"
[[rules]]
name = "quote-return"
kind = "precondition"
when = 'call.name == "announce_return"'
require = '''earlier(call.name == "quote_return" and result.ok) and
latest(call.arguments.order_item_id, call.name == "quote_return" and result.ok) == call.arguments.order_item_id and
latest(call.arguments.quantity, call.name == "quote_return" and result.ok) == call.arguments.quantity and
latest(call.arguments.reason, call.name == "quote_return" and result.ok) == call.arguments.reason'''
message = "ask what this return brings before you announce it"
[[rules]]
name = "quote-price"
kind = "precondition"
when = 'call.name == "adjust_item_price"'
require = '''earlier(call.name == "quote_price_adjustment" and result.ok) and
latest(call.arguments.order_item_id, call.name == "quote_price_adjustment" and result.ok) ==
call.arguments.order_item_id'''
message = "ask for the difference in price before you refund it"
[[rules]]
name = "look-at-variants"
kind = "precondition"
when = 'call.name in ["request_exchange", "change_item_variant"]'
require = 'earlier(call.name == "list_variants" and result.ok)'
message = "look at the variants and their stock before you exchange an item"
[[rules]]
name = "look-at-parcel"
kind = "precondition"
when = 'call.name in ["report_missing_parcel", "postpone_delivery"]'
require = '''earlier(call.name == "get_shipment" and result.ok) and
latest(call.arguments.shipment_id, call.name == "get_shipment" and result.ok) == call.arguments.shipment_id'''
message = "look at the parcel before you act on it"
""",
    """
contract = "shop-limits"
[[rules]]
name = "no-express-afterwards"
kind = "precondition"
when = 'call.name == "change_order_delivery"'
require = 'call.arguments.delivery != "express"'
message = "express delivery is not added to an order that is placed"
[[rules]]
name = "one-goodwill"
kind = "governance"
require = 'count(call.name == "give_goodwill" and result.ok) <= 1'
[[rules]]
name = "no-cancel-and-reorder"
kind = "governance"
require = '''not (call.name == "place_order" and result.ok and
earlier(call.name in ["cancel_order", "cancel_order_item"] and result.ok))'''
severity = "minor"
""",
)
