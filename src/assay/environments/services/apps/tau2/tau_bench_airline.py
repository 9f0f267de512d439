"""The airline of tau-bench, version 1, over its database of flights, users and reservations.

Source: tau-bench (Sierra), `tau_bench/envs/airline`. What an agent passes for passengers, flights and payments is
stored as it is, with keys of its own, because the original does and its hash covers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

from ._airline_values import CERTIFICATES, NEW_RESERVATIONS, NOW, ReservationId, UserId, airport_cities
from ._arithmetic import calculate_expression
from .databases import (
    DatabaseKnobs,
    convert_database,
    join_tuples,
    read_domain_file,
    require_hash,
    tau_bench_hash,
    tuple_text,
)

Record = dict[str, Any]
Cabin = Literal["basic_economy", "economy", "business"]

tau_bench_airline = Service("taubenchairline", "The airline of tau-bench.", knobs=DatabaseKnobs)


class Flight(msgspec.Struct):
    flight_number: str
    origin: str
    destination: str
    scheduled_departure_time_est: str
    scheduled_arrival_time_est: str
    dates: dict[str, Record]


class User(msgspec.Struct):
    user_id: UserId
    """The original has it as the key alone."""
    name: Record
    address: Record
    email: str
    dob: str
    payment_methods: dict[str, Record]
    saved_passengers: list[Record]
    membership: str
    reservations: list[str]


class Reservation(msgspec.Struct, omit_defaults=True):
    reservation_id: ReservationId
    user_id: UserId
    origin: str
    destination: str
    flight_type: str
    cabin: str
    flights: list[Record]
    passengers: list[Record]
    payment_history: list[Record]
    created_at: str
    total_baggages: int
    nonfree_baggages: int
    insurance: str
    status: str | None = None


_flights = Documents(tau_bench_airline, Flight, "flights", indexes=[("origin", "destination")])
_users = Documents(tau_bench_airline, User, "users")
_reservations = Documents(tau_bench_airline, Reservation, "reservations")


@tau_bench_airline.generator
def _load(make: Generator, knobs: DatabaseKnobs) -> None:
    for table, kind, name in ((_flights, Flight, "flights.json"), (_reservations, Reservation, "reservations.json")):
        file = read_domain_file(knobs.data, "airline", name)
        table.fill(make, convert_database(file, dict[str, kind]).values())  # type: ignore[valid-type]
    file = read_domain_file(knobs.data, "airline", "users.json")
    people = convert_database(file, dict[str, Record])
    identified = {name: {"user_id": name, **content} for name, content in people.items()}
    try:
        _users.fill(make, msgspec.convert(identified, dict[str, User]).values())
    except msgspec.ValidationError as exc:
        raise ValueError(f"{file.path} is not a database of this domain: {exc}") from exc
    require_hash(make, knobs, database_hash)


@tau_bench_airline.view(roles=("system",))
def database_hash(tx: Transaction) -> str:
    """Returns the hash of the state as tau-bench computes it."""
    content = {
        "flights": join_tuples(_flights.render(tx, tuple_text)),
        "reservations": join_tuples(_reservations.render(tx, tuple_text)),
        "users": join_tuples(_users.render(tx, _user_text)),
    }
    return tau_bench_hash(content)


def _user_text(user: User) -> str:
    return tuple_text(_without_id(user))


def _without_id(user: User) -> Record:
    content: Record = msgspec.to_builtins(user)
    del content["user_id"]
    return content


def _user(tx: Transaction, user_id: str) -> User:
    found = _users.get(tx, user_id)
    if found is None:
        tx.refuse("user not found", "not_found")
    return found


def _reservation(tx: Transaction, reservation_id: str) -> Reservation:
    found = _reservations.get(tx, reservation_id)
    if found is None:
        tx.refuse("reservation not found", "not_found")
    return found


def _priced_flight(tx: Transaction, wanted: Record, cabin: str, seats: int) -> Record:
    """Returns a flight as a reservation holds it. Refuses one that cannot be booked."""
    number, day = wanted["flight_number"], wanted["date"]
    flight = _flights.get(tx, number)
    if flight is None:
        tx.refuse(f"flight {number} not found", "not_found")
    offer = flight.dates.get(day)
    if offer is None:
        tx.refuse(f"flight {number} not found on date {day}", "not_found")
    tx.require(offer["status"] == "available", f"flight {number} not available on date {day}", "conflict")
    tx.require(offer["available_seats"][cabin] >= seats, f"not enough seats on flight {number}", "conflict")
    return {**wanted, "price": offer["prices"][cabin], "origin": flight.origin, "destination": flight.destination}


def _require_flights(tx: Transaction, flights: Sequence[Record]) -> None:
    for flight in flights:
        for name in ("flight_number", "date"):
            tx.require(isinstance(flight.get(name), str), f"A flight needs the text {name!r}.")


def _require_payments(tx: Transaction, payments: Sequence[Record]) -> None:
    for payment in payments:
        amount = payment.get("amount")
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        tx.require(isinstance(payment.get("payment_id"), str) and is_number, "A payment needs payment_id and amount.")


@tau_bench_airline.action()
def book_reservation(
    tx: Transaction,
    user_id: UserId,
    *,
    origin: str,
    destination: str,
    flight_type: Literal["one_way", "round_trip"],
    cabin: Cabin,
    flights: list[Record],
    passengers: list[Record],
    payment_methods: list[Record],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: Literal["yes", "no"],
) -> Reservation:
    """Books a reservation.

    Args:
        user_id: Identifier of the person who books.
        origin: Code of the airport of departure.
        destination: Code of the airport of arrival.
        flight_type: One way, or there and back.
        cabin: Cabin of all flights.
        flights: Objects with `flight_number` and `date` (YYYY-MM-DD).
        passengers: Objects with `first_name`, `last_name` and `dob` (YYYY-MM-DD).
        payment_methods: Objects with `payment_id`, as the user's profile has it, and `amount` in dollars.
        total_baggages: Number of bags.
        nonfree_baggages: Number of bags that cost 50 dollars each.
        insurance: Whether each passenger is insured for 30 dollars.
    """
    user = _user(tx, user_id)
    _require_flights(tx, flights)
    _require_payments(tx, payment_methods)
    free = [name for name in NEW_RESERVATIONS if _reservations.get(tx, name) is None]
    tx.require(free, "too many reservations", "unavailable")
    seats = len(passengers)
    booked = [_priced_flight(tx, flight, cabin, seats) for flight in flights]
    total = sum(flight["price"] * seats for flight in booked)
    total += 30 * seats if insurance == "yes" else 0
    total += 50 * nonfree_baggages
    _pay_booking(tx, user, payment_methods, total)
    reservation = Reservation(
        free[0],
        user_id,
        origin,
        destination,
        flight_type,
        cabin,
        booked,
        passengers,
        payment_methods,
        NOW,
        total_baggages,
        nonfree_baggages,
        insurance,
    )
    _reservations.insert(tx, reservation)
    user.reservations.append(reservation.reservation_id)
    _users.save(tx, user)
    return reservation


def _pay_booking(tx: Transaction, user: User, payments: Sequence[Record], total: float) -> None:
    """Takes payments from a user's methods, which the caller saves."""
    for payment in payments:
        name, amount = payment["payment_id"], payment["amount"]
        method = user.payment_methods.get(name)
        if method is None:
            tx.refuse(f"payment method {name} not found", "not_found")
        if method["source"] in ("gift_card", "certificate"):
            tx.require(method["amount"] >= amount, f"not enough balance in payment method {name}", "forbidden")
    paid = sum(payment["amount"] for payment in payments)
    tx.require(paid == total, f"payment amount does not add up, total price is {total}, but paid {paid}")
    for payment in payments:
        name = payment["payment_id"]
        method = user.payment_methods.get(name)
        if method is None:
            tx.refuse(f"'{name}'", "conflict")  # a certificate that is named twice
        if method["source"] == "gift_card":
            method["amount"] -= payment["amount"]
        elif method["source"] == "certificate":
            del user.payment_methods[name]


def _pay_update(tx: Transaction, reservation: Reservation, payment_id: str, total: float) -> None:
    """Takes the price of a change from a method of the user, and notes it in the reservation, which is not saved."""
    user = _user(tx, reservation.user_id)
    method = user.payment_methods.get(payment_id)
    if method is None:
        tx.refuse("payment method not found", "not_found")
    tx.require(method["source"] != "certificate", "certificate cannot be used to update reservation", "forbidden")
    if method["source"] == "gift_card":
        tx.require(method["amount"] >= total, "gift card balance is not enough", "forbidden")
        method["amount"] -= total
        _users.save(tx, user)
    if total != 0:
        reservation.payment_history.append({"payment_id": payment_id, "amount": total})


@tau_bench_airline.action()
def cancel_reservation(tx: Transaction, reservation_id: ReservationId) -> Reservation:
    """Cancels a whole reservation; all payments are refunded.

    Args:
        reservation_id: Identifier of the reservation.
    """
    reservation = _reservation(tx, reservation_id)
    payments = reservation.payment_history
    payments += [{"payment_id": paid["payment_id"], "amount": -paid["amount"]} for paid in payments]
    reservation.status = "cancelled"
    _reservations.save(tx, reservation)
    return reservation


@tau_bench_airline.action()
def update_reservation_baggages(
    tx: Transaction, reservation_id: ReservationId, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> Reservation:
    """Changes the number of bags of a reservation.

    Args:
        reservation_id: Identifier of the reservation.
        total_baggages: New number of bags.
        nonfree_baggages: New number of bags that cost 50 dollars each.
        payment_id: Means of payment, as the user's profile has it.
    """
    reservation = _reservation(tx, reservation_id)
    _pay_update(tx, reservation, payment_id, 50 * max(0, nonfree_baggages - reservation.nonfree_baggages))
    reservation.total_baggages, reservation.nonfree_baggages = total_baggages, nonfree_baggages
    _reservations.save(tx, reservation)
    return reservation


@tau_bench_airline.action()
def update_reservation_flights(
    tx: Transaction, reservation_id: ReservationId, cabin: Cabin, flights: list[Record], payment_id: str
) -> Reservation:
    """Replaces the flights of a reservation; the difference in price is paid or refunded.

    Args:
        reservation_id: Identifier of the reservation.
        cabin: Cabin by which new flights are priced.
        flights: All flights of the new reservation, also those that stay, each with `flight_number` and `date`.
        payment_id: Means of payment, as the user's profile has it.
    """
    reservation = _reservation(tx, reservation_id)
    _require_flights(tx, flights)
    seats = len(reservation.passengers)
    booked: list[Record] = []
    for flight in flights:
        same = [
            held
            for held in reservation.flights
            if (held["flight_number"], held["date"]) == (flight["flight_number"], flight["date"])
            and cabin == reservation.cabin
        ]
        if same:
            booked.append({**flight, **{name: same[0][name] for name in ("price", "origin", "destination")}})
        else:
            booked.append(_priced_flight(tx, flight, cabin, seats))
    total = sum(flight["price"] for flight in booked) * seats
    total -= sum(flight["price"] for flight in reservation.flights) * seats
    _pay_update(tx, reservation, payment_id, total)
    reservation.flights = booked
    _reservations.save(tx, reservation)
    return reservation


@tau_bench_airline.action()
def update_reservation_passengers(
    tx: Transaction, reservation_id: ReservationId, passengers: list[Record]
) -> Reservation:
    """Replaces the passengers of a reservation, of whom there are as many as before.

    Args:
        reservation_id: Identifier of the reservation.
        passengers: Objects with `first_name`, `last_name` and `dob` (YYYY-MM-DD).
    """
    reservation = _reservation(tx, reservation_id)
    tx.require(len(passengers) == len(reservation.passengers), "number of passengers does not match")
    reservation.passengers = passengers
    _reservations.save(tx, reservation)
    return reservation


@tau_bench_airline.action()
def send_certificate(tx: Transaction, user_id: UserId, amount: int) -> str:
    """Gives a certificate to a user.

    Args:
        user_id: Identifier of the user.
        amount: Amount in dollars.
    """
    user = _user(tx, user_id)
    free = [name for name in CERTIFICATES if name not in user.payment_methods]
    tx.require(free, "too many certificates", "unavailable")
    user.payment_methods[free[0]] = {"source": "certificate", "amount": amount, "id": free[0]}
    _users.save(tx, user)
    return f"Certificate {free[0]} added to user {user_id} with amount {amount}."


@tau_bench_airline.view()
def get_reservation_details(tx: Transaction, reservation_id: ReservationId) -> Reservation:
    """Returns a reservation.

    Args:
        reservation_id: Identifier of the reservation.
    """
    found = _reservations.get(tx, reservation_id)
    if found is None:
        tx.refuse("user not found", "not_found")  # the original says so
    return found


@tau_bench_airline.view()
def get_user_details(tx: Transaction, user_id: UserId) -> Record:
    """Returns a user with their means of payment and reservations.

    Args:
        user_id: Identifier of the user.
    """
    return _without_id(_user(tx, user_id))


@tau_bench_airline.view()
def list_all_airports(tx: Transaction) -> dict[str, str]:
    """Returns the cities of all airports by code."""
    return airport_cities()


@tau_bench_airline.view()
def search_direct_flight(tx: Transaction, origin: str, destination: str, date: str) -> list[Record]:
    """Returns the flights between two airports that can be booked.

    Args:
        origin: Code of the airport of departure.
        destination: Code of the airport of arrival.
        date: Day as YYYY-MM-DD.
    """
    flights = _flights.find(tx, origin=origin, destination=destination)
    return [_offer(flight, date) for flight in flights if _is_offered(flight, date)]


@tau_bench_airline.view()
def search_onestop_flight(tx: Transaction, origin: str, destination: str, date: str) -> list[list[Record]]:
    """Returns pairs of flights with one stop that can be booked.

    Args:
        origin: Code of the airport of departure.
        destination: Code of the airport of arrival.
        date: Day of the first flight as YYYY-MM-DD.
    """
    tx.require(date[-2:].isdigit(), f"invalid date {date!r}")
    found = []
    for first in _flights.find(tx, origin=origin):
        next_day = f"2024-05-{int(date[-2:]) + 1}" if "+1" in first.scheduled_arrival_time_est else date
        for second in _flights.find(tx, origin=first.destination, destination=destination):
            if first.scheduled_arrival_time_est > second.scheduled_departure_time_est:
                continue
            if _is_offered(first, date) and _is_offered(second, next_day):
                # The original shows the second flight's seats and prices of the first day.
                shown = second.dates.get(date, {})
                then = {name: value for name, value in _plain(second).items()} | shown | {"date": next_day}
                found.append([_offer(first, date) | {"date": date}, then])
    return found


def _is_offered(flight: Flight, day: str) -> bool:
    return flight.dates.get(day, {}).get("status") == "available"


def _plain(flight: Flight) -> Record:
    content: Record = msgspec.to_builtins(flight)
    del content["dates"]
    return content


def _offer(flight: Flight, day: str) -> Record:
    return _plain(flight) | flight.dates[day]


@tau_bench_airline.view()
def calculate(tx: Transaction, expression: str) -> str:
    """Returns the value of an arithmetic expression.

    Args:
        expression: Numbers, `+ - * /`, parentheses and spaces.
    """
    return calculate_expression(expression, "invalid characters in expression")


@tau_bench_airline.view()
def think(tx: Transaction, thought: str) -> str:
    """Notes a thought. Nothing changes.

    Args:
        thought: The thought.
    """
    return ""


@tau_bench_airline.view()
def transfer_to_human_agents(tx: Transaction, summary: str) -> str:
    """Hands the user over to a human agent.

    Args:
        summary: What the user wants.
    """
    return "Transfer successful"
