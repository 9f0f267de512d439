"""Events before a task of tau2-bench's telecom domain, and assertions of its tasks about the end.

Source: tau2-bench (Sierra), `src/tau2/domains/telecom/tools.py` and `user_tools.py`. Importing this module completes
the services of `telecom`; the entry points name it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from assay.environments.services.transaction import Transaction

from .telecom import (
    TODAY,
    WORLD,
    bills,
    customers,
    find_bill,
    find_customer,
    find_line,
    find_line_of,
    find_plan,
    lines,
    load_handset,
    save_handset,
    tau2_telecom,
    tau2_telecom_solo,
    tool,
    transfers,
)
from .telecom_person import declare_plain_tools
from .telecom_phone import Switch
from .telecom_records import Bill, BillId, CustomerId, LineId, LineItem, LineStatus, NetworkStatus, VpnDetails

__all__ = ["tau2_telecom", "tau2_telecom_solo"]

declare_plain_tools()

# What has happened before a task begins.


@tool(WORLD)
def set_data_usage(tx: Transaction, customer_id: CustomerId, line_id: LineId, data_used_gb: float) -> str:
    """Sets how much data a line has used.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
        data_used_gb: Amount in gigabytes.
    """
    line = find_line_of(tx, customer_id, line_id)
    line.data_used_gb = data_used_gb
    lines.save(tx, line)
    return f"Data usage set to {data_used_gb} GB for line {line_id}"


@tool(WORLD)
def suspend_line_for_overdue_bill(
    tx: Transaction,
    customer_id: CustomerId,
    line_id: LineId,
    new_bill_id: str,
    contract_ended: bool,  # noqa: FBT001 - the original's parameter
) -> str:
    """Suspends a line whose bill of the last month was not paid, and adds that bill.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of the line.
        new_bill_id: Identifier of the bill.
        contract_ended: Whether the contract of the line ended with that month.
    """
    line = find_line(tx, line_id)
    tx.require(line.status == "Active", "Line must be active to suspend for unpaid bill", "conflict")
    amount = find_plan(tx, line.plan_id).price_per_month
    tx.require(amount > 0, "Amount must be positive for overdue bill")
    customer = find_customer(tx, customer_id)
    statuses = [find_bill(tx, bill_id).status for bill_id in customer.bill_ids]
    tx.require("Overdue" not in statuses, "Customer already has an overdue bill", "conflict")
    end = TODAY.replace(day=1) - timedelta(days=1)
    start = end.replace(day=1)
    items = [LineItem(f"Charge for line {line_id}", amount, str(TODAY), "Charge")]
    dates = str(start), str(end), str(start)
    due = str(start + timedelta(days=14))
    bills.insert(tx, Bill(new_bill_id, customer_id, *dates, amount, due, items, "Overdue"))
    customer.bill_ids.append(new_bill_id)
    customers.save(tx, customer)
    line.status, line.suspension_start_date = "Suspended", str(TODAY)
    if contract_ended:
        line.contract_end_date = str(end)
    lines.save(tx, line)
    return f"Line {line_id} suspended for unpaid bill {new_bill_id}. Contract ended: {contract_ended}"


@tool(WORLD)
def set_user_info(tx: Transaction, name: str, phone_number: str) -> None:
    """Says who the person is.

    Args:
        name: Full name.
        phone_number: Phone number of their line.
    """
    handset = load_handset(tx)
    handset.around.name, handset.around.phone_number = name, phone_number
    save_handset(tx, handset)


@tool(WORLD)
def set_user_location(tx: Transaction, abroad: bool) -> None:  # noqa: FBT001 - the original's parameter
    """Says where the person is.

    Args:
        abroad: Whether they are abroad.
    """
    handset = load_handset(tx)
    handset.around.is_abroad = abroad
    save_handset(tx, handset)


@tool(WORLD)
def simulate_network_search(tx: Transaction) -> None:
    """Lets the phone look for a network."""
    handset = load_handset(tx)
    handset.search_network()
    save_handset(tx, handset)


def _turn(tx: Transaction, switch: Switch, *, on: bool) -> str:
    """Turns a switch over once, or twice if it was right before, as the original does."""
    handset = load_handset(tx)
    text = handset.toggle(switch)
    if handset.is_on(switch) != on:
        text = handset.toggle(switch)
    save_handset(tx, handset)
    return text


@tool(WORLD)
def turn_airplane_mode_on(tx: Transaction) -> str:
    """Turns Airplane Mode on."""
    return _turn(tx, "airplane_mode", on=True)


@tool(WORLD)
def turn_airplane_mode_off(tx: Transaction) -> str:
    """Turns Airplane Mode off."""
    return _turn(tx, "airplane_mode", on=False)


@tool(WORLD)
def turn_data_off(tx: Transaction) -> str:
    """Turns mobile data off."""
    return _turn(tx, "mobile_data", on=False)


@tool(WORLD)
def turn_roaming_on(tx: Transaction) -> str:
    """Turns data roaming on."""
    return _turn(tx, "data_roaming", on=True)


@tool(WORLD)
def turn_roaming_off(tx: Transaction) -> str:
    """Turns data roaming off."""
    return _turn(tx, "data_roaming", on=False)


@tool(WORLD)
def turn_data_saver_mode_on(tx: Transaction) -> str:
    """Turns Data Saver mode on."""
    return _turn(tx, "data_saver", on=True)


@tool(WORLD)
def set_wifi_calling(tx: Transaction, enabled: bool, mms_over_wifi: bool | None = None) -> None:  # noqa: FBT001
    """Sets Wi-Fi Calling.

    Args:
        enabled: Whether it is on.
        mms_over_wifi: Whether picture messages use Wi-Fi; None leaves that as it is.
    """
    handset = load_handset(tx)
    handset.phone.wifi_calling_enabled = enabled
    if mms_over_wifi is not None:
        handset.phone.wifi_calling_mms_over_wifi = mms_over_wifi
    save_handset(tx, handset)


@tool(WORLD)
def unseat_sim_card(tx: Transaction) -> None:
    """Removes the SIM card."""
    handset = load_handset(tx)
    handset.phone.sim_card_missing = True
    handset.search_network()
    save_handset(tx, handset)


@tool(WORLD)
def lock_sim_card(tx: Transaction, mode: Literal["pin", "puk"]) -> None:
    """Locks the SIM card.

    Args:
        mode: By which code.
    """
    handset = load_handset(tx)
    handset.phone.sim_card_status = "locked_pin" if mode == "pin" else "locked_puk"
    handset.search_network()
    save_handset(tx, handset)


@tool(WORLD)
def break_apn_settings(tx: Transaction) -> None:
    """Breaks the APN settings, so that the network is lost."""
    handset = load_handset(tx)
    handset.phone.active_apn_settings.apn_name = "broken"
    handset.search_network()
    save_handset(tx, handset)


@tool(WORLD)
def break_apn_mms_setting(tx: Transaction) -> None:
    """Removes the address by which picture messages are sent."""
    handset = load_handset(tx)
    handset.phone.active_apn_settings.mmsc_url = None
    save_handset(tx, handset)


@tool(WORLD)
def break_vpn(tx: Transaction) -> None:
    """Connects to a VPN whose server is slow."""
    handset = load_handset(tx)
    phone = handset.phone
    handset.connect_vpn()
    details = phone.vpn_details or VpnDetails()
    details.server_performance = phone.vpn_server = "poor"
    phone.vpn_details = details
    save_handset(tx, handset)


@tool(WORLD)
def remove_app_permission(tx: Transaction, app_name: str, permission: str) -> None:
    """Takes a permission from an app.

    Args:
        app_name: Name of the app.
        permission: Name of the permission.
    """
    handset = load_handset(tx)
    app = handset.phone.app_statuses.get(app_name)
    if app is not None and permission.lower() in app.permissions.__struct_fields__:
        setattr(app.permissions, permission.lower(), False)
    save_handset(tx, handset)


# Assertions of tasks.


@tool(WORLD, reads=True)
def assert_data_refueling_amount(
    tx: Transaction, customer_id: CustomerId, line_id: LineId, expected_amount: float
) -> bool:
    """Returns whether this much data was added to a line.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
        expected_amount: Amount in gigabytes.
    """
    return abs(find_line_of(tx, customer_id, line_id).data_refueling_gb - expected_amount) < 1e-6


@tool(WORLD, reads=True)
def assert_line_status(tx: Transaction, customer_id: CustomerId, line_id: LineId, expected_status: LineStatus) -> bool:
    """Returns whether a line has a status.

    Args:
        customer_id: Identifier of the customer.
        line_id: Identifier of one of the customer's lines.
        expected_status: The status.
    """
    return find_line_of(tx, customer_id, line_id).status == expected_status


@tool(WORLD, reads=True)
def assert_no_overdue_bill(tx: Transaction, overdue_bill_id: BillId) -> bool:
    """Returns whether a bill is paid or does not exist.

    Args:
        overdue_bill_id: Identifier of the bill.
    """
    bill = bills.get(tx, overdue_bill_id)
    return bill is None or bill.status == "Paid"


@tool(WORLD, reads=True)
def was_transferred(tx: Transaction) -> bool:
    """Returns whether the user was handed over to a human agent."""
    return bool(transfers.find(tx))


@tool(WORLD, reads=True)
def assert_service_status(tx: Transaction, expected_status: NetworkStatus) -> bool:
    """Returns whether the connection to the network has a status.

    Args:
        expected_status: The status.
    """
    return load_handset(tx).phone.network_connection_status == expected_status


@tool(WORLD, reads=True)
def assert_mobile_data_status(tx: Transaction, expected_status: bool) -> bool:  # noqa: FBT001
    """Returns whether mobile data works, or does not.

    Args:
        expected_status: Whether it should.
    """
    return load_handset(tx).is_data_working() == expected_status


@tool(WORLD, reads=True)
def assert_internet_speed(tx: Transaction, expected_speed: float, expected_desc: str | None = None) -> bool:
    """Returns whether the mobile internet connection is fast enough.

    Args:
        expected_speed: Least speed in Mbit/s.
        expected_desc: Word for the speed, such as excellent; None for any.
    """
    speed, word = load_handset(tx).measure_speed()
    return (speed or 0.0) >= expected_speed and (expected_desc or word).lower() == word.lower()


@tool(WORLD, reads=True)
def assert_can_send_mms(tx: Transaction, expected_status: bool) -> bool:  # noqa: FBT001
    """Returns whether picture messages can be sent, or cannot.

    Args:
        expected_status: Whether they should.
    """
    return load_handset(tx).can_send_mms() == expected_status
