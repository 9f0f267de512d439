"""Records of tau2-bench's airline.

Source: tau2-bench (Sierra), `src/tau2/domains/airline/data_model.py`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ._airline_values import ReservationId, UserId

Cabin = Literal["business", "economy", "basic_economy"]
FlightType = Literal["round_trip", "one_way"]
YesNo = Literal["yes", "no"]
Time = str | UnsetType


class FlightDate(msgspec.Struct, forbid_unknown_fields=True):
    """A flight on one day; which fields it has depends on its status."""

    status: Literal["available", "landed", "cancelled", "delayed", "flying", "on time"]
    available_seats: dict[Cabin, int] | UnsetType = UNSET
    prices: dict[Cabin, int] | UnsetType = UNSET
    estimated_departure_time_est: Time = UNSET
    estimated_arrival_time_est: Time = UNSET
    actual_departure_time_est: Time = UNSET
    actual_arrival_time_est: Time = UNSET


class Flight(msgspec.Struct, forbid_unknown_fields=True):
    flight_number: str
    origin: str
    destination: str
    scheduled_departure_time_est: str
    scheduled_arrival_time_est: str
    dates: dict[str, FlightDate]


class FullName(msgspec.Struct, forbid_unknown_fields=True):
    first_name: str
    last_name: str


class Address(msgspec.Struct, forbid_unknown_fields=True):
    address1: str
    city: str
    country: str
    state: str
    zip: str
    address2: str | None = None


class PaymentMethod(msgspec.Struct, forbid_unknown_fields=True):
    source: Literal["credit_card", "gift_card", "certificate"]
    id: str
    brand: str | UnsetType = UNSET
    last_four: str | UnsetType = UNSET
    amount: float | UnsetType = UNSET
    """Balance in dollars; absent for cards."""


class Passenger(msgspec.Struct):
    first_name: str
    last_name: str
    dob: str
    """Day of birth as YYYY-MM-DD."""


class User(msgspec.Struct, forbid_unknown_fields=True):
    user_id: UserId
    name: FullName
    address: Address
    email: str
    dob: str
    payment_methods: dict[str, PaymentMethod]
    saved_passengers: list[Passenger]
    membership: Literal["gold", "silver", "regular"]
    reservations: list[str]


class ReservedFlight(msgspec.Struct):
    flight_number: str
    origin: str
    destination: str
    date: str
    price: int


class Payment(msgspec.Struct):
    payment_id: str
    amount: int


class Reservation(msgspec.Struct, forbid_unknown_fields=True):
    reservation_id: ReservationId
    user_id: UserId
    origin: str
    destination: str
    flight_type: FlightType
    cabin: Cabin
    flights: list[ReservedFlight]
    passengers: list[Passenger]
    payment_history: list[Payment]
    created_at: str
    total_baggages: int
    nonfree_baggages: int
    insurance: YesNo
    status: Literal["cancelled"] | None = None


class FlightInfo(msgspec.Struct, frozen=True):
    """A flight as an argument names it."""

    flight_number: str
    date: str


class NewPayment(msgspec.Struct, frozen=True):
    """A payment as an argument names it."""

    payment_id: str
    amount: int | float


class DirectFlight(msgspec.Struct):
    """A flight that can be booked."""

    flight_number: str
    origin: str
    destination: str
    status: Literal["available"]
    scheduled_departure_time_est: str
    scheduled_arrival_time_est: str
    date: str | None
    available_seats: dict[Cabin, int]
    prices: dict[Cabin, int]


class Airport(msgspec.Struct, frozen=True):
    iata: str
    city: str
