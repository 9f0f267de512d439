"""The carrier of tau2-bench's telecom domain: customers, lines, plans, bills and the phone of the person who calls.

Source: tau2-bench (Sierra), `src/tau2/domains/telecom/tools.py` and `environment.py`. After each action the carrier's
side and the phone are brought together (`synchronise`), as the original does. The identifier of a new bill depends on
the state, where the original draws one.

`telecom_person` adds what the person can do, and `telecom_setup` what has happened before a task and what tasks assert.
There are two services with the same state. In `tau2telecom` the person holds the phone; in `tau2telecomsolo` the agent
has the phone's tools, too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from blake3 import blake3

from assay.environments.services.declaration import Role, Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

from .databases import (
    DatabaseKnobs,
    InitialCall,
    convert_database,
    read_domain_file,
    require_hash,
    run_initial_call,
    sorted_json,
    tau2_hash,
)
from .telecom_phone import Handset
from .telecom_records import (
    Bill,
    BillId,
    CarrierDatabase,
    Customer,
    CustomerId,
    Device,
    Line,
    LineId,
    LineItem,
    PaymentRequest,
    PersonDatabase,
    Phone,
    Plan,
    Surroundings,
)

F = TypeVar("F", bound=Callable[..., Any])
TODAY: Final = date(2025, 2, 25)
AGENT: Final[tuple[Role, ...]] = ("agent",)
WORLD: Final[tuple[Role, ...]] = ("system",)


class TelecomKnobs(DatabaseKnobs, frozen=True, forbid_unknown_fields=True):
    """Options of the domain."""

    calls: tuple[InitialCall, ...] = ()
    """Events before the task begins."""


tau2_telecom = Service("tau2telecom", "The carrier of tau2-bench.", knobs=TelecomKnobs)
tau2_telecom_solo = Service("tau2telecomsolo", "The carrier of tau2-bench and a customer's phone.", knobs=TelecomKnobs)
BOTH: Final = (tau2_telecom, tau2_telecom_solo)


class Transfer(msgspec.Struct):
    """A hand-over to a human agent; no part of the original's state."""

    id: str
    summary: str


plans = Documents(tau2_telecom, Plan, "plans", ordered=True, also=[tau2_telecom_solo])
customers = Documents(tau2_telecom, Customer, "customers", ordered=True, also=[tau2_telecom_solo])
lines = Documents(tau2_telecom, Line, "lines", ordered=True, also=[tau2_telecom_solo])
bills = Documents(tau2_telecom, Bill, "bills", ordered=True, also=[tau2_telecom_solo])
devices = Documents(tau2_telecom, Device, "devices", ordered=True, also=[tau2_telecom_solo])
phones = Documents(tau2_telecom, Phone, "phones", also=[tau2_telecom_solo])
surroundings = Documents(tau2_telecom, Surroundings, "surroundings", also=[tau2_telecom_solo])
transfers = Documents(tau2_telecom, Transfer, "transfers", judged=False, also=[tau2_telecom_solo])


def tool(
    roles: tuple[Role, ...] = AGENT, *, solo: tuple[Role, ...] | None = None, reads: bool = False
) -> Callable[[F], F]:
    """Declares an action of both services; one that is not a view brings both sides together afterwards.

    Args:
        roles: Who may call it.
        solo: Who may call it where the agent has the phone; default: the same.
        reads: Whether it is a view.
    """

    def declare(function: F) -> F:
        declared: Callable[..., Any] = function if reads else _synchronised(function)
        for service, who in ((tau2_telecom, roles), (tau2_telecom_solo, roles if solo is None else solo)):
            (service.view(roles=who) if reads else service.action(roles=who))(declared)
        return function

    return declare


def _synchronised(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(tx: Transaction, **arguments: Any) -> Any:
        result = function(tx, **arguments)
        synchronise(tx)
        return result

    return run


def load_handset(tx: Transaction) -> Handset:
    """Returns the phone and its surroundings."""
    phone, around = phones.get(tx, "phone"), surroundings.get(tx, "surroundings")
    if phone is None or around is None:
        raise LookupError("the world has no phone")
    return Handset(phone, around)


def save_handset(tx: Transaction, handset: Handset) -> None:
    """Stores what has changed in the phone and its surroundings."""
    phones.save(tx, handset.phone)
    surroundings.save(tx, handset.around)


def synchronise(tx: Transaction) -> None:
    """Brings both sides together: the phone learns of its line, and a payment that was made reaches its bill."""
    handset = load_handset(tx)
    around = handset.around
    if around.phone_number is None:
        return
    line = next(iter(lines.find(tx, phone_number=around.phone_number)), None)
    if line is None:
        _not_found(tx, f"Wrong scenario, line not found for phone number: {around.phone_number}")
    plan = find_plan(tx, line.plan_id)
    around.line_active = line.status == "Active"
    around.roaming_allowed = line.roaming_enabled
    around.mobile_data_usage_exceeded = line.data_used_gb >= plan.data_limit_gb + line.data_refueling_gb
    if around.payment_request is not None and around.payment_request.paid:
        paid = find_bill(tx, around.payment_request.bill_id)
        paid.status = "Paid"
        bills.save(tx, paid)
        around.payment_request = None
    if around.payment_request is None:
        for bill in _awaiting(tx, get_customer_by_phone(tx, around.phone_number))[:1]:
            around.payment_request = PaymentRequest(bill.bill_id, bill.total_due)
    save_handset(tx, handset)


def load_world(make: Generator, knobs: TelecomKnobs) -> None:
    """Fills the tables from the files of the domain, and makes the calls that precede the task."""
    carrier = convert_database(read_domain_file(knobs.data, "telecom", "db.toml"), CarrierDatabase)
    person = convert_database(read_domain_file(knobs.data, "telecom", "user_db.toml"), PersonDatabase)
    plans.fill(make, carrier.plans)
    customers.fill(make, carrier.customers)
    lines.fill(make, carrier.lines)
    bills.fill(make, carrier.bills)
    devices.fill(make, carrier.devices)
    phones.fill(make, [person.device])
    surroundings.fill(make, [person.surroundings])
    require_hash(make, knobs, database_hash)
    for call in knobs.calls:
        run_initial_call(make, tau2_telecom, call)
        synchronise(make)


for _service in BOTH:
    _service.generator(load_world)


@tool(WORLD, reads=True)
def database_hash(tx: Transaction) -> str:
    """Returns the hash of the carrier's side as tau2-bench computes it."""
    tables = {"plans": plans, "customers": customers, "lines": lines, "bills": bills, "devices": devices}
    listed = {name: f"[{', '.join(table.render(tx, sorted_json).values())}]" for name, table in tables.items()}  # type: ignore[attr-defined]
    return tau2_hash(listed)


@tool(WORLD, reads=True)
def person_hash(tx: Transaction) -> str:
    """Returns the hash of the person's side as tau2-bench computes it."""
    handset = load_handset(tx)
    content = {"device": msgspec.to_builtins(handset.phone), "surroundings": msgspec.to_builtins(handset.around)}
    for part, name in (("device", "id"), ("device", "vpn_server"), ("surroundings", "id")):
        del content[part][name]
    return tau2_hash({name: sorted_json(part) for name, part in content.items()})


# Look-ups.


def _not_found(tx: Transaction, message: str) -> NoReturn:
    tx.refuse(message, "not_found")


def find_customer(tx: Transaction, customer_id: str) -> Customer:
    return customers.get(tx, customer_id) or _not_found(tx, f"Customer with ID {customer_id} not found")


def find_line(tx: Transaction, line_id: str) -> Line:
    return lines.get(tx, line_id) or _not_found(tx, f"Line with ID {line_id} not found")


def find_plan(tx: Transaction, plan_id: str) -> Plan:
    return plans.get(tx, plan_id) or _not_found(tx, f"Plan with ID {plan_id} not found")


def find_bill(tx: Transaction, bill_id: str) -> Bill:
    return bills.get(tx, bill_id) or _not_found(tx, f"Bill with ID {bill_id} not found")


def find_line_of(tx: Transaction, customer_id: str, line_id: str) -> Line:
    if line_id not in find_customer(tx, customer_id).line_ids:
        _not_found(tx, f"Line {line_id} not found for customer {customer_id}")
    return find_line(tx, line_id)


def _awaiting(tx: Transaction, customer: Customer) -> list[Bill]:
    found = [find_bill(tx, bill_id) for bill_id in customer.bill_ids]
    return [bill for bill in found if bill.status == "Awaiting Payment"]


@tool(reads=True)
def get_customer_by_phone(tx: Transaction, phone_number: str) -> Customer:
    """Returns the customer with a phone number, of their contact or of one of their lines.

    Args:
        phone_number: Phone number, such as 555-123-2002.
    """
    for customer in customers.find(tx):
        numbers = [find_line(tx, line_id).phone_number for line_id in customer.line_ids]
        if phone_number in (customer.phone_number, *numbers):
            return customer
    _not_found(tx, f"Customer with phone number {phone_number} not found")


@tool(reads=True)
def get_customer_by_id(tx: Transaction, customer_id: CustomerId) -> Customer:
    """Returns a customer.

    Args:
        customer_id: Identifier of the customer.
    """
    return find_customer(tx, customer_id)


@tool(reads=True)
def get_customer_by_name(tx: Transaction, full_name: str, dob: str) -> list[Customer]:
    """Returns the customers with a name and day of birth.

    Args:
        full_name: Full name, in upper or lower case.
        dob: Day of birth as YYYY-MM-DD.
    """
    found = customers.find(tx, date_of_birth=dob)
    return [customer for customer in found if customer.full_name.lower() == full_name.lower()]


@tool(reads=True)
def get_details_by_id(
    tx: Transaction,
    id: str,
) -> Line | Device | Bill | Customer | Plan:
    """Returns the customer, line, device, bill or plan with an identifier.

    Args:
        id: Identifier, which begins with C, L, D, B or P.
    """
    if id.startswith("L"):
        return find_line(tx, id)
    if id.startswith("D"):
        return devices.get(tx, id) or _not_found(tx, f"Device with ID {id} not found")
    if id.startswith("B"):
        return find_bill(tx, id)
    if id.startswith("C"):
        return find_customer(tx, id)
    if id.startswith("P"):
        return find_plan(tx, id)
    tx.refuse(f"Unknown ID format or type: {id}")


@tool(reads=True)
def get_bills_for_customer(tx: Transaction, customer_id: CustomerId, limit: int = 12) -> list[Bill]:
    """Returns a customer's bills, the newest first.

    Args:
        customer_id: Identifier of the customer.
        limit: Maximum number of bills.
    """
    found = [find_bill(tx, bill_id) for bill_id in find_customer(tx, customer_id).bill_ids]
    return sorted(found, key=lambda bill: bill.issue_date, reverse=True)[:limit]


@tool(reads=True)
def get_data_usage(tx: Transaction, customer_id: CustomerId, line_id: LineId) -> dict[str, str]:
    """Returns what a line has used of its data in this billing cycle.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
    """
    line = find_line_of(tx, customer_id, line_id)
    return {
        "line_id": line_id,
        "data_used_gb": str(line.data_used_gb),
        "data_limit_gb": str(find_plan(tx, line.plan_id).data_limit_gb),
        "data_refueling_gb": str(line.data_refueling_gb),
        "cycle_end_date": str(_first_of_next_month() - timedelta(days=1)),
    }


def _first_of_next_month(start: date = TODAY) -> date:
    return (start.replace(day=1) + timedelta(days=32)).replace(day=1)


# What the carrier does.


@tool()
def suspend_line(tx: Transaction, customer_id: CustomerId, line_id: LineId, reason: str) -> dict[str, str | Line]:
    """Suspends an active line, for at most six months.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
        reason: Why.
    """
    line = find_line_of(tx, customer_id, line_id)
    tx.require(line.status == "Active", "Line must be active to suspend", "conflict")
    line.status, line.suspension_start_date = "Suspended", str(TODAY)
    lines.save(tx, line)
    return {"message": "Line suspended successfully. $5/month holding fee will apply.", "line": line}


@tool()
def resume_line(tx: Transaction, customer_id: CustomerId, line_id: LineId) -> dict[str, str | Line]:
    """Resumes a line that is suspended or waits for its activation.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
    """
    line = find_line_of(tx, customer_id, line_id)
    tx.require(line.status in ("Suspended", "Pending Activation"), "Line must be suspended to resume", "conflict")
    line.status, line.suspension_start_date = "Active", None
    lines.save(tx, line)
    return {"message": "Line resumed successfully", "line": line}


@tool()
def send_payment_request(tx: Transaction, customer_id: CustomerId, bill_id: BillId) -> str:
    """Asks a customer to pay a bill. At most one bill of a customer awaits payment; look at its status before.

    Args:
        customer_id: Identifier of the customer.
        bill_id: Identifier of one of the customer's bills.
    """
    customer = find_customer(tx, customer_id)
    tx.require(not _awaiting(tx, customer), "A bill is already awaiting payment for this customer", "conflict")
    if bill_id not in customer.bill_ids:
        _not_found(tx, f"Bill {bill_id} not found for customer {customer_id}")
    bill = find_bill(tx, bill_id)
    bill.status = "Awaiting Payment"
    bills.save(tx, bill)
    return f"Payment request sent to the customer for bill {bill.bill_id}"


@tool()
def enable_roaming(tx: Transaction, customer_id: CustomerId, line_id: LineId) -> str:
    """Allows a line to roam abroad.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
    """
    line = find_line_of(tx, customer_id, line_id)
    if line.roaming_enabled:
        return "Roaming was already enabled"
    line.roaming_enabled = True
    lines.save(tx, line)
    return "Roaming enabled successfully"


@tool()
def disable_roaming(tx: Transaction, customer_id: CustomerId, line_id: LineId) -> str:
    """Forbids a line to roam abroad.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
    """
    line = find_line_of(tx, customer_id, line_id)
    if not line.roaming_enabled:
        return "Roaming was already disabled"
    line.roaming_enabled = False
    lines.save(tx, line)
    return "Roaming disabled successfully"


@tool()
def refuel_data(tx: Transaction, customer_id: CustomerId, line_id: LineId, gb_amount: int | float) -> dict[str, str]:
    """Adds data to a line, and its price to the customer's next bill.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
        gb_amount: Amount of data in gigabytes.
    """
    line = find_line_of(tx, customer_id, line_id)
    tx.require(gb_amount > 0, "Refuel amount must be positive")
    price = find_plan(tx, line.plan_id).data_refueling_price_per_gb
    charge = gb_amount * price
    line.data_refueling_gb += gb_amount
    lines.save(tx, line)
    _charge(tx, customer_id, charge, f"Data refueling: {gb_amount} GB at ${price}/GB")
    return {
        "message": f"Successfully added {gb_amount} GB of data for line {line_id} for ${charge:.2f}",
        "new_data_refueling_gb": str(line.data_refueling_gb),
        "charge": str(charge),
    }


def _charge(tx: Transaction, customer_id: str, amount: float, description: str) -> None:
    """Adds an amount to the customer's next bill, which is made for who has none."""
    customer = find_customer(tx, customer_id)
    known = (find_bill(tx, bill_id) for bill_id in customer.bill_ids)
    bill = next((bill for bill in known if bill.status == "Draft"), None)
    if bill is None:
        start = _first_of_next_month()
        end = _first_of_next_month(start) - timedelta(days=1)
        number = blake3(f"{customer_id}/{len(bills.find(tx))}".encode()).hexdigest()[:8]
        dates = str(start), str(end), str(start)
        bill = Bill(f"B{number}", customer_id, *dates, 0.0, str(start + timedelta(days=14)))
        bills.insert(tx, bill)
        customer.bill_ids.append(bill.bill_id)
        customers.save(tx, customer)
    bill.line_items.append(LineItem(description, amount, str(TODAY), "Credit" if amount < 0 else "Charge"))
    bill.total_due += amount
    bills.save(tx, bill)


@tool()
def transfer_to_human_agents(tx: Transaction, summary: str) -> str:
    """Hands the user over to a human agent, if they ask for one or if policy and tools do not allow what they want.

    Args:
        summary: What the user wants.
    """
    transfers.insert(tx, Transfer(f"{len(transfers.find(tx)):04}", summary))
    return "Transfer successful"
