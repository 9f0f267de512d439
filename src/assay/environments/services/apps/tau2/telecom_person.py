"""Actions of the person with their phone in tau2-bench's telecom domain.

Source: tau2-bench (Sierra), `src/tau2/domains/telecom/user_tools.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from assay.environments.services.declaration import Role
from assay.environments.services.transaction import Transaction

from .telecom import WORLD, load_handset, save_handset, tool
from .telecom_phone import Handset, Switch
from .telecom_records import ApnSettings

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


def declare_plain_tools() -> None:
    """Declares the tools without arguments: what screens show, and what buttons do."""
    for name, (method, description) in _SCREENS.items():
        _declare(name, method, description, reads=True)
    for name, (method, description) in _ACTS.items():
        _declare(name, method, description, reads=False)


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
