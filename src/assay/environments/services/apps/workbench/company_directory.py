"""Directory of WorkBench's company: its people's email addresses.

Source: WorkBench, `src/tools/company_directory.py`.
"""

from __future__ import annotations

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.transaction import Generator, Transaction

from .frames import WorkBenchKnobs, read_database, require_text, start_clock

workbench_directory = Service("workbenchdirectory", "The directory of WorkBench's company.", knobs=WorkBenchKnobs)


@workbench_directory.table("addresses", judged=False)
class Address(msgspec.Struct, frozen=True):
    """An email address, by its place in the directory."""

    position: int
    email_address: str


@workbench_directory.generator
def _load(make: Generator, knobs: WorkBenchKnobs) -> None:
    table = read_database(knobs, "email_addresses.csv", ["email_address"], has_header=False)
    make.insert_all([Address(number, address or "") for number, (address,) in enumerate(table)])
    start_clock(make)


@workbench_directory.view()
def find_email_address(tx: Transaction, name: str = "") -> list[str]:
    """Returns the email addresses of employees that contain a name.

    Args:
        name: First or last name, in lower or upper case.
    """
    text = require_text(tx, name, "Name not provided.").lower()
    return [address.email_address for address in tx.find(Address) if text in address.email_address]
