"""The airline: generator, rules of its actions, and what holds after any calls."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import pytest

from assay.environments.services.apps._words import PERSON_EMAIL
from assay.environments.services.apps.airline import (
    ACTIVE,
    Airport,
    Bag,
    BagReport,
    Booking,
    Compensation,
    Fare,
    FarePayment,
    Flight,
    FlightNotice,
    FrequentFlyer,
    MileEntry,
    Passenger,
    PaymentMethod,
    Route,
    Seat,
    Segment,
    SpecialRequest,
    WaitlistEntry,
    airline,
)
from assay.environments.services.transaction import shift_time
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import (
    Calls,
    Letter,
    accepted_actions,
    call,
    changed_tables,
    postbox,
    refuse,
    rows,
)

SIZES = [
    {"airports": 2, "flights": 2, "passengers": 2, "bookings": 1},
    {},
    {"airports": 20, "flights": 60, "passengers": 60, "bookings": 100, "lookalikes": 50, "crowded": 60},
]
CALM = {"disruptions": 0, "crowded": 0, "bookings": 60, "passengers": 30}
"""Knobs of a world in which nothing happens by itself but departures."""


def opened(seed: int = 1, **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([airline], seed, {"airline": knobs})


def assert_invariants(world: ServiceWorld) -> None:
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    flights = {flight.id: flight for flight in rows(world, Flight)}
    segments = {segment.id: segment for segment in rows(world, Segment)}
    routes = {route.number: route for route in rows(world, Route)}
    assert_money(world, segments)
    for flight in flights.values():
        route = routes[flight.number]
        assert (flight.origin, flight.destination) == (route.origin, route.destination)
        assert flight.arrives == shift_time(flight.departs, minutes=route.minutes)
    for seat in rows(world, Seat):
        if seat.segment_id is not None:
            segment = segments[seat.segment_id]
            assert (seat.flight_id, seat.cabin) == (segment.flight_id, segment.cabin)
            assert segment.status not in ("cancelled", "no_show")
            assert not seat.is_blocked
    states = {"scheduled": ACTIVE, "departed": ("checked_in",), "landed": ("flown",), "cancelled": ("booked",)}
    for segment in segments.values():
        assert segment.status in (*states[flights[segment.flight_id].status], "cancelled", "no_show")
    statuses: dict[str, list[str]] = {}
    for segment in segments.values():
        statuses.setdefault(segment.booking_id, []).append(segment.status)
    for booking in rows(world, Booking):
        own = statuses[booking.id]
        assert (booking.status == "confirmed") == any(status in ACTIVE for status in own)
        assert (booking.status == "cancelled") == all(status == "cancelled" for status in own)


def assert_money(world: ServiceWorld, segments: dict[str, Segment]) -> None:
    charged, refunded = dict.fromkeys(segments, 0), dict.fromkeys(segments, 0)
    used: dict[str, int] = {}
    for payment in rows(world, FarePayment):
        assert segments[payment.segment_id].booking_id == payment.booking_id
        charged[payment.segment_id] += max(0, payment.amount)
        refunded[payment.segment_id] += max(0, -payment.amount)
        used[payment.method_id] = used.get(payment.method_id, 0) + payment.amount
    for segment in segments.values():
        assert (segment.charged, segment.refunded) == (charged[segment.id], refunded[segment.id])
        assert 0 <= segment.refunded <= segment.charged
    for method in rows(world, PaymentMethod):
        if method.kind == "voucher":
            assert method.balance == method.issued - used.get(method.id, 0) >= 0
    miles: dict[str, int] = {}
    for entry in rows(world, MileEntry):
        miles[entry.frequent_flyer_id] = miles.get(entry.frequent_flyer_id, 0) + entry.miles
    assert all(member.miles == miles[member.id] >= 0 for member in rows(world, FrequentFlyer))


@pytest.mark.parametrize("knobs", SIZES)
def test_generator(knobs: dict[str, int]) -> None:
    world = opened(5, **knobs)
    names = [passenger.name for passenger in rows(world, Passenger)]
    assert len(set(names)) < len(names)
    assert len(rows(world, Flight)) == knobs.get("flights", 24)
    assert rows(world, Booking)


@pytest.mark.parametrize("seed", range(2))
def test_a_busy_desk_keeps_the_ledgers(seed: int) -> None:
    world = opened(seed, bookings=50, crowded=50)
    accepted = accepted_actions(world, likely_call, seed, 300)
    assert_invariants(world)
    assert len(accepted) >= 15


def likely_call(world: ServiceWorld, draw: random.Random) -> tuple[str, dict[str, Any]]:
    """Returns a call whose arguments belong together."""
    booked = rows(world, Segment, status="booked")
    segment = draw.choice(booked if booked and draw.random() < 0.8 else rows(world, Segment))
    passenger = draw.choice(rows(world, Passenger)).id if draw.random() < 0.4 else segment.passenger_id
    methods = rows(world, PaymentMethod, passenger_id=passenger)
    pay = {"payment_method_id": draw.choice(methods).id}
    flight = rows(world, Flight, id=segment.flight_id)[0]
    others = rows(world, Flight, number=flight.number)
    fare = draw.choice(rows(world, Fare, flight_id=draw.choice(others).id)).id
    of_segment = {"segment_id": segment.id}
    bags = rows(world, Bag, segment_id=segment.id) or rows(world, Bag)
    cabin = draw.choice(("economy", "business"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("book_flight", {"fare_id": fare, "passenger_id": passenger, **pay}),
        ("book_flight", {"fare_id": fare, "passenger_id": passenger, **pay}),
        ("add_traveller", {"booking_id": segment.booking_id, "passenger_id": passenger, **pay}),
        ("change_segment", {**of_segment, "fare_id": fare, **pay}),
        ("change_segment", {**of_segment, "fare_id": fare, **pay}),
        ("cancel_segment", of_segment),
        ("cancel_booking", {"booking_id": segment.booking_id}),
        ("upgrade_segment", {**of_segment, **pay}),
        ("upgrade_with_miles", of_segment),
        ("choose_seat", {**of_segment, "seat_id": draw.choice(rows(world, Seat, flight_id=flight.id)).id, **pay}),
        ("release_seat", of_segment),
        ("add_bag", {**of_segment, "weight_kg": draw.randint(5, 35), **pay}),
        ("remove_bag", {"bag_id": draw.choice(bags).id}),
        ("report_missing_bag", {"bag_id": draw.choice(bags).id, "description": "blue"}),
        ("request_assistance", {**of_segment, "kind": draw.choice(("wheelchair", "kosher_meal"))}),
        ("withdraw_assistance", {**of_segment, "kind": "kosher_meal"}),
        ("check_in_segment", of_segment),
        ("undo_check_in", of_segment),
        ("issue_compensation", of_segment),
        ("join_waitlist", {"flight_id": flight.id, "cabin": cabin, "passenger_id": passenger}),
        ("enrol_frequent_flyer", {"passenger_id": passenger}),
        ("wait", {"hours": draw.choice((1, 3, 6))}),
    ]
    return draw.choice(calls)


# Actions.


class Case:
    """A world with a trip that is ahead, and what belongs to it."""

    def __init__(self, family: str = "classic", days: int = 3, **knobs: int) -> None:
        self.world = opened(4, **{**CALM, **knobs})
        flights = [
            flight
            for flight in rows(self.world, Flight, status="scheduled")
            if flight.day >= shift_time("2026-03-02", days=days) and len(self.same_route(flight)) > 1
        ]
        self.flight = flights[0]
        self.fare = rows(self.world, Fare, flight_id=self.flight.id, family=family)[0]
        self.passenger = next(p for p in rows(self.world, Passenger) if self.is_adult_at_home(p))
        self.card = self.card_of(self.passenger)
        self.segment = call(
            self.world,
            "book_flight",
            fare_id=self.fare.id,
            passenger_id=self.passenger.id,
            payment_method_id=self.card.id,
        )
        self.id = {"segment_id": self.segment["id"]}
        self.pay = {"payment_method_id": self.card.id}

    def same_route(self, flight: Flight) -> list[Flight]:
        found = rows(self.world, Flight, number=flight.number, status="scheduled")
        return [other for other in found if other.day > "2026-03-03"]

    def is_adult_at_home(self, passenger: Passenger) -> bool:
        return passenger.born < "2000" and not rows(self.world, Segment, passenger_id=passenger.id, status="booked")

    def card_of(self, passenger: Passenger) -> PaymentMethod:
        cards = rows(self.world, PaymentMethod, passenger_id=passenger.id, kind="card")
        return next(card for card in cards if card.expires > "2026-06")

    def other_fare(self, family: str) -> Fare:
        flight = next(flight for flight in self.same_route(self.flight) if flight.id != self.flight.id)
        return rows(self.world, Fare, flight_id=flight.id, family=family)[0]

    def booked(self) -> Segment:
        found: Segment = rows(self.world, Segment, id=self.segment["id"])[0]
        return found

    def call(self, name: str, **arguments: Any) -> Any:
        return call(self.world, name, **self.id, **arguments)

    def refuse(self, name: str, **arguments: Any) -> str:
        return refuse(self.world, name, **self.id, **arguments)

    def disrupt(self, name: str, **payload: Any) -> None:
        """Lets an event happen in an hour."""
        world, flight = self.world, self.flight
        with world.database.transaction():
            world.schedule(shift_time(world.now, hours=1), "airline", name, {"flight_id": flight.id, **payload})
        call(world, "wait", hours=1)


def test_book_flight() -> None:
    case = Case()
    assert (case.segment["status"], case.segment["charged"]) == ("booked", case.fare.price)
    assert changed_tables(case.world) == {"bookings", "segments", "fare_payments"}
    again = {"fare_id": case.fare.id, "passenger_id": case.passenger.id}
    assert "overlaps" in refuse(case.world, "book_flight", **again, **case.pay)
    stranger = next(p for p in rows(case.world, Passenger) if p.id != case.passenger.id)
    theirs = case.card_of(stranger).id
    assert "does not belong to a person" in refuse(
        case.world, "book_flight", fare_id=case.other_fare("light").id, passenger_id=case.passenger.id,
        payment_method_id=theirs,
    )  # fmt: skip
    gone = rows(case.world, Flight, status="landed")[0]
    fare = rows(case.world, Fare, flight_id=gone.id)[0]
    assert "is landed" in refuse(case.world, "book_flight", fare_id=fare.id, passenger_id=stranger.id, **case.pay)


def test_a_voucher_pays_as_a_whole_and_gets_its_refund() -> None:
    world = opened(2, **CALM)
    vouchers = [method for method in rows(world, PaymentMethod, kind="voucher")]
    flights = [f.id for f in rows(world, Flight, status="scheduled") if f.day > "2026-03-12"]
    fares = sorted((f for flight in flights for f in rows(world, Fare, flight_id=flight)), key=lambda f: f.price)
    small, large = min(vouchers, key=lambda v: v.balance), max(vouchers, key=lambda v: v.balance)
    given = {"passenger_id": small.passenger_id, "payment_method_id": small.id}
    assert "vouchers are not combined" in refuse(world, "book_flight", fare_id=fares[-1].id, **given)
    given = {"passenger_id": large.passenger_id, "payment_method_id": large.id}
    for fare in fares:
        observation = world.act("book_flight", {"fare_id": fare.id, **given})
        if not observation.error:
            break
    left = rows(world, PaymentMethod, id=large.id)[0].balance
    booking = rows(world, Booking, booker_id=large.passenger_id, created=world.now)[0]
    assert left == large.balance - rows(world, Segment, booking_id=booking.id)[0].price
    call(world, "cancel_booking", booking_id=booking.id)  # within 24 hours, more than a week ahead
    assert rows(world, PaymentMethod, id=large.id)[0].balance == large.balance
    assert_invariants(world)


def test_add_traveller() -> None:
    case = Case(bookings=5, passengers=40)
    given = {"booking_id": case.segment["booking_id"], **case.pay}
    others = [p for p in rows(case.world, Passenger) if case.is_adult_at_home(p)]
    for other in others[:3]:
        call(case.world, "add_traveller", passenger_id=other.id, **given)
    assert len(call(case.world, "get_booking", booking_id=given["booking_id"])["travellers"]) == 4
    assert "already" in refuse(case.world, "add_traveller", passenger_id=case.passenger.id, **given)
    assert "at most 4" in refuse(case.world, "add_traveller", passenger_id=others[3].id, **given)
    assert_invariants(case.world)


def test_change_segment() -> None:
    case = Case("classic")
    new = case.other_fare("flex")
    quote = call(case.world, "quote_change", **case.id, fare_id=new.id)
    assert (quote["fee"], quote["difference"]) == (4_000, new.price - case.fare.price)
    changed = case.call("change_segment", fare_id=new.id, **case.pay)
    assert changed["charged"] == case.fare.price + 4_000 + new.price - case.fare.price
    assert "has this fare already" in case.refuse("change_segment", fare_id=new.id, **case.pay)
    cheaper = rows(case.world, Fare, flight_id=new.flight_id, family="light")[0]
    assert case.call("change_segment", fare_id=cheaper.id, **case.pay)["refunded"] == new.price - cheaper.price
    assert "light fare, which cannot be changed" in case.refuse("change_segment", fare_id=new.id, **case.pay)
    elsewhere = next(f for f in rows(case.world, Flight, status="scheduled") if f.origin != case.flight.origin)
    fare = rows(case.world, Fare, flight_id=elsewhere.id)[0]
    assert "between these airports only" in case.refuse("change_segment", fare_id=fare.id, **case.pay)
    assert_invariants(case.world)


def test_refunds_follow_the_conditions() -> None:
    for family, days, kept in (("light", 3, None), ("classic", 3, 5_000), ("flex", 3, 0), ("light", 9, 0)):
        case = Case(family, days)
        call(case.world, "add_bag", **case.id, weight_kg=25, **case.pay)
        extra = case.booked().charged - case.fare.price
        if days < 7:
            call(case.world, "wait", hours=25)
            refund = 0 if kept is None else case.fare.price - kept
        else:
            refund = case.fare.price + extra
        quote = call(case.world, "quote_cancellation", booking_id=case.segment["booking_id"])[0]
        assert quote["refund"] == refund
        assert case.call("cancel_segment")["refunded"] == refund
        assert "is cancelled" in case.refuse("cancel_segment")
        assert rows(case.world, Booking, id=case.segment["booking_id"])[0].status == "cancelled"
        assert rows(case.world, Bag, segment_id=case.segment["id"]) == []
        assert_invariants(case.world)


def test_a_cancelled_flight_is_rebooked_for_nothing_or_refunded() -> None:
    case = Case("light", flights=60)
    case.call("choose_seat", seat_id=rows(case.world, Seat, flight_id=case.flight.id, label="2A")[0].id, **case.pay)
    case.call("add_bag", weight_kg=30, **case.pay)
    case.disrupt("cancel_flight", cause="technical")
    assert rows(case.world, Seat, segment_id=case.segment["id"]) == []
    assert "is cancelled" in case.refuse("check_in_segment")
    assert call(case.world, "get_segment", **case.id)["refund"] == case.booked().charged > case.fare.price
    voucher = case.call("issue_compensation")
    assert voucher["balance"] in (25_000, 40_000)
    assert "already" in case.refuse("issue_compensation")
    fork = case.world.fork()
    call(fork, "cancel_booking", booking_id=case.segment["booking_id"])
    assert_invariants(fork)
    week = date.fromisoformat(case.flight.day) + timedelta(days=7)
    later = next(f for f in case.same_route(case.flight) if case.flight.day < f.day <= week.isoformat())
    fare = rows(case.world, Fare, flight_id=later.id, family="flex")[0]
    before = case.booked().charged
    assert case.call("change_segment", fare_id=fare.id, **case.pay)["charged"] == before
    assert_invariants(case.world)


def test_a_delay_moves_the_flight() -> None:
    case = Case("light", bookings=20)
    case.disrupt("delay_flight", minutes=130, cause="weather")
    flight = call(case.world, "get_flight", flight_id=case.flight.id)
    assert flight["flight"]["departs"] == shift_time(case.flight.departs, minutes=130)
    assert "130 minutes late" in flight["notices"][-1]["text"]
    hours = (int(case.flight.day[8:]) - 2) * 24
    call(case.world, "wait", hours=max(1, hours))
    assert_invariants(case.world)
    landed = Case("light")
    landed.disrupt("delay_flight", minutes=200, cause="weather")
    landed.disrupt("cancel_flight", cause="weather")
    assert "The cause was weather" in landed.refuse("issue_compensation")


def test_upgrades() -> None:
    case = Case("classic")
    business = rows(case.world, Fare, flight_id=case.flight.id, family="business")[0]
    changed = case.call("upgrade_segment", **case.pay)
    assert changed["charged"] == case.fare.price + max(8_000, business.price - case.fare.price)
    assert "in business already" in case.refuse("upgrade_segment", **case.pay)
    assert_invariants(case.world)


def test_upgrades_with_miles() -> None:
    world = opened(4, **CALM, flights=40)
    km = {route.number: route.km for route in rows(world, Route)}
    answers = []
    for segment in rows(world, Segment, status="booked", cabin="economy"):
        flight = rows(world, Flight, id=segment.flight_id)[0]
        cost = 12_000 if km[flight.number] > 1_500 else 6_000
        member = next(iter(rows(world, FrequentFlyer, passenger_id=segment.passenger_id)), None)
        is_free = call(world, "get_flight", flight_id=flight.id)["free_business"] > 0
        expected = member is not None and member.miles >= cost and is_free
        assert world.act("upgrade_with_miles", {"segment_id": segment.id}).error != expected
        answers.append(expected)
        if expected:
            assert rows(world, FrequentFlyer, id=member.id)[0].miles == member.miles - cost
    assert set(answers) == {True, False}
    assert_invariants(world)


def test_enrol_frequent_flyer() -> None:
    world = opened()
    passengers, members = rows(world, Passenger), {m.passenger_id for m in rows(world, FrequentFlyer)}
    fresh = next(p.id for p in passengers if p.id not in members)
    assert call(world, "enrol_frequent_flyer", passenger_id=fresh)["miles"] == 500
    assert changed_tables(world) == {"frequent_flyers", "mile_entries"}
    assert "has a miles account" in refuse(world, "enrol_frequent_flyer", passenger_id=fresh)


def test_seats() -> None:
    case = Case("classic")
    seats = {seat.label: seat for seat in rows(case.world, Seat, flight_id=case.flight.id)}
    free = next(s for s in seats.values() if s.fee == 900 and not s.segment_id and not s.is_blocked)
    assert case.call("choose_seat", seat_id=free.id, **case.pay)["segment_id"] == case.segment["id"]
    assert "is taken" in case.refuse("choose_seat", seat_id=free.id, **case.pay)
    assert "is in business" in case.refuse("choose_seat", seat_id=seats["1A"].id, **case.pay)
    elsewhere = rows(case.world, Seat, flight_id=case.other_fare("light").flight_id)[0]
    assert "another flight" in case.refuse("choose_seat", seat_id=elsewhere.id, **case.pay)
    case.call("request_assistance", kind="wheelchair")
    assert "wheelchair" in case.refuse("choose_seat", seat_id=seats["4A"].id, **case.pay)
    case.call("withdraw_assistance", kind="wheelchair")
    case.call("choose_seat", seat_id=seats["4A"].id, **case.pay)
    assert "exit seat" in case.refuse("request_assistance", kind="wheelchair")
    assert rows(case.world, Seat, id=free.id)[0].segment_id is None
    case.call("release_seat")
    assert "has no seat" in case.refuse("release_seat")
    assert_invariants(case.world)


def test_bags() -> None:
    case = Case("light")
    assert case.call("add_bag", weight_kg=20, **case.pay)["fee"] in (0, 4_500)
    heavy = case.call("add_bag", weight_kg=24, **case.pay)
    assert heavy["fee"] == 7_500
    assert "at most 32 kg" in case.refuse("add_bag", weight_kg=33, **case.pay)
    case.call("add_bag", weight_kg=5, **case.pay)
    assert "has 3 bags" in case.refuse("add_bag", weight_kg=5, **case.pay)
    call(case.world, "remove_bag", bag_id=heavy["id"])
    assert case.booked().refunded == 7_500
    assert "no bag" in refuse(case.world, "remove_bag", bag_id=heavy["id"])
    assert "is booked" in refuse(
        case.world, "report_missing_bag", bag_id=rows(case.world, Bag, segment_id=case.segment["id"])[0].id,
        description="red",
    )  # fmt: skip
    assert "already" not in case.call("request_assistance", kind="kosher_meal")
    assert "noted already" in case.refuse("request_assistance", kind="kosher_meal")
    assert "no minor" in case.refuse("request_assistance", kind="unaccompanied_minor")
    assert len(call(case.world, "list_bags", **case.id)) == 2
    assert_invariants(case.world)


def test_check_in_flight_and_miles() -> None:
    case = Case("classic")
    assert "check-in is open from" in case.refuse("check_in_segment")
    world, actor = case.world, case.passenger.id
    assert not world.act("enter_travel_document", {"expires": "2030-01-01"}, role="user", actor=actor).error
    assert "expired" in world.act("enter_travel_document", {"expires": "2020-01-01"}, role="user", actor=actor).content
    bag = case.call("add_bag", weight_kg=20, **case.pay)
    days = (date.fromisoformat(case.flight.day) - date(2026, 3, 2)).days
    call(world, "wait", hours=24 * days + int(case.flight.departs[11:13]) - 9 - 5)
    stranger = next(p for p in rows(world, Passenger) if p.id != case.passenger.id)
    assert "is not yours" in world.act("check_in_segment", case.id, role="user", actor=stranger.email).content
    assert case.call("check_in_segment")["seat"] is not None
    assert "undo the check-in first" in case.refuse("cancel_segment")
    assert "needs a seat" in case.refuse("release_seat")
    case.call("undo_check_in")
    assert "not checked in" in case.refuse("undo_check_in")
    assert not world.act("check_in_segment", case.id, role="user", actor=actor).error
    call(world, "wait", hours=24)
    assert case.booked().status == "flown"
    assert rows(world, Bag, id=bag["id"])[0].status == "delivered"
    call(world, "report_missing_bag", bag_id=bag["id"], description="A red suitcase")
    call(world, "wait", hours=48)
    assert rows(world, BagReport, bag_id=bag["id"])[0].status == "found"
    assert "reported already" in refuse(world, "report_missing_bag", bag_id=bag["id"], description="-")
    call(world, "wait", hours=24 * 7)
    assert "within 7 days" in refuse(world, "report_missing_bag", bag_id=bag["id"], description="-")
    assert_invariants(world)


def test_a_document_must_be_valid() -> None:
    world = opened(4, **CALM)
    country = {airport.code: airport.country for airport in rows(world, Airport)}
    ahead = [f for f in rows(world, Flight, status="scheduled") if f.day > "2026-03-04"]
    flight = next(f for f in ahead if country[f.origin] != country[f.destination])
    passenger = next(
        p for p in rows(world, Passenger) if not p.document_expires or p.document_expires < flight.arrives[:10]
    )
    cards = rows(world, PaymentMethod, passenger_id=passenger.id, kind="card")
    fare = rows(world, Fare, flight_id=flight.id, family="flex")[0]
    segment = call(
        world, "book_flight", fare_id=fare.id, passenger_id=passenger.id,
        payment_method_id=next(card.id for card in cards if card.expires > "2026-06"),
    )  # fmt: skip
    days = (date.fromisoformat(flight.day) - date(2026, 3, 2)).days
    call(world, "wait", hours=24 * days + int(flight.departs[11:13]) - 9 - 5)
    assert "must enter one first" in refuse(world, "check_in_segment", segment_id=segment["id"])


def test_compensation_needs_a_cause_and_three_hours() -> None:
    world = opened(3, disruptions=100, bookings=150, flights=60)
    flights = {flight.id: flight for flight in rows(world, Flight)}
    given = 0
    for segment in rows(world, Segment, status="flown"):
        flight = flights[segment.flight_id]
        is_due = flight.delay_minutes >= 180 and flight.cause in ("technical", "crew")
        given += is_due
        assert world.act("issue_compensation", {"segment_id": segment.id}).error != is_due
    assert given == len(rows(world, Compensation)) > 0
    assert_invariants(world)


def test_passengers() -> None:
    world = opened()
    passenger = rows(world, Passenger, email=PERSON_EMAIL)[0]
    given = {"passenger_id": passenger.id}
    assert call(world, "correct_passenger_name", **given, name="Robyn  Falck")["name"] == "Robyn Falck"
    assert "three are allowed" in refuse(world, "correct_passenger_name", **given, name="Maria Falck")
    assert "first name and a surname" in refuse(world, "correct_passenger_name", **given, name="Robin")
    call(world, "change_passenger_phone", **given, phone="+49 30 123456")
    assert "not a phone number" in refuse(world, "change_passenger_phone", **given, phone="no longer needed")
    assert changed_tables(world) == {"passengers"}
    card = {"digits": 4411, "expires": "2029-01-31"}
    assert not world.act("register_card", card, role="user").error
    assert any("4411" in method["label"] for method in call(world, "list_passenger_payment_methods", **given))
    assert "not a passenger" in world.act("list_my_trips", {}, role="user", actor="x@y.example").content


def test_waiting_list() -> None:
    world = ServiceWorld.of([airline, postbox], 9, {"airline": {**CALM, "crowded": 60, "bookings": 120}})
    free = {f.id: call(world, "get_flight", flight_id=f.id)["free_economy"] for f in rows(world, Flight)}
    full = next(f for f in rows(world, Flight, status="scheduled") if f.day > "2026-03-04" and not free[f.id])
    inside = rows(world, Segment, flight_id=full.id, cabin="economy", status="booked")
    for entry in rows(world, WaitlistEntry, flight_id=full.id):
        call(world, "leave_waitlist", waitlist_entry_id=entry.id)
    given = {"flight_id": full.id, "cabin": "economy"}
    waiting = next(
        p.id for p in rows(world, Passenger) if not world.act("join_waitlist", {**given, "passenger_id": p.id}).error
    )
    assert "on this waiting list already" in refuse(world, "join_waitlist", **given, passenger_id=waiting)
    roomy = next(f for f in rows(world, Flight, status="scheduled") if free[f.id])
    assert "book one" in refuse(world, "join_waitlist", flight_id=roomy.id, cabin="economy", passenger_id=waiting)
    call(world, "cancel_segment", segment_id=inside[0].id)
    assert rows(world, WaitlistEntry, passenger_id=waiting, flight_id=full.id)[0].status == "offered"
    email = rows(world, Passenger, id=waiting)[0].email
    assert [letter.subject for letter in rows(world, Letter, recipient=email)] == [f"A place on flight {full.number}"]


def test_months_pass() -> None:
    world = opened(3, disruptions=60)
    call(world, "wait", hours=24 * 31)
    call(world, "wait", hours=24 * 31)
    assert {flight.status for flight in rows(world, Flight)} <= {"landed", "cancelled"}
    assert rows(world, FlightNotice)
    assert_invariants(world)


def test_views() -> None:
    world = opened()
    flight = rows(world, Flight, status="scheduled")[0]
    city = rows(world, Airport, code=flight.origin)[0].city
    assert flight.id in [f["id"] for f in call(world, "search_flights", text=city, day=flight.day)]
    assert call(world, "search_flights", text="Nowhere", day=flight.day) == []
    prices = [fare["price"] for fare in call(world, "list_fares", flight_id=flight.id)]
    assert prices == sorted(prices)
    assert len(call(world, "list_fare_families")) == 4
    assert call(world, "search_airports", text=city)[0]["code"] == flight.origin
    taken = {seat.id for seat in rows(world, Seat) if seat.segment_id or seat.is_blocked}
    assert not taken & {seat["id"] for seat in call(world, "list_seats", flight_id=flight.id, only_free=True)}
    booking = rows(world, Booking)[0]
    assert booking.id in [b["id"] for b in call(world, "list_passenger_bookings", passenger_id=booking.booker_id)]
    paid = sum(payment["amount"] for payment in call(world, "list_fare_payments", booking_id=booking.id))
    assert paid == call(world, "get_booking", booking_id=booking.id)["paid"]
    member = rows(world, FrequentFlyer)[0]
    assert call(world, "list_mile_entries", frequent_flyer_id=member.id)[-1]["reason"] == "Carried over"
    assert call(world, "get_passenger", passenger_id=member.passenger_id)["frequent_flyer"]["id"] == member.id
    request = (rows(world, SpecialRequest) or rows(world, Segment))[0]
    assert call(world, "get_segment", segment_id=getattr(request, "segment_id", None) or request.id)


SEGMENT, BOOKING = {"segment_id": "SEG-1"}, {"booking_id": "BKG-1"}
FOUND: Calls = [("search_passengers", {})]
CHANGE = {**SEGMENT, "fare_id": "FAR-1"}
CONTRACTS: list[tuple[str, Calls, Calls]] = [
    ("identify-first", [*FOUND, ("add_bag", SEGMENT)], [("add_bag", SEGMENT)]),
    ("heavy-bags", [*FOUND, ("add_bag", {"weight_kg": 26})], [*FOUND, ("add_bag", {"weight_kg": 27})]),
    (
        "lone-minors",
        [*FOUND, ("request_assistance", {"kind": "wheelchair"})],
        [*FOUND, ("request_assistance", {"kind": "unaccompanied_minor"})],
    ),
    (
        "quote-cancellation",
        [*FOUND, ("quote_cancellation", BOOKING), ("cancel_booking", BOOKING)],
        [*FOUND, ("quote_cancellation", {"booking_id": "BKG-2"}), ("cancel_booking", BOOKING)],
    ),
    (
        "look-before-cancelling",
        [*FOUND, ("get_segment", SEGMENT), ("cancel_segment", SEGMENT)],
        [*FOUND, ("cancel_segment", SEGMENT)],
    ),
    (
        "quote-change",
        [*FOUND, ("quote_change", CHANGE), ("change_segment", CHANGE)],
        [*FOUND, ("quote_change", {**CHANGE, "fare_id": "FAR-2"}), ("change_segment", CHANGE)],
    ),
    (
        "look-at-trip",
        [*FOUND, ("get_segment", SEGMENT), ("issue_compensation", SEGMENT)],
        [*FOUND, ("issue_compensation", SEGMENT)],
    ),
    (
        "two-vouchers",
        [*FOUND, *[("get_segment", SEGMENT), ("issue_compensation", SEGMENT)] * 2],
        [*FOUND, *[("get_segment", SEGMENT), ("issue_compensation", SEGMENT)] * 3],
    ),
    (
        "no-cancel-and-rebook",
        [*FOUND, ("book_flight", {}), ("get_segment", SEGMENT), ("cancel_segment", SEGMENT)],
        [*FOUND, ("get_segment", SEGMENT), ("cancel_segment", SEGMENT), ("book_flight", {})],
    ),
]
