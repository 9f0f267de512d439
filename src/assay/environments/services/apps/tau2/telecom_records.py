"""Records of tau2-bench's telecom domain: what the carrier knows, and the phone of the person who calls.

Source: tau2-bench (Sierra), `src/tau2/domains/telecom/data_model.py` and `user_data_model.py`. Dates are texts as that
benchmark hashes them: `2025-02-25`, and `2025-02-25 12:08:00` for times.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from assay.environments.services.schema import identifier

CustomerId = Annotated[str, identifier("telecom customer", description="Identifier of the customer, such as C1001")]
LineId = Annotated[str, identifier("telecom line", description="Identifier of the line, such as L1001")]
BillId = Annotated[str, identifier("telecom bill", description="Identifier of the bill, such as B1001")]
PlanId = Annotated[str, identifier("telecom plan", description="Identifier of the plan, such as P1001")]
DeviceId = Annotated[str, identifier("telecom device", description="Identifier of the device, such as D1001")]

LineStatus = Literal["Active", "Suspended", "Pending Activation", "Closed"]
BillStatus = Literal["Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"]
AccountStatus = Literal["Active", "Suspended", "Pending Verification", "Closed"]
SimStatus = Literal["active", "missing", "locked_pin", "locked_puk"]
Technology = Literal["none", "2G", "3G", "4G", "5G"]
ModePreference = Literal["4g_5g_preferred", "4g_only", "3g_only", "2g_only"]
Signal = Literal["none", "poor", "fair", "good", "excellent"]
Performance = Literal["unknown", "poor", "fair", "good", "excellent"]
NetworkStatus = Literal["connected", "searching", "no_service", "emergency_only"]
START_DATE: Final = "2025-01-01"


class Plan(msgspec.Struct, forbid_unknown_fields=True):
    plan_id: PlanId
    name: str
    data_limit_gb: float
    price_per_month: float
    data_refueling_price_per_gb: float


class Device(msgspec.Struct, forbid_unknown_fields=True):
    device_id: DeviceId
    device_type: Literal["phone", "router", "tablet", "watch", "other"]
    model: str
    is_esim_capable: bool
    imei: str | None = None
    activated: bool = False
    activation_date: str | None = None
    last_esim_transfer_date: str | None = None

    def __post_init__(self) -> None:
        self.activation_date = _as_time(self.activation_date)
        self.last_esim_transfer_date = _as_time(self.last_esim_transfer_date)


class Line(msgspec.Struct, forbid_unknown_fields=True):
    line_id: LineId
    phone_number: str
    plan_id: PlanId
    status: LineStatus = "Pending Activation"
    device_id: str | None = None
    data_used_gb: float = 0.0
    data_refueling_gb: float = 0.0
    roaming_enabled: bool = False
    contract_end_date: str | None = None
    last_plan_change_date: str | None = None
    last_sim_replacement_date: str | None = None
    suspension_start_date: str | None = None


class LineItem(msgspec.Struct, forbid_unknown_fields=True):
    description: str
    amount: float
    date: str
    item_type: str


class Bill(msgspec.Struct, forbid_unknown_fields=True):
    bill_id: BillId
    customer_id: CustomerId
    period_start: str
    period_end: str
    issue_date: str
    total_due: float
    due_date: str
    line_items: list[LineItem] = []
    status: BillStatus = "Draft"


class CustomerAddress(msgspec.Struct, forbid_unknown_fields=True):
    street: str
    city: str
    state: str
    zip_code: str


class StoredPayment(msgspec.Struct, forbid_unknown_fields=True):
    method_type: Literal["Credit Card", "Debit Card", "PayPal"]
    account_number_last_4: str
    expiration_date: str


class Customer(msgspec.Struct, forbid_unknown_fields=True):
    customer_id: CustomerId
    full_name: str
    date_of_birth: str
    email: str
    phone_number: str
    address: CustomerAddress
    account_status: AccountStatus = "Pending Verification"
    payment_methods: list[StoredPayment] = []
    line_ids: list[str] = []
    bill_ids: list[str] = []
    created_at: str = ""
    last_extension_date: str | None = None
    goodwill_credit_used_this_year: float = 0.0

    def __post_init__(self) -> None:
        self.created_at = _as_time(self.created_at or None) or START_DATE


class CarrierDatabase(msgspec.Struct, forbid_unknown_fields=True):
    """The file of the carrier's database."""

    plans: list[Plan] = []
    customers: list[Customer] = []
    lines: list[Line] = []
    bills: list[Bill] = []
    devices: list[Device] = []


class ApnSettings(msgspec.Struct, forbid_unknown_fields=True):
    """Access point by which a phone reaches the carrier's data network."""

    apn_name: Literal["internet", "broken"] = "internet"
    reset_at_reboot: bool = False
    mms_apn: str | None = "mms"
    mmsc_url: str | None = "http://mms.carrier.com/mms/wapenc"
    mms_proxy: str | None = None
    mms_port: int | None = None


class VpnDetails(msgspec.Struct, forbid_unknown_fields=True):
    server_address: str | None = None
    protocol: str | None = None
    server_performance: Performance = "unknown"


class AppPermissions(msgspec.Struct, forbid_unknown_fields=True):
    sms: bool = False
    storage: bool = False
    phone: bool = False
    network: bool = False


class AppStatus(msgspec.Struct, forbid_unknown_fields=True):
    app_name: str
    permissions: AppPermissions = msgspec.field(default_factory=AppPermissions)


def _default_apps() -> dict[str, AppStatus]:
    return {
        "messaging": AppStatus("messaging", AppPermissions(sms=True, storage=True, phone=True)),
        "browser": AppStatus("browser", AppPermissions(network=True, storage=True)),
    }


class Phone(msgspec.Struct, forbid_unknown_fields=True):
    """The phone, in one document."""

    id: str = "phone"
    """Key; no part of the original."""
    sim_card_status: SimStatus = "active"
    sim_card_missing: bool = False
    airplane_mode: bool = False
    network_signal_strength: Signal = "good"
    network_technology_connected: Technology = "5G"
    network_connection_status: NetworkStatus = "connected"
    battery_level: int = 80
    data_enabled: bool = True
    roaming_enabled: bool = False
    network_mode_preference: ModePreference = "4g_5g_preferred"
    active_apn_settings: ApnSettings = msgspec.field(default_factory=ApnSettings)
    wifi_enabled: bool = False
    wifi_connected: bool = False
    wifi_ssid: str | None = None
    wifi_signal_strength: Signal = "none"
    wifi_calling_enabled: bool = False
    wifi_calling_mms_over_wifi: bool = False
    data_saver_mode: bool = False
    vpn_enabled_setting: bool = False
    vpn_connected: bool = False
    vpn_details: VpnDetails | None = None
    app_statuses: dict[str, AppStatus] = msgspec.field(default_factory=_default_apps)
    vpn_server: Performance = "excellent"
    """Performance of the server of a new VPN connection. In the original it belongs to the process, where a broken VPN
    of one task slows down those of all later ones; no part of the hash."""


class PaymentRequest(msgspec.Struct, forbid_unknown_fields=True):
    bill_id: str
    amount_due: float
    paid: bool = False


def _default_signals() -> dict[Technology, Signal]:
    return {"2G": "poor", "3G": "fair", "4G": "good", "5G": "excellent"}


class Surroundings(msgspec.Struct, forbid_unknown_fields=True):
    """Where the person is, and what the carrier does for them, in one document."""

    id: str = "surroundings"
    """Key; no part of the original."""
    name: str | None = None
    phone_number: str | None = None
    is_abroad: bool = False
    roaming_allowed: bool = False
    signal_strength: dict[Technology, Signal] = msgspec.field(default_factory=_default_signals)
    mobile_data_usage_exceeded: bool = False
    line_active: bool = True
    payment_request: PaymentRequest | None = None


class PersonDatabase(msgspec.Struct, forbid_unknown_fields=True):
    """The file of the person's side."""

    device: Phone = msgspec.field(default_factory=Phone)
    surroundings: Surroundings = msgspec.field(default_factory=Surroundings)


def _as_time(text: str | None) -> str | None:
    """Returns a time as the benchmark writes it. Raises `ValueError`."""
    if text is None or text == START_DATE:
        return text
    return str(datetime.fromisoformat(text))
