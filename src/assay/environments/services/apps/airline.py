"""Airline: flights of a small carrier, what passengers booked on them, and what delays and cancellations do to it.

The agent is the service desk: it acts for any passenger whom it has identified. A person who is signed in, by
identifier or email address, sees and changes their own trips. All times are those of the airline's home.
"""

from __future__ import annotations

from datetime import date
from math import isqrt
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from assay.environments.services.clock import START
from assay.environments.services.declaration import Policy, Role, Service
from assay.environments.services.schema import Cents, Date, FreeText, Timestamp, format_cents, identifier
from assay.environments.services.transaction import Generator, Transaction, shift_time, without_none

from ._airline_policy import CONTRACTS, POLICY
from ._requests import Limit, Offset, Words, find_caller
from ._words import OFFICE_FIRST_NAMES, OFFICE_SURNAMES, PERSON_EMAIL, PERSON_NAME, spoken_date


class AirlineKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the generator."""

    airports: Annotated[int, Meta(ge=2, le=40)] = 6
    flights: Annotated[int, Meta(ge=2, le=3_000)] = 24
    passengers: Annotated[int, Meta(ge=2, le=5_000)] = 16
    bookings: Annotated[int, Meta(ge=1, le=5_000)] = 24
    lookalikes: Annotated[int, Meta(ge=0, le=100)] = 15
    """Percentage of passengers who share their name with another one."""
    disruptions: Annotated[int, Meta(ge=0, le=100)] = 25
    """Percentage of flights that are, or will be, late or cancelled."""
    crowded: Annotated[int, Meta(ge=0, le=100)] = 15
    """Percentage of flights with nearly no free seat in economy."""


airline = Service(
    "airline",
    "Flights, bookings, seats, bags and miles of an airline.",
    knobs=AirlineKnobs,
    policy=Policy(POLICY, CONTRACTS),
)

ADDRESS: Final = "service@haldenair.example"
BOTH: Final[tuple[Role, ...]] = ("agent", "user")
ACTIVE: Final = ("booked", "checked_in")
CHANGE_MINUTES: Final = 60
CHECK_IN_HOURS: Final = 24
CHECK_IN_MINUTES: Final = 45
REGRET_HOURS: Final = 24
REBOOKING_DAYS: Final = 7
REBOOKING_DELAY: Final = 120
REFUND_DELAY: Final = 180
CLAIM_DAYS: Final = 90
BAG_REPORT_DAYS: Final = 7
LONG_KM: Final = 1_500
BAG_FEE: Final = 4_500
HEAVY_FEE: Final = 3_000
LIGHT_KG: Final = 23
HEAVY_KG: Final = 32
MOST_BAGS: Final = 3
MOST_TRAVELLERS: Final = 4
LEAST_UPGRADE: Final = 8_000
VOUCHER_DAYS: Final = 365

# Identifiers and values.

AirportCode = Annotated[str, identifier("airport code", description="Code of the airport, such as BER")]
FlightNumber = Annotated[str, identifier("flight number", description="Flight number, such as HA 101")]
EmailAddress = Annotated[str, identifier("email address")]
FlightId = Annotated[str, identifier("flight", "FLT-")]
FareId = Annotated[str, identifier("fare", "FAR-")]
PassengerId = Annotated[str, identifier("passenger", "PAX-")]
PaymentMethodId = Annotated[str, identifier("passenger payment method", "PAM-")]
FrequentFlyerId = Annotated[str, identifier("frequent flyer", "FFN-")]
BookingId = Annotated[str, identifier("booking", "BKG-")]
SegmentId = Annotated[str, identifier("segment", "SEG-")]
SeatId = Annotated[str, identifier("seat", "SEA-")]
BagId = Annotated[str, identifier("bag", "BAG-")]
FarePaymentId = Annotated[str, identifier("fare payment", "FPM-")]
WaitlistEntryId = Annotated[str, identifier("waitlist entry", "WTL-")]

Cabin = Literal["economy", "business"]
FamilyName = Literal["light", "classic", "flex", "business"]
FlightStatus = Literal["scheduled", "departed", "landed", "cancelled"]
SegmentStatus = Literal["booked", "checked_in", "flown", "no_show", "cancelled"]
Cause = Literal["technical", "crew", "weather", "air_traffic_control"]
Assistance = Literal["wheelchair", "vegetarian_meal", "kosher_meal", "infant_cot", "unaccompanied_minor"]
Purpose = Literal["fare", "seat", "bag", "change", "upgrade", "refund"]
Tier = Literal["blue", "silver", "gold"]
Phone = Annotated[
    str, Meta(max_length=30, examples=["+49 40 5512093", "+45 31 220 418", "+46 8 5063 7712", "+31 20 774 1906"])
]
PassengerName = Annotated[
    str, Meta(max_length=80, examples=["Anna Meier", "Jonas Lindqvist", "Clara Petersen", "Paul Hensel"])
]
BagDescription = Annotated[
    FreeText, Meta(examples=["a blue suitcase with a red ribbon", "a grey rucksack", "a black case with two wheels"])
]

NO_FAULT: Final[tuple[Cause, ...]] = ("weather", "air_traffic_control")
"""Causes for which no compensation is given."""

# Tables.


@airline.table()
class Airport(msgspec.Struct, frozen=True):
    code: AirportCode
    name: str
    city: str
    country: str


@airline.table(indexes=[("origin", "destination")])
class Route(msgspec.Struct, frozen=True):
    number: FlightNumber
    origin: AirportCode
    destination: AirportCode
    minutes: int
    km: int


@airline.table(unique=[("number", "day")], indexes=[("day",)])
class Flight(msgspec.Struct, frozen=True):
    id: FlightId
    number: FlightNumber
    day: Date
    """Day of the planned departure."""
    origin: AirportCode
    destination: AirportCode
    departs: Timestamp
    """Expected departure, delays included."""
    arrives: Timestamp
    status: FlightStatus
    delay_minutes: int = 0
    cause: Cause | None = None
    """Why it is late or cancelled."""


@airline.table("fare_families")
class FareFamily(msgspec.Struct, frozen=True):
    name: FamilyName
    cabin: Cabin
    bags: int
    """Bags that the price includes."""
    has_free_seats: bool
    change_fee: Cents | None = None
    """None if trips cannot be changed."""
    refund_fee: Cents | None = None
    """Part of the price that a refund leaves out; None if nothing is refunded."""


@airline.table(unique=[("flight_id", "family")])
class Fare(msgspec.Struct, frozen=True):
    id: FareId
    flight_id: FlightId
    family: FamilyName
    price: Cents


@airline.table(unique=[("email",)], indexes=[("name",)])
class Passenger(msgspec.Struct, frozen=True):
    id: PassengerId
    name: str
    born: Date
    email: EmailAddress
    phone: str
    document_expires: Date | None = None
    """Last day of the passport or identity card that the passenger entered."""


@airline.table(indexes=[("passenger_id",)])
class PaymentMethod(msgspec.Struct, frozen=True):
    id: PaymentMethodId
    passenger_id: PassengerId
    kind: Literal["card", "voucher"]
    label: str
    expires: Date
    issued: Cents | None = None
    """First value of a voucher; None for cards."""
    balance: Cents | None = None
    """Remaining value of a voucher; None for cards."""


@airline.table(unique=[("passenger_id",)])
class FrequentFlyer(msgspec.Struct, frozen=True):
    id: FrequentFlyerId
    passenger_id: PassengerId
    tier: Tier
    miles: int
    """Sum of its entries."""


@airline.table("mile_entries", key=("frequent_flyer_id", "number"))
class MileEntry(msgspec.Struct, frozen=True):
    frequent_flyer_id: FrequentFlyerId
    number: int
    at: Timestamp
    miles: int
    reason: str


@airline.table(indexes=[("booker_id",)])
class Booking(msgspec.Struct, frozen=True):
    id: BookingId
    booker_id: PassengerId
    created: Timestamp
    status: Literal["confirmed", "cancelled", "completed"]


@airline.table(indexes=[("booking_id",), ("passenger_id",), ("flight_id",)])
class Segment(msgspec.Struct, frozen=True):
    """One traveller on one flight."""

    id: SegmentId
    booking_id: BookingId
    passenger_id: PassengerId
    flight_id: FlightId
    fare_id: FareId
    cabin: Cabin
    status: SegmentStatus
    price: Cents
    """Price of the fare when it was booked."""
    charged: Cents
    """Sum of the payments for it."""
    refunded: Cents = 0
    """Sum of the refunds for it."""


@airline.table(unique=[("flight_id", "label"), ("segment_id",)])
class Seat(msgspec.Struct, frozen=True):
    id: SeatId
    flight_id: FlightId
    label: str
    cabin: Cabin
    kind: Literal["window", "aisle", "exit"]
    fee: Cents
    is_blocked: bool
    """True if the airline does not give the seat to passengers."""
    segment_id: SegmentId | None = None
    """Who sits there."""


@airline.table(indexes=[("segment_id",)])
class Bag(msgspec.Struct, frozen=True):
    id: BagId
    segment_id: SegmentId
    weight_kg: int
    fee: Cents
    status: Literal["registered", "loaded", "delivered", "missing"]


@airline.table(key=("bag_id",))
class BagReport(msgspec.Struct, frozen=True):
    bag_id: BagId
    opened: Timestamp
    description: FreeText
    status: Literal["open", "found"]


@airline.table(indexes=[("booking_id",), ("segment_id",)])
class FarePayment(msgspec.Struct, frozen=True):
    id: FarePaymentId
    booking_id: BookingId
    segment_id: SegmentId
    method_id: PaymentMethodId
    at: Timestamp
    purpose: Purpose
    amount: Cents
    """Negative for refunds."""


@airline.table(key=("segment_id", "kind"))
class SpecialRequest(msgspec.Struct, frozen=True):
    segment_id: SegmentId
    kind: Assistance


@airline.table(key=("segment_id",))
class Compensation(msgspec.Struct, frozen=True):
    segment_id: SegmentId
    voucher_id: PaymentMethodId
    at: Timestamp
    amount: Cents


@airline.table("waitlist", unique=[("flight_id", "cabin", "passenger_id")], indexes=[("passenger_id",)])
class WaitlistEntry(msgspec.Struct, frozen=True):
    id: WaitlistEntryId
    flight_id: FlightId
    cabin: Cabin
    passenger_id: PassengerId
    created: Timestamp
    status: Literal["waiting", "offered"]


@airline.table(key=("flight_id", "number"), judged=False)
class FlightNotice(msgspec.Struct, frozen=True):
    """Announcement about a flight to its passengers."""

    flight_id: FlightId
    number: int
    at: Timestamp
    text: str


# Descriptions: how a person refers to a row.


@airline.describe(Flight)
def describe_flight(tx: Transaction, flight: Flight) -> str:
    cities = (tx.get(Airport, code).city for code in (flight.origin, flight.destination))
    return f"flight {flight.number} from {' to '.join(cities)} on {spoken_date(flight.day)}"


@airline.describe(Fare)
def describe_fare(tx: Transaction, fare: Fare) -> str:
    return f"the {fare.family} fare of {describe_flight(tx, tx.get(Flight, fare.flight_id))}"


@airline.describe(Passenger)
def describe_passenger(tx: Transaction, passenger: Passenger) -> str:
    return f"{passenger.name} (born on {spoken_date(passenger.born)})"


@airline.describe(PaymentMethod)
def describe_payment_method(tx: Transaction, method: PaymentMethod) -> str:
    owner = describe_passenger(tx, tx.get(Passenger, method.passenger_id))
    if method.issued is not None:
        worth = f"over {format_cents(method.issued)}, valid to {spoken_date(method.expires)},"
        return f"the voucher “{method.label}” {worth} of {owner}"
    return f"the {method.label} of {owner}"


@airline.describe(FrequentFlyer, noun="miles account")
def describe_frequent_flyer(tx: Transaction, member: FrequentFlyer) -> str:
    return f"the miles account of {describe_passenger(tx, tx.get(Passenger, member.passenger_id))}"


@airline.describe(Booking)
def describe_booking(tx: Transaction, booking: Booking) -> str:
    first = tx.find(Segment, booking_id=booking.id, limit=1)
    about = f" for {describe_flight(tx, tx.get(Flight, first[0].flight_id))}" if first else ""
    made = f"{spoken_date(booking.created)} at {booking.created[11:]}"
    return f"the booking{about} that {describe_passenger(tx, tx.get(Passenger, booking.booker_id))} made on {made}"


@airline.describe(Segment, noun="trip")
def describe_segment(tx: Transaction, segment: Segment) -> str:
    flight, passenger = tx.get(Flight, segment.flight_id), tx.get(Passenger, segment.passenger_id)
    again = tx.count(Segment, "flight_id = ? AND passenger_id = ?", flight.id, passenger.id) > 1
    state = f" ({segment.status}, booked on {tx.get(Booking, segment.booking_id).created})" if again else ""
    return f"the trip of {describe_passenger(tx, passenger)} on {describe_flight(tx, flight)}{state}"


@airline.describe(Seat)
def describe_seat(tx: Transaction, seat: Seat) -> str:
    return f"seat {seat.label} on {describe_flight(tx, tx.get(Flight, seat.flight_id))}"


@airline.describe(Bag)
def describe_bag(tx: Transaction, bag: Bag) -> str:
    return f"the bag of {bag.weight_kg} kg on {describe_segment(tx, tx.get(Segment, bag.segment_id))}"


@airline.describe(WaitlistEntry, noun="place on a waiting list")
def describe_waitlist_entry(tx: Transaction, entry: WaitlistEntry) -> str:
    passenger = describe_passenger(tx, tx.get(Passenger, entry.passenger_id))
    return f"the place of {passenger} on the {entry.cabin} waiting list of " + describe_flight(
        tx, tx.get(Flight, entry.flight_id)
    )


# Views.


class FlightDetails(msgspec.Struct, frozen=True):
    """A flight with its free places and what passengers were told."""

    flight: Flight
    route: Route
    free_economy: int
    free_business: int
    notices: list[FlightNotice]


class PassengerDetails(msgspec.Struct, frozen=True):
    """A passenger with the miles account, if there is one."""

    passenger: Passenger
    frequent_flyer: FrequentFlyer | None


class BookingDetails(msgspec.Struct, frozen=True):
    """A booking with the trips of its travellers."""

    booking: Booking
    travellers: list[Passenger]
    segments: list[Segment]
    paid: Cents
    """Payments less refunds."""


class SegmentDetails(msgspec.Struct, frozen=True):
    """A trip with all that belongs to it."""

    segment: Segment
    flight: Flight
    family: FamilyName
    seat: Seat | None
    bags: list[Bag]
    requests: list[SpecialRequest]
    compensation: Compensation | None
    refund: Cents
    """Refund if the trip is cancelled now."""


class CancellationQuote(msgspec.Struct, frozen=True):
    """Refund of a trip if it were cancelled."""

    segment_id: SegmentId
    refund: Cents
    kept: Cents
    reason: str


class ChangeQuote(msgspec.Struct, frozen=True):
    """Price of moving a trip to another fare."""

    segment_id: SegmentId
    fare_id: FareId
    fee: Cents
    difference: Cents
    """Negative if it is refunded."""


@airline.view(roles=BOTH)
def search_airports(tx: Transaction, text: Words, limit: Limit = 20, offset: Offset = 0) -> list[Airport]:
    """Finds airports by words of their code, name, city or country.

    Args:
        text: Words that must all occur; empty for all airports.
    """
    return tx.search(Airport, text, "code", "name", "city", "country", limit=limit, offset=offset)


@airline.view(roles=BOTH)
def search_flights(tx: Transaction, text: Words, day: Date, limit: Limit = 20, offset: Offset = 0) -> list[Flight]:
    """Finds the flights of a day by flight number, airport codes or cities, as in `Berlin Oslo` or `HA 101`.

    Args:
        text: Words that must all occur; empty for all flights of the day.
        day: Planned day of departure.
    """
    words, found = text.lower().split(), []
    for flight in tx.find(Flight, day=day, order_by="departs"):
        ends = " ".join(f"{code} {tx.get(Airport, code).city}" for code in (flight.origin, flight.destination))
        if all(word in f"{flight.number} {ends}".lower() for word in words):
            found.append(flight)
    return found[offset : offset + limit]


@airline.view(roles=BOTH)
def get_flight(tx: Transaction, flight_id: FlightId) -> FlightDetails:
    """Returns a flight: times, delay and its cause, free places by cabin, and notices to passengers."""
    flight = tx.get(Flight, flight_id)
    economy, business = (_free_places(tx, flight_id, cabin) for cabin in ("economy", "business"))
    notices = tx.find(FlightNotice, flight_id=flight_id)
    return FlightDetails(flight, tx.get(Route, flight.number), economy, business, notices)


@airline.view(roles=BOTH)
def list_fares(tx: Transaction, flight_id: FlightId) -> list[Fare]:
    """Lists the fares of a flight by price. Conditions are those of the fare family."""
    tx.get(Flight, flight_id)
    return tx.find(Fare, flight_id=flight_id, order_by="price")


@airline.view(roles=BOTH)
def list_fare_families(tx: Transaction) -> list[FareFamily]:
    """Lists the conditions of the fare families: cabin, bags, seats, fees for changes and refunds."""
    return tx.find(FareFamily)


@airline.view(roles=BOTH)
def list_seats(
    tx: Transaction, flight_id: FlightId, cabin: Cabin | None = None, *, only_free: bool = False
) -> list[Seat]:
    """Lists the seats of a flight with their kind and fee.

    Args:
        only_free: Leaves out seats that are taken or blocked.
    """
    tx.get(Flight, flight_id)
    seats = tx.find(Seat, order_by="label", **without_none(flight_id=flight_id, cabin=cabin))
    return [seat for seat in seats if not only_free or (seat.segment_id is None and not seat.is_blocked)]


@airline.view()
def search_passengers(tx: Transaction, text: Words, limit: Limit = 20, offset: Offset = 0) -> list[Passenger]:
    """Finds passengers by words of their name, email address or phone number. Names are not unique.

    Args:
        text: Words that must all occur.
    """
    return tx.search(Passenger, text, "name", "email", "phone", order_by="name", limit=limit, offset=offset)


@airline.view()
def get_passenger(tx: Transaction, passenger_id: PassengerId) -> PassengerDetails:
    """Returns a passenger with date of birth, contact, travel document and miles account."""
    return PassengerDetails(tx.get(Passenger, passenger_id), _frequent_flyer(tx, passenger_id))


@airline.view()
def list_passenger_payment_methods(tx: Transaction, passenger_id: PassengerId) -> list[PaymentMethod]:
    """Lists the cards and vouchers of a passenger."""
    tx.get(Passenger, passenger_id)
    return tx.find(PaymentMethod, passenger_id=passenger_id)


@airline.view()
def list_passenger_bookings(
    tx: Transaction, passenger_id: PassengerId, limit: Limit = 50, offset: Offset = 0
) -> list[Booking]:
    """Lists the bookings that a passenger made or travels in, the newest first."""
    tx.get(Passenger, passenger_id)
    trips = tx.find(Segment, passenger_id=passenger_id)
    made = tx.find(Booking, booker_id=passenger_id)
    joined = [tx.get(Booking, booking_id) for booking_id in dict.fromkeys(trip.booking_id for trip in trips)]
    found = {booking.id: booking for booking in [*made, *joined]}
    ordered = sorted(found.values(), key=lambda booking: (booking.created, booking.id), reverse=True)
    return ordered[offset : offset + limit]


@airline.view()
def get_booking(tx: Transaction, booking_id: BookingId) -> BookingDetails:
    """Returns a booking with its travellers, their trips, and what was paid."""
    booking, segments = tx.get(Booking, booking_id), tx.find(Segment, booking_id=booking_id)
    travellers = [tx.get(Passenger, each) for each in dict.fromkeys(segment.passenger_id for segment in segments)]
    paid = sum(segment.charged - segment.refunded for segment in segments)
    return BookingDetails(booking, travellers, segments, paid)


@airline.view()
def list_segments(
    tx: Transaction,
    passenger_id: PassengerId,
    status: SegmentStatus | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> list[Segment]:
    """Lists the trips of a passenger; a segment is one traveller on one flight."""
    tx.get(Passenger, passenger_id)
    filters = without_none(passenger_id=passenger_id, status=status)
    return tx.find(Segment, limit=limit, offset=offset, **filters)


@airline.view()
def get_segment(tx: Transaction, segment_id: SegmentId) -> SegmentDetails:
    """Returns a trip with its flight, seat, bags, special requests, and what is refunded if it is cancelled now."""
    segment = tx.get(Segment, segment_id)
    flight, fare = tx.get(Flight, segment.flight_id), tx.get(Fare, segment.fare_id)
    return SegmentDetails(
        segment,
        flight,
        fare.family,
        _seat_of(tx, segment_id),
        tx.find(Bag, segment_id=segment_id),
        tx.find(SpecialRequest, segment_id=segment_id),
        tx.get_or_none(Compensation, segment_id),
        _refundable(tx, segment)[0],
    )


@airline.view()
def quote_cancellation(tx: Transaction, booking_id: BookingId) -> list[CancellationQuote]:
    """Returns what cancelling each trip of a booking would refund now, and why."""
    tx.get(Booking, booking_id)
    quotes = []
    for segment in _active_segments(tx, booking_id):
        refund, reason = _refundable(tx, segment)
        quotes.append(CancellationQuote(segment.id, refund, segment.charged - segment.refunded - refund, reason))
    return quotes


@airline.view()
def quote_change(tx: Transaction, segment_id: SegmentId, fare_id: FareId) -> ChangeQuote:
    """Returns the fee and the difference in price of moving a trip to another fare between the same airports."""
    segment, fare = _changeable(tx, segment_id), tx.get(Fare, fare_id)
    fee, difference = _change_cost(tx, segment, fare)
    return ChangeQuote(segment_id, fare_id, fee, difference)


@airline.view()
def list_bags(tx: Transaction, segment_id: SegmentId) -> list[Bag]:
    """Lists the checked bags of a trip."""
    tx.get(Segment, segment_id)
    return tx.find(Bag, segment_id=segment_id)


@airline.view()
def list_fare_payments(
    tx: Transaction, booking_id: BookingId, limit: Limit = 50, offset: Offset = 0
) -> list[FarePayment]:
    """Lists the payments and refunds of a booking, the oldest first."""
    tx.get(Booking, booking_id)
    return tx.find(FarePayment, booking_id=booking_id, order_by="at", limit=limit, offset=offset)


@airline.view()
def list_mile_entries(
    tx: Transaction, frequent_flyer_id: FrequentFlyerId, limit: Limit = 20, offset: Offset = 0
) -> list[MileEntry]:
    """Lists what a miles account earned and spent, the newest first."""
    tx.get(FrequentFlyer, frequent_flyer_id)
    return tx.find(MileEntry, frequent_flyer_id=frequent_flyer_id, order_by="-number", limit=limit, offset=offset)


@airline.view()
def list_waitlist_entries(tx: Transaction, passenger_id: PassengerId) -> list[WaitlistEntry]:
    """Lists the waiting lists on which a passenger is."""
    tx.get(Passenger, passenger_id)
    return tx.find(WaitlistEntry, passenger_id=passenger_id)


@airline.view(roles=("user",))
def list_my_trips(tx: Transaction, limit: Limit = 20, offset: Offset = 0) -> list[Segment]:
    """Lists the trips of the person who is signed in."""
    return tx.find(Segment, passenger_id=_signed_in(tx).id, limit=limit, offset=offset)


# Questions.


@airline.question(get_booking, "tell me how much was paid for {booking_id} in all")
def amount_paid(found: BookingDetails) -> Cents:
    return found.paid


@airline.question(get_booking, "list the names of everybody who travels on {booking_id}")
def traveller_names(found: BookingDetails) -> list[str]:
    return [passenger.name for passenger in found.travellers]


@airline.question(get_segment, "tell me how much would be refunded if {segment_id} were cancelled now")
def refund_now(found: SegmentDetails) -> Cents:
    return found.refund


@airline.question(get_flight, "tell me how many economy seats are free on {flight_id}")
def free_economy_seats(found: FlightDetails) -> int:
    return found.free_economy


@airline.question(get_passenger, "tell me on which day the travel document of {passenger_id} expires")
def document_expiry(found: PassengerDetails) -> Date | None:
    return found.passenger.document_expires


# Rules, for the actions below.


def _signed_in(tx: Transaction) -> Passenger:
    passenger = find_caller(tx, Passenger, PERSON_EMAIL)
    if passenger is None:
        tx.refuse(f"{tx.actor!r} is not a passenger of this airline.", "forbidden")
    return passenger


def _frequent_flyer(tx: Transaction, passenger_id: str) -> FrequentFlyer | None:
    found = tx.find(FrequentFlyer, passenger_id=passenger_id)
    return found[0] if found else None


def _is_gold(tx: Transaction, passenger_id: str) -> bool:
    member = _frequent_flyer(tx, passenger_id)
    return member is not None and member.tier == "gold"


def _seat_of(tx: Transaction, segment_id: str) -> Seat | None:
    found = tx.find(Seat, segment_id=segment_id)
    return found[0] if found else None


def _family(tx: Transaction, segment: Segment) -> FareFamily:
    return tx.get(FareFamily, tx.get(Fare, segment.fare_id).family)


def _active_segments(tx: Transaction, booking_id: str) -> list[Segment]:
    return tx.select(Segment, "booking_id = ? AND status IN ('booked', 'checked_in')", booking_id)


def _free_places(tx: Transaction, flight_id: str, cabin: str) -> int:
    seats = tx.count(Seat, "flight_id = ? AND cabin = ? AND NOT is_blocked", flight_id, cabin)
    where = "flight_id = ? AND cabin = ? AND status IN ('booked', 'checked_in')"
    return seats - tx.count(Segment, where, flight_id, cabin)


def _minutes_to(tx: Transaction, time: str) -> int:
    """Returns the minutes from now to a time; negative if it is past."""
    return _minutes_between(tx.now, time)


def _minutes_between(start: str, end: str) -> int:
    days = (date.fromisoformat(end[:10]) - date.fromisoformat(start[:10])).days
    return days * 1_440 + _minute_of_day(end) - _minute_of_day(start)


def _minute_of_day(time: str) -> int:
    return int(time[11:13]) * 60 + int(time[14:16])


def _is_late(flight: Flight, minutes: int) -> bool:
    return flight.status == "cancelled" or flight.delay_minutes >= minutes


def _bookable_flight(tx: Transaction, flight_id: str, cabin: str, places: int = 1) -> Flight:
    """Returns a flight that can be booked. Refuses it if it is full, cancelled, or leaves within an hour."""
    flight = tx.get(Flight, flight_id)
    tx.require(flight.status == "scheduled", f"Flight {flight.number} of {flight.day} is {flight.status}.")
    tx.require(
        _minutes_to(tx, flight.departs) >= CHANGE_MINUTES,
        f"Flight {flight.number} leaves at {flight.departs}; booking closes {CHANGE_MINUTES} minutes before.",
    )
    free = _free_places(tx, flight_id, cabin)
    tx.require(
        free >= places,
        f"Flight {flight.number} of {flight.day} has {max(0, free)} free places in {cabin}. There is a waiting list.",
        "unavailable",
    )
    return flight


def _require_no_overlap(tx: Transaction, passenger_id: str, flight: Flight, leave_out: str = "") -> None:
    for other in tx.find(Segment, passenger_id=passenger_id):
        if other.status in ACTIVE and other.id != leave_out:
            booked = tx.get(Flight, other.flight_id)
            tx.require(
                booked.arrives <= flight.departs or flight.arrives <= booked.departs or booked.status == "cancelled",
                f"The passenger is booked on flight {booked.number} of {booked.day}, which overlaps ({other.id}).",
                "conflict",
            )


def _open_segment(tx: Transaction, segment_id: str) -> tuple[Segment, Flight]:
    """Returns a trip that is not flown or cancelled, on a flight that has not left."""
    segment = tx.get(Segment, segment_id)
    flight = tx.get(Flight, segment.flight_id)
    tx.require(segment.status in ACTIVE, f"Trip {segment_id} is {segment.status}.")
    tx.require(
        flight.status == "scheduled",
        f"Flight {flight.number} of {flight.day} is {flight.status}; this is not possible.",
    )
    return segment, flight


def _changeable(tx: Transaction, segment_id: str) -> Segment:
    """Returns a trip that may be moved or cancelled now."""
    segment = tx.get(Segment, segment_id)
    flight = tx.get(Flight, segment.flight_id)
    tx.require(segment.status != "checked_in", f"Trip {segment_id} is checked in; undo the check-in first.")
    tx.require(segment.status == "booked", f"Trip {segment_id} is {segment.status}.")
    tx.require(
        flight.status == "cancelled" or _minutes_to(tx, flight.departs) >= CHANGE_MINUTES,
        f"Flight {flight.number} leaves at {flight.departs}; changes end {CHANGE_MINUTES} minutes before.",
    )
    return segment


def _change_cost(tx: Transaction, segment: Segment, fare: Fare) -> tuple[int, int]:
    """Returns the fee and the difference of moving a trip to a fare. Refuses it where the conditions do not permit."""
    old, new = tx.get(Flight, segment.flight_id), tx.get(Flight, fare.flight_id)
    family, cabin = _family(tx, segment), tx.get(FareFamily, fare.family).cabin
    tx.require(segment.fare_id != fare.id, f"Trip {segment.id} has this fare already.")
    tx.require(
        (old.origin, old.destination) == (new.origin, new.destination),
        f"Trip {segment.id} goes from {old.origin} to {old.destination}; it can be moved between these airports only.",
    )
    if _is_late(old, REBOOKING_DELAY):
        days = (date.fromisoformat(new.day) - date.fromisoformat(old.day)).days
        if abs(days) <= REBOOKING_DAYS and cabin == segment.cabin and new.id != old.id:
            return 0, 0
    if family.change_fee is None:
        tx.refuse(f"Trip {segment.id} has a {family.name} fare, which cannot be changed.", "forbidden")
    difference = fare.price - segment.price
    if difference < 0 and family.change_fee:
        difference = 0
    return family.change_fee, difference


def _refundable(tx: Transaction, segment: Segment) -> tuple[int, str]:
    """Returns what is refunded for a trip if it is cancelled now, and why."""
    flight, family = tx.get(Flight, segment.flight_id), _family(tx, segment)
    booking, left = tx.get(Booking, segment.booking_id), segment.charged - segment.refunded
    if segment.status not in ACTIVE:
        return 0, f"The trip is {segment.status}."
    if _is_late(flight, REFUND_DELAY):
        return left, "The flight is cancelled or at least three hours late: all is refunded."
    week = _minutes_to(tx, flight.departs) >= 7 * 1_440
    if week and booking.created >= tx.later(hours=-REGRET_HOURS):
        return left, "Booked within 24 hours, a week or more before departure: all is refunded."
    if family.refund_fee is None:
        return 0, f"A {family.name} fare is not refunded."
    return min(left, max(0, segment.price - family.refund_fee)), f"The conditions of the {family.name} fare."


def _charge(tx: Transaction, segment: Segment, method_id: str, amount: int, purpose: Purpose) -> Segment:
    """Takes money for a trip from a means of payment of the traveller or of whoever made the booking."""
    method, booking = tx.get(PaymentMethod, method_id), tx.get(Booking, segment.booking_id)
    if method.passenger_id not in (booking.booker_id, segment.passenger_id):
        tx.refuse(f"Payment method {method_id} does not belong to a person of booking {booking.id}.", "forbidden")
    if amount == 0:
        return segment
    tx.require(method.expires >= tx.today, f"The {method.label} expired on {method.expires}.")
    if method.balance is not None:
        tx.require(
            method.balance >= amount,
            f"The voucher holds {format_cents(method.balance)}, and {format_cents(amount)} is due; "
            "vouchers are not combined.",
        )
        tx.update(method, balance=method.balance - amount)
    payment_id = tx.new_id(FarePayment)
    tx.insert(FarePayment(payment_id, booking.id, segment.id, method_id, tx.now, purpose, amount))
    return tx.update(segment, charged=segment.charged + amount)


def _refund(tx: Transaction, segment: Segment, amount: int) -> Segment:
    """Gives money back to the means of payment that a trip was paid with, the last first."""
    net: dict[str, int] = {}
    for payment in tx.find(FarePayment, segment_id=segment.id):
        net[payment.method_id] = net.get(payment.method_id, 0) + payment.amount
    rest = amount
    for method_id, paid in reversed(list(net.items())):
        part = min(paid, rest)
        if part > 0:
            rest -= part
            method, payment_id = tx.get(PaymentMethod, method_id), tx.new_id(FarePayment)
            tx.insert(FarePayment(payment_id, segment.booking_id, segment.id, method_id, tx.now, "refund", -part))
            if method.balance is not None:
                expires = max(method.expires, tx.later(days=CLAIM_DAYS)[:10])
                tx.update(method, balance=method.balance + part, expires=expires)
    return tx.update(segment, refunded=segment.refunded + amount)


def _send(tx: Transaction, passenger_id: str, subject: str, text: str) -> None:
    recipient = tx.get(Passenger, passenger_id).email
    tx.publish("mail.deliver", sender=ADDRESS, recipient=recipient, subject=subject, text=text)


def _tell_travellers(tx: Transaction, flight: Flight, text: str) -> None:
    """Writes a notice to a flight, and mail to all who are booked on it."""
    number = tx.count(FlightNotice, "flight_id = ?", flight.id) + 1
    tx.insert(FlightNotice(flight.id, number, tx.now, text))
    for segment in tx.find(Segment, flight_id=flight.id):
        if segment.status in ACTIVE:
            _send(tx, segment.passenger_id, f"Your flight {flight.number} on {flight.day}", text)


def _free_seat(tx: Transaction, segment: Segment) -> None:
    seat = _seat_of(tx, segment.id)
    if seat is not None:
        tx.update(seat, segment_id=None)


def _offer_place(tx: Transaction, flight_id: str, cabin: str) -> None:
    """Tells the first who waits for a cabin that a place is free."""
    flight = tx.get(Flight, flight_id)
    waiting = tx.find(WaitlistEntry, flight_id=flight_id, cabin=cabin, status="waiting", order_by="created", limit=1)
    if waiting and flight.status == "scheduled" and _free_places(tx, flight_id, cabin) > 0:
        tx.update(waiting[0], status="offered")
        _send(tx, waiting[0].passenger_id, f"A place on flight {flight.number}", "Book it before somebody else does.")


def _add_miles(tx: Transaction, member: FrequentFlyer, miles: int, reason: str) -> FrequentFlyer:
    number = tx.count(MileEntry, "frequent_flyer_id = ?", member.id) + 1
    tx.insert(MileEntry(member.id, number, tx.now, miles, reason))
    return tx.update(member, miles=member.miles + miles)


def _settle_booking(tx: Transaction, booking_id: str) -> None:
    """Ends a booking none of whose trips is ahead."""
    booking, segments = tx.get(Booking, booking_id), tx.find(Segment, booking_id=booking_id)
    if booking.status == "confirmed" and not any(segment.status in ACTIVE for segment in segments):
        is_cancelled = all(segment.status == "cancelled" for segment in segments)
        tx.update(booking, status="cancelled" if is_cancelled else "completed")


def _new_segment(tx: Transaction, booking: Booking, passenger_id: str, fare: Fare, method_id: str) -> Segment:
    """Books and charges one traveller on one flight."""
    cabin = tx.get(FareFamily, fare.family).cabin
    flight = _bookable_flight(tx, fare.flight_id, cabin)
    _require_no_overlap(tx, passenger_id, flight)
    segment = Segment(
        tx.new_id(Segment), booking.id, passenger_id, flight.id, fare.id, cabin, "booked", fare.price, charged=0
    )
    tx.insert(segment)
    for entry in tx.find(WaitlistEntry, flight_id=flight.id, cabin=cabin, passenger_id=passenger_id):
        tx.delete(entry)
    _send(
        tx,
        passenger_id,
        f"Booked: {flight.number} on {flight.day}",
        f"You fly from {flight.origin} to {flight.destination} at {flight.departs} for {format_cents(fare.price)}.",
    )
    return _charge(tx, segment, method_id, fare.price, "fare")


# Actions on bookings and trips.


@airline.action(wish="book {fare_id} for {passenger_id}, paid with {payment_method_id}")
def book_flight(
    tx: Transaction, fare_id: FareId, passenger_id: PassengerId, payment_method_id: PaymentMethodId
) -> Segment:
    """Books a passenger on a flight in a booking of its own, and charges the fare.

    Args:
        payment_method_id: Card or voucher of the passenger. A voucher must cover the whole price.
    """
    fare, passenger = tx.get(Fare, fare_id), tx.get(Passenger, passenger_id)
    booking = tx.insert(Booking(tx.new_id(Booking), passenger.id, tx.now, "confirmed"))
    return _new_segment(tx, booking, passenger.id, fare, payment_method_id)


@airline.action(wish="let {passenger_id} travel along in {booking_id}, paid with {payment_method_id}")
def add_traveller(
    tx: Transaction, booking_id: BookingId, passenger_id: PassengerId, payment_method_id: PaymentMethodId
) -> BookingDetails:
    """Adds a traveller to all flights ahead of a booking, in the same fares at today's price; at most four travellers.

    Args:
        payment_method_id: Card or voucher of the traveller or of whoever made the booking.
    """
    booking, segments = tx.get(Booking, booking_id), _active_segments(tx, booking_id)
    tx.get(Passenger, passenger_id)
    tx.require(segments, f"Booking {booking_id} is {booking.status}; none of its trips is ahead.")
    travellers = dict.fromkeys(segment.passenger_id for segment in segments)
    tx.require(passenger_id not in travellers, "The passenger travels in this booking already.", "conflict")
    tx.require(len(travellers) < MOST_TRAVELLERS, f"A booking has at most {MOST_TRAVELLERS} travellers.")
    for fare_id in dict.fromkeys(segment.fare_id for segment in segments):
        _new_segment(tx, booking, passenger_id, tx.get(Fare, fare_id), payment_method_id)
    return get_booking(tx, booking_id)


@airline.action(wish="move {segment_id} to {fare_id}; what is due is paid with {payment_method_id}")
def change_segment(
    tx: Transaction, segment_id: SegmentId, fare_id: FareId, payment_method_id: PaymentMethodId
) -> Segment:
    """Moves a trip to another fare or flight between the same airports. Its seat is given up, its bags stay.

    Fee and difference follow from the conditions of the old fare. If the old flight is cancelled or two hours late,
    flights within seven days in the same cabin cost nothing.

    Args:
        payment_method_id: Card or voucher for what is due.
    """
    segment, fare = _changeable(tx, segment_id), tx.get(Fare, fare_id)
    fee, difference = _change_cost(tx, segment, fare)
    cabin = tx.get(FareFamily, fare.family).cabin
    is_same_place = segment.flight_id == fare.flight_id and segment.cabin == cabin
    flight = _bookable_flight(tx, fare.flight_id, cabin, places=0 if is_same_place else 1)
    _require_no_overlap(tx, segment.passenger_id, flight, leave_out=segment_id)
    if not is_same_place:
        _free_seat(tx, segment)
    old_flight, old_cabin = segment.flight_id, segment.cabin
    segment = _charge(tx, segment, payment_method_id, fee + max(0, difference), "change")
    if difference < 0:
        segment = _refund(tx, segment, min(-difference, segment.charged - segment.refunded))
    segment = tx.update(segment, flight_id=flight.id, fare_id=fare_id, cabin=cabin, price=fare.price)
    _offer_place(tx, old_flight, old_cabin)
    _send(
        tx,
        segment.passenger_id,
        f"Changed: {flight.number} on {flight.day}",
        f"Your flight leaves at {flight.departs}.",
    )
    return segment


def _cancel(tx: Transaction, segment: Segment) -> Segment:
    amount, reason = _refundable(tx, segment)
    _free_seat(tx, segment)
    for bag in tx.find(Bag, segment_id=segment.id):
        tx.delete(bag)
    for request in tx.find(SpecialRequest, segment_id=segment.id):
        tx.delete(request)
    if amount:
        segment = _refund(tx, segment, amount)
    segment = tx.update(segment, status="cancelled")
    _settle_booking(tx, segment.booking_id)
    _offer_place(tx, segment.flight_id, segment.cabin)
    _send(tx, segment.passenger_id, "Your trip is cancelled", f"{format_cents(amount)} is refunded. {reason}")
    return segment


@airline.action(wish="cancel {segment_id}, and nothing else of that booking")
def cancel_segment(tx: Transaction, segment_id: SegmentId) -> Segment:
    """Cancels one traveller's trip on one flight and refunds what the fare's conditions permit."""
    return _cancel(tx, _changeable(tx, segment_id))


@airline.action(wish="cancel all of {booking_id}")
def cancel_booking(tx: Transaction, booking_id: BookingId) -> BookingDetails:
    """Cancels all trips ahead of a booking and refunds what their conditions permit. None may be checked in."""
    booking, segments = tx.get(Booking, booking_id), _active_segments(tx, booking_id)
    tx.require(segments, f"Booking {booking_id} is {booking.status}; none of its trips is ahead.")
    for segment in segments:
        _cancel(tx, _changeable(tx, segment.id))
    return get_booking(tx, booking_id)


@airline.action(wish="upgrade {segment_id} to business, paid with {payment_method_id}")
def upgrade_segment(tx: Transaction, segment_id: SegmentId, payment_method_id: PaymentMethodId) -> Segment:
    """Moves a trip to the business cabin of its flight for the difference in price, at least 80.00.

    The conditions of the fare stay as they are; a reserved seat is given up.
    """
    segment = _upgradable(tx, segment_id)
    business = tx.find(Fare, flight_id=segment.flight_id, family="business")[0]
    segment = _charge(tx, segment, payment_method_id, max(LEAST_UPGRADE, business.price - segment.price), "upgrade")
    return _to_business(tx, segment)


@airline.action(wish="upgrade {segment_id} to business with miles")
def upgrade_with_miles(tx: Transaction, segment_id: SegmentId) -> Segment:
    """Moves a trip to the business cabin for miles of the traveller: 6,000, or 12,000 beyond 1,500 km."""
    segment = _upgradable(tx, segment_id)
    member, flight = _frequent_flyer(tx, segment.passenger_id), tx.get(Flight, segment.flight_id)
    if member is None:
        tx.refuse("The passenger has no miles account.")
    cost = 12_000 if tx.get(Route, flight.number).km > LONG_KM else 6_000
    tx.require(member.miles >= cost, f"The upgrade costs {cost} miles; the account has {member.miles}.")
    _add_miles(tx, member, -cost, f"Upgrade on {flight.number} of {flight.day}")
    return _to_business(tx, segment)


def _upgradable(tx: Transaction, segment_id: str) -> Segment:
    segment, flight = _open_segment(tx, segment_id)
    tx.require(segment.status == "booked", f"Trip {segment_id} is checked in; undo the check-in first.")
    tx.require(segment.cabin == "economy", f"Trip {segment_id} is in business already.")
    _bookable_flight(tx, flight.id, "business")
    return segment


def _to_business(tx: Transaction, segment: Segment) -> Segment:
    _free_seat(tx, segment)
    segment = tx.update(segment, cabin="business")
    _offer_place(tx, segment.flight_id, "economy")
    return segment


# Actions on seats, bags, requests and check-in.


@airline.action(wish="reserve {seat_id} for {segment_id}; if it costs something, use {payment_method_id}")
def choose_seat(tx: Transaction, segment_id: SegmentId, seat_id: SeatId, payment_method_id: PaymentMethodId) -> Seat:
    """Reserves a seat in the cabin of a trip, in place of the one it has. The fee of another seat is not returned.

    Flex and business fares, gold members and business seats pay nothing. Exit seats are for travellers of 16 years or
    more without a wheelchair.

    Args:
        payment_method_id: Card or voucher for the fee.
    """
    segment, flight = _open_segment(tx, segment_id)
    seat = tx.get(Seat, seat_id)
    tx.require(seat.flight_id == flight.id, f"Seat {seat.label} is on another flight than trip {segment_id}.")
    tx.require(seat.cabin == segment.cabin, f"Seat {seat.label} is in {seat.cabin}; the trip is in {segment.cabin}.")
    tx.require(not seat.is_blocked, f"Seat {seat.label} is not available.", "unavailable")
    tx.require(seat.segment_id is None, f"Seat {seat.label} is taken.", "conflict")
    if seat.kind == "exit":
        _require_able(tx, segment, flight)
    is_free = _family(tx, segment).has_free_seats or _is_gold(tx, segment.passenger_id)
    segment = _charge(tx, segment, payment_method_id, 0 if is_free else seat.fee, "seat")
    _free_seat(tx, segment)
    return tx.update(seat, segment_id=segment_id)


def _require_able(tx: Transaction, segment: Segment, flight: Flight) -> None:
    born = tx.get(Passenger, segment.passenger_id).born
    turns_16 = f"{int(born[:4]) + 16}{born[4:]}"
    tx.require(turns_16 <= flight.day, f"Exit seats are for travellers of 16 years; this one was born on {born}.")
    tx.require(
        tx.get_or_none(SpecialRequest, segment.id, "wheelchair") is None,
        "Exit seats are not for travellers who asked for a wheelchair.",
    )


@airline.action(wish="give up the seat reserved for {segment_id}")
def release_seat(tx: Transaction, segment_id: SegmentId) -> Seat:
    """Gives up the reserved seat of a trip that is not checked in. Its fee is not returned."""
    segment, _ = _open_segment(tx, segment_id)
    tx.require(segment.status == "booked", f"Trip {segment_id} is checked in and needs a seat.")
    seat = _seat_of(tx, segment_id)
    if seat is None:
        tx.refuse(f"Trip {segment_id} has no seat.", "not_found")
    return tx.update(seat, segment_id=None)


@airline.action(wish="add a bag of {weight_kg} kg to {segment_id}; if it costs something, use {payment_method_id}")
def add_bag(
    tx: Transaction,
    segment_id: SegmentId,
    weight_kg: Annotated[int, Meta(ge=1, le=60)],
    payment_method_id: PaymentMethodId,
) -> Bag:
    """Registers a checked bag. Bags beyond those of the fare cost 45.00, and those above 23 kg 30.00 more.

    Args:
        weight_kg: At most 32.
        payment_method_id: Card or voucher for the fee.
    """
    segment, _ = _open_segment(tx, segment_id)
    tx.require(weight_kg <= HEAVY_KG, f"A bag has at most {HEAVY_KG} kg; {weight_kg} kg must go as cargo.")
    count = tx.count(Bag, "segment_id = ?", segment_id)
    tx.require(count < MOST_BAGS, f"Trip {segment_id} has {count} bags; more are not possible.")
    included = _family(tx, segment).bags + _is_gold(tx, segment.passenger_id)
    fee = (BAG_FEE if count >= included else 0) + (HEAVY_FEE if weight_kg > LIGHT_KG else 0)
    _charge(tx, segment, payment_method_id, fee, "bag")
    return tx.insert(Bag(tx.new_id(Bag), segment_id, weight_kg, fee, "registered"))


@airline.action(wish="take off {bag_id}")
def remove_bag(tx: Transaction, bag_id: BagId) -> Bag:
    """Removes a bag and refunds its fee, up to 24 hours before departure."""
    bag = tx.get(Bag, bag_id)
    segment, flight = _open_segment(tx, bag.segment_id)
    tx.require(segment.status == "booked", f"Trip {segment.id} is checked in; undo the check-in first.")
    tx.require(
        _minutes_to(tx, flight.departs) >= 1_440,
        f"Flight {flight.number} leaves at {flight.departs}; bags are removed up to 24 hours before.",
    )
    if bag.fee:
        _refund(tx, segment, min(bag.fee, segment.charged - segment.refunded))
    tx.delete(bag)
    return bag


@airline.action(wish="note for {segment_id} that this is needed: {kind}")
def request_assistance(tx: Transaction, segment_id: SegmentId, kind: Assistance) -> SpecialRequest:
    """Notes a special request, up to 24 hours before departure. Minors who fly alone must be under 16."""
    segment, flight = _open_segment(tx, segment_id)
    tx.require(
        _minutes_to(tx, flight.departs) >= 1_440,
        f"Flight {flight.number} leaves at {flight.departs}; requests are taken up to 24 hours before.",
    )
    tx.require(tx.get_or_none(SpecialRequest, segment_id, kind) is None, "This request is noted already.", "conflict")
    born = tx.get(Passenger, segment.passenger_id).born
    if kind == "unaccompanied_minor":
        tx.require(f"{int(born[:4]) + 16}{born[4:]}" > flight.day, f"The passenger was born on {born}: no minor.")
    seat = _seat_of(tx, segment_id)
    tx.require(
        kind != "wheelchair" or seat is None or seat.kind != "exit", "The passenger has an exit seat; change it first."
    )
    return tx.insert(SpecialRequest(segment_id, kind))


@airline.action(wish="withdraw the special request “{kind}” from {segment_id}")
def withdraw_assistance(tx: Transaction, segment_id: SegmentId, kind: Assistance) -> SpecialRequest:
    """Withdraws a special request of a trip that is ahead."""
    _open_segment(tx, segment_id)
    request = tx.get(SpecialRequest, segment_id, kind)
    tx.delete(request)
    return request


@airline.action(roles=BOTH, wish="check in {segment_id}")
def check_in_segment(tx: Transaction, segment_id: SegmentId) -> SegmentDetails:
    """Checks a traveller in, from 24 hours to 45 minutes before departure. Without a seat they get the first free one.

    For flights between two countries the travel document must be valid on the day of arrival.
    """
    segment, flight = _open_segment(tx, segment_id)
    passenger = tx.get(Passenger, segment.passenger_id)
    if tx.role == "user":
        tx.require(passenger.id == _signed_in(tx).id, f"Trip {segment_id} is not yours.", "forbidden")
    tx.require(segment.status == "booked", f"Trip {segment_id} is checked in already.", "conflict")
    minutes = _minutes_to(tx, flight.departs)
    tx.require(
        CHECK_IN_MINUTES <= minutes <= CHECK_IN_HOURS * 60,
        f"Flight {flight.number} leaves at {flight.departs}; check-in is open from {CHECK_IN_HOURS} hours to "
        f"{CHECK_IN_MINUTES} minutes before.",
    )
    if tx.get(Airport, flight.origin).country != tx.get(Airport, flight.destination).country:
        expires = passenger.document_expires
        tx.require(
            expires is not None and expires >= flight.arrives[:10],
            f"{passenger.name} has no travel document that is valid on {flight.arrives[:10]}; "
            "the passenger must enter one first.",
        )
    if _seat_of(tx, segment_id) is None:
        free = tx.find(Seat, flight_id=flight.id, cabin=segment.cabin, is_blocked=False, segment_id=None, limit=1)
        tx.require(free, f"No seat is free on flight {flight.number}.", "unavailable")
        tx.update(free[0], segment_id=segment_id)
    tx.update(segment, status="checked_in")
    return get_segment(tx, segment_id)


@airline.action(wish="undo the check-in of {segment_id}")
def undo_check_in(tx: Transaction, segment_id: SegmentId) -> Segment:
    """Takes a check-in back, up to 60 minutes before departure."""
    segment, flight = _open_segment(tx, segment_id)
    tx.require(segment.status == "checked_in", f"Trip {segment_id} is not checked in.")
    tx.require(
        _minutes_to(tx, flight.departs) >= CHANGE_MINUTES,
        f"Flight {flight.number} leaves at {flight.departs}; it is too late.",
    )
    return tx.update(segment, status="booked")


# Actions on passengers, vouchers, miles and waiting lists.


@airline.action(wish="claim the compensation for {segment_id}")
def issue_compensation(tx: Transaction, segment_id: SegmentId) -> PaymentMethod:
    """Gives the voucher of 250.00, or 400.00 beyond 1,500 km, for a flight that was cancelled or three hours late.

    Once per trip, within 90 days, unless weather or air traffic control was the cause.
    """
    segment = tx.get(Segment, segment_id)
    flight = tx.get(Flight, segment.flight_id)
    is_concerned = flight.status == "cancelled" or (flight.status == "landed" and segment.status == "flown")
    tx.require(
        is_concerned and _is_late(flight, REFUND_DELAY),
        f"Flight {flight.number} of {flight.day} is {flight.status}, {flight.delay_minutes} minutes late, and the trip "
        f"is {segment.status}; compensation is due for flights cancelled or landed {REFUND_DELAY} minutes late.",
    )
    if flight.cause in NO_FAULT:
        cause = str(flight.cause).replace("_", " ")
        tx.refuse(f"The cause was {cause}; no compensation is due.", "forbidden")
    tx.require(
        flight.day >= tx.later(days=-CLAIM_DAYS)[:10],
        f"The flight was on {flight.day}; claims are possible within {CLAIM_DAYS} days.",
    )
    tx.require(tx.get_or_none(Compensation, segment_id) is None, "This trip was compensated already.", "conflict")
    amount = 40_000 if tx.get(Route, flight.number).km > LONG_KM else 25_000
    voucher = PaymentMethod(
        tx.new_id(PaymentMethod),
        segment.passenger_id,
        "voucher",
        f"Compensation {flight.number} {flight.day}",
        tx.later(days=VOUCHER_DAYS)[:10],
        amount,
        amount,
    )
    tx.insert(voucher)
    tx.insert(Compensation(segment_id, voucher.id, tx.now, amount))
    _send(tx, segment.passenger_id, "Your compensation", f"A voucher of {format_cents(amount)} is yours.")
    return voucher


@airline.action(wish="correct the name of {passenger_id} to “{name}”")
def correct_passenger_name(tx: Transaction, passenger_id: PassengerId, name: PassengerName) -> Passenger:
    """Corrects the spelling of a name by at most three letters.

    Args:
        name: The name as it stands in the travel document.
    """
    passenger, name = tx.get(Passenger, passenger_id), " ".join(name.split())
    tx.require(len(name.split()) > 1, "A name has a first name and a surname.")
    letters = _distance(passenger.name.lower(), name.lower())
    tx.require(passenger.name != name, f"The name is {name!r} already.")
    tx.require(
        letters <= 3, f"{name!r} differs from {passenger.name!r} in {letters} letters; three are allowed.", "forbidden"
    )
    return tx.update(passenger, name=name)


def _distance(first: str, second: str) -> int:
    """Returns how many letters must be added, removed or replaced (Levenshtein's distance)."""
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != other))
    return row[-1]


@airline.action(wish="change the phone number of {passenger_id} to {phone}")
def change_passenger_phone(tx: Transaction, passenger_id: PassengerId, phone: Phone) -> Passenger:
    """Changes the phone number at which a passenger is reached.

    Args:
        phone: Digits and spaces, with + and the country code, as in `+49 30 1234567`.
    """
    passenger, digits = tx.get(Passenger, passenger_id), phone.removeprefix("+").replace(" ", "")
    is_number = phone.startswith("+") and digits.isascii() and digits.isdecimal() and 7 <= len(digits) <= 15
    tx.require(is_number, f"{phone!r} is not a phone number; write it as in +49 30 1234567.")
    return tx.update(passenger, phone=phone)


@airline.action(wish="put {passenger_id} on the waiting list for {cabin} on {flight_id}")
def join_waitlist(tx: Transaction, flight_id: FlightId, cabin: Cabin, passenger_id: PassengerId) -> WaitlistEntry:
    """Puts a passenger on the waiting list of a cabin that is full; they get mail when a place is free."""
    flight, _ = tx.get(Flight, flight_id), tx.get(Passenger, passenger_id)
    tx.require(flight.status == "scheduled", f"Flight {flight.number} of {flight.day} is {flight.status}.")
    free = _free_places(tx, flight_id, cabin)
    tx.require(free <= 0, f"Flight {flight.number} of {flight.day} has {free} free places in {cabin}; book one.")
    waiting = tx.find(WaitlistEntry, flight_id=flight_id, cabin=cabin, passenger_id=passenger_id)
    tx.require(not waiting, "The passenger is on this waiting list already.", "conflict")
    _require_no_overlap(tx, passenger_id, flight)
    entry = WaitlistEntry(tx.new_id(WaitlistEntry), flight_id, cabin, passenger_id, tx.now, "waiting")
    return tx.insert(entry)


@airline.action(wish="give up {waitlist_entry_id}")
def leave_waitlist(tx: Transaction, waitlist_entry_id: WaitlistEntryId) -> WaitlistEntry:
    """Takes a passenger off a waiting list."""
    entry = tx.get(WaitlistEntry, waitlist_entry_id)
    tx.delete(entry)
    if entry.status == "offered":
        _offer_place(tx, entry.flight_id, entry.cabin)
    return entry


@airline.action(wish="enrol {passenger_id} in the miles programme")
def enrol_frequent_flyer(tx: Transaction, passenger_id: PassengerId) -> FrequentFlyer:
    """Opens a miles account of the tier blue with 500 miles as a welcome; one per passenger, from 12 years on."""
    passenger = tx.get(Passenger, passenger_id)
    tx.require(_frequent_flyer(tx, passenger_id) is None, f"{passenger.name} has a miles account.", "conflict")
    turns_12 = f"{int(passenger.born[:4]) + 12}{passenger.born[4:]}"
    tx.require(
        turns_12 <= tx.today, f"{passenger.name} was born on {passenger.born}; the programme is for 12 and over."
    )
    member = tx.insert(FrequentFlyer(tx.new_id(FrequentFlyer), passenger_id, "blue", 0))
    return _add_miles(tx, member, 500, "Welcome")


@airline.action(wish="report that {bag_id} did not arrive: {description}")
def report_missing_bag(tx: Transaction, bag_id: BagId, description: BagDescription) -> BagReport:
    """Reports a bag that did not arrive, within seven days of landing. It is looked for; most are found in two days.

    Args:
        description: What the bag looks like.
    """
    bag = tx.get(Bag, bag_id)
    segment = tx.get(Segment, bag.segment_id)
    flight = tx.get(Flight, segment.flight_id)
    tx.require(segment.status == "flown", f"The trip of bag {bag_id} is {segment.status}.")
    tx.require(
        flight.arrives >= tx.later(days=-BAG_REPORT_DAYS),
        f"Flight {flight.number} landed at {flight.arrives}; bags are reported within {BAG_REPORT_DAYS} days.",
    )
    tx.require(tx.get_or_none(BagReport, bag_id) is None, f"Bag {bag_id} was reported already.", "conflict")
    tx.update(bag, status="missing")
    tx.schedule(tx.later(hours=48), find_bag, bag_id=bag_id)
    return tx.insert(BagReport(bag_id, tx.now, description, "open"))


# What the person does without the desk.


@airline.action(roles=("user",))
def enter_travel_document(tx: Transaction, expires: Date) -> Passenger:
    """Enters the travel document of the person who is signed in.

    Args:
        expires: Its last day; not in the past.
    """
    tx.require(expires >= tx.today, f"A document that expired on {expires} cannot be entered.")
    return tx.update(_signed_in(tx), document_expires=expires)


@airline.action(roles=("user",))
def register_card(tx: Transaction, digits: Annotated[int, Meta(ge=0, le=9_999)], expires: Date) -> PaymentMethod:
    """Registers a card of the person who is signed in.

    Args:
        digits: Its last four digits.
        expires: Its last day; not in the past.
    """
    tx.require(expires >= tx.today, f"A card that expired on {expires} cannot be registered.")
    label = f"card ending in {digits:04}"
    return tx.insert(PaymentMethod(tx.new_id(PaymentMethod), _signed_in(tx).id, "card", label, expires))


# Events.


@airline.event()
def remind_of_check_in(tx: Transaction, flight_id: FlightId) -> None:
    """Tells all who are booked on a flight that check-in is open."""
    flight = tx.get(Flight, flight_id)
    tx.require(flight.status == "scheduled", "There is nothing to check in for.")
    _tell_travellers(tx, flight, f"Check-in for {flight.number} at {flight.departs} is open.")


@airline.event()
def delay_flight(tx: Transaction, flight_id: FlightId, minutes: int, cause: Cause) -> None:
    """Moves the departure of a flight that has not left."""
    flight = tx.get(Flight, flight_id)
    tx.require(flight.status == "scheduled", f"Flight {flight.number} is {flight.status}.")
    flight = tx.update(
        flight,
        departs=tx.later(minutes=minutes, start=flight.departs),
        arrives=tx.later(minutes=minutes, start=flight.arrives),
        delay_minutes=flight.delay_minutes + minutes,
        cause=cause,
    )
    tx.schedule(flight.departs, depart_flight, flight_id=flight_id)
    _tell_travellers(
        tx, flight, f"{flight.number} is {flight.delay_minutes} minutes late and leaves at {flight.departs}."
    )


@airline.event()
def cancel_flight(tx: Transaction, flight_id: FlightId, cause: Cause) -> None:
    """Cancels a flight that has not left. Check-ins and seats fall away; trips wait to be moved or refunded."""
    flight = tx.get(Flight, flight_id)
    tx.require(flight.status == "scheduled", f"Flight {flight.number} is {flight.status}.")
    flight = tx.update(flight, status="cancelled", cause=cause)
    for segment in tx.find(Segment, flight_id=flight_id):
        if segment.status in ACTIVE:
            _free_seat(tx, segment)
            tx.update(segment, status="booked")
    for entry in tx.find(WaitlistEntry, flight_id=flight_id):
        tx.delete(entry)
    _tell_travellers(tx, flight, f"{flight.number} of {flight.day} is cancelled. You may rebook or have it refunded.")


@airline.event()
def depart_flight(tx: Transaction, flight_id: FlightId) -> None:
    """Lets a flight leave with those who are checked in."""
    flight = tx.get(Flight, flight_id)
    tx.require(flight.status == "scheduled" and flight.departs == tx.now, "It leaves at another time.")
    tx.update(flight, status="departed")
    for segment in tx.find(Segment, flight_id=flight_id):
        if segment.status == "checked_in":
            for bag in tx.find(Bag, segment_id=segment.id):
                tx.update(bag, status="loaded")
        elif segment.status == "booked":
            tx.update(segment, status="no_show")
            _free_seat(tx, segment)
            _settle_booking(tx, segment.booking_id)
    for entry in tx.find(WaitlistEntry, flight_id=flight_id):
        tx.delete(entry)
    tx.schedule(flight.arrives, land_flight, flight_id=flight_id)


@airline.event()
def land_flight(tx: Transaction, flight_id: FlightId) -> None:
    """Lands a flight: trips are flown, miles are credited, bags are delivered."""
    flight = tx.get(Flight, flight_id)
    tx.require(flight.status == "departed", f"Flight {flight.number} is {flight.status}.")
    tx.update(flight, status="landed")
    for segment in tx.find(Segment, flight_id=flight_id, status="checked_in"):
        tx.update(segment, status="flown")
        for bag in tx.find(Bag, segment_id=segment.id):
            tx.update(bag, status="delivered")
        member = _frequent_flyer(tx, segment.passenger_id)
        if member is not None:
            miles = _miles(tx.get(Route, flight.number).km, segment.cabin)
            _add_miles(tx, member, miles, f"{flight.number} of {flight.day}")
        _settle_booking(tx, segment.booking_id)


def _miles(km: int, cabin: str) -> int:
    return km * 62 // 100 * (2 if cabin == "business" else 1)


@airline.event()
def find_bag(tx: Transaction, bag_id: BagId) -> None:
    """Brings a missing bag to its owner."""
    bag, report = tx.get(Bag, bag_id), tx.get(BagReport, bag_id)
    tx.update(bag, status="delivered")
    tx.update(report, status="found")
    segment = tx.get(Segment, bag.segment_id)
    _send(tx, segment.passenger_id, "Your bag is found", "It was brought to the address that you gave.")


# Generator.

PLACES: Final = (
    ("BER", "Brandenburg", "Berlin", "Germany", 524, 135),
    ("OSL", "Gardermoen", "Oslo", "Norway", 602, 111),
    ("LIS", "Humberto Delgado", "Lisbon", "Portugal", 388, -91),
    ("VIE", "Schwechat", "Vienna", "Austria", 481, 166),
    ("ATH", "Eleftherios Venizelos", "Athens", "Greece", 379, 239),
    ("HAM", "Helmut Schmidt", "Hamburg", "Germany", 536, 100),
    ("ARN", "Arlanda", "Stockholm", "Sweden", 597, 179),
    ("CPH", "Kastrup", "Copenhagen", "Denmark", 556, 126),
    ("HEL", "Vantaa", "Helsinki", "Finland", 603, 250),
    ("AMS", "Schiphol", "Amsterdam", "Netherlands", 523, 48),
    ("BRU", "Zaventem", "Brussels", "Belgium", 509, 45),
    ("CDG", "Charles de Gaulle", "Paris", "France", 490, 25),
    ("LYS", "Saint-Exupery", "Lyon", "France", 457, 51),
    ("NCE", "Cote d'Azur", "Nice", "France", 437, 72),
    ("MAD", "Barajas", "Madrid", "Spain", 405, -36),
    ("BCN", "El Prat", "Barcelona", "Spain", 413, 21),
    ("AGP", "Costa del Sol", "Malaga", "Spain", 367, -45),
    ("PMI", "Son Sant Joan", "Palma", "Spain", 396, 27),
    ("OPO", "Sa Carneiro", "Porto", "Portugal", 412, -87),
    ("FCO", "Fiumicino", "Rome", "Italy", 418, 122),
    ("MXP", "Malpensa", "Milan", "Italy", 456, 87),
    ("NAP", "Capodichino", "Naples", "Italy", 409, 143),
    ("VCE", "Marco Polo", "Venice", "Italy", 455, 124),
    ("PRG", "Vaclav Havel", "Prague", "Czechia", 501, 143),
    ("WAW", "Chopin", "Warsaw", "Poland", 522, 210),
    ("GDN", "Lech Walesa", "Gdansk", "Poland", 544, 185),
    ("KRK", "Balice", "Krakow", "Poland", 501, 198),
    ("BUD", "Ferenc Liszt", "Budapest", "Hungary", 474, 193),
    ("ZAG", "Franjo Tudman", "Zagreb", "Croatia", 457, 161),
    ("SPU", "Kastela", "Split", "Croatia", 435, 163),
    ("SOF", "Vrazhdebna", "Sofia", "Bulgaria", 427, 234),
    ("OTP", "Henri Coanda", "Bucharest", "Romania", 446, 261),
    ("RIX", "Skulte", "Riga", "Latvia", 569, 240),
    ("TLL", "Lennart Meri", "Tallinn", "Estonia", 594, 248),
    ("VNO", "Ciurlionis", "Vilnius", "Lithuania", 546, 253),
    ("DUB", "Collinstown", "Dublin", "Ireland", 534, -63),
    ("EDI", "Turnhouse", "Edinburgh", "United Kingdom", 560, -34),
    ("LHR", "Heathrow", "London", "United Kingdom", 515, -5),
    ("ZRH", "Kloten", "Zurich", "Switzerland", 475, 86),
    ("BGO", "Flesland", "Bergen", "Norway", 603, 52),
)
"""Code, name, city, country, and latitude and longitude in tenths of a degree."""

FAMILIES: Final = (
    FareFamily("light", "economy", 0, has_free_seats=False),
    FareFamily("classic", "economy", 1, has_free_seats=False, change_fee=4_000, refund_fee=5_000),
    FareFamily("flex", "economy", 1, has_free_seats=True, change_fee=0, refund_fee=0),
    FareFamily("business", "business", 2, has_free_seats=True, change_fee=0, refund_fee=0),
)
PERCENT: Final[dict[FamilyName, int]] = {"light": 100, "classic": 135, "flex": 190, "business": 320}
"""Price of a family relative to the light fare."""
SEAT_ROWS: Final = 5
"""Rows of four seats: the first is business, the fourth has the exits."""
CARDS: Final = ("Visa card", "Mastercard", "Amex card", "debit card")
CAUSES: Final[tuple[Cause, ...]] = ("technical", "crew", "technical", "weather", "air_traffic_control")


class _Plane(NamedTuple):
    """A generated flight with what is left of it."""

    flight: Flight
    route: Route
    fares: dict[FamilyName, Fare]
    free: dict[Cabin, list[Seat]]
    places: dict[Cabin, int]


class _Sales:
    """Generated bookings and their parts, in lists that are inserted at the end."""

    def __init__(self, make: Generator, passengers: list[Passenger]) -> None:
        self.make = make
        self.passengers = passengers
        self.methods: dict[str, list[PaymentMethod]] = {}
        self.bookings: list[Booking] = []
        self.segments: list[Segment] = []
        self.payments: list[FarePayment] = []
        self.seats: dict[str, Seat] = {}
        self.bags: list[Bag] = []
        self.requests: list[SpecialRequest] = []
        self.busy: dict[str, list[Flight]] = {}
        """Flights on which each passenger is booked or was."""

    def is_free(self, passenger: Passenger, flight: Flight) -> bool:
        flights = self.busy.get(passenger.id, ())
        return all(f.arrives <= flight.departs or flight.arrives <= f.departs for f in flights)


@airline.generator
def _fill_airline(make: Generator, knobs: AirlineKnobs) -> None:
    airports = [Airport(*place[:4]) for place in PLACES[: knobs.airports]]
    make.insert_all(airports)
    make.insert_all(FAMILIES)
    routes = _make_routes(make, knobs)
    planes = _make_planes(make, knobs, routes)
    passengers = _make_passengers(make, knobs)
    sales = _Sales(make, passengers)
    _make_payment_methods(sales)
    for _ in range(knobs.bookings):
        _make_booking(sales, planes)
    _insert_sales(sales, planes)
    _make_frequent_flyers(sales, {plane.flight.id: plane for plane in planes})
    _make_waitlist(sales, planes)
    _schedule_flights(make, knobs, planes)


def _make_routes(make: Generator, knobs: AirlineKnobs) -> list[Route]:
    """Makes pairs of routes there and back; the first airport has the most."""
    draw, routes = make.draw, list[Route]()
    pairs = [(a, b) for a in range(knobs.airports) for b in range(a + 1, knobs.airports)]
    chosen = pairs[: knobs.airports - 1] + draw.sample(pairs[knobs.airports - 1 :], len(pairs) - knobs.airports + 1)
    for at, (first, second) in enumerate(chosen[: max(1, knobs.flights // 8)]):
        one, other = PLACES[first], PLACES[second]
        km = isqrt((111 * (one[4] - other[4])) ** 2 + (71 * (one[5] - other[5])) ** 2) // 10
        minutes = (35 + km * 60 // 750 + 4) // 5 * 5
        routes.append(Route(f"HA {101 + 2 * at}", one[0], other[0], minutes, km))
        routes.append(Route(f"HA {102 + 2 * at}", other[0], one[0], minutes, km))
    make.insert_all(routes)
    return routes


def _make_planes(make: Generator, knobs: AirlineKnobs, routes: list[Route]) -> list[_Plane]:
    """Makes flights from three weeks ago to four weeks ahead, at most one a day and number."""
    draw, planes = make.draw, list[_Plane]()
    span = max(50, 2 * knobs.flights // len(routes))
    first = -min(20, span // 3)
    departures = {route.number: 5 * draw.randint(72, 260) for route in routes}
    slots = [(day, route) for day in range(first, first + span) for route in routes]
    for day_offset, route in sorted(
        draw.sample(slots, min(knobs.flights, len(slots))), key=lambda slot: (slot[0], slot[1].number)
    ):
        day = shift_time(START[:10], days=day_offset)
        departs = shift_time(f"{day}T00:00", minutes=departures[route.number])
        flight = Flight(
            make.new_id(Flight),
            route.number,
            day,
            route.origin,
            route.destination,
            departs,
            shift_time(departs, minutes=route.minutes),
            "scheduled",
        )
        flight = _disturb(make, flight, knobs.disruptions)
        planes.append(_make_plane(make, flight, route, knobs.crowded))
    make.insert_all([plane.flight for plane in planes])
    make.insert_all([fare for plane in planes for fare in plane.fares.values()])
    return planes


def _disturb(make: Generator, flight: Flight, share: int) -> Flight:
    """Returns the flight as it is at the start: landed, under way or ahead; late or cancelled in some cases."""
    draw = make.draw
    if draw.randrange(100) < share and flight.day <= shift_time(START[:10], days=3):
        cause = draw.choice(CAUSES)
        if draw.randrange(3) == 0:
            return replace(flight, status="cancelled", cause=cause)
        late = draw.choice((25, 50, 130, 185, 200, 240))
        departs, arrives = (shift_time(time, minutes=late) for time in (flight.departs, flight.arrives))
        flight = replace(flight, departs=departs, arrives=arrives, delay_minutes=late, cause=cause)
    if flight.arrives <= START:
        return replace(flight, status="landed")
    return replace(flight, status="departed") if flight.departs <= START else flight


def _make_plane(make: Generator, flight: Flight, route: Route, crowded: int) -> _Plane:
    """Makes fares and seats; a crowded flight keeps two free seats in economy."""
    draw = make.draw
    base = 3_900 + 6 * route.km + 100 * draw.randint(0, 60)
    fares = {
        family: Fare(make.new_id(Fare), flight.id, family, base * percent // 10_000 * 100 + 90)
        for family, percent in PERCENT.items()
    }
    is_crowded = flight.status == "scheduled" and draw.randrange(100) < crowded
    seats: dict[Cabin, list[Seat]] = {"business": [], "economy": []}
    for row in range(1, SEAT_ROWS + 1):
        for letter in "ACDF":
            cabin: Cabin = "business" if row == 1 else "economy"
            kind: Literal["window", "aisle", "exit"] = "window" if letter in "AF" else "aisle"
            fee = 0 if cabin == "business" or row == SEAT_ROWS else 900
            if row == SEAT_ROWS - 1:
                kind, fee = "exit", 2_500
            is_blocked = is_crowded and cabin == "economy" and len(seats["economy"]) >= 2
            seats[cabin].append(Seat(make.new_id(Seat), flight.id, f"{row}{letter}", cabin, kind, fee, is_blocked))
    places = {cabin: sum(not seat.is_blocked for seat in of_cabin) for cabin, of_cabin in seats.items()}
    return _Plane(flight, route, fares, seats, places)


def _make_passengers(make: Generator, knobs: AirlineKnobs) -> list[Passenger]:
    """Makes passengers; the first is the person whom agents serve in other applications, too."""
    draw, passengers = make.draw, list[Passenger]()
    for at in range(knobs.passengers):
        name = f"{draw.choice(OFFICE_FIRST_NAMES)} {draw.choice(OFFICE_SURNAMES)}"
        if at == 0:
            name = PERSON_NAME
        elif at == knobs.passengers - 1 or draw.randrange(100) < knobs.lookalikes:
            name = draw.choice(passengers).name
        email = PERSON_EMAIL if at == 0 else f"{name.lower().replace(' ', '.')}.{at}@post.example"
        born = f"{draw.randint(1944, 2012)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        phone = f"+{draw.choice((30, 33, 45, 46, 47, 49))} {draw.randint(20, 89)} {draw.randint(1_000_000, 9_999_999)}"
        expires = shift_time(START[:10], days=draw.choice((-40, 10, 200, 700, 1_500)))
        document = expires if draw.randrange(6) else None
        passengers.append(Passenger(make.new_id(Passenger), name, born, email, phone, document))
    make.insert_all(passengers)
    return passengers


def _make_payment_methods(sales: _Sales) -> None:
    """Gives each passenger a card, and some a second one, an expired one, or vouchers."""
    make, draw = sales.make, sales.make.draw
    for passenger in sales.passengers:
        of_passenger = sales.methods[passenger.id] = list[PaymentMethod]()
        digits = draw.sample(range(1_000, 10_000), 3)
        for at in range(1 + (draw.randrange(3) == 0)):
            label, expires = f"{draw.choice(CARDS)} ending in {digits[at]}", f"{draw.randint(2027, 2030)}-08-31"
            of_passenger.append(PaymentMethod(make.new_id(PaymentMethod), passenger.id, "card", label, expires))
        if draw.randrange(5) == 0:
            label = f"{draw.choice(CARDS)} ending in {digits[2]}"
            of_passenger.append(PaymentMethod(make.new_id(PaymentMethod), passenger.id, "card", label, "2026-01-31"))
        if draw.randrange(3) == 0:
            value, expires = 100 * draw.choice((50, 120, 250, 400)), f"2026-{draw.randint(4, 12):02}-28"
            of_passenger.append(
                PaymentMethod(
                    make.new_id(PaymentMethod),
                    passenger.id,
                    "voucher",
                    "Goodwill",
                    expires,
                    issued=value,
                    balance=value,
                )
            )


def _make_booking(sales: _Sales, planes: list[_Plane]) -> None:
    """Books one or two travellers on a flight and perhaps a later one back."""
    draw = sales.make.draw
    travellers = draw.sample(sales.passengers, draw.choice((1, 1, 1, 2)))
    family: FamilyName = draw.choice(("light", "light", "classic", "classic", "classic", "flex", "business"))
    cabin: Cabin = "business" if family == "business" else "economy"
    for _ in range(20):
        plane = draw.choice(planes)
        has_room = plane.places[cabin] >= len(travellers)
        if has_room and all(sales.is_free(passenger, plane.flight) for passenger in travellers):
            break
    else:
        return
    trips = [plane]
    if draw.randrange(3) == 0:
        back = [
            other
            for other in planes
            if (other.route.origin, other.route.destination) == (plane.route.destination, plane.route.origin)
            and other.flight.departs > plane.flight.arrives
            and other.places[cabin] >= len(travellers)
            and all(sales.is_free(passenger, other.flight) for passenger in travellers)
        ]
        trips += back[:1]
    latest = min(shift_time(f"{plane.flight.day}T00:00", hours=-30), shift_time(START, minutes=-20))
    created = shift_time(latest, minutes=-draw.choice((0, 300, 7_000, 30_000, 90_000)) - draw.randrange(600))
    booking = Booking(sales.make.new_id(Booking), travellers[0].id, created, "confirmed")
    is_cancelled = draw.randrange(12) == 0
    made = [
        _make_segment(sales, booking, passenger, trip, trip.fares[family], is_cancelled=is_cancelled)
        for trip in trips
        for passenger in travellers
    ]
    sales.segments += made
    status: Literal["confirmed", "cancelled", "completed"] = "confirmed"
    if not any(segment.status in ACTIVE for segment in made):
        status = "cancelled" if all(segment.status == "cancelled" for segment in made) else "completed"
    sales.bookings.append(replace(booking, status=status))


def _make_segment(
    sales: _Sales, booking: Booking, passenger: Passenger, plane: _Plane, fare: Fare, *, is_cancelled: bool
) -> Segment:
    """Makes a trip in the state that its flight implies, with seat, bags, payments and refunds."""
    make, draw, flight = sales.make, sales.make.draw, plane.flight
    cabin: Cabin = "business" if fare.family == "business" else "economy"
    segment = Segment(
        make.new_id(Segment), booking.id, passenger.id, flight.id, fare.id, cabin, "booked", fare.price, charged=0
    )
    cards = [m for m in sales.methods[booking.booker_id] if m.kind == "card" and m.expires > START[:10]]
    segment = _pay(sales, segment, draw.choice(cards), booking.created, "fare", fare.price)
    if is_cancelled or (flight.status == "cancelled" and flight.day < START[:10]):
        when = shift_time(booking.created, minutes=15)
        family = next(family for family in FAMILIES if family.name == fare.family)
        refund = max(0, fare.price - family.refund_fee) if family.refund_fee is not None else 0
        if not is_cancelled:
            when, refund = f"{flight.day}T08:00", fare.price
        if refund:
            segment = _pay(sales, segment, cards[0], when, "refund", -refund, as_paid=True)
        return replace(segment, status="cancelled")
    plane.places[cabin] -= 1
    sales.busy.setdefault(passenger.id, []).append(flight)
    if flight.status in ("landed", "departed"):
        segment = replace(segment, status="flown" if flight.status == "landed" else "checked_in")
        if draw.randrange(12) == 0:
            return replace(segment, status="no_show")
    segment = _make_seat(sales, segment, plane, booking.created, cards[0])
    for _ in range(draw.choice((0, 0, 1, 1, 2))):
        segment = _make_bag(sales, segment, fare, booking.created, cards[0])
    if draw.randrange(8) == 0:
        kind: Assistance = draw.choice(("vegetarian_meal", "kosher_meal", "infant_cot"))
        sales.requests.append(SpecialRequest(segment.id, kind))
    return segment


def _make_seat(sales: _Sales, segment: Segment, plane: _Plane, at: str, card: PaymentMethod) -> Segment:
    """Gives most trips a seat; travellers who are checked in or have flown have one."""
    draw, flight = sales.make.draw, plane.flight
    free = [s for s in plane.free[segment.cabin] if not s.is_blocked and s.id not in sales.seats and s.kind != "exit"]
    if not free or flight.status == "cancelled" or (segment.status == "booked" and draw.randrange(3) == 0):
        return segment
    seat = draw.choice(free)
    sales.seats[seat.id] = replace(seat, segment_id=segment.id)
    is_free = plane.fares["flex"].id == segment.fare_id or segment.cabin == "business"
    return _pay(sales, segment, card, at, "seat", 0 if is_free else seat.fee)


def _make_bag(sales: _Sales, segment: Segment, fare: Fare, at: str, card: PaymentMethod) -> Segment:
    draw, weight = sales.make.draw, sales.make.draw.choice((12, 16, 19, 21, 23, 26, 30))
    count = sum(bag.segment_id == segment.id for bag in sales.bags[-MOST_BAGS:])
    included = next(family.bags for family in FAMILIES if family.name == fare.family)
    fee = (BAG_FEE if count >= included else 0) + (HEAVY_FEE if weight > LIGHT_KG else 0)
    status: Literal["registered", "loaded", "delivered", "missing"] = "registered"
    if segment.status in ("flown", "checked_in"):
        status = "delivered" if segment.status == "flown" else "loaded"
    sales.bags.append(Bag(sales.make.new_id(Bag), segment.id, weight + draw.randrange(3), fee, status))
    return _pay(sales, segment, card, at, "bag", fee)


def _pay(
    sales: _Sales,
    segment: Segment,
    method: PaymentMethod,
    at: str,
    purpose: Purpose,
    amount: int,
    *,
    as_paid: bool = False,
) -> Segment:
    """Adds a payment or refund; `as_paid` gives it back to the first means of payment that was used."""
    if amount == 0:
        return segment
    method_id = method.id
    if as_paid:
        method_id = next(payment.method_id for payment in reversed(sales.payments) if payment.segment_id == segment.id)
    payment_id = sales.make.new_id(FarePayment)
    sales.payments.append(FarePayment(payment_id, segment.booking_id, segment.id, method_id, at, purpose, amount))
    if amount < 0:
        return replace(segment, refunded=segment.refunded - amount)
    return replace(segment, charged=segment.charged + amount)


def _insert_sales(sales: _Sales, planes: list[_Plane]) -> None:
    make = sales.make
    seats = [seat for plane in planes for cabin in plane.free.values() for seat in cabin]
    make.insert_all([method for methods in sales.methods.values() for method in methods])
    make.insert_all(sales.bookings)
    make.insert_all(sales.segments)
    make.insert_all([sales.seats.get(seat.id, seat) for seat in seats])
    make.insert_all(sales.bags)
    make.insert_all(sales.payments)
    make.insert_all(sales.requests)


def _make_frequent_flyers(sales: _Sales, planes: dict[str, _Plane]) -> None:
    """Gives two of three passengers a miles account with what they have flown and an older balance."""
    make, draw = sales.make, sales.make.draw
    flown: dict[str, list[Segment]] = {}
    for segment in sales.segments:
        if segment.status == "flown":
            flown.setdefault(segment.passenger_id, []).append(segment)
    members, entries = list[FrequentFlyer](), list[MileEntry]()
    for passenger in sales.passengers:
        if draw.randrange(3) == 0 or passenger.born > "2013":
            continue
        tier: Tier = draw.choice(("blue", "blue", "silver", "gold"))
        member_id, start = make.new_id(FrequentFlyer), f"2025-{draw.randint(1, 12):02}-01T00:00"
        own = [MileEntry(member_id, 1, start, 100 * draw.choice((5, 20, 75, 130, 310)), "Carried over")]
        trips = [(planes[segment.flight_id], segment.cabin) for segment in flown.get(passenger.id, ())]
        for plane, cabin in sorted(trips, key=lambda trip: trip[0].flight.arrives):
            reason = f"{plane.flight.number} of {plane.flight.day}"
            miles = _miles(plane.route.km, cabin)
            own.append(MileEntry(member_id, len(own) + 1, plane.flight.arrives, miles, reason))
        entries += own
        members.append(FrequentFlyer(member_id, passenger.id, tier, sum(entry.miles for entry in own)))
    make.insert_all(members)
    make.insert_all(entries)


def _make_waitlist(sales: _Sales, planes: list[_Plane]) -> None:
    """Puts some passengers on the waiting lists of full cabins."""
    make, entries = sales.make, list[WaitlistEntry]()
    for plane in planes:
        if plane.flight.status == "scheduled" and plane.places["economy"] == 0:
            for passenger in make.draw.sample(sales.passengers, min(2, len(sales.passengers))):
                if sales.is_free(passenger, plane.flight):
                    created = shift_time(START, minutes=-make.draw.randint(100, 5_000))
                    entry_id = make.new_id(WaitlistEntry)
                    entries.append(
                        WaitlistEntry(entry_id, plane.flight.id, "economy", passenger.id, created, "waiting")
                    )
    make.insert_all(entries)


def _schedule_flights(make: Generator, knobs: AirlineKnobs, planes: list[_Plane]) -> None:
    """Schedules departures, landings, reminders, and what will go wrong."""
    draw = make.draw
    for flight in (plane.flight for plane in planes):
        if flight.status == "departed":
            make.schedule(flight.arrives, land_flight, flight_id=flight.id)
        if flight.status != "scheduled":
            continue
        make.schedule(flight.departs, depart_flight, flight_id=flight.id)
        opens = shift_time(flight.departs, hours=-CHECK_IN_HOURS)
        if opens > START:
            make.schedule(opens, remind_of_check_in, flight_id=flight.id)
        if draw.randrange(100) < knobs.disruptions:
            ahead = draw.choice((2, 5, 20, 70))
            when, cause = max(shift_time(flight.departs, hours=-ahead), shift_time(START, hours=1)), draw.choice(CAUSES)
            if draw.randrange(3) == 0:
                make.schedule(when, cancel_flight, flight_id=flight.id, cause=cause)
            else:
                minutes = draw.choice((30, 75, 125, 190, 260))
                make.schedule(when, delay_flight, flight_id=flight.id, minutes=minutes, cause=cause)
