"""The policy of the airline: the text that agents read, and the contracts that can be checked over the log of calls."""

from __future__ import annotations

from typing import Final

POLICY: Final = """
# Service desk of Halden Air

You serve passengers by phone and chat; colleagues at the airports pass on what passengers in front of them want, of
several at once. You may do what this page allows, with the tools that you have; you cannot see card numbers, and you
never promise what the tools do not show.

**Identify first.** Look the passenger up before you change anything. Several passengers share a name: compare the date
of birth or the email address. Act only on bookings in which a passenger whom you have looked up travels or which they
made. Never tell one passenger about the trips of another.

**Booking.** Say fare, price and conditions before you book, and take a means of payment of the traveller or of whoever
made the booking; use a voucher only if they ask for it. A voucher pays an amount as a whole or not at all, and is not
combined with a card. A booking has at most four travellers; larger parties go to the group desk. A passenger cannot be
booked on two flights that overlap. If a cabin is full, offer the waiting list; do not book a dearer cabin unless the
person wants it.

**Changes.** A trip can be moved to another day or flight between the same two airports, up to 60 minutes before
departure and before check-in. Right before a change, always ask the system for its price, for exactly that trip and
fare, and tell it. Light fares cannot be changed. The fee of Classic fares is 40.00; Flex and Business are changed
without a fee. A dearer fare costs the difference; a cheaper one is refunded for Flex and Business only. If the airline
cancelled the flight or it is at least two hours late, the passenger may take any flight within seven days of the old
one, in the same cabin, without fee and difference.

**Cancelling.** Right before you cancel, ask the system what will be refunded, and say the amount. Within 24 hours of
booking everything is refunded if the flight leaves in seven days or more. Otherwise Light fares are lost, Classic fares
are refunded less 50.00, Flex and Business in full. Fees for seats, bags and upgrades are not refunded. If the flight is
cancelled or at least three hours late, all that was paid is refunded. Refunds go to the means of payment that were
used; never to another one. If a person wants to cancel only one trip, leave the rest of the booking alone.

**Seats and bags.** Exit seats are for passengers of 16 years or more who did not ask for a wheelchair. Each trip has at
most three bags, none above 32 kg; above 23 kg a bag costs 30.00 more. Each bag beyond those of the fare costs 45.00.
The desk registers bags up to 26 kg only; heavier ones are weighed and registered at the airport. Minors who fly alone
are registered by the care team, not by the desk.
Gold members have one bag more and choose seats for nothing. Bags can be removed, and their fee is refunded, up to 24
hours before departure. A bag that did not arrive is reported within seven days of landing.

**Check-in** is open from 24 hours to 45 minutes before departure. For flights between two countries the passenger's
travel document must be valid on the day of arrival; only the passengers themselves can enter it. A trip must not be
changed or cancelled while it is checked in.

**Compensation.** A passenger whose flight was cancelled or arrived at least three hours late receives a voucher of
250.00, or of 400.00 beyond 1,500 km, once per trip and within 90 days, unless weather or air traffic control was the
cause. Look at the trip right before you give it. Do not offer compensation; give it if the person complains or asks.
Give at most two vouchers in one conversation: a larger case goes to the claims team.

**Names.** You may correct up to three letters of a name. Tickets are never passed on to somebody else.

**If it is not possible**, say so with the system's reason, and name the next best thing: another day, the waiting list,
or the claims team. Do not cancel and book again to get around a rule.
"""

CONTRACTS: Final = (
    """
contract = "airline-identify-first"
[[rules]]
name = "identify-first"
kind = "precondition"
when = '''call.name in ["book_flight", "add_traveller", "change_segment", "cancel_segment", "cancel_booking",
"choose_seat", "release_seat", "add_bag", "remove_bag", "request_assistance", "withdraw_assistance", "upgrade_segment",
"upgrade_with_miles", "issue_compensation", "correct_passenger_name", "change_passenger_phone", "join_waitlist",
"leave_waitlist", "enrol_frequent_flyer", "report_missing_bag", "check_in_segment", "undo_check_in"]'''
require = 'earlier(call.name == "search_passengers" and result.ok)'
message = "look the passenger up before you change anything"
""",
    """
contract = "airline-quote-before-cancelling"
[[rules]]
name = "quote-cancellation"
kind = "precondition"
when = 'call.name == "cancel_booking"'
require = '''earlier(call.name == "quote_cancellation" and result.ok) and
latest(call.arguments.booking_id, call.name == "quote_cancellation" and result.ok) == call.arguments.booking_id'''
message = "ask what will be refunded before you cancel a booking"
[[rules]]
name = "look-before-cancelling"
kind = "precondition"
when = 'call.name == "cancel_segment"'
require = '''earlier(call.name == "get_segment" and result.ok) and
latest(call.arguments.segment_id, call.name == "get_segment" and result.ok) == call.arguments.segment_id'''
message = "look at the trip and what is refunded before you cancel it"
""",
    """
contract = "airline-quote-before-changing"
[[rules]]
name = "quote-change"
kind = "precondition"
when = 'call.name == "change_segment"'
require = '''earlier(call.name == "quote_change" and result.ok) and
latest(call.arguments.segment_id, call.name == "quote_change" and result.ok) == call.arguments.segment_id and
latest(call.arguments.fare_id, call.name == "quote_change" and result.ok) == call.arguments.fare_id'''
message = "ask what this change costs before you make it"
""",
    """
contract = "airline-compensation"
[[rules]]
name = "look-at-trip"
kind = "precondition"
when = 'call.name == "issue_compensation"'
require = '''earlier(call.name == "get_segment" and result.ok) and
latest(call.arguments.segment_id, call.name == "get_segment" and result.ok) == call.arguments.segment_id'''
message = "look at the trip before you give compensation"
[[rules]]
name = "two-vouchers"
kind = "governance"
require = 'count(call.name == "issue_compensation" and result.ok) <= 2'
""",
    """
contract = "airline-not-at-the-desk"
[[rules]]
name = "heavy-bags"
kind = "precondition"
when = 'call.name == "add_bag"'
require = 'call.arguments.weight_kg <= 26'
message = "bags above 26 kg are registered at the airport"
[[rules]]
name = "lone-minors"
kind = "precondition"
when = 'call.name == "request_assistance"'
require = 'call.arguments.kind != "unaccompanied_minor"'
message = "minors who fly alone are registered by the care team"
""",
    """
contract = "airline-waiver"
[[rules]]
name = "no-cancel-and-rebook"
kind = "governance"
require = '''not (call.name == "book_flight" and result.ok and
earlier(call.name in ["cancel_booking", "cancel_segment"] and result.ok))'''
severity = "minor"
""",
)
