"""The phone of tau2-bench's telecom domain: what its switches do, and what its screens show.

Source: tau2-bench (Sierra), `src/tau2/domains/telecom/user_tools.py`. A `Handset` is the phone and its surroundings in
memory; the actions of the service load and store it.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from .telecom_records import ApnSettings, ModePreference, Phone, Signal, Surroundings, Technology, VpnDetails

Switch = Literal["airplane_mode", "mobile_data", "data_roaming", "data_saver", "wifi", "wifi_calling"]

_BARS: Final[dict[Signal, str]] = {
    "none": "📵 No Signal",
    "poor": "📶¹ Poor",
    "fair": "📶² Fair",
    "good": "📶³ Good",
    "excellent": "📶⁴ Excellent",
}
_MBPS: Final[dict[Technology, tuple[float, float]]] = {
    "none": (0.0, 0.0),
    "2G": (0.1, 0.4),
    "3G": (1.0, 5.0),
    "4G": (10.0, 100.0),
    "5G": (50.0, 500.0),
}
"""Range of speeds of each technology."""
_SIGNAL_FACTORS: Final[dict[Signal, float]] = {"none": 0.0, "poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
_SLOW_VPN, _DATA_SAVER = 0.1, 0.2
_ADVICE: Final = {
    "Very Poor": "Connection is very slow. Basic web browsing might be difficult.",
    "Poor": "Connection is slow. Web browsing may be sluggish, streaming difficult.",
    "Fair": "Connection is okay for web browsing and some standard definition streaming.",
    "Good": "Connection is good for most activities, including HD streaming.",
    "Excellent": "Connection is very fast.",
}
_TECHNOLOGIES: Final[dict[ModePreference, Technology]] = {"4g_only": "4G", "3g_only": "3G", "2g_only": "2G"}
_SIM_TEXTS: Final = {
    "active": "Your SIM card is active and working.",
    "missing": "No SIM card detected in the phone.",
    "locked_pin": "The SIM card is locked with a PIN code.",
    "locked_puk": "The SIM card is locked with a PUK code.",
}


class Handset:
    """A phone and its surroundings."""

    def __init__(self, phone: Phone, around: Surroundings) -> None:
        self.phone = phone
        self.around = around

    # Network.

    @property
    def sim_status(self) -> str:
        return "missing" if self.phone.sim_card_missing else self.phone.sim_card_status

    def search_network(self) -> None:
        """Connects to the network that SIM card, preference and surroundings allow, or to none."""
        phone = self.phone
        blocked = (
            self.sim_status != "active"
            or phone.airplane_mode
            or phone.active_apn_settings.apn_name == "broken"
            or not self.around.line_active
        )
        if blocked:
            phone.network_connection_status = "no_service"
            phone.network_technology_connected, phone.network_signal_strength = "none", "none"
            return
        signals = self.around.signal_strength
        technology = _TECHNOLOGIES.get(phone.network_mode_preference)
        if technology is None:
            technology = "4G" if signals.get("5G", "none") == "none" else "5G"
        phone.network_connection_status = "connected"
        phone.network_technology_connected = technology
        phone.network_signal_strength = signals.get(technology, "none")

    def is_data_working(self) -> bool:
        phone, around = self.phone, self.around
        if phone.airplane_mode or phone.network_signal_strength == "none":
            return False
        if phone.network_connection_status == "no_service":
            return False
        if around.is_abroad and not (phone.roaming_enabled and around.roaming_allowed):
            return False
        return phone.data_enabled and not around.mobile_data_usage_exceeded

    def measure_speed(self) -> tuple[float | None, str]:
        """Returns the speed in Mbit/s, or None without a connection, and a word for it."""
        phone = self.phone
        if not self.is_data_working():
            return None, "No Connection"
        factor = 1.0
        if phone.vpn_connected and phone.vpn_details and phone.vpn_details.server_performance == "poor":
            factor = _SLOW_VPN
        if phone.data_saver_mode:
            factor *= _DATA_SAVER
        low, high = _MBPS[phone.network_technology_connected]
        speed = round((low + high) / 2.0 * _SIGNAL_FACTORS[phone.network_signal_strength] * factor, 2)
        words = ((1, "Very Poor"), (5, "Poor"), (25, "Fair"), (100, "Good"))
        return speed, next((word for limit, word in words if speed < limit), "Excellent")

    def can_send_mms(self) -> bool:
        phone = self.phone
        app = phone.app_statuses.get("messaging")
        return (
            self.is_data_working()
            and phone.network_technology_connected != "2G"
            and not (phone.wifi_calling_enabled and phone.wifi_calling_mms_over_wifi)
            and phone.active_apn_settings.mmsc_url is not None
            and app is not None
            and app.permissions.storage
            and app.permissions.sms
        )

    # Switches.

    def is_on(self, switch: Switch) -> bool:
        phone = self.phone
        states = {
            "airplane_mode": phone.airplane_mode,
            "mobile_data": phone.data_enabled,
            "data_roaming": phone.roaming_enabled,
            "data_saver": phone.data_saver_mode,
            "wifi": phone.wifi_enabled,
            "wifi_calling": phone.wifi_calling_enabled,
        }
        return states[switch]

    def toggle(self, switch: Switch) -> str:
        """Turns a switch over, and returns what the screen says."""
        phone = self.phone
        on = not self.is_on(switch)
        if switch == "airplane_mode":
            self._toggle_airplane_mode(on=on)
            return self._with_bar(f"Airplane Mode is now {_on(on)}.")
        if switch == "mobile_data":
            phone.data_enabled = on
            self.search_network()
            return self._with_bar(f"Mobile Data is now {_on(on)}.")
        if switch == "data_roaming":
            phone.roaming_enabled = on
            self.search_network()
            return self._with_bar(f"Data Roaming is now {_on(on)}.")
        if switch == "data_saver":
            phone.data_saver_mode = on
            return self._with_bar(f"Data Saver Mode is now {_on(on)}.")
        if switch == "wifi_calling":
            phone.wifi_calling_enabled = on
            return self._with_bar(f"Wi-Fi Calling is now {_on(on)}.")
        if phone.airplane_mode:
            return self._with_bar("Cannot change Wi-Fi settings while Airplane Mode is ON.")
        phone.wifi_enabled = on
        if not on:
            self._leave_wifi()
        return self._with_bar(f"Wi-Fi is now {_on(on)}.")

    def _toggle_airplane_mode(self, *, on: bool) -> None:
        phone = self.phone
        phone.airplane_mode = on
        if on or phone.wifi_enabled:
            self._leave_wifi()
        if on:
            self.disconnect_vpn()
        self.search_network()

    def _leave_wifi(self) -> None:
        self.phone.wifi_connected, self.phone.wifi_ssid, self.phone.wifi_signal_strength = False, None, "none"

    def prefer_mode(self, mode: str) -> str:
        known = get_args(ModePreference)
        if mode not in known:
            text = f"Failed to set network mode: '{mode}' is not a valid option. Please use one of: {', '.join(known)}"
            return self._with_bar(text)
        self.phone.network_mode_preference = msgspec.convert(mode, ModePreference)
        self.search_network()
        return self._with_bar(f"Preferred Network Mode set to: {mode}")

    def reseat_sim_card(self) -> str:
        self.phone.sim_card_missing = False
        self.search_network()
        return self._with_bar("SIM card re-seated successfully.")

    def set_apn(self, settings: ApnSettings) -> str:
        self.phone.active_apn_settings = settings
        self.search_network()
        return self._with_bar(f"APN settings set to: {settings.apn_name}")

    def reset_apn_settings(self) -> str:
        self.phone.active_apn_settings.reset_at_reboot = True
        self.search_network()
        return self._with_bar("APN settings will reset at reboot.")

    def reboot_device(self) -> str:
        lines = []
        if self.phone.active_apn_settings.reset_at_reboot:
            lines.append("Resetting APN settings...")
            self.phone.active_apn_settings = ApnSettings()
        self.search_network()
        return self._with_bar("\n".join([*lines, "Restarting network services..."]))

    def connect_vpn(self) -> str:
        phone = self.phone
        if phone.vpn_connected:
            return "VPN already connected."
        phone.vpn_connected = True
        phone.vpn_details = VpnDetails("192.168.1.1", "OpenVPN", phone.vpn_server)
        return self._with_bar("VPN connected successfully.")

    def disconnect_vpn(self) -> str:
        phone = self.phone
        if not phone.vpn_connected:
            return self._with_bar("No active VPN connection to disconnect.")
        phone.vpn_connected, phone.vpn_details = False, None
        return self._with_bar("VPN disconnected successfully.")

    def grant_permission(self, app_name: str, permission: str) -> str:
        app, permission = self.phone.app_statuses.get(app_name), permission.lower()
        if app is None:
            return self._with_bar(f"Error. App '{app_name}' not found. Cannot grant permission.")
        known = list(app.permissions.__struct_fields__)
        if permission not in known:
            text = f"Permission '{permission}' not tracked for app '{app_name}', available permissions: {known}"
            return self._with_bar(f"Error. {text}")
        setattr(app.permissions, permission, True)
        return self._with_bar(f"Success. Permission '{permission}' granted to app '{app_name}'.")

    # Screens.

    def _with_bar(self, text: str) -> str:
        return f"{text}\nStatus Bar: {self._status_bar()}"

    def _status_bar(self) -> str:
        phone = self.phone
        if phone.airplane_mode:
            shown = ["✈️ Airplane Mode"]
        else:
            shown = [_BARS[phone.network_signal_strength]]
            connected = phone.network_technology_connected != "none"
            shown += [phone.network_technology_connected] if connected else []
            if phone.data_enabled and connected:
                shown += ["📱 Data Enabled", *(["🔽 Data Saver"] if phone.data_saver_mode else [])]
            else:
                shown.append("📵 Data Disabled")
        if phone.wifi_enabled and phone.wifi_connected:
            shown.append(f"📡 Connected to {phone.wifi_ssid}" if phone.wifi_ssid else "📡 Enabled")
        if phone.vpn_connected:
            shown.append("🔒 VPN Connected")
        return " | ".join([*shown, f"🔋 {phone.battery_level}%"])

    def check_status_bar(self) -> str:
        return f"Status Bar: {self._status_bar()}"

    def check_network_status(self) -> str:
        phone = self.phone
        lines = [
            f"Airplane Mode: {_on(phone.airplane_mode)}",
            f"SIM Card Status: {self.sim_status}",
            f"Cellular Connection: {phone.network_connection_status}",
            f"Cellular Signal: {phone.network_signal_strength}",
            f"Cellular Network Type: {phone.network_technology_connected}",
            f"Mobile Data Enabled: {_yes(phone.data_enabled)}",
            f"Data Roaming Enabled: {_yes(phone.roaming_enabled)}",
            f"Wi-Fi Radio: {_on(phone.wifi_enabled)}",
            f"Wi-Fi Connected: {_yes(phone.wifi_connected)}",
        ]
        return "\n".join([*lines, *([f"Connected Wi-Fi Network: {phone.wifi_ssid}"] if phone.wifi_connected else [])])

    def check_network_mode_preference(self) -> str:
        return f"Network Mode Preference: {self.phone.network_mode_preference}"

    def run_speed_test(self) -> str:
        speed, word = self.measure_speed()
        if speed is None:
            return f"Speed test failed: {word}."
        return f"Speed Test Result: {speed:.2f} Mbps ({word}). {_ADVICE[word]}"

    def check_sim_status(self) -> str:
        return _SIM_TEXTS[self.sim_status]

    def check_data_restriction_status(self) -> str:
        on = self.phone.data_saver_mode
        return "Data Saver mode is ON (limits data usage)." if on else "Data Saver mode is OFF."

    def check_apn_settings(self) -> str:
        settings = self.phone.active_apn_settings
        url = settings.mmsc_url or "Not Set"
        return (
            f"Current APN Name: {settings.apn_name}\nMMSC URL (for picture messages): {url}\n"
            "(These are technical settings, usually best left unchanged.)"
        )

    def check_wifi_status(self) -> str:
        phone = self.phone
        if not phone.wifi_enabled:
            return "Wi-Fi is turned OFF."
        if not phone.wifi_connected:
            return "Wi-Fi is ON but not connected to any network."
        strength = phone.wifi_signal_strength
        return f"Wi-Fi is ON and connected to '{phone.wifi_ssid}'. Signal strength: {strength}."

    def check_wifi_calling_status(self) -> str:
        return f"Wi-Fi Calling is currently turned {_on(self.phone.wifi_calling_enabled)}."

    def check_vpn_status(self) -> str:
        phone = self.phone
        if phone.vpn_connected:
            if phone.vpn_details is None:
                return "VPN is ON and connected (no specific details available)."
            return f"VPN is ON and connected. Details: {msgspec.to_builtins(phone.vpn_details)}"
        if phone.vpn_enabled_setting:
            return "VPN is turned ON in settings, but currently not connected."
        return "VPN is turned OFF."

    def check_installed_apps(self) -> str:
        return f"The following apps are installed on the phone: {', '.join(self.phone.app_statuses)}"

    def check_app_status(self, app_name: str) -> str:
        granted = self._granted(app_name)
        if granted is None:
            return f"App '{app_name}' not found on this phone."
        lines = [" - Permissions Granted:", *(f"   - {name}" for name in granted)]
        return "\n".join([f"Status for App: {app_name}", *(lines if granted else [" - Permissions: None granted."])])

    def check_app_permissions(self, app_name: str) -> str:
        granted = self._granted(app_name)
        if granted is None:
            return f"App '{app_name}' not found on this phone."
        if not granted:
            return f"App '{app_name}' currently has no permissions granted."
        return f"App '{app_name}' has permission for: {', '.join(granted)}."

    def _granted(self, app_name: str) -> list[str] | None:
        app = self.phone.app_statuses.get(app_name)
        if app is None:
            return None
        return [name for name in app.permissions.__struct_fields__ if getattr(app.permissions, name)]

    def report_mms(self) -> str:
        return f"Your messaging app {'can' if self.can_send_mms() else 'cannot'} send MMS messages."

    def check_payment_request(self) -> str:
        request = self.around.payment_request
        if request is None:
            return "No payment request has been made."
        return f"You have a payment request for bill {request.bill_id} of {request.amount_due} USD."

    def make_payment(self) -> str:
        request = self.around.payment_request
        if request is None:
            return "You do not have a payment request."
        request.paid = True
        return f"Payment of {request.amount_due} USD has been made for bill {request.bill_id}."


def _on(on: bool) -> str:  # noqa: FBT001 - a value that is spoken
    return "ON" if on else "OFF"


def _yes(yes: bool) -> str:  # noqa: FBT001 - a value that is spoken
    return "Yes" if yes else "No"
