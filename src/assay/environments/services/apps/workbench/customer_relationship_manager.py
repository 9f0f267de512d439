"""Customer records of WorkBench.

Source: WorkBench, `src/tools/customer_relationship_manager.py`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction

from .frames import SHOWN, Frame, Record, WorkBenchKnobs, contains, require_text

CustomerId = Annotated[str, identifier("customer record", description="8-digit identifier of the customer")]

_STATUSES: Final = ("Qualified", "Won", "Lost", "Lead", "Proposal")
_PRODUCTS: Final = ("Software", "Hardware", "Services", "Consulting", "Training")

workbench_customers = Service("workbenchcustomers", "The customer records of WorkBench.", knobs=WorkBenchKnobs)


class Customer(msgspec.Struct, frozen=True):
    position: int
    customer_id: CustomerId
    assigned_to_email: str | None
    customer_name: str | None
    customer_email: str | None
    customer_phone: str | None
    last_contact_date: str | None
    product_interest: str | None
    status: str | None
    follow_up_by: str | None
    notes: str | None


_customers = Frame(
    workbench_customers,
    Customer,
    "customers",
    identifier="customer_id",
    file="customer_relationship_manager_data.csv",
)


@workbench_customers.generator
def _load(make: Generator, knobs: WorkBenchKnobs) -> None:
    _customers.fill(make, knobs)


@workbench_customers.view()
def search_customers(
    tx: Transaction,
    *,
    customer_name: str | None = None,
    customer_email: str | None = None,
    product_interest: str | None = None,
    status: str | None = None,
    assigned_to_email: str | None = None,
    last_contact_date_min: str | None = None,
    last_contact_date_max: str | None = None,
    follow_up_by_min: str | None = None,
    follow_up_by_max: str | None = None,
) -> list[Record]:
    """Returns the first 5 customers that fulfil all conditions; at least one is needed.

    Args:
        customer_name: Text that the name contains.
        customer_email: Text that the email address contains.
        product_interest: Text that the product of interest contains.
        status: Text that the status contains.
        assigned_to_email: Text that the email address of the person in charge contains.
        last_contact_date_min: Earliest date of the last contact, as YYYY-MM-DD.
        last_contact_date_max: Latest date of the last contact, as YYYY-MM-DD.
        follow_up_by_min: Earliest date of the next contact, as YYYY-MM-DD.
        follow_up_by_max: Latest date of the next contact, as YYYY-MM-DD.
    """
    parts = {
        "customer_name": customer_name,
        "customer_email": customer_email,
        "product_interest": product_interest,
        "status": status,
        "assigned_to_email": assigned_to_email,
    }
    ranges = {
        "last_contact_date": (last_contact_date_min, last_contact_date_max),
        "follow_up_by": (follow_up_by_min, follow_up_by_max),
    }
    is_limited = any(parts.values()) or any(limit for limits in ranges.values() for limit in limits)
    tx.require(is_limited, "No search parameters provided. Please provide at least one parameter.")
    found = [
        _customers.record(customer)
        for customer in _customers.rows(tx)
        if all(contains(getattr(customer, field), text) for field, text in parts.items() if text)
        and all(_is_between(getattr(customer, field), *limits) for field, limits in ranges.items())
    ]
    return found[:SHOWN]


@workbench_customers.action()
def update_customer(
    tx: Transaction, customer_id: CustomerId | None = None, field: str | None = None, new_value: str | None = None
) -> str:
    """Changes a field of a customer.

    Args:
        customer_id: 8-digit identifier of the customer.
        field: customer_name, assigned_to_email, customer_email, customer_phone, last_contact_date, product_interest,
            status, notes or follow_up_by.
        new_value: New value of the field.
    """
    customer_id, field, new_value = (
        require_text(tx, text, "Customer ID, field, or new value not provided.")
        for text in (customer_id, field, new_value)
    )
    if field == "status":
        message = "Status not valid. Please choose from: 'Qualified', 'Won', 'Lost', 'Lead', 'Proposal'"
        tx.require(new_value in _STATUSES, message)
    if field == "product_interest":
        tx.require(
            new_value in _PRODUCTS,
            "Product interest not valid. Please choose from: 'Software', 'Hardware', 'Services', 'Consulting', "
            "'Training'",
        )
    if field in ("customer_email", "assigned_to_email"):
        new_value = new_value.lower()
    customers = _customers.with_identifier(tx, customer_id)
    tx.require(customers, "Customer not found.", "not_found")
    tx.require(
        field in _customers.columns,
        "Field not valid. Please choose from: 'customer_name', 'assigned_to_email', 'customer_email', "
        "'customer_phone', 'last_contact_date', 'product_interest', 'status', 'notes', 'follow_up_by'",
    )
    _customers.update(tx, customers, field, new_value)
    return "Customer updated successfully."


@workbench_customers.action()
def add_customer(
    tx: Transaction,
    *,
    customer_name: str | None = None,
    assigned_to_email: str | None = None,
    status: str | None = None,
    customer_email: str | None = None,
    customer_phone: str | None = None,
    last_contact_date: str | None = None,
    product_interest: str | None = None,
    notes: str | None = "",
    follow_up_by: str | None = None,
) -> str:
    """Adds a customer and returns the identifier. Name, person in charge and status are needed.

    Args:
        customer_name: Name of the customer.
        assigned_to_email: Email address of the person in charge.
        status: Qualified, Won, Lost, Lead or Proposal.
        customer_email: Email address of the customer.
        customer_phone: Telephone number of the customer.
        last_contact_date: Date of the last contact, as YYYY-MM-DD.
        product_interest: Software, Hardware, Services, Consulting or Training.
        notes: Notes about the customer.
        follow_up_by: Date of the next contact, as YYYY-MM-DD.
    """
    name, person, state = (
        require_text(tx, text, "Please provide all required fields: customer_name, assigned_to_email, status.")
        for text in (customer_name, assigned_to_email, status)
    )
    customer_id = _customers.next_identifier(tx, 8)
    _customers.append_relabelled(
        tx,
        customer_id=customer_id,
        assigned_to_email=person.lower(),
        customer_name=name,
        customer_email=customer_email.lower() if customer_email else customer_email,
        customer_phone=customer_phone,
        last_contact_date=last_contact_date,
        product_interest=product_interest,
        status=state,
        follow_up_by=follow_up_by,
        notes=notes,
    )
    return customer_id


@workbench_customers.action()
def delete_customer(tx: Transaction, customer_id: CustomerId | None = None) -> str:
    """Deletes a customer.

    Args:
        customer_id: 8-digit identifier of the customer.
    """
    customer_id = require_text(tx, customer_id, "Customer ID not provided.")
    customers = _customers.with_identifier(tx, customer_id)
    tx.require(customers, "Customer not found.", "not_found")
    _customers.remove(tx, customers)
    return "Customer deleted successfully."


def _is_between(value: str | None, first: str | None, last: str | None) -> bool:
    """Compares dates as texts. A customer without a date is in no range that has a limit."""
    if value is None:
        return not (first or last)
    return (not first or value >= first) and (not last or value <= last)
