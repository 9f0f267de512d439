"""BFCL's `TravelAPI`: flights, bookings, insurance and credit cards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final, Self

from msgspec import field

from .flight_prices import AIRPORTS, PRICES
from .tool_class import Number, SeededState, Setting, ToolClass

_FACTORS: Final = {"economy": 1, "business": 2, "first": 5}
_NEAREST: Final = {
    "Rivermist": "RMS",
    "Stonebrook": "SBK",
    "Maplecrest": "MPC",
    "Silverpine": "SVP",
    "Shadowridge": "SHD",
    "London": "LHR",
    "Paris": "CDG",
    "Sunset Valley": "SSV",
    "Oakendale": "OKD",
    "Willowbend": "WLB",
    "Crescent Hollow": "CRH",
    "Autumnville": "ATV",
    "Pinehaven": "PHV",
    "Greenfield": "GFD",
    "San Francisco": "SFO",
    "Los Angeles": "LAX",
    "New York": "JFK",
    "Chicago": "ORD",
    "Boston": "BOS",
    "Beijing": "PEK",
    "Hong Kong": "HKG",
    "Rome": "CIA",
    "Tokyo": "HND",
}
_RATES: Final = {
    "RMB": 7,
    "EUR": 0.8,
    "JPY": 110,
    "GBP": 0.7,
    "CAD": 1.3,
    "AUD": 1.4,
    "INR": 70,
    "RUB": 60,
    "BRL": 3.8,
    "MXN": 20,
}
"""Units of a currency for one USD."""
_ADULT_YEARS: Final = 18
_SUPPORT: Final = (
    "Thank you for contacting customer support. Your message has been received and we will get back to you shortly."
)


class TravelState(SeededState):
    """Attributes of the traveller's account."""

    credit_card_list: dict[str, dict[str, Any]] = field(default_factory=dict)
    booking_record: dict[str, dict[str, Any]] = field(default_factory=dict)
    access_token: str | None = None
    token_type: str | None = None
    token_expires_in: int | None = None
    token_scope: str | None = None
    user_first_name: str | None = None
    user_last_name: str | None = None
    budget_limit: Number | None = None
    _is_long: bool = False
    _today: str = ""

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:
        state = super().load(scenario, setting)
        state._seed = scenario.get("random_seed", 141053)
        state._today = setting.today
        if setting.extension is not None:
            state._is_long = True
            state.credit_card_list = _extended(state.credit_card_list, setting.extension["CREDIT_CARD_EXTENSION"])
            state.booking_record = _extended(state.booking_record, setting.extension["BOOKING_RECORD_EXTENSION"])
        return state

    def refusal(self, access_token: str) -> dict[str, str] | None:
        """Returns what is wrong with a token; None for a valid one."""
        if self.token_expires_in == 0:
            return {"error": "Token expired"}
        return None if access_token == self.access_token else {"error": "Invalid access token"}


def _extended(held: dict[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    return {**held, **{key: value for key, value in added.items() if key not in held}}


travel: Final = ToolClass("TravelAPI", "bfcltravel", "Flights, bookings and credit cards.", TravelState)
service: Final = travel.service


@travel.tool
def authenticate_travel(
    state: TravelState,
    *,
    client_id: str,
    client_secret: str,
    refresh_token: str,
    grant_type: str,
    user_first_name: str,
    user_last_name: str,
) -> Any:
    """Logs a traveller in, and returns an access token.

    Args:
        client_id: Identifier of the client application.
        client_secret: Secret of the client application.
        refresh_token: Refresh token of the first login.
        grant_type: read_write, read or write.
        user_first_name: First name of the traveller.
        user_last_name: Last name of the traveller.
    """
    state.token_expires_in = 2
    state.access_token = str(state.randint(100000, 999999))
    state.token_type = "Bearer"
    state.token_scope = grant_type
    state.user_first_name, state.user_last_name = user_first_name, user_last_name
    return {"expires_in": 2, "access_token": state.access_token, "token_type": "Bearer", "scope": grant_type}


@travel.tool
def travel_get_login_status(state: TravelState) -> Any:
    """Says whether a traveller is logged in."""
    return {"status": state.token_expires_in is not None and state.token_expires_in != 0}


@travel.tool
def get_budget_fiscal_year(
    _: TravelState,
    lastModifiedAfter: str | None = None,
    includeRemoved: str | None = None,
) -> Any:
    """Returns the fiscal year of the budget.

    Args:
        lastModifiedAfter: Time after which it was changed, as YYYY-MM-DDTHH:MM:SS.
        includeRemoved: true to include years that were removed.
    """
    return {"budget_fiscal_year": "2018"}


@travel.tool
def register_credit_card(
    state: TravelState,
    access_token: str,
    card_number: str,
    expiration_date: str,
    cardholder_name: str,
    *,
    card_verification_number: int,
) -> Any:
    """Registers a credit card, and returns its identifier.

    Args:
        access_token: Token of the login.
        card_number: Number of the card.
        expiration_date: End of its validity, as MM/YYYY.
        cardholder_name: Name of its holder.
        card_verification_number: Verification number of the card.
    """
    if state.token_expires_in is None:
        return {"error": "Token not initialized"}
    if refused := state.refusal(access_token):
        return refused
    if card_number in state.credit_card_list:
        return {"error": "Card already registered"}
    card_id = str(state.randint(100000000000, 999999999999))
    state.credit_card_list[card_id] = {
        "card_number": card_number,
        "expiration_date": expiration_date,
        "cardholder_name": cardholder_name,
        "card_verification_number": card_verification_number,
        "balance": state.randint(10000, 99999),
    }
    return {"card_id": card_id}


def _cost(route: tuple[str, str], travel_date: str, travel_class: str) -> float:
    """Returns the price of a flight. Raises `ValueError` for an unknown route or class."""
    if route not in PRICES:
        raise ValueError("No available route for the given airports.")
    if travel_class not in _FACTORS:
        raise ValueError("Invalid travel class. Options are: economy, business, first.")
    digits = sum(int(letter) for letter in travel_date if letter.isdigit())
    return float(PRICES[route] * _FACTORS[travel_class] * (2 if digits % 2 == 0 else 1))


@travel.tool
def get_flight_cost(state: TravelState, travel_from: str, travel_to: str, travel_date: str, travel_class: str) -> Any:
    """Lists what a flight costs, in USD.

    Args:
        travel_from: Code of the airport of departure, such as SFO.
        travel_to: Code of the airport of arrival.
        travel_date: Day of the flight, as YYYY-MM-DD.
        travel_class: economy, business or first.
    """
    cost = _cost((travel_from, travel_to), travel_date, travel_class)
    if state._is_long:
        return {"travel_cost_list": [_cost(route, travel_date, travel_class) for route in PRICES]}
    return {"travel_cost_list": [cost]}


@travel.tool
def get_credit_card_balance(state: TravelState, access_token: str, card_id: str) -> Any:
    """Returns the balance of a credit card.

    Args:
        access_token: Token of the login.
        card_id: Identifier of the card.
    """
    if refused := state.refusal(access_token):
        return refused
    if card_id not in state.credit_card_list:
        return {"error": f"Card not registered. Here are a list of card_id's: {list(state.credit_card_list)}"}
    return {"card_balance": state.credit_card_list[card_id]["balance"]}


@travel.tool
def book_flight(
    state: TravelState,
    access_token: str,
    card_id: str,
    *,
    travel_date: str,
    travel_from: str,
    travel_to: str,
    travel_class: str,
) -> Any:
    """Books a flight and pays for it.

    Args:
        access_token: Token of the login.
        card_id: Identifier of the credit card that pays.
        travel_date: Day of the flight, as YYYY-MM-DD.
        travel_from: Code of the airport of departure, such as SFO.
        travel_to: Code of the airport of arrival.
        travel_class: economy, business or first.
    """
    problem = _payment_problem(state, access_token, card_id) or _flight_problem(
        travel_from, travel_to, travel_date, travel_class
    )
    if problem:
        return {"booking_status": False, "error": problem}
    card = state.credit_card_list[card_id]
    try:
        cost = _cost((travel_from, travel_to), travel_date, travel_class)
    except ValueError as exc:
        return {"booking_status": False, "error": str(exc)}
    if card["balance"] < cost:
        return {"booking_status": False, "error": "Insufficient funds"}
    if state.budget_limit is not None and card["balance"] < state.budget_limit:
        return {"booking_status": False, "error": "Balance is less than budget limit"}
    card["balance"] -= cost
    booking_id, transaction_id = str(state.randint(1000000, 9999999)), str(state.randint(10000000, 99999999))
    state.booking_record[booking_id] = {
        "card_id": card_id,
        "travel_date": travel_date,
        "travel_from": travel_from,
        "travel_to": travel_to,
        "travel_class": travel_class,
        "travel_cost": cost,
        "transaction_id": transaction_id,
    }
    return {
        "booking_id": booking_id,
        "transaction_id": transaction_id,
        "booking_status": True,
        "booking_history": state.booking_record if state._is_long else {},
    }


def _payment_problem(state: TravelState, access_token: str, card_id: str) -> str:
    if refused := state.refusal(access_token):
        return refused["error"]
    if card_id not in state.credit_card_list:
        return "Card not registered"
    return "" if "balance" in state.credit_card_list[card_id] else "Balance not found"


def _flight_problem(travel_from: str, travel_to: str, travel_date: str, travel_class: str) -> str:
    for kind, code in (("departure", travel_from), ("destination", travel_to)):
        if code not in AIRPORTS:
            return f"Invalid {kind} airport code: {code}"
    try:
        _parse_day(travel_date)
    except ValueError:
        return "Invalid date format. Use YYYY-MM-DD."
    return "" if travel_class in _FACTORS else f"Invalid travel class. Must be one of {{{str(sorted(_FACTORS))[1:-1]}}}"


def _parse_day(text: str) -> date:
    return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 - a day has no zone


@travel.tool
def retrieve_invoice(
    state: TravelState,
    access_token: str,
    booking_id: str | None = None,
    insurance_id: str | None = None,
) -> Any:
    """Shows the invoice of a booking.

    Args:
        access_token: Token of the login.
        booking_id: Identifier of the booking.
        insurance_id: Identifier of the insurance.
    """
    if refused := state.refusal(access_token):
        return refused
    if booking_id not in state.booking_record:
        return {"error": "Booking not found"}
    record = state.booking_record[booking_id]
    names = ("travel_date", "travel_from", "travel_to", "travel_class", "travel_cost", "transaction_id")
    return {"invoice": {"booking_id": booking_id, **{name: record[name] for name in names}}}


@travel.tool
def get_booking_history(state: TravelState, access_token: str) -> Any:
    """Lists all bookings.

    Args:
        access_token: Token of the login.
    """
    return state.refusal(access_token) or {"booking_history": state.booking_record}


@travel.tool
def list_all_airports(_: TravelState) -> Any:
    """Lists the codes of all airports."""
    return AIRPORTS


@travel.tool
def cancel_booking(state: TravelState, access_token: str, booking_id: str) -> Any:
    """Cancels a booking, and pays its price back.

    Args:
        access_token: Token of the login.
        booking_id: Identifier of the booking.
    """
    if refused := state.refusal(access_token):
        return {"cancel_status": False, **refused}
    if booking_id not in state.booking_record:
        return {"cancel_status": False, "error": "Booking not found"}
    record = state.booking_record[booking_id]
    state.credit_card_list[record["card_id"]]["balance"] += record["travel_cost"]
    del state.booking_record[booking_id]
    return {"cancel_status": True}


@travel.tool
def compute_exchange_rate(_: TravelState, base_currency: str, target_currency: str, value: Number) -> Any:
    """Converts an amount of money. One of the currencies is USD.

    Args:
        base_currency: Currency of the amount: USD, RMB, EUR, JPY, GBP, CAD, AUD, INR, RUB, BRL or MXN.
        target_currency: The wanted currency.
        value: The amount.
    """
    if base_currency == "USD" and target_currency in _RATES:
        return {"exchanged_value": float(value * _RATES[target_currency])}
    if target_currency == "USD" and base_currency in _RATES:
        return {"exchanged_value": round(value / _RATES[base_currency], 2)}
    raise ValueError("No available exchange rate for the given currencies.")


@travel.tool
def verify_traveler_information(
    state: TravelState, first_name: str, last_name: str, date_of_birth: str, passport_number: str
) -> Any:
    """Verifies the particulars of the traveller who is logged in.

    Args:
        first_name: First name.
        last_name: Last name.
        date_of_birth: Day of birth, as YYYY-MM-DD.
        passport_number: Number of the passport.
    """
    failure = ""
    if (state.user_first_name, state.user_last_name) != (first_name, last_name):
        names = f"Expected {state.user_first_name} {state.user_last_name}, got {first_name} {last_name}"
        failure = f"Cannot book flight information for another user.{names}"
    else:
        try:
            born, today = _parse_day(date_of_birth), _parse_day(state._today)
        except ValueError:
            failure = "Invalid date of birth format. Please use YYYY-MM-DD."
        else:
            years = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
            if years < _ADULT_YEARS:
                failure = "Traveler must be at least 18 years old."
            elif not passport_number.startswith("US"):
                failure = "Passport must be issued by the United States."
    return {"verification_status": False, "verification_failure": failure} if failure else {"verification_status": True}


@travel.tool
def set_budget_limit(state: TravelState, access_token: str, budget_limit: Number) -> Any:
    """Sets the budget limit.

    Args:
        access_token: Token of the login.
        budget_limit: Limit in USD.
    """
    if refused := state.refusal(access_token):
        return refused
    state.budget_limit = float(budget_limit)
    return {"budget_limit": state.budget_limit}


@travel.tool
def get_nearest_airport_by_city(_: TravelState, location: str) -> Any:
    """Returns the code of the airport nearest to a city.

    Args:
        location: Name of the city.
    """
    return {"nearest_airport": _NEAREST.get(location, "Unknown")}


@travel.tool
def purchase_insurance(
    state: TravelState,
    access_token: str,
    insurance_type: str,
    booking_id: str,
    insurance_cost: Number,
    *,
    card_id: str,
) -> Any:
    """Buys an insurance for a booking.

    Args:
        access_token: Token of the login.
        insurance_type: Kind of insurance.
        booking_id: Identifier of the booking.
        insurance_cost: Price of the insurance.
        card_id: Identifier of the credit card that pays.
    """
    refused = state.refusal(access_token)
    problem = refused["error"] if refused else ""
    if not problem and state.budget_limit is not None and state.budget_limit < insurance_cost:
        problem = "Exceeded budget limit"
    if not problem and booking_id not in state.booking_record:
        problem = "Booking not found"
    if not problem and card_id not in state.credit_card_list:
        problem = "Credit card not registered"
    if problem:
        return {"insurance_status": False, "error": problem}
    state.credit_card_list[card_id]["balance"] -= insurance_cost
    return {"insurance_id": str(state.randint(100000000, 999999999)), "insurance_status": True}


@travel.tool
def contact_customer_support(state: TravelState, booking_id: str, message: str) -> Any:
    """Sends a message to the customer support.

    Args:
        booking_id: Identifier of the booking that it is about.
        message: Text of the message.
    """
    if booking_id not in state.booking_record:
        return {"error": "Booking not found"}
    return {"customer_support_message": _SUPPORT}


@travel.tool
def get_all_credit_cards(state: TravelState) -> Any:
    """Lists all registered credit cards."""
    return {"credit_card_list": state.credit_card_list}
