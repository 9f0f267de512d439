"""The airline of tau2-bench over its database of flights, users and reservations.

Source: tau2-bench (Sierra), `src/tau2/domains/airline`. As there, changing flights leaves the seats of flights alone,
and refunds are noted in the reservation only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import msgspec
from msgspec import UNSET

from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

from ._airline_values import CERTIFICATES, NEW_RESERVATIONS, NOW, ReservationId, UserId, airport_cities
from ._arithmetic import calculate_expression
from .airline_records import (
    Airport,
    Cabin,
    DirectFlight,
    Flight,
    FlightDate,
    FlightInfo,
    FlightType,
    NewPayment,
    Passenger,
    Payment,
    PaymentMethod,
    Reservation,
    ReservedFlight,
    User,
    YesNo,
)
from .databases import (
    DatabaseKnobs,
    convert_database,
    hash_tables,
    read_domain_file,
    require_hash,
)

tau2_airline = Service("tau2airline", "The airline of tau2-bench.", knobs=DatabaseKnobs)


class _Database(msgspec.Struct, forbid_unknown_fields=True):
    flights: dict[str, Flight]
    users: dict[str, User]
    reservations: dict[str, Reservation]


_flights = Documents(tau2_airline, Flight, "flights", indexes=[("origin", "destination")])
_users = Documents(tau2_airline, User, "users")
_reservations = Documents(tau2_airline, Reservation, "reservations")


@tau2_airline.generator
def _load(make: Generator, knobs: DatabaseKnobs) -> None:
    database = convert_database(read_domain_file(knobs.data, "airline", "db.json"), _Database)
    _flights.fill(make, database.flights.values())
    _users.fill(make, database.users.values())
    _reservations.fill(make, database.reservations.values())
    require_hash(make, knobs, database_hash)


@tau2_airline.view(roles=("system",))
def database_hash(tx: Transaction) -> str:
    """Returns the hash of the state as tau2-bench computes it."""
    return hash_tables(tx, {"flights": _flights, "users": _users, "reservations": _reservations})


def _not_found(tx: Transaction, message: str) -> NoReturn:
    tx.refuse(message, "not_found")


def _user(tx: Transaction, user_id: str) -> User:
    return _users.get(tx, user_id) or _not_found(tx, f"User {user_id} not found")


def _reservation(tx: Transaction, reservation_id: str) -> Reservation:
    return _reservations.get(tx, reservation_id) or _not_found(tx, f"Reservation {reservation_id} not found")


def _flight(tx: Transaction, flight_number: str) -> Flight:
    return _flights.get(tx, flight_number) or _not_found(tx, f"Flight {flight_number} not found")


def _flight_on(tx: Transaction, flight: Flight, day: str) -> FlightDate:
    return flight.dates.get(day) or _not_found(tx, f"Flight {flight.flight_number} not found on date {day}")


def _price_flight(tx: Transaction, wanted: FlightInfo, cabin: Cabin, seats: int) -> tuple[ReservedFlight, Flight]:
    """Returns a flight as a reservation holds it, and the flight. Refuses one that cannot be booked."""
    flight = _flight(tx, wanted.flight_number)
    offer = _flight_on(tx, flight, wanted.date)
    if offer.available_seats is UNSET or offer.prices is UNSET:
        tx.refuse(f"Flight {wanted.flight_number} not available on date {wanted.date}", "conflict")
    tx.require(offer.available_seats[cabin] >= seats, f"Not enough seats on flight {wanted.flight_number}", "conflict")
    price = offer.prices[cabin]
    reserved = ReservedFlight(wanted.flight_number, flight.origin, flight.destination, wanted.date, price)
    return reserved, flight


def _whole_payments(tx: Transaction, payments: Sequence[NewPayment]) -> list[Payment]:
    found = []
    for payment in payments:
        tx.require(payment.amount == int(payment.amount), "A payment is a whole number of dollars.")
        found.append(Payment(payment.payment_id, int(payment.amount)))
    return found


@tau2_airline.action()
def book_reservation(
    tx: Transaction,
    user_id: UserId,
    *,
    origin: str,
    destination: str,
    flight_type: FlightType,
    cabin: Cabin,
    flights: list[FlightInfo],
    passengers: list[Passenger],
    payment_methods: list[NewPayment],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: YesNo,
) -> Reservation:
    """Books a reservation.

    Args:
        user_id: Identifier of the person who books.
        origin: Code of the airport of departure, such as SFO.
        destination: Code of the airport of arrival.
        flight_type: One way, or there and back.
        cabin: Cabin of all flights.
        flights: All flights, in order.
        passengers: All passengers.
        payment_methods: Payments, whose sum is the whole price; identifiers as the user's profile has them.
        total_baggages: Number of bags.
        nonfree_baggages: Number of bags that cost 50 dollars each.
        insurance: Whether each passenger is insured for 30 dollars.
    """
    user = _user(tx, user_id)
    payments = _whole_payments(tx, payment_methods)
    free = [name for name in NEW_RESERVATIONS if _reservations.get(tx, name) is None]
    tx.require(free, "Too many reservations", "unavailable")
    seats = len(passengers)
    priced = [_price_flight(tx, wanted, cabin, seats) for wanted in flights]
    booked = [reserved for reserved, _ in priced]
    total = sum(flight.price * seats for flight in booked)
    total += (30 * seats if insurance == "yes" else 0) + 50 * nonfree_baggages
    _pay_booking(tx, user, payments, total)
    for reserved in booked:  # one after the other: the same flight may be named twice
        _take_seats(tx, reserved, cabin, seats)
    reservation = Reservation(
        free[0],
        user_id,
        origin,
        destination,
        flight_type,
        cabin,
        booked,
        passengers,
        payments,
        NOW,
        total_baggages,
        nonfree_baggages,
        insurance,
    )
    _reservations.insert(tx, reservation)
    user.reservations.append(reservation.reservation_id)
    _users.save(tx, user)
    return reservation


def _take_seats(tx: Transaction, reserved: ReservedFlight, cabin: Cabin, seats: int) -> None:
    flight = _flight(tx, reserved.flight_number)
    offer = flight.dates[reserved.date]
    if offer.available_seats is not UNSET:
        offer.available_seats[cabin] -= seats
    _flights.save(tx, flight)


def _pay_booking(tx: Transaction, user: User, payments: Sequence[Payment], total: int) -> None:
    """Takes payments from a user's methods, which the caller saves."""
    for payment in payments:
        name = payment.payment_id
        method = user.payment_methods.get(name) or _not_found(tx, f"Payment method {name} not found")
        if method.source != "credit_card":
            tx.require(_balance(method) >= payment.amount, f"Not enough balance in payment method {name}", "forbidden")
    paid = sum(payment.amount for payment in payments)
    tx.require(paid == total, f"Payment amount does not add up, total price is {total}, but paid {paid}")
    for payment in payments:
        name = payment.payment_id
        method = user.payment_methods.get(name) or _not_found(tx, f"'{name}'")  # a certificate that is named twice
        if method.source == "gift_card":
            method.amount = _balance(method) - payment.amount
        elif method.source == "certificate":
            del user.payment_methods[name]


def _balance(method: PaymentMethod) -> float:
    return 0.0 if method.amount is UNSET else method.amount


def _pay_update(tx: Transaction, reservation: Reservation, payment_id: str, total: int) -> None:
    """Takes the price of a change from a method of the user, and notes it in the reservation, which is not saved."""
    user = _user(tx, reservation.user_id)
    method = user.payment_methods.get(payment_id) or _not_found(tx, "Payment method not found")
    tx.require(method.source != "certificate", "Certificate cannot be used to update reservation", "forbidden")
    if method.source == "gift_card":
        tx.require(_balance(method) >= total, "Gift card balance is not enough", "forbidden")
        method.amount = _balance(method) - total
        _users.save(tx, user)
    if total != 0:
        reservation.payment_history.append(Payment(payment_id, total))


@tau2_airline.action()
def cancel_reservation(tx: Transaction, reservation_id: ReservationId) -> Reservation:
    """Cancels a whole reservation; all payments are refunded.

    Args:
        reservation_id: Identifier of the reservation.
    """
    reservation = _reservation(tx, reservation_id)
    payments = reservation.payment_history
    payments += [Payment(paid.payment_id, -paid.amount) for paid in payments]
    reservation.status = "cancelled"
    _reservations.save(tx, reservation)
    return reservation


@tau2_airline.action()
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


@tau2_airline.action()
def update_reservation_flights(
    tx: Transaction, reservation_id: ReservationId, cabin: Cabin, flights: list[FlightInfo], payment_id: str
) -> Reservation:
    """Replaces the flights or the cabin of a reservation; the difference in price is paid or refunded.

    Args:
        reservation_id: Identifier of the reservation.
        cabin: Cabin of all flights.
        flights: All flights of the new reservation, also those that stay.
        payment_id: Means of payment, as the user's profile has it.
    """
    reservation = _reservation(tx, reservation_id)
    seats = len(reservation.passengers)
    kept = {(flight.flight_number, flight.date): flight for flight in reversed(reservation.flights)}
    booked = []
    for wanted in flights:
        same = kept.get((wanted.flight_number, wanted.date)) if cabin == reservation.cabin else None
        booked.append(same or _price_flight(tx, wanted, cabin, seats)[0])
    total = sum(flight.price for flight in booked) * seats
    total -= sum(flight.price for flight in reservation.flights) * seats
    _pay_update(tx, reservation, payment_id, total)
    reservation.flights, reservation.cabin = booked, cabin
    _reservations.save(tx, reservation)
    return reservation


@tau2_airline.action()
def update_reservation_passengers(
    tx: Transaction, reservation_id: ReservationId, passengers: list[Passenger]
) -> Reservation:
    """Replaces the passengers of a reservation, of whom there are as many as before.

    Args:
        reservation_id: Identifier of the reservation.
        passengers: All passengers.
    """
    reservation = _reservation(tx, reservation_id)
    tx.require(len(passengers) == len(reservation.passengers), "Number of passengers does not match")
    reservation.passengers = passengers
    _reservations.save(tx, reservation)
    return reservation


@tau2_airline.action()
def send_certificate(tx: Transaction, user_id: UserId, amount: int) -> str:
    """Gives a certificate to a user.

    Args:
        user_id: Identifier of the user.
        amount: Amount in dollars.
    """
    user = _user(tx, user_id)
    free = [name for name in CERTIFICATES if name not in user.payment_methods]
    tx.require(free, "Too many certificates", "unavailable")
    user.payment_methods[free[0]] = PaymentMethod("certificate", free[0], amount=float(amount))
    _users.save(tx, user)
    return f"Certificate {free[0]} added to user {user_id} with amount {amount}."


@tau2_airline.view()
def get_reservation_details(tx: Transaction, reservation_id: ReservationId) -> Reservation:
    """Returns a reservation.

    Args:
        reservation_id: Identifier of the reservation.
    """
    return _reservation(tx, reservation_id)


@tau2_airline.view()
def get_user_details(tx: Transaction, user_id: UserId) -> User:
    """Returns a user with their means of payment and reservations.

    Args:
        user_id: Identifier of the user.
    """
    return _user(tx, user_id)


@tau2_airline.view()
def get_flight_status(tx: Transaction, flight_number: str, date: str) -> str:
    """Returns the status of a flight.

    Args:
        flight_number: Number of the flight, such as HAT001.
        date: Day as YYYY-MM-DD.
    """
    return _flight_on(tx, _flight(tx, flight_number), date).status


@tau2_airline.view()
def list_all_airports(tx: Transaction) -> list[Airport]:
    """Returns all airports."""
    return [Airport(code, city) for code, city in airport_cities().items()]


@tau2_airline.view()
def search_direct_flight(tx: Transaction, origin: str, destination: str, date: str) -> list[DirectFlight]:
    """Returns the flights between two airports that can be booked.

    Args:
        origin: Code of the airport of departure.
        destination: Code of the airport of arrival.
        date: Day as YYYY-MM-DD.
    """
    return _offers(_flights.find(tx, origin=origin, destination=destination), date)


@tau2_airline.view()
def search_onestop_flight(tx: Transaction, origin: str, destination: str, date: str) -> list[list[DirectFlight]]:
    """Returns pairs of flights with one stop that can be booked.

    Args:
        origin: Code of the airport of departure.
        destination: Code of the airport of arrival.
        date: Day of the first flight as YYYY-MM-DD.
    """
    tx.require(date[-2:].isdigit(), f"invalid date {date!r}")
    found = []
    for first in _offers(_flights.find(tx, origin=origin), date):
        next_day = f"2024-05-{int(date[-2:]) + 1}" if "+1" in first.scheduled_arrival_time_est else date
        for second in _offers(_flights.find(tx, origin=first.destination, destination=destination), next_day):
            if second.scheduled_departure_time_est >= first.scheduled_arrival_time_est:
                first.date, second.date = date, next_day
                found.append([first, second])
    return found


def _offers(flights: Sequence[Flight], day: str) -> list[DirectFlight]:
    found = []
    for flight in flights:
        offer = flight.dates.get(day)
        if offer is None or offer.available_seats is UNSET or offer.prices is UNSET:
            continue
        shown = DirectFlight(
            flight.flight_number,
            flight.origin,
            flight.destination,
            "available",
            flight.scheduled_departure_time_est,
            flight.scheduled_arrival_time_est,
            None,
            offer.available_seats,
            offer.prices,
        )
        found.append(shown)
    return found


@tau2_airline.view()
def calculate(tx: Transaction, expression: str) -> str:
    """Returns the value of an arithmetic expression.

    Args:
        expression: Numbers, `+ - * /`, parentheses and spaces.
    """
    return calculate_expression(expression, "Invalid characters in expression")


@tau2_airline.view()
def transfer_to_human_agents(tx: Transaction, summary: str) -> str:
    """Hands the user over to a human agent, if they ask for one or if policy and tools do not allow what they want.

    Args:
        summary: What the user wants.
    """
    return "Transfer successful"
