"""What the person can do with their phone in tau2-bench's telecom domain, and what tasks assert about the phone.

Source: tau2-bench (Sierra), `src/tau2/domains/telecom/user_tools.py`. Importing this module completes the services of
`telecom`; the entry points name it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from assay.environments.services.declaration import Role
from assay.environments.services.transaction import Transaction

from .telecom import WORLD, load_handset, save_handset, tau2_telecom, tau2_telecom_solo, tool
from .telecom_phone import Handset, Switch
from .telecom_records import ApnSettings, NetworkStatus, VpnDetails

__all__ = ["tau2_telecom", "tau2_telecom_solo"]

PERSON: Final[tuple[Role, ...]] = ("user",)
SOLO: Final[tuple[Role, ...]] = ("agent",)

_SCREENS: Final[dict[str, tuple[Callable[[Handset], str], str]]] = {
    "check_status_bar": (Handset.check_status_bar, "Shows the status bar: signal, network, data, Wi-Fi and battery."),
    "check_network_status": (Handset.check_network_status, "Shows how the phone is connected to networks."),
    "check_network_mode_preference": (Handset.check_network_mode_preference, "Shows the preferred network mode."),
    "run_speed_test": (Handset.run_speed_test, "Measures the speed of the mobile internet connection."),
    "check_sim_status": (Handset.check_sim_status, "Shows whether the SIM card works, is missing or is locked."),
    "check_data_restriction_status": (
        Handset.check_data_restriction_status,
        "Shows whether Data Saver mode limits the use of data.",
    ),
    "check_apn_settings": (
        Handset.check_apn_settings,
        "Shows the APN settings, by which the phone reaches the network.",
    ),
    "check_wifi_status": (
        Handset.check_wifi_status,
        "Shows whether Wi-Fi is on, and which network it is connected to.",
    ),
    "check_wifi_calling_status": (Handset.check_wifi_calling_status, "Shows whether Wi-Fi Calling is on."),
    "check_vpn_status": (Handset.check_vpn_status, "Shows whether a VPN is connected."),
    "check_installed_apps": (Handset.check_installed_apps, "Shows which apps are installed."),
    "can_send_mms": (Handset.report_mms, "Shows whether the messaging app can send picture messages (MMS)."),
    "check_payment_request": (Handset.check_payment_request, "Shows whether the carrier asks for a payment."),
}
_ACTS: Final[dict[str, tuple[Callable[[Handset], str], str]]] = {
    "toggle_airplane_mode": (lambda handset: handset.toggle("airplane_mode"), "Turns Airplane Mode on or off."),
    "toggle_data": (lambda handset: handset.toggle("mobile_data"), "Turns mobile data on or off."),
    "toggle_roaming": (lambda handset: handset.toggle("data_roaming"), "Turns data roaming on or off."),
    "toggle_data_saver_mode": (lambda handset: handset.toggle("data_saver"), "Turns Data Saver mode on or off."),
    "toggle_wifi": (lambda handset: handset.toggle("wifi"), "Turns Wi-Fi on or off."),
    "toggle_wifi_calling": (lambda handset: handset.toggle("wifi_calling"), "Turns Wi-Fi Calling on or off."),
    "reseat_sim_card": (Handset.reseat_sim_card, "Removes the SIM card and puts it in again."),
    "reset_apn_settings": (Handset.reset_apn_settings, "Resets the APN settings at the next restart."),
    "connect_vpn": (Handset.connect_vpn, "Connects to a VPN."),
    "disconnect_vpn": (Handset.disconnect_vpn, "Disconnects the VPN."),
    "reboot_device": (Handset.reboot_device, "Restarts the phone."),
    "make_payment": (Handset.make_payment, "Pays the bill for which the carrier asked."),
}


def _declare(name: str, method: Callable[[Handset], str], description: str, *, reads: bool) -> None:
    def run(tx: Transaction) -> str:
        handset = load_handset(tx)
        text = method(handset)
        if not reads:
            save_handset(tx, handset)
        return text

    run.__name__, run.__doc__ = name, description
    tool(PERSON, solo=SOLO, reads=reads)(run)


for _name, (_method, _description) in _SCREENS.items():
    _declare(_name, _method, _description, reads=True)
for _name, (_method, _description) in _ACTS.items():
    _declare(_name, _method, _description, reads=False)


def _do(tx: Transaction, method: Callable[..., str], *arguments: Any) -> str:
    handset = load_handset(tx)
    text = method(handset, *arguments)
    save_handset(tx, handset)
    return text


@tool(PERSON, solo=SOLO, reads=True)
def check_app_status(tx: Transaction, app_name: str) -> str:
    """Shows an app with its permissions.

    Args:
        app_name: Name of the app, such as messaging.
    """
    return load_handset(tx).check_app_status(app_name)


@tool(PERSON, solo=SOLO, reads=True)
def check_app_permissions(tx: Transaction, app_name: str) -> str:
    """Shows which permissions an app has.

    Args:
        app_name: Name of the app, such as messaging.
    """
    return load_handset(tx).check_app_permissions(app_name)


@tool(PERSON, solo=SOLO)
def grant_app_permission(tx: Transaction, app_name: str, permission: str) -> str:
    """Gives a permission to an app.

    Args:
        app_name: Name of the app, such as messaging.
        permission: Name of the permission, such as storage.
    """
    return _do(tx, Handset.grant_permission, app_name, permission)


@tool(PERSON, solo=SOLO)
def set_network_mode_preference(tx: Transaction, mode: str) -> str:
    """Chooses which mobile networks the phone prefers.

    Args:
        mode: `4g_5g_preferred`, `4g_only`, `3g_only` or `2g_only`.
    """
    return _do(tx, Handset.prefer_mode, mode)


@tool(PERSON, solo=SOLO)
def set_apn_settings(tx: Transaction, apn_settings: ApnSettings) -> str:
    """Sets the APN settings.

    Args:
        apn_settings: The settings.
    """
    return _do(tx, Handset.set_apn, apn_settings)


@tool(PERSON, solo=WORLD)
def turn_switch(tx: Transaction, switch: Switch, on: bool) -> str:  # noqa: FBT001 - an argument of a tool
    """Turns a switch on or off, whatever it was; a person does so where the original's simulated one thinks.

    Args:
        switch: The switch.
        on: Whether it is on then.
    """
    handset = load_handset(tx)
    if handset.is_on(switch) == on:
        return f"It is already {'on' if on else 'off'}."
    return _do(tx, Handset.toggle, switch)


# What has happened before a task begins.


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
    """Breaks the APN settings, so that there is no network."""
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


# Assertions of tasks about the phone.


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
