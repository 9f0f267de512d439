"""Bank: accounts, cards, payments, loans and fees of private customers, booked by double entry.

The agent is the service desk: it acts for any customer whom it has identified. A person who is signed in, by identifier
or email address, sees and changes what is their own. Every movement of money is a journal entry whose debits equal its
credits; the balance of an account is what its ledger lines add up to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from assay.environments.services.clock import START
from assay.environments.services.declaration import Policy, Role, Service
from assay.environments.services.schema import Cents, Date, FreeText, Timestamp, format_cents, identifier
from assay.environments.services.transaction import ActionError, Generator, Transaction, shift_time

from ._bank_policy import CONSENTS, CONTRACTS, POLICY
from ._requests import Limit, Offset, find_caller
from ._words import MONTHS, OFFICE_FIRST_NAMES, OFFICE_SURNAMES, PERSON_EMAIL, PERSON_NAME, phrases, spoken_date


class BankKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the generator."""

    customers: Annotated[int, Meta(ge=2, le=1_000)] = 12
    payees: Annotated[int, Meta(ge=0, le=20)] = 3
    """Payees of a customer."""
    card_payments: Annotated[int, Meta(ge=0, le=100)] = 6
    """Payments of a card in the last three months."""
    lookalikes: Annotated[int, Meta(ge=0, le=100)] = 15
    """Percentage of customers who share their name with another one."""
    mistakes: Annotated[int, Meta(ge=0, le=100)] = 15
    """Percentage of card payments that were charged twice, and of booked ones that are disputed."""
    frozen: Annotated[int, Meta(ge=0, le=100)] = 10
    """Percentage of accounts and of cards that are frozen."""


bank = Service(
    "bank",
    "Accounts, cards, payments, loans and fees of a bank's customers.",
    knobs=BankKnobs,
    policy=Policy(POLICY, CONTRACTS, CONSENTS),
)

ADDRESS: Final = "service@tarnbank.example"
BOTH: Final[tuple[Role, ...]] = ("agent", "user")
DAILY_LIMIT: Final = 500_000
NEW_PAYEE_HOURS: Final = 24
NEW_PAYEE_LIMIT: Final = 25_000
SAVINGS_WITHDRAWALS: Final = 3
MOST_ACCOUNTS: Final = 6
RECALL_DAYS: Final = 10
QUICK_RECALL_DAYS: Final = 3
REFUND_DAYS: Final = 56
DISPUTE_DAYS: Final = 60
DECISION_DAYS: Final = 10
PROVISIONAL_LIMIT: Final = 15_000
WAIVER_DAYS: Final = 60
WAIVERS_A_YEAR: Final = 2
SETTLEMENT_DAYS: Final = 2
DEPOSIT_DAYS: Final = 7
DELIVERY_DAYS: Final = 5
POSTPONE_DAYS: Final = 3
MONTHLY_FEE_BELOW: Final = 100_000
SAVINGS_RATE: Final = 120
"""Yearly interest in hundredths of a percent."""
OVERDRAFT_RATE: Final = 1_150

# Identifiers and values.

AccountNumber = Annotated[str, identifier("account number", description="Number of an account at any bank")]
EmailAddress = Annotated[str, identifier("email address")]
DateOfBirth = Annotated[Date, identifier("date of birth", description="Date of birth as YYYY-MM-DD")]
CustomerId = Annotated[str, identifier("bank customer", "CUS-")]
AccountId = Annotated[str, identifier("bank account", "ACC-")]
JournalEntryId = Annotated[str, identifier("journal entry", "JRN-")]
CardId = Annotated[str, identifier("bank card", "CRD-")]
CardPaymentId = Annotated[str, identifier("card payment", "CPM-")]
PayeeId = Annotated[str, identifier("payee", "PYE-")]
TransferId = Annotated[str, identifier("transfer", "TRF-")]
StandingOrderId = Annotated[str, identifier("standing order", "STO-")]
DirectDebitId = Annotated[str, identifier("direct debit", "DDB-")]
DirectDebitPaymentId = Annotated[str, identifier("direct debit payment", "DDP-")]
DisputeId = Annotated[str, identifier("dispute", "DSP-")]
LoanId = Annotated[str, identifier("loan", "LOA-")]
FeeId = Annotated[str, identifier("fee", "FEE-")]
StatementId = Annotated[str, identifier("statement", "STM-")]

AccountKind = Literal["current", "savings", "joint"]
FreezeReason = Literal["suspected_fraud", "lost_credentials", "dispute_between_holders"]
Overdraft = Literal["none", "small", "medium", "large"]
Ledger = Literal["deposits", "loans", "clearing", "cards", "fees", "interest", "disputes"]
EntryKind = Literal[
    "opening", "salary", "transfer", "standing_order", "direct_debit", "card", "fee", "interest", "dispute", "loan"
]
CardLimit = Literal["low", "standard", "high"]
CardUse = Literal["contactless", "online", "overseas"]
Switch = Literal["on", "off"]
Every = Literal["weekly", "monthly"]
DisputeReason = Literal["not_recognised", "charged_twice", "goods_not_received", "wrong_amount"]
FeeKind = Literal["monthly", "card_replacement", "foreign_transfer", "statement_copy", "returned_payment", "recall"]
AlertKind = Literal["low_balance", "large_payment", "large_deposit"]
Amount = Annotated[Cents, Meta(description="Amount in cents, at least 10.00", ge=1_000, le=100_000_000)]
Repayment = Annotated[Cents, Meta(description="Amount in cents, at least 50.00", ge=5_000, le=100_000_000)]

OVERDRAFTS: Final[dict[Overdraft, int]] = {"none": 0, "small": 25_000, "medium": 50_000, "large": 100_000}
CARD_LIMITS: Final[dict[CardLimit, int]] = {"low": 20_000, "standard": 50_000, "high": 200_000}
FEES: Final[dict[FeeKind, int]] = {
    "monthly": 490,
    "card_replacement": 1_000,
    "foreign_transfer": 500,
    "statement_copy": 300,
    "returned_payment": 350,
    "recall": 1_500,
}

# Tables.


@bank.table(unique=[("number",), ("email",)], indexes=[("name",)])
class Customer(msgspec.Struct, frozen=True):
    id: CustomerId
    name: str
    born: DateOfBirth
    email: EmailAddress
    number: str
    """First digits of the numbers of their accounts."""


@bank.table(unique=[("number",)])
class Account(msgspec.Struct, frozen=True):
    id: AccountId
    number: AccountNumber
    kind: AccountKind
    opened: Date
    status: Literal["active", "frozen", "closed"]
    balance: Cents
    """Credits less debits of its ledger lines."""
    held: Cents = 0
    """Sum of its pending card payments."""
    overdraft: Overdraft = "none"
    frozen_for: FreezeReason | None = None


@bank.table("holders", key=("account_id", "customer_id"), indexes=[("customer_id",)])
class AccountHolder(msgspec.Struct, frozen=True):
    account_id: AccountId
    customer_id: CustomerId


@bank.table("journal", indexes=[("at",)])
class JournalEntry(msgspec.Struct, frozen=True):
    id: JournalEntryId
    at: Timestamp
    kind: EntryKind
    text: str


@bank.table("lines", key=("entry_id", "number"), indexes=[("account_id",)])
class LedgerLine(msgspec.Struct, frozen=True):
    """One side of a journal entry; the debits of an entry equal its credits."""

    entry_id: JournalEntryId
    number: int
    ledger: Ledger
    debit: Cents
    credit: Cents
    account_id: AccountId | None = None
    """Account of a customer, for the ledger `deposits`."""


@bank.table("outside_accounts", key=("bank", "number"), unique=[("number",)])
class OutsideAccount(msgspec.Struct, frozen=True):
    """An account at another bank, as the directory of banks lists it."""

    bank: str
    number: AccountNumber
    holder: str
    is_abroad: bool


@bank.table(indexes=[("account_id",), ("customer_id",)])
class Card(msgspec.Struct, frozen=True):
    id: CardId
    account_id: AccountId
    customer_id: CustomerId
    digits: str
    """Last four digits."""
    expires: Date
    status: Literal["ordered", "delivered", "active", "frozen", "blocked"]
    daily_limit: CardLimit = "standard"
    """Daily limit: low 200.00, standard 500.00, high 2,000.00."""
    contactless: Switch = "on"
    online: Switch = "on"
    overseas: Switch = "on"


@bank.table(indexes=[("card_id",)])
class CardPayment(msgspec.Struct, frozen=True):
    id: CardPaymentId
    card_id: CardId
    at: Timestamp
    merchant: str
    amount: Cents
    use: CardUse
    status: Literal["pending", "booked", "released", "declined", "refunded"]


@bank.table(indexes=[("customer_id",)])
class Payee(msgspec.Struct, frozen=True):
    id: PayeeId
    customer_id: CustomerId
    name: str
    bank: str
    number: AccountNumber
    added: Timestamp
    is_deleted: bool = False


@bank.table(indexes=[("account_id",), ("payee_id",)])
class Transfer(msgspec.Struct, frozen=True):
    """A payment to a payee, made or planned."""

    id: TransferId
    account_id: AccountId
    payee_id: PayeeId
    amount: Cents
    day: Date
    status: Literal["planned", "sent", "failed", "cancelled", "recalled", "returned"]
    reference: FreeText = ""


@bank.table("standing_orders", indexes=[("account_id",), ("payee_id",)])
class BankStandingOrder(msgspec.Struct, frozen=True):
    id: StandingOrderId
    account_id: AccountId
    payee_id: PayeeId
    amount: Cents
    every: Every
    next_day: Date
    status: Literal["active", "ended"] = "active"
    is_skipped: bool = False
    """True if the last payment was skipped."""


@bank.table(indexes=[("account_id",)])
class DirectDebit(msgspec.Struct, frozen=True):
    """A mandate by which a creditor collects money."""

    id: DirectDebitId
    account_id: AccountId
    creditor: str
    signed: Date
    status: Literal["active", "cancelled"]


@bank.table(indexes=[("account_id",), ("direct_debit_id",)])
class DirectDebitPayment(msgspec.Struct, frozen=True):
    id: DirectDebitPaymentId
    direct_debit_id: DirectDebitId
    account_id: AccountId
    day: Date
    amount: Cents
    status: Literal["announced", "collected", "returned", "refunded", "cancelled"]


@bank.table(unique=[("card_payment_id",)])
class Dispute(msgspec.Struct, frozen=True):
    id: DisputeId
    card_payment_id: CardPaymentId
    reason: DisputeReason
    opened: Timestamp
    credited: Cents
    """Amount credited when it was opened."""
    status: Literal["open", "accepted", "rejected", "withdrawn"] = "open"


@bank.table(indexes=[("account_id",)])
class Loan(msgspec.Struct, frozen=True):
    id: LoanId
    account_id: AccountId
    """Account that instalments are taken from."""
    purpose: Literal["car", "home", "study"]
    principal: Cents
    outstanding: Cents
    rate: int
    """Yearly interest in hundredths of a percent."""
    instalment: Cents
    next_due: Date
    postponed: Date | None = None
    """Day on which an instalment was last postponed."""


@bank.table(indexes=[("account_id",)])
class Fee(msgspec.Struct, frozen=True):
    id: FeeId
    account_id: AccountId
    kind: FeeKind
    amount: Cents
    day: Date
    waived: Date | None = None


@bank.table(unique=[("account_id", "month")])
class Statement(msgspec.Struct, frozen=True):
    id: StatementId
    account_id: AccountId
    month: str
    """As YYYY-MM."""
    opening: Cents
    closing: Cents


@bank.table("alerts", key=("account_id", "kind"))
class AccountAlert(msgspec.Struct, frozen=True):
    account_id: AccountId
    kind: AlertKind
    threshold: Cents


# Descriptions: how a person refers to a row.


@bank.describe(Customer)
def describe_customer(tx: Transaction, customer: Customer) -> str:
    is_shared = tx.count(Customer, "name = ?", customer.name) > 1
    return f"{customer.name} (born on {spoken_date(customer.born)})" if is_shared else customer.name


@bank.describe(Account)
def describe_account(tx: Transaction, account: Account) -> str:
    holders = _holders(tx, account.id)
    owners = " and ".join(describe_customer(tx, holder) for holder in holders)
    kind = f"closed {account.kind}" if account.status == "closed" else account.kind
    others = [
        other
        for other in _accounts_of(tx, holders[0].id)
        if (other.kind, other.status == "closed") == (account.kind, account.status == "closed")
        and len(_holders(tx, other.id)) == len(holders)
    ]
    if len(others) > 1:
        return f"the {kind} account that {owners} opened on {spoken_date(account.opened)}"
    return f"the {kind} account of {owners}"


@bank.describe(Card)
def describe_card(tx: Transaction, card: Card) -> str:
    return f"the card ending in {card.digits} of {describe_customer(tx, tx.get(Customer, card.customer_id))}"


@bank.describe(CardPayment)
def describe_card_payment(tx: Transaction, payment: CardPayment) -> str:
    when = f"{spoken_date(payment.at)} at {payment.at[11:]}"
    card = describe_card(tx, tx.get(Card, payment.card_id))
    return f"the payment of {format_cents(payment.amount)} to {payment.merchant} on {when} with {card}"


@bank.describe(Payee)
def describe_payee(tx: Transaction, payee: Payee) -> str:
    owner = describe_customer(tx, tx.get(Customer, payee.customer_id))
    return f"the {'former payee' if payee.is_deleted else 'payee'} {_payee_name(payee)} of {owner}"


def _payee_name(payee: Payee) -> str:
    return f"{payee.name} ({payee.bank})"


@bank.describe(Transfer)
def describe_transfer(tx: Transaction, transfer: Transfer) -> str:
    payee, account = tx.get(Payee, transfer.payee_id), tx.get(Account, transfer.account_id)
    dated = f"dated {spoken_date(transfer.day)}, from {describe_account(tx, account)}"
    return f"the transfer of {format_cents(transfer.amount)} to {_payee_name(payee)}, {dated}"


@bank.describe(BankStandingOrder, noun="standing order")
def describe_standing_order(tx: Transaction, order: BankStandingOrder) -> str:
    payee, account = tx.get(Payee, order.payee_id), describe_account(tx, tx.get(Account, order.account_id))
    kind = order.every if order.status == "active" else f"ended {order.every}"
    return f"the {kind} standing order of {format_cents(order.amount)} to {_payee_name(payee)} from {account}"


@bank.describe(DirectDebit)
def describe_direct_debit(tx: Transaction, debit: DirectDebit) -> str:
    return f"the direct debit of {debit.creditor} from {describe_account(tx, tx.get(Account, debit.account_id))}"


@bank.describe(DirectDebitPayment, noun="payment by direct debit")
def describe_direct_debit_payment(tx: Transaction, payment: DirectDebitPayment) -> str:
    debit, account = tx.get(DirectDebit, payment.direct_debit_id), tx.get(Account, payment.account_id)
    taken = f"{format_cents(payment.amount)} to {debit.creditor} on {spoken_date(payment.day)}"
    return f"the direct debit payment of {taken} from {describe_account(tx, account)}"


@bank.describe(Dispute)
def describe_dispute(tx: Transaction, dispute: Dispute) -> str:
    return f"the dispute over {describe_card_payment(tx, tx.get(CardPayment, dispute.card_payment_id))}"


@bank.describe(Loan)
def describe_loan(tx: Transaction, loan: Loan) -> str:
    account = describe_account(tx, tx.get(Account, loan.account_id))
    return f"the {loan.purpose} loan over {format_cents(loan.principal)} that is paid from {account}"


@bank.describe(Fee)
def describe_fee(tx: Transaction, fee: Fee) -> str:
    account = describe_account(tx, tx.get(Account, fee.account_id))
    charged = f"{format_cents(fee.amount)} that was charged on {spoken_date(fee.day)} to {account}"
    return f"the {fee.kind.replace('_', ' ')} fee of {charged}"


@bank.describe(Statement)
def describe_statement(tx: Transaction, statement: Statement) -> str:
    account = describe_account(tx, tx.get(Account, statement.account_id))
    return f"the statement for {MONTHS[int(statement.month[5:]) - 1]} {statement.month[:4]} of {account}"


# Views.


class PayeeCheck(msgspec.Struct, frozen=True):
    """Whose account a number is."""

    number: AccountNumber
    holder: str
    bank: str
    is_abroad: bool


class AccountDetails(msgspec.Struct, frozen=True):
    """An account with its holders and what can be spent."""

    account: Account
    holders: list[Customer]
    overdraft_limit: Cents
    available: Cents
    blockers: list[str]
    """Obligations that must be ended before it can be closed."""


class AccountEntry(msgspec.Struct, frozen=True):
    """A movement on an account."""

    entry_id: JournalEntryId
    at: Timestamp
    kind: EntryKind
    text: str
    amount: Cents
    """Negative for what left the account."""


class CardPaymentDetails(msgspec.Struct, frozen=True):
    """A card payment with its dispute, if there is one."""

    payment: CardPayment
    card: Card
    dispute: Dispute | None
    disputable_until: Date


class TransferQuote(msgspec.Struct, frozen=True):
    """The cost of a transfer, and the remainder after it."""

    recipient: str
    bank: str
    amount: Cents
    fee: Cents
    left: Cents
    """Amount that could still be spent after it."""


class FeeDetails(msgspec.Struct, frozen=True):
    """A fee with the waivers that its account had."""

    fee: Fee
    waivers_this_year: int
    waivable_until: Date


@bank.view()
def identify_customer(tx: Transaction, email: EmailAddress, born: DateOfBirth) -> Customer:
    """Identifies a customer by email address and date of birth, which must both be right."""
    found = tx.find(Customer, email=email.lower(), born=born)
    tx.require(found, "No customer has this email address and date of birth.", "not_found")
    return found[0]


@bank.view()
def check_payee(tx: Transaction, account_number: AccountNumber) -> PayeeCheck:
    """Returns whose account a number is, at this bank or another one, before it is added as a payee."""
    return _look_up(tx, account_number)


@bank.view()
def list_accounts(tx: Transaction, customer_id: CustomerId) -> list[Account]:
    """Lists the accounts that a customer holds, alone or jointly."""
    tx.get(Customer, customer_id)
    return _accounts_of(tx, customer_id)


@bank.view()
def show_account(tx: Transaction, account_id: AccountId) -> AccountDetails:
    """Returns an account with its holders, what can be spent, and what must be ended before it can be closed."""
    account = tx.get(Account, account_id)
    holders, limit = _holders(tx, account_id), OVERDRAFTS[account.overdraft]
    return AccountDetails(account, holders, limit, _available(account), _blockers(tx, account))


@bank.view()
def list_entries(tx: Transaction, account_id: AccountId, limit: Limit = 50, offset: Offset = 0) -> list[AccountEntry]:
    """Lists what came in and went out of an account, the newest first."""
    tx.get(Account, account_id)
    return _entries(tx, account_id)[offset : offset + limit]


@bank.view()
def list_cards(tx: Transaction, customer_id: CustomerId) -> list[Card]:
    """Lists the cards of a customer with their limits and uses."""
    tx.get(Customer, customer_id)
    return tx.find(Card, customer_id=customer_id)


@bank.view()
def list_card_payments(tx: Transaction, card_id: CardId, limit: Limit = 50, offset: Offset = 0) -> list[CardPayment]:
    """Lists the payments of a card, the newest first. A pending one is held and not booked yet."""
    tx.get(Card, card_id)
    return tx.find(CardPayment, card_id=card_id, order_by="-at", limit=limit, offset=offset)


@bank.view()
def show_card_payment(tx: Transaction, card_payment_id: CardPaymentId) -> CardPaymentDetails:
    """Returns a card payment with its card, its dispute, and the last day on which it can be disputed."""
    payment = tx.get(CardPayment, card_payment_id)
    found = tx.find(Dispute, card_payment_id=card_payment_id)
    until = shift_time(payment.at[:10], days=DISPUTE_DAYS)
    return CardPaymentDetails(payment, tx.get(Card, payment.card_id), found[0] if found else None, until)


@bank.view()
def list_payees(tx: Transaction, customer_id: CustomerId) -> list[Payee]:
    """Lists the payees of a customer."""
    tx.get(Customer, customer_id)
    return tx.find(Payee, customer_id=customer_id, is_deleted=False)


@bank.view()
def quote_transfer(tx: Transaction, account_id: AccountId, payee_id: PayeeId, amount: Amount) -> TransferQuote:
    """Returns fee and recipient of a transfer, and what is left after it. Refuses what could not be sent now."""
    account, payee = tx.get(Account, account_id), tx.get(Payee, payee_id)
    fee = _require_sendable(tx, account, payee, amount)
    return TransferQuote(payee.name, payee.bank, amount, fee, _available(account) - amount - fee)


@bank.view()
def list_transfers(tx: Transaction, account_id: AccountId, limit: Limit = 50, offset: Offset = 0) -> list[Transfer]:
    """Lists the transfers of an account to payees, made and planned, the latest day first."""
    tx.get(Account, account_id)
    return tx.find(Transfer, account_id=account_id, order_by="-day", limit=limit, offset=offset)


@bank.view()
def list_standing_orders(tx: Transaction, account_id: AccountId) -> list[BankStandingOrder]:
    """Lists the standing orders of an account."""
    tx.get(Account, account_id)
    return tx.find(BankStandingOrder, account_id=account_id)


@bank.view()
def list_direct_debits(tx: Transaction, account_id: AccountId) -> list[DirectDebit]:
    """Lists who may collect money from an account."""
    tx.get(Account, account_id)
    return tx.find(DirectDebit, account_id=account_id)


@bank.view()
def list_direct_debit_payments(tx: Transaction, account_id: AccountId) -> list[DirectDebitPayment]:
    """Lists what creditors collected from an account or announced, the latest day first."""
    tx.get(Account, account_id)
    return tx.find(DirectDebitPayment, account_id=account_id, order_by="-day")


@bank.view()
def list_disputes(tx: Transaction, customer_id: CustomerId) -> list[Dispute]:
    """Lists the disputes over payments with a customer's cards."""
    tx.get(Customer, customer_id)
    where = "card_payment_id IN (SELECT p.id FROM bank_card_payments p JOIN bank_cards c ON p.card_id = c.id"
    return tx.select(Dispute, f"{where} WHERE c.customer_id = ?)", customer_id)


@bank.view()
def list_loans(tx: Transaction, customer_id: CustomerId) -> list[Loan]:
    """Lists the loans that are paid from a customer's accounts."""
    tx.get(Customer, customer_id)
    return [loan for account in _accounts_of(tx, customer_id) for loan in tx.find(Loan, account_id=account.id)]


@bank.view()
def list_fees(tx: Transaction, account_id: AccountId) -> list[Fee]:
    """Lists the fees charged to an account, the newest first."""
    tx.get(Account, account_id)
    return tx.find(Fee, account_id=account_id, order_by="-day")


@bank.view()
def show_fee(tx: Transaction, fee_id: FeeId) -> FeeDetails:
    """Returns a fee, how many fees of its account were waived in the last year, and how long it can be waived."""
    fee = tx.get(Fee, fee_id)
    return FeeDetails(fee, _waivers(tx, fee.account_id), shift_time(fee.day, days=WAIVER_DAYS))


@bank.view()
def list_statements(tx: Transaction, account_id: AccountId) -> list[Statement]:
    """Lists the monthly statements of an account."""
    tx.get(Account, account_id)
    return tx.find(Statement, account_id=account_id, order_by="month")


@bank.view()
def list_account_alerts(tx: Transaction, account_id: AccountId) -> list[AccountAlert]:
    """Lists the alerts of an account."""
    tx.get(Account, account_id)
    return tx.find(AccountAlert, account_id=account_id)


@bank.view(roles=("user",))
def list_my_accounts(tx: Transaction) -> list[Account]:
    """Lists the accounts of the person who is signed in."""
    return _accounts_of(tx, _signed_in(tx).id)


# Questions.


@bank.question(show_account, "tell me how much is available on {account_id}")
def available_amount(found: AccountDetails) -> Cents:
    return found.available


@bank.question(
    list_standing_orders, "list the active standing orders from {account_id}, each with its amount and next day"
)
def standing_order_days(found: list[BankStandingOrder]) -> list[tuple[Cents, Date]]:
    return [(order.amount, order.next_day) for order in found if order.status == "active"]


@bank.question(list_statements, "list the months for which {account_id} has a statement, each with its closing balance")
def closing_balances(found: list[Statement]) -> list[tuple[str, Cents]]:
    return [(statement.month, statement.closing) for statement in found]


@bank.question(show_card_payment, "tell me until when {card_payment_id} can be disputed")
def last_day_of_dispute(found: CardPaymentDetails) -> Date:
    return found.disputable_until


@bank.question(show_fee, "tell me until when {fee_id} can be waived")
def last_day_of_waiver(found: FeeDetails) -> Date:
    return found.waivable_until


# Rules, for the actions below.


def _signed_in(tx: Transaction) -> Customer:
    customer = find_caller(tx, Customer, PERSON_EMAIL)
    if customer is None:
        tx.refuse(f"{tx.actor or PERSON_EMAIL!r} is not a customer of this bank.", "forbidden")
    return customer


def _holders(tx: Transaction, account_id: str) -> list[Customer]:
    holders = [tx.get(Customer, holder.customer_id) for holder in tx.find(AccountHolder, account_id=account_id)]
    return sorted(holders, key=lambda customer: (customer.name, customer.born))


def _accounts_of(tx: Transaction, customer_id: str) -> list[Account]:
    return [tx.get(Account, holder.account_id) for holder in tx.find(AccountHolder, customer_id=customer_id)]


def _available(account: Account) -> int:
    """Returns what can be spent: the balance and the overdraft less what is held."""
    return account.balance + OVERDRAFTS[account.overdraft] - account.held


def _active(tx: Transaction, account_id: str) -> Account:
    """Returns an account that is neither frozen nor closed."""
    account = tx.get(Account, account_id)
    tx.require(account.status == "active", f"Account {account_id} is {account.status}.", "forbidden")
    return account


def _require_funds(tx: Transaction, account: Account, amount: int) -> None:
    available = _available(account)
    message = f"Account {account.id} has {format_cents(available)} available; {format_cents(amount)} would be needed."
    tx.require(available >= amount, message)


def _own_accounts(tx: Transaction, first: str, second: str) -> tuple[Account, Account]:
    """Returns two active accounts that have a holder in common."""
    tx.require(first != second, "Two accounts are needed, and these are the same.")
    accounts = _active(tx, first), _active(tx, second)
    _require_common_holder(tx, first, second)
    return accounts


def _require_common_holder(tx: Transaction, first: str, second: str) -> None:
    one, other = ({holder.id for holder in _holders(tx, account_id)} for account_id in (first, second))
    tx.require(one & other, f"Accounts {first} and {second} have no holder in common.", "forbidden")


def _require_ahead(tx: Transaction, day: str) -> None:
    last = tx.later(days=366)[:10]
    tx.require(tx.today < day <= last, f"{day} is not possible; choose a day after today, {last} at the latest.")


def _look_up(tx: Transaction, number: str) -> PayeeCheck:
    """Returns whose account a number is. Refuses numbers that no bank knows."""
    number = number.replace(" ", "")
    own, outside = tx.find(Account, number=number), tx.find(OutsideAccount, number=number)
    if own:
        holders = " and ".join(holder.name for holder in _holders(tx, own[0].id))
        return PayeeCheck(number, holders, "Tarn Bank", is_abroad=False)
    tx.require(outside, f"No bank has an account {number!r}.", "not_found")
    return PayeeCheck(number, outside[0].holder, outside[0].bank, outside[0].is_abroad)


def _entries(tx: Transaction, account_id: str) -> list[AccountEntry]:
    """Returns the movements on an account, the newest first."""
    found = []
    for line in tx.find(LedgerLine, account_id=account_id):
        entry = tx.get(JournalEntry, line.entry_id)
        found.append(AccountEntry(entry.id, entry.at, entry.kind, entry.text, line.credit - line.debit))
    return sorted(found, key=lambda entry: (entry.at, entry.entry_id), reverse=True)


def _waivers(tx: Transaction, account_id: str) -> int:
    return tx.count(Fee, "account_id = ? AND waived > ?", account_id, tx.later(days=-365)[:10])


def _blockers(tx: Transaction, account: Account) -> list[str]:
    """Returns what must be ended before an account can be closed."""
    where = "status = 'open' AND card_payment_id IN (SELECT p.id FROM bank_card_payments p JOIN bank_cards c"
    disputes = f"{where} ON p.card_id = c.id WHERE c.account_id = ?)"
    found = {
        "a standing order": tx.count(BankStandingOrder, "account_id = ? AND status = 'active'", account.id),
        "a direct debit": tx.count(DirectDebit, "account_id = ? AND status = 'active'", account.id),
        "a planned transfer": tx.count(Transfer, "account_id = ? AND status = 'planned'", account.id),
        "a loan": tx.count(Loan, "account_id = ? AND outstanding > 0", account.id),
        "a dispute": tx.count(Dispute, disputes, account.id),
        "a pending card payment": account.held,
        "a debt": account.balance < 0,
    }
    return [name for name, count in found.items() if count]


def _next_day(day: str, every: str) -> str:
    """Returns the day one week or month later; days are at most the 28th of a month."""
    if every == "weekly":
        return shift_time(day, days=7)
    month = int(day[:4]) * 12 + int(day[5:7])
    return f"{month // 12:04}-{month % 12 + 1:02}-{day[8:]}"


class _Move(NamedTuple):
    """One side of a journal entry."""

    ledger: Ledger
    amount: int
    """Positive for a credit, negative for a debit."""
    account_id: str | None = None


def _on(account_id: str, amount: int) -> _Move:
    """Returns a movement on an account of a customer; a positive amount comes in."""
    return _Move("deposits", amount, account_id)


def _post(tx: Transaction, kind: EntryKind, text: str, *moves: _Move, at: str = "") -> JournalEntry:
    """Books a journal entry, whose moves add up to zero, and updates the balances of the accounts in it."""
    assert sum(move.amount for move in moves) == 0, "debits must equal credits"
    entry = tx.insert(JournalEntry(tx.new_id(JournalEntry), at or tx.now, kind, text))
    for number, move in enumerate((move for move in moves if move.amount), 1):
        debit, credit = max(0, -move.amount), max(0, move.amount)
        tx.insert(LedgerLine(entry.id, number, move.ledger, debit, credit, move.account_id))
        if move.account_id is not None:
            account = tx.get(Account, move.account_id)
            tx.update(account, balance=account.balance + move.amount)
            _raise_alerts(tx, account, move.amount)
    return entry


def _raise_alerts(tx: Transaction, account: Account, amount: int) -> None:
    """Tells the holders of an account what they want to be told about a movement; `account` is as it was before."""
    after = account.balance + amount
    for alert in tx.find(AccountAlert, account_id=account.id):
        is_due = {
            "low_balance": after < alert.threshold <= account.balance,
            "large_payment": -amount >= alert.threshold,
            "large_deposit": amount >= alert.threshold,
        }[alert.kind]
        if is_due:
            subject = alert.kind.replace("_", " ").capitalize()
            _tell(tx, account.id, subject, f"The balance of account {account.number} is {format_cents(after)}.")


def _tell(tx: Transaction, account_id: str, subject: str, text: str) -> None:
    """Writes to the holders of an account."""
    for holder in _holders(tx, account_id):
        tx.publish("mail.deliver", sender=ADDRESS, recipient=holder.email, subject=subject, text=text)


def _charge_fee(tx: Transaction, account_id: str, kind: FeeKind, at: str = "") -> Fee:
    amount = FEES[kind]
    text = f"{kind.replace('_', ' ').capitalize()} fee"
    _post(tx, "fee", text, _on(account_id, -amount), _Move("fees", amount), at=at)
    return tx.insert(Fee(tx.new_id(Fee), account_id, kind, amount, (at or tx.now)[:10]))


def _require_payable(tx: Transaction, account: Account, payee: Payee) -> None:
    """Refuses payments from an account to a payee that are not possible on any day."""
    _active(tx, account.id)
    holder = tx.get_or_none(AccountHolder, account.id, payee.customer_id)
    tx.require(holder, f"Customer {payee.customer_id} does not hold account {account.id}.", "forbidden")
    tx.require(not payee.is_deleted, f"Payee {payee.id} is deleted.")
    message = f"Account {account.id} is a savings account; it pays to accounts of its holders only."
    tx.require(account.kind != "savings", message, "forbidden")
    for target in tx.find(Account, number=payee.number):
        tx.require(target.id != account.id, f"Payee {payee.id} is account {account.id} itself.")
        tx.require(target.status == "active", "The account of the payee accepts no transfers.", "forbidden")


def _require_sendable(tx: Transaction, account: Account, payee: Payee, amount: int) -> int:
    """Returns the fee of a transfer that can be made now. Refuses the transfer otherwise."""
    _require_payable(tx, account, payee)
    sent = sum(each.amount for each in tx.find(Transfer, account_id=account.id, status="sent", day=tx.today))
    used = f"{format_cents(sent)} of {format_cents(DAILY_LIMIT)} was sent from account {account.id} today"
    tx.require(sent + amount <= DAILY_LIMIT, f"{used}; {format_cents(amount)} is too much.", "forbidden")
    if payee.added > tx.later(hours=-NEW_PAYEE_HOURS):
        before = sum(transfer.amount for transfer in tx.find(Transfer, payee_id=payee.id, status="sent"))
        message = f"{payee.name} was added at {payee.added}; in the first {NEW_PAYEE_HOURS} hours at most "
        message += f"{format_cents(NEW_PAYEE_LIMIT)} can be sent, and {format_cents(before)} was."
        tx.require(before + amount <= NEW_PAYEE_LIMIT, message, "forbidden")
    fee = FEES["foreign_transfer"] if _look_up(tx, payee.number).is_abroad else 0
    _require_funds(tx, account, amount + fee)
    return fee


def _pay(tx: Transaction, account_id: str, payee: Payee, amount: int, kind: EntryKind, at: str = "") -> None:
    """Books a payment to a payee at this bank or another one, and its fee."""
    inside = tx.find(Account, number=payee.number)
    target = _on(inside[0].id, amount) if inside else _Move("clearing", amount)
    text = f"{kind.replace('_', ' ').capitalize()} to {payee.name}"
    _post(tx, kind, text, _on(account_id, -amount), target, at=at)
    if _look_up(tx, payee.number).is_abroad:
        _charge_fee(tx, account_id, "foreign_transfer", at)


def _own_card(tx: Transaction, card_id: str, status: str) -> Card:
    """Returns a card that has a status; customers who are signed in have their own cards only."""
    card = tx.get(Card, card_id)
    if tx.role == "user":
        tx.require(card.customer_id == _signed_in(tx).id, f"Card {card_id} is not yours.", "forbidden")
    tx.require(card.status == status, f"Card {card_id} is {card.status}.")
    return card


def _usable_card(tx: Transaction, card_id: str) -> Card:
    card = tx.get(Card, card_id)
    tx.require(card.status in ("active", "frozen"), f"Card {card_id} is {card.status}.")
    return card


# Actions on accounts.


@bank.action(wish="open a {kind} account for {customer_id}")
def open_account(tx: Transaction, customer_id: CustomerId, kind: Literal["current", "savings"]) -> Account:
    """Opens an account without an overdraft; a customer holds at most six."""
    customer, held = tx.get(Customer, customer_id), _accounts_of(tx, customer_id)
    active = [account for account in held if account.status != "closed"]
    tx.require(len(active) < MOST_ACCOUNTS, f"Customer {customer_id} holds {len(active)} accounts; more are refused.")
    used = tx.count(Account, "substr(number, 1, ?) = ?", len(customer.number), customer.number)
    number = f"{customer.number}{used + 1:02}"
    account = tx.insert(Account(tx.new_id(Account), number, kind, tx.today, "active", 0))
    tx.insert(AccountHolder(account.id, customer_id))
    return account


@bank.action(wish="close {account_id} and move what is left on it to {to_account_id}")
def close_account(tx: Transaction, account_id: AccountId, to_account_id: AccountId) -> Account:
    """Closes an account without obligations, blocks its cards and moves its balance to another one of its holder."""
    account, _ = _own_accounts(tx, account_id, to_account_id)
    blockers = _blockers(tx, account)
    tx.require(not blockers, f"Account {account_id} still has {', '.join(blockers)}.", "conflict")
    if account.balance:
        balance = account.balance
        _post(tx, "transfer", "Closing of an account", _on(account_id, -balance), _on(to_account_id, balance))
    for alert in tx.find(AccountAlert, account_id=account_id):
        tx.delete(alert)
    for card in tx.find(Card, account_id=account_id):
        tx.update(card, status="blocked")
    return tx.update(account, status="closed", balance=0)


@bank.action(wish="add {customer_id} as a second holder of {account_id}")
def add_joint_holder(tx: Transaction, account_id: AccountId, customer_id: CustomerId) -> AccountDetails:
    """Adds a second holder to a current account, which becomes a joint account. Both must be identified."""
    account, customer = _active(tx, account_id), tx.get(Customer, customer_id)
    tx.require(account.kind == "current", f"Account {account_id} is a {account.kind} account.")
    holds = tx.get_or_none(AccountHolder, account_id, customer_id)
    tx.require(holds is None, f"{customer.name} holds account {account_id} already.", "conflict")
    tx.insert(AccountHolder(account_id, customer_id))
    tx.update(account, kind="joint")
    return show_account(tx, account_id)


@bank.action(wish="freeze {account_id}; the reason is “{reason}”")
def freeze_account(tx: Transaction, account_id: AccountId, reason: FreezeReason) -> Account:
    """Freezes an account: no transfers, card payments or collections until the freeze is lifted."""
    account = _active(tx, account_id)
    is_plausible = reason != "dispute_between_holders" or len(_holders(tx, account_id)) > 1
    tx.require(is_plausible, f"Account {account_id} has one holder.")
    _tell(tx, account_id, "Your account is frozen", f"Account {account.number} is frozen.")
    return tx.update(account, status="frozen", frozen_for=reason)


@bank.action(wish="lift the freeze on {account_id}")
def unfreeze_account(tx: Transaction, account_id: AccountId) -> Account:
    """Lifts a freeze that was for lost credentials."""
    account = tx.get(Account, account_id)
    tx.require(account.status == "frozen", f"Account {account_id} is {account.status}.")
    reason = str(account.frozen_for).replace("_", " ")
    tx.require(account.frozen_for == "lost_credentials", f"The desk cannot lift a freeze for {reason}.", "forbidden")
    return tx.update(account, status="active", frozen_for=None)


@bank.action(wish="set the overdraft of {account_id} to {overdraft}")
def set_overdraft(tx: Transaction, account_id: AccountId, overdraft: Overdraft) -> Account:
    """Sets the overdraft of a current or joint account: none, small 250.00, medium 500.00, large 1,000.00.

    It may be at most the monthly average of salaries in the last three months, and not less than what is used.
    """
    account, limit = _active(tx, account_id), OVERDRAFTS[overdraft]
    tx.require(account.kind != "savings", f"Account {account_id} is a savings account.")
    tx.require(account.overdraft != overdraft, f"The overdraft of account {account_id} is {overdraft} already.")
    used = account.held - account.balance
    tx.require(used <= limit, f"{format_cents(used)} of the overdraft is used.", "conflict")
    if limit > OVERDRAFTS[account.overdraft]:
        since = tx.later(days=-91)
        salaries = [e.amount for e in _entries(tx, account_id) if e.kind == "salary" and e.at >= since]
        income = sum(salaries) // 3
        tx.require(limit <= income, f"The average salary on account {account_id} is {format_cents(income)}.")
    return tx.update(account, overdraft=overdraft)


@bank.action(wish="order a paper copy of {statement_id}")
def order_statement_copy(tx: Transaction, statement_id: StatementId) -> Fee:
    """Orders a paper copy of a statement for 3.00, taken from its account."""
    statement = tx.get(Statement, statement_id)
    account = _active(tx, statement.account_id)
    _require_funds(tx, account, FEES["statement_copy"])
    return _charge_fee(tx, account.id, "statement_copy")


@bank.action(wish="set up a {kind} alert at {threshold} for {account_id}")
def set_alert(tx: Transaction, account_id: AccountId, kind: AlertKind, threshold: Amount) -> AccountAlert:
    """Sets the balance below which, or the amount from which on, holders are told, in place of an earlier one."""
    account = tx.get(Account, account_id)
    tx.require(account.status != "closed", f"Account {account_id} is closed.")
    before = tx.get_or_none(AccountAlert, account_id, kind)
    if before is not None:
        return tx.update(before, threshold=threshold)
    return tx.insert(AccountAlert(account_id, kind, threshold))


@bank.action(wish="remove the {kind} alert of {account_id}")
def remove_alert(tx: Transaction, account_id: AccountId, kind: AlertKind) -> AccountAlert:
    """Removes an alert of an account."""
    alert = tx.get(AccountAlert, account_id, kind)
    tx.delete(alert)
    return alert


# Actions on transfers, payees and standing orders.


@bank.action(wish="move {amount} from {account_id} to {to_account_id}")
def transfer_between_accounts(
    tx: Transaction, account_id: AccountId, to_account_id: AccountId, amount: Amount
) -> JournalEntry:
    """Moves money at once between two accounts of a holder. Savings accounts pay at most three times a month."""
    account, _ = _own_accounts(tx, account_id, to_account_id)
    _require_funds(tx, account, amount)
    if account.kind == "savings":
        month = [e for e in _entries(tx, account_id) if e.at[:7] == tx.now[:7] and e.kind == "transfer"]
        made = sum(entry.amount < 0 for entry in month)
        tx.require(made < SAVINGS_WITHDRAWALS, f"Account {account_id} paid {made} times this month.", "forbidden")
    return _post(tx, "transfer", "Own transfer", _on(account_id, -amount), _on(to_account_id, amount))


@bank.action(wish="send {amount} from {account_id} to {payee_id}")
def send_transfer(
    tx: Transaction, account_id: AccountId, payee_id: PayeeId, amount: Amount, reference: FreeText = ""
) -> Transfer:
    """Sends money to a payee at once. Payees abroad cost 5.00.

    At most 5,000.00 a day leave an account, and at most 250.00 go to a payee in the first 24 hours.
    """
    account, payee = tx.get(Account, account_id), tx.get(Payee, payee_id)
    _require_sendable(tx, account, payee, amount)
    _pay(tx, account_id, payee, amount, "transfer")
    return tx.insert(Transfer(tx.new_id(Transfer), account_id, payee_id, amount, tx.today, "sent", reference))


@bank.action(wish="send {amount} on {day} from {account_id} to {payee_id}")
def schedule_transfer(
    tx: Transaction, account_id: AccountId, payee_id: PayeeId, amount: Amount, day: Date, reference: FreeText = ""
) -> Transfer:
    """Plans a transfer to a payee for a later day, at most a year ahead. Limits and balance are checked on that day."""
    _require_payable(tx, tx.get(Account, account_id), tx.get(Payee, payee_id))
    _require_ahead(tx, day)
    transfer = Transfer(tx.new_id(Transfer), account_id, payee_id, amount, day, "planned", reference)
    tx.schedule(f"{day}T08:00", execute_transfer, transfer_id=transfer.id)
    return tx.insert(transfer)


@bank.action(wish="cancel {transfer_id}")
def cancel_transfer(tx: Transaction, transfer_id: TransferId) -> Transfer:
    """Cancels a planned transfer, up to the day before."""
    transfer = tx.get(Transfer, transfer_id)
    tx.require(transfer.status == "planned", f"Transfer {transfer_id} is {transfer.status}.")
    tx.require(transfer.day > tx.today, f"Transfer {transfer_id} is made today; it is too late.")
    return tx.update(transfer, status="cancelled")


@bank.action(wish="recall {transfer_id}")
def recall_transfer(tx: Transaction, transfer_id: TransferId) -> Transfer:
    """Asks another bank to give a transfer back, within ten days and for 15.00. It answers in three days."""
    transfer = tx.get(Transfer, transfer_id)
    account, payee = _active(tx, transfer.account_id), tx.get(Payee, transfer.payee_id)
    tx.require(transfer.status == "sent", f"Transfer {transfer_id} is {transfer.status}.")
    tx.require(not tx.find(Account, number=payee.number), "Transfers inside this bank cannot be recalled.")
    last = shift_time(transfer.day, days=RECALL_DAYS)
    tx.require(tx.today <= last, f"Transfer {transfer_id} could be recalled until {last}.")
    _require_funds(tx, account, FEES["recall"])
    _charge_fee(tx, account.id, "recall")
    comes_back = tx.today <= shift_time(transfer.day, days=QUICK_RECALL_DAYS)
    tx.schedule(tx.later(days=3), answer_recall, transfer_id=transfer_id, comes_back=comes_back)
    return tx.update(transfer, status="recalled")


@bank.action(wish="add the account with the number {account_number} as a payee of {customer_id}")
def add_payee(tx: Transaction, customer_id: CustomerId, account_number: AccountNumber) -> Payee:
    """Adds a payee of a customer; the name is that of the account's holder."""
    customer, target = tx.get(Customer, customer_id), _look_up(tx, account_number)
    same = tx.find(Payee, customer_id=customer_id, number=target.number, is_deleted=False)
    tx.require(not same, f"{target.holder} is a payee of {customer.name} already.", "conflict")
    payee_id = tx.new_id(Payee)
    return tx.insert(Payee(payee_id, customer_id, target.holder, target.bank, target.number, tx.now))


@bank.action(wish="delete {payee_id}")
def remove_payee(tx: Transaction, payee_id: PayeeId) -> Payee:
    """Deletes a payee to whom no payment is planned."""
    payee = tx.get(Payee, payee_id)
    tx.require(not payee.is_deleted, f"Payee {payee_id} is deleted already.")
    orders = tx.find(BankStandingOrder, payee_id=payee_id, status="active")
    planned = tx.find(Transfer, payee_id=payee_id, status="planned")
    tx.require(not (orders or planned), f"Payments to {payee.name} are planned; end them first.", "conflict")
    return tx.update(payee, is_deleted=True)


@bank.action(
    wish="set up a {every} standing order of {amount}, first due on {first_day}, from {account_id} to {payee_id}"
)
def create_standing_order(
    tx: Transaction, account_id: AccountId, payee_id: PayeeId, amount: Amount, every: Every, first_day: Date
) -> BankStandingOrder:
    """Sets up a standing order. Its first day is after today and at most the 28th of a month."""
    _require_payable(tx, tx.get(Account, account_id), tx.get(Payee, payee_id))
    _require_ahead(tx, first_day)
    tx.require(first_day[8:] <= "28", "Standing orders are paid on days 1 to 28 of a month.")
    order = tx.insert(BankStandingOrder(tx.new_id(BankStandingOrder), account_id, payee_id, amount, every, first_day))
    _schedule_order(tx, order)
    return order


def _schedule_order(tx: Transaction, order: BankStandingOrder) -> None:
    tx.schedule(f"{order.next_day}T06:00", run_standing_order, standing_order_id=order.id)


def _active_order(tx: Transaction, standing_order_id: str) -> BankStandingOrder:
    order = tx.get(BankStandingOrder, standing_order_id)
    tx.require(order.status == "active", f"Standing order {standing_order_id} has ended.")
    return order


@bank.action(wish="change {standing_order_id} so that it pays {amount} each time")
def change_standing_order(tx: Transaction, standing_order_id: StandingOrderId, amount: Amount) -> BankStandingOrder:
    """Changes the amount of a standing order from the next payment on."""
    order = _active_order(tx, standing_order_id)
    tx.require(order.amount != amount, f"The standing order pays {format_cents(amount)} already.")
    return tx.update(order, amount=amount)


@bank.action(wish="skip the next payment of {standing_order_id}")
def skip_standing_order(tx: Transaction, standing_order_id: StandingOrderId) -> BankStandingOrder:
    """Skips the next payment of a standing order, unless the last one was skipped."""
    order = _active_order(tx, standing_order_id)
    tx.require(not order.is_skipped, f"Standing order {standing_order_id} cannot be skipped twice in a row.")
    order = tx.update(order, next_day=_next_day(order.next_day, order.every), is_skipped=True)
    _schedule_order(tx, order)
    return order


@bank.action(wish="end {standing_order_id}")
def cancel_standing_order(tx: Transaction, standing_order_id: StandingOrderId) -> BankStandingOrder:
    """Ends a standing order."""
    return tx.update(_active_order(tx, standing_order_id), status="ended")


# Actions on direct debits, cards and disputes.


@bank.action(wish="cancel {direct_debit_id}")
def cancel_direct_debit(tx: Transaction, direct_debit_id: DirectDebitId) -> DirectDebit:
    """Cancels a creditor's right to collect, and the payments that it announced."""
    debit = tx.get(DirectDebit, direct_debit_id)
    tx.require(debit.status == "active", f"Direct debit {direct_debit_id} is cancelled already.")
    for payment in tx.find(DirectDebitPayment, direct_debit_id=direct_debit_id, status="announced"):
        tx.update(payment, status="cancelled")
    return tx.update(debit, status="cancelled")


@bank.action(wish="have {direct_debit_payment_id} refunded")
def refund_direct_debit(tx: Transaction, direct_debit_payment_id: DirectDebitPaymentId) -> DirectDebitPayment:
    """Refunds what a creditor collected in the last 56 days."""
    payment = tx.get(DirectDebitPayment, direct_debit_payment_id)
    account, debit = _active(tx, payment.account_id), tx.get(DirectDebit, payment.direct_debit_id)
    tx.require(payment.status == "collected", f"Payment {payment.id} is {payment.status}.")
    last = shift_time(payment.day, days=REFUND_DAYS)
    tx.require(tx.today <= last, f"Payment {payment.id} could be refunded until {last}.")
    text, amount = f"Refund from {debit.creditor}", payment.amount
    _post(tx, "direct_debit", text, _on(account.id, amount), _Move("clearing", -amount))
    return tx.update(payment, status="refunded")


@bank.action(roles=BOTH, wish="freeze {card_id}")
def freeze_card(tx: Transaction, card_id: CardId) -> Card:
    """Freezes an active card until it is released again."""
    return tx.update(_own_card(tx, card_id, "active"), status="frozen")


@bank.action(roles=BOTH, wish="unfreeze {card_id}")
def unfreeze_card(tx: Transaction, card_id: CardId) -> Card:
    """Releases a frozen card."""
    return tx.update(_own_card(tx, card_id, "frozen"), status="active")


@bank.action(wish="replace {card_id}, which is {reason}")
def replace_card(tx: Transaction, card_id: CardId, reason: Literal["lost", "stolen", "damaged"]) -> Card:
    """Blocks a card for good and orders a new one, which comes in five days; 10.00 unless it was stolen."""
    card = _usable_card(tx, card_id)
    account = tx.get(Account, card.account_id)
    if reason != "stolen":
        _require_funds(tx, account, FEES["card_replacement"])
        _charge_fee(tx, account.id, "card_replacement")
    tx.update(card, status="blocked")
    digits = f"{(int(card.digits) + 1) % 10_000:04}"
    expires = f"{int(tx.today[:4]) + 4}-{tx.today[5:7]}-28"
    new = Card(tx.new_id(Card), account.id, card.customer_id, digits, expires, "ordered", card.daily_limit)
    tx.schedule(tx.later(days=DELIVERY_DAYS), deliver_card, card_id=new.id)
    return tx.insert(new)


@bank.action(wish="set the daily limit of {card_id} to {limit}")
def set_card_limit(tx: Transaction, card_id: CardId, limit: CardLimit) -> Card:
    """Sets the daily limit of a card: low 200.00, standard 500.00, high 2,000.00."""
    card = _usable_card(tx, card_id)
    tx.require(card.daily_limit != limit, f"The limit of card {card_id} is {limit} already.")
    return tx.update(card, daily_limit=limit)


@bank.action(wish="turn {state} {use} payments with {card_id}")
def switch_card_use(tx: Transaction, card_id: CardId, use: CardUse, state: Switch) -> Card:
    """Turns contactless, online or overseas payments with a card on or off."""
    card = _usable_card(tx, card_id)
    tx.require(getattr(card, use) != state, f"{use.capitalize()} payments with card {card_id} are {state} already.")
    return tx.update(card, **{use: state})


@bank.action(wish="dispute {card_payment_id}; the reason is “{reason}”")
def open_dispute(tx: Transaction, card_payment_id: CardPaymentId, reason: DisputeReason) -> Dispute:
    """Disputes a booked card payment of the last 60 days. Up to 150.00 are credited at once; ten days decide.

    If the customer does not recognise the payment, the card must be frozen or replaced before.
    """
    payment = tx.get(CardPayment, card_payment_id)
    card = tx.get(Card, payment.card_id)
    tx.require(payment.status == "booked", f"Payment {card_payment_id} is {payment.status}.")
    last = shift_time(payment.at[:10], days=DISPUTE_DAYS)
    tx.require(tx.today <= last, f"Payment {card_payment_id} could be disputed until {last}.")
    tx.require(not tx.find(Dispute, card_payment_id=card_payment_id), "It was disputed already.", "conflict")
    tx.require(
        reason != "not_recognised" or card.status in ("frozen", "blocked"),
        f"Card {card.id} is {card.status}; freeze or replace it first.",
        "forbidden",
    )
    return _dispute(tx, payment, card, reason)


def _dispute(tx: Transaction, payment: CardPayment, card: Card, reason: DisputeReason, at: str = "") -> Dispute:
    """Opens a dispute, credits small amounts, and schedules the decision."""
    dispute_id, opened = tx.new_id(Dispute), at or tx.now
    credited = payment.amount if payment.amount <= PROVISIONAL_LIMIT else 0
    if credited:
        text = f"Provisional credit for {payment.merchant}"
        _post(tx, "dispute", text, _on(card.account_id, credited), _Move("disputes", -credited), at=opened)
    tx.schedule(shift_time(opened, days=DECISION_DAYS), decide_dispute, dispute_id=dispute_id)
    return tx.insert(Dispute(dispute_id, payment.id, reason, opened, credited))


@bank.action(wish="withdraw {dispute_id}")
def withdraw_dispute(tx: Transaction, dispute_id: DisputeId) -> Dispute:
    """Withdraws an open dispute; what was credited is taken back."""
    dispute = tx.get(Dispute, dispute_id)
    tx.require(dispute.status == "open", f"Dispute {dispute_id} is {dispute.status}.")
    _take_back_credit(tx, dispute)
    return tx.update(dispute, status="withdrawn")


def _take_back_credit(tx: Transaction, dispute: Dispute) -> None:
    payment = tx.get(CardPayment, dispute.card_payment_id)
    account_id, credited = tx.get(Card, payment.card_id).account_id, dispute.credited
    if credited:
        text = f"Credit for {payment.merchant} taken back"
        _post(tx, "dispute", text, _on(account_id, -credited), _Move("disputes", credited))


# Actions on loans and fees.


@bank.action(wish="repay {amount} early from {account_id} on {loan_id}")
def repay_loan(tx: Transaction, loan_id: LoanId, account_id: AccountId, amount: Repayment) -> Loan:
    """Repays a part of a loan early and without a fee, at least 50.00, from an account of the same holder."""
    loan, account = tx.get(Loan, loan_id), _active(tx, account_id)
    tx.require(amount <= loan.outstanding, f"{format_cents(loan.outstanding)} of loan {loan_id} is outstanding.")
    _require_common_holder(tx, account_id, loan.account_id)
    _require_funds(tx, account, amount)
    _post(tx, "loan", f"Early repayment of the {loan.purpose} loan", _on(account_id, -amount), _Move("loans", amount))
    return tx.update(loan, outstanding=loan.outstanding - amount)


@bank.action(wish="postpone by a month the next instalment of {loan_id}")
def postpone_instalment(tx: Transaction, loan_id: LoanId) -> Loan:
    """Postpones the next instalment of a loan by a month, once in twelve months and three days ahead."""
    loan = tx.get(Loan, loan_id)
    tx.require(loan.outstanding > 0, f"Loan {loan_id} is repaid.")
    tx.require(
        loan.postponed is None or loan.postponed <= tx.later(days=-365)[:10],
        f"An instalment of loan {loan_id} was postponed on {loan.postponed}; once in twelve months is possible.",
        "forbidden",
    )
    tx.require(
        loan.next_due >= tx.later(days=POSTPONE_DAYS)[:10],
        f"The next instalment is due on {loan.next_due}; it is too late.",
    )
    loan = tx.update(loan, next_due=_next_day(loan.next_due, "monthly"), postponed=tx.today)
    tx.schedule(f"{loan.next_due}T05:00", take_instalment, loan_id=loan_id)
    return loan


@bank.action(wish="waive {fee_id}")
def waive_fee(tx: Transaction, fee_id: FeeId) -> Fee:
    """Gives back a fee of the last 60 days; at most two a year for one account."""
    fee = tx.get(Fee, fee_id)
    account = tx.get(Account, fee.account_id)
    tx.require(fee.waived is None, f"Fee {fee_id} was waived already.", "conflict")
    last = shift_time(fee.day, days=WAIVER_DAYS)
    tx.require(tx.today <= last, f"Fee {fee_id} could be waived until {last}.", "forbidden")
    waivers = _waivers(tx, account.id)
    tx.require(waivers < WAIVERS_A_YEAR, f"{waivers} fees of account {account.id} were waived this year.", "forbidden")
    tx.require(account.status != "closed", f"Account {account.id} is closed.")
    text = f"{fee.kind.replace('_', ' ').capitalize()} fee waived"
    _post(tx, "fee", text, _on(account.id, fee.amount), _Move("fees", -fee.amount))
    return tx.update(fee, waived=tx.today)


# What the person does without the desk.


@bank.action(roles=("user",))
def activate_card(tx: Transaction, digits: Annotated[int, Meta(ge=0, le=9_999)]) -> Card:
    """Activates a card that arrived by mail, by its last four digits."""
    cards = tx.find(Card, customer_id=_signed_in(tx).id, digits=f"{digits:04}", status="delivered")
    tx.require(cards, f"No card ending in {digits:04} waits to be activated.", "not_found")
    return tx.update(cards[0], status="active")


# Events.


@bank.event()
def execute_transfer(tx: Transaction, transfer_id: TransferId) -> None:
    """Makes a planned transfer; it fails if limits, balance or a freeze forbid it."""
    transfer = tx.get(Transfer, transfer_id)
    tx.require(transfer.status == "planned", f"Transfer {transfer_id} is {transfer.status}.")
    account, payee = tx.get(Account, transfer.account_id), tx.get(Payee, transfer.payee_id)
    problem = _problem(_require_sendable, tx, account, payee, transfer.amount)
    if problem:
        tx.update(transfer, status="failed")
        _tell(tx, account.id, "A transfer failed", problem)
        return
    _pay(tx, account.id, payee, transfer.amount, "transfer")
    tx.update(transfer, status="sent")


def _problem(check: Callable[..., object], *arguments: object) -> str:
    """Returns why a check refuses its arguments; empty if it does not."""
    try:
        check(*arguments)
    except ActionError as exc:
        return str(exc)
    return ""


@bank.event()
def run_standing_order(tx: Transaction, standing_order_id: StandingOrderId) -> None:
    """Pays a standing order that is due, or says why it could not, and goes on to its next day."""
    order = _active_order(tx, standing_order_id)
    tx.require(order.next_day == tx.today, "It is due on another day.")
    account, payee = tx.get(Account, order.account_id), tx.get(Payee, order.payee_id)
    problem = _problem(_require_sendable, tx, account, payee, order.amount)
    if problem:
        _tell(tx, account.id, "A standing order was not paid", problem)
    else:
        _pay(tx, account.id, payee, order.amount, "standing_order")
    _schedule_order(tx, tx.update(order, next_day=_next_day(order.next_day, order.every), is_skipped=False))


@bank.event()
def answer_recall(tx: Transaction, transfer_id: TransferId, *, comes_back: bool) -> None:
    """Brings a recalled transfer back, or says that the other bank keeps it."""
    transfer = tx.get(Transfer, transfer_id)
    account, payee = tx.get(Account, transfer.account_id), tx.get(Payee, transfer.payee_id)
    if comes_back and account.status != "closed":
        text = f"Transfer to {payee.name} returned"
        _post(tx, "transfer", text, _on(account.id, transfer.amount), _Move("clearing", -transfer.amount))
        tx.update(transfer, status="returned")
    else:
        tx.update(transfer, status="sent")
        _tell(tx, account.id, "A recall was refused", f"{payee.bank} does not return the transfer to {payee.name}.")


@bank.event()
def collect_direct_debit(tx: Transaction, direct_debit_payment_id: DirectDebitPaymentId) -> None:
    """Collects what a creditor announced, and announces the payment of the next month."""
    payment = tx.get(DirectDebitPayment, direct_debit_payment_id)
    tx.require(payment.status == "announced", f"Payment {payment.id} is {payment.status}.")
    _collect(tx, payment)
    _announce(tx, payment)


def _collect(tx: Transaction, payment: DirectDebitPayment, at: str = "") -> None:
    """Books a collection, or returns it for a fee if the account cannot pay it."""
    account, debit = tx.get(Account, payment.account_id), tx.get(DirectDebit, payment.direct_debit_id)
    if account.status == "active" and _available(account) >= payment.amount:
        text, amount = f"Direct debit of {debit.creditor}", payment.amount
        _post(tx, "direct_debit", text, _on(account.id, -amount), _Move("clearing", amount), at=at)
        tx.update(payment, status="collected")
        return
    tx.update(payment, status="returned")
    if account.status == "active":
        _charge_fee(tx, account.id, "returned_payment", at)


def _announce(tx: Transaction, last: DirectDebitPayment) -> None:
    day = _next_day(last.day, "monthly")
    payment_id = tx.new_id(DirectDebitPayment)
    payment = DirectDebitPayment(payment_id, last.direct_debit_id, last.account_id, day, last.amount, "announced")
    tx.insert(payment)
    tx.schedule(f"{day}T07:00", collect_direct_debit, direct_debit_payment_id=payment_id)


@bank.event()
def arrive_card_payment(tx: Transaction, card_id: CardId, merchant: str, amount: Cents, use: CardUse) -> None:
    """Holds the amount of a card payment until it is booked; declines it if card or account cannot pay it."""
    card = tx.get(Card, card_id)
    account = tx.get(Account, card.account_id)
    earlier = tx.select(CardPayment, "card_id = ? AND substr(at, 1, 10) = ?", card_id, tx.today)
    spent = sum(payment.amount for payment in earlier if payment.status in ("pending", "booked"))
    is_able = (card.status, getattr(card, use), account.status) == ("active", "on", "active")
    is_able = is_able and spent + amount <= CARD_LIMITS[card.daily_limit] and amount <= _available(account)
    status: Literal["pending", "declined"] = "pending" if is_able else "declined"
    payment = tx.insert(CardPayment(tx.new_id(CardPayment), card_id, tx.now, merchant, amount, use, status))
    if is_able:
        _hold(tx, payment, account.id)
    else:
        _tell(tx, account.id, "A card payment was declined", f"{format_cents(amount)} to {merchant}.")


def _hold(tx: Transaction, payment: CardPayment, account_id: str) -> None:
    """Holds the amount of a pending payment for two days, or a week if it is a deposit."""
    account = tx.get(Account, account_id)
    tx.update(account, held=account.held + payment.amount)
    days = DEPOSIT_DAYS if _is_deposit(payment) else SETTLEMENT_DAYS
    tx.schedule(shift_time(payment.at, days=days), settle_card_payment, card_payment_id=payment.id)


def _is_deposit(payment: CardPayment) -> bool:
    return payment.merchant.endswith("deposit")


@bank.event()
def settle_card_payment(tx: Transaction, card_payment_id: CardPaymentId) -> None:
    """Ends the hold of a pending payment: a deposit is released, all else is booked."""
    payment = tx.get(CardPayment, card_payment_id)
    account = tx.get(Account, tx.get(Card, payment.card_id).account_id)
    tx.update(account, held=account.held - payment.amount)
    if _is_deposit(payment):
        tx.update(payment, status="released")
    else:
        _book_card(tx, payment, account.id)


def _book_card(tx: Transaction, payment: CardPayment, account_id: str, at: str = "") -> None:
    text, amount = f"Card payment to {payment.merchant}", payment.amount
    _post(tx, "card", text, _on(account_id, -amount), _Move("cards", amount), at=at)
    tx.update(payment, status="booked")


@bank.event()
def deliver_card(tx: Transaction, card_id: CardId) -> None:
    """Brings an ordered card to its holder, who can activate it then."""
    card = tx.get(Card, card_id)
    tx.require(card.status == "ordered", f"Card {card_id} is {card.status}.")
    tx.update(card, status="delivered")
    _tell(tx, card.account_id, "Your new card", f"The card ending in {card.digits} has arrived; activate it.")


@bank.event()
def decide_dispute(tx: Transaction, dispute_id: DisputeId) -> None:
    """Decides an open dispute; a double charge is accepted if two equal payments of the day are charged."""
    dispute = tx.get(Dispute, dispute_id)
    tx.require(dispute.status == "open", f"Dispute {dispute_id} is {dispute.status}.")
    payment = tx.get(CardPayment, dispute.card_payment_id)
    account_id = tx.get(Card, payment.card_id).account_id
    equal = tx.find(CardPayment, card_id=payment.card_id, merchant=payment.merchant, amount=payment.amount)
    charged = [each for each in equal if each.at[:10] == payment.at[:10] and each.status in ("pending", "booked")]
    if dispute.reason == "charged_twice" and len(charged) < 2:
        _take_back_credit(tx, dispute)
        tx.update(dispute, status="rejected")
        _tell(tx, account_id, "Your dispute was rejected", f"{payment.merchant} charged this payment once.")
        return
    moves = _on(account_id, payment.amount - dispute.credited), _Move("disputes", dispute.credited)
    _post(tx, "dispute", f"Dispute with {payment.merchant} won", *moves, _Move("cards", -payment.amount))
    tx.update(dispute, status="accepted")
    tx.update(payment, status="refunded")


@bank.event()
def pay_salary(tx: Transaction, account_id: AccountId, employer: str, amount: Cents) -> None:
    """Credits a salary; a frozen account does not accept it."""
    if tx.get(Account, account_id).status == "active":
        _salary(tx, account_id, employer, amount)
    given = {"account_id": account_id, "employer": employer, "amount": amount}
    tx.schedule(f"{_next_day(tx.today, 'monthly')}T04:00", pay_salary, **given)


def _salary(tx: Transaction, account_id: str, employer: str, amount: int, at: str = "") -> None:
    _post(tx, "salary", f"Salary from {employer}", _on(account_id, amount), _Move("clearing", -amount), at=at)


@bank.event()
def take_instalment(tx: Transaction, loan_id: LoanId) -> None:
    """Takes an instalment that is due; if the account cannot pay it, the next one is due in a month."""
    loan = tx.get(Loan, loan_id)
    tx.require(loan.next_due == tx.today and loan.outstanding > 0, "No instalment is due.")
    _take_instalment(tx, loan_id)
    loan = tx.update(loan, next_due=_next_day(loan.next_due, "monthly"))
    tx.schedule(f"{loan.next_due}T05:00", take_instalment, loan_id=loan_id)


def _take_instalment(tx: Transaction, loan_id: str, at: str = "") -> None:
    loan = tx.get(Loan, loan_id)
    interest = loan.outstanding * loan.rate // 120_000
    amount = min(loan.instalment, loan.outstanding + interest)
    account = tx.get(Account, loan.account_id)
    if account.status != "active" or _available(account) < amount:
        _charge_fee(tx, account.id, "returned_payment", at)
        return
    moves = _Move("interest", interest), _Move("loans", amount - interest)
    text = f"Instalment of the {loan.purpose} loan"
    _post(tx, "loan", text, _on(account.id, -amount), *moves, at=at)
    tx.update(loan, outstanding=loan.outstanding - amount + interest)


@bank.event()
def end_month(tx: Transaction) -> None:
    """Charges fees and interest of the month that has ended, and writes the statements."""
    for account in tx.select(Account, "status != 'closed'"):
        _end_month(tx, account.id, tx.now)
    tx.schedule(f"{_next_day(tx.today, 'monthly')}T00:05", end_month)


def _end_month(tx: Transaction, account_id: str, at: str) -> None:
    """Ends the month before `at` for one account."""
    account, month = tx.get(Account, account_id), shift_time(at[:10], days=-1)[:7]
    if account.kind == "savings":
        interest = account.balance * SAVINGS_RATE // 120_000
    else:
        interest = min(0, account.balance) * OVERDRAFT_RATE // 120_000
    if interest:
        _post(tx, "interest", "Interest", _on(account_id, interest), _Move("interest", -interest), at=at)
    if account.kind != "savings" and account.balance < MONTHLY_FEE_BELOW:
        _charge_fee(tx, account_id, "monthly", at)
    before = tx.find(Statement, account_id=account_id, order_by="-month", limit=1)
    opening, closing = before[0].closing if before else 0, tx.get(Account, account_id).balance
    tx.insert(Statement(tx.new_id(Statement), account_id, month, opening, closing))


# Generator.

PAST_START: Final = "2025-12-01T00:00"
"""Time from which on movements are generated; what was before is the opening entry of an account."""
BANKS: Final = (("Nordholm Bank", False), ("Stad Bank", False), ("Union Mutual", False), ("Banco Sereno", True))
"""Other banks, and whether they are abroad."""
FIRMS: Final = phrases(
    """
    Alder Property | Bright Dental | Castle Garage | Daylight Nursery | Elm Street Choir | Ferry Housing |
    Greenway Gardens | Harbour School | Ivory Piano Lessons | Juniper Lettings | Kite Sailing Club | Lowland Roofing
    """
)
CREDITORS: Final = phrases(
    """
    Northlight Energy | Citywater | Alder Insurance | Telmond Mobile | Greenbelt Gym | Fibre Works | Lumo Streaming |
    Daily Post | Harbour Parking | Pet Shield
    """
)
MERCHANTS: Final[tuple[tuple[str, CardUse, int], ...]] = (
    ("Corner Bakery", "contactless", 900),
    ("Market Hall", "contactless", 6_000),
    ("Rail Kiosk", "contactless", 2_000),
    ("Book Harbour", "online", 4_000),
    ("Fashion Lane", "online", 12_000),
    ("Gadget Barn", "online", 30_000),
    ("Trattoria Luna", "overseas", 7_000),
    ("Hotel Alpina deposit", "overseas", 25_000),
)
"""Name, use, and the largest usual amount."""
PAST_REASONS: Final[tuple[DisputeReason, ...]] = ("goods_not_received", "wrong_amount", "charged_twice")
EMPLOYERS: Final = phrases("Lumenworks | Halden Air | City Hospital | Orchard Foods | Tidal Energy | Beacon Schools")


class _History:
    """Movements before the start, which are booked in the order of time."""

    def __init__(self, make: Generator, knobs: BankKnobs) -> None:
        self.make = make
        self.draw = make.draw
        self.knobs = knobs
        self.outside: list[OutsideAccount] = []
        self._deeds: list[tuple[str, Callable[[str], object]]] = []

    def add(self, at: str, deed: Callable[[str], object]) -> None:
        """Adds what happens at a time, unless that is ahead."""
        if at < START:
            self._deeds.append((at, deed))

    def run(self) -> None:
        for at, deed in sorted(self._deeds, key=lambda dated: dated[0]):
            deed(at)

    def months(self, day: int, time: str) -> Iterator[str]:
        """Yields the times of a day of each month, the first one in December 2025 and the last one ahead."""
        at = f"2025-12-{day:02}"
        while f"{at}T{time}" < START:
            yield f"{at}T{time}"
            at = _next_day(at, "monthly")
        yield f"{at}T{time}"

    def draw_time(self, first_day: int, last_day: int) -> str:
        """Returns a time between so many days before the start."""
        days, minutes = self.draw.randint(last_day, first_day), self.draw.randint(8 * 60, 21 * 60)
        return shift_time(f"{START[:10]}T00:00", days=-days, minutes=minutes)


@bank.generator
def _fill_bank(make: Generator, knobs: BankKnobs) -> None:
    history = _History(make, knobs)
    customers = _make_customers(history)
    accounts = _make_accounts(history, customers)
    _make_directory(history)
    cards = [card for account in accounts for card in _make_cards(history, account)]
    for account in accounts:
        _make_income(history, account)
    for customer in customers:
        _make_payees(history, customer, accounts)
    for card in cards:
        _make_card_payments(history, card)
    for account in accounts:
        if account.kind != "savings":
            _make_direct_debits(history, account)
    _make_loans(history, [account for account in accounts if account.kind != "savings"])
    history.run()
    _set_alerts(history, accounts)
    _freeze_some(history, accounts, cards)
    make.schedule("2026-04-01T00:05", end_month)


def _make_customers(history: _History) -> list[Customer]:
    """Makes customers; the first is the person whom agents serve in other applications, too."""
    draw, knobs, customers = history.draw, history.knobs, list[Customer]()
    numbers = draw.sample(range(100_000, 999_999), knobs.customers)
    births = set[tuple[str, str]]()
    while len(customers) < knobs.customers:
        at = len(customers)
        name = f"{draw.choice(OFFICE_FIRST_NAMES)} {draw.choice(OFFICE_SURNAMES)}"
        if at == 0:
            name = PERSON_NAME
        elif at == knobs.customers - 1 or draw.randrange(100) < knobs.lookalikes:
            name = draw.choice(customers).name
        born = f"{draw.randint(1944, 2006)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        if (name, born) in births:
            continue
        births.add((name, born))
        email = PERSON_EMAIL if at == 0 else f"{name.lower().replace(' ', '.')}.{at}@post.example"
        customers.append(Customer(history.make.new_id(Customer), name, born, email, str(numbers[at])))
    history.make.insert_all(customers)
    return customers


def _make_accounts(history: _History, customers: list[Customer]) -> list[Account]:
    """Gives each customer a current account and some of them savings, joint and closed accounts; returns open ones."""
    draw, accounts, holders = history.draw, list[Account](), list[AccountHolder]()
    for at, customer in enumerate(customers):
        kinds: list[AccountKind] = ["current"]
        kinds += ["savings"] * draw.choice((0, 1, 1, 2))
        kinds += ["joint"] * (at % 4 == 1)
        kinds += ["savings"] * (draw.randrange(8) == 0)
        for number, kind in enumerate(kinds, 1):
            opened = f"{draw.randint(2009, 2024)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
            account_id = history.make.new_id(Account)
            is_closed = number == len(kinds) > 2 and kind == "savings"
            status: Literal["active", "closed"] = "closed" if is_closed else "active"
            overdraft: Overdraft = "none" if kind == "savings" else draw.choice(("none", "small", "medium"))
            account = Account(account_id, f"{customer.number}{number:02}", kind, opened, status, 0, overdraft=overdraft)
            accounts.append(account)
            holders.append(AccountHolder(account_id, customer.id))
            if kind == "joint":
                holders.append(AccountHolder(account_id, customers[at - 1].id))
    history.make.insert_all(accounts)
    history.make.insert_all(holders)
    return [account for account in accounts if account.status == "active"]


def _make_directory(history: _History) -> None:
    """Makes accounts at other banks."""
    draw = history.draw
    people = [f"{draw.choice(OFFICE_FIRST_NAMES)} {draw.choice(OFFICE_SURNAMES)}" for _ in range(10)]
    count = 12 + history.knobs.customers * (history.knobs.payees + 1)
    numbers = draw.sample(range(1_000_000, 9_999_999), count)  # seven digits; those of this bank have eight
    for number in numbers:
        holder = draw.choice(FIRMS if draw.randrange(2) else people)
        name, is_abroad = draw.choice(BANKS)
        history.outside.append(OutsideAccount(name, str(number), holder, is_abroad))
    history.make.insert_all(history.outside)


def _make_income(history: _History, account: Account) -> None:
    """Books what an account opened with, monthly salaries of current accounts, and the ends of months."""
    draw, make = history.draw, history.make
    opening = 100 * draw.randint(300, 9_000) if account.kind == "savings" else 100 * draw.randint(200, 1_500)
    history.add(PAST_START, partial(_carry_over, make, (_on(account.id, opening), _Move("clearing", -opening))))
    if account.kind == "current":
        employer, amount = draw.choice(EMPLOYERS), 100 * draw.randint(1_400, 4_200)
        for at in history.months(draw.randint(24, 28), "04:00"):
            history.add(at, partial(_salary, make, account.id, employer, amount))
        make.schedule(at, pay_salary, account_id=account.id, employer=employer, amount=amount)
    for month in ("2026-01", "2026-02", "2026-03"):
        history.add(f"{month}-01T00:05", partial(_end_month, make, account.id))


def _make_cards(history: _History, account: Account) -> list[Card]:
    """Gives each holder of a current or joint account a card."""
    draw, make, cards = history.draw, history.make, list[Card]()
    for holder in make.find(AccountHolder, account_id=account.id) if account.kind != "savings" else []:
        digits, expires = f"{draw.randint(1_000, 9_998)}", f"{draw.randint(2027, 2030)}-{draw.randint(1, 12):02}-28"
        limit: CardLimit = draw.choice(("low", "standard", "standard", "high"))
        uses: list[Switch] = [draw.choice(("on", "on", "off")) for _ in range(3)]
        card = Card(make.new_id(Card), account.id, holder.customer_id, digits, expires, "active", limit, *uses)
        cards.append(make.insert(card))
    return cards


def _make_card_payments(history: _History, card: Card) -> None:
    """Makes payments of the last three months and the next days; some are charged twice or disputed."""
    draw, make = history.draw, history.make
    for _ in range(history.knobs.card_payments):
        at = history.draw_time(80, 0) if draw.randrange(4) else history.draw_time(2, -5)
        merchant, use, most = draw.choice(MERCHANTS)
        amount = draw.randint(most // 10, most)
        for number in range(2 if draw.randrange(100) < history.knobs.mistakes else 1):
            when = shift_time(at, minutes=2 * number)
            if when >= START:
                given = {"card_id": card.id, "merchant": merchant, "amount": amount, "use": use}
                make.schedule(when, arrive_card_payment, **given)
                continue
            row = CardPayment(make.new_id(CardPayment), card.id, when, merchant, amount, use, "pending")
            _settle(history, card, make.insert(row))


def _settle(history: _History, card: Card, payment: CardPayment) -> None:
    """Books or releases a past payment when it was due, or holds it if that is ahead."""
    draw, make, account_id = history.draw, history.make, card.account_id
    booked = shift_time(payment.at, days=DEPOSIT_DAYS if _is_deposit(payment) else SETTLEMENT_DAYS)
    if booked >= START:
        _hold(make, payment, account_id)
        return
    if _is_deposit(payment):
        make.update(payment, status="released")
        return

    def book(at: str) -> None:
        if _available(make.get(Account, account_id)) >= payment.amount:
            _book_card(make, payment, account_id, at)
        else:
            make.update(payment, status="declined")

    def dispute(at: str) -> None:
        if make.get(CardPayment, payment.id).status == "booked":
            _dispute(make, payment, card, draw.choice(PAST_REASONS), at)

    history.add(booked, book)
    opened = max(shift_time(booked, minutes=90), history.draw_time(9, 1))
    if draw.randrange(100) < history.knobs.mistakes and opened < shift_time(payment.at, days=DISPUTE_DAYS):
        history.add(opened, dispute)


def _make_payees(history: _History, customer: Customer, accounts: list[Account]) -> None:
    """Gives a customer payees, transfers to them, made and planned, and standing orders."""
    draw, make = history.draw, history.make
    own = [a for a in _accounts_of(make, customer.id) if a.kind != "savings" and a.status == "active"]
    for number in range(history.knobs.payees):
        target = history.outside[make.count(Payee)]
        found = PayeeCheck(target.number, target.holder, target.bank, target.is_abroad)
        strangers = [a for a in accounts if a.kind == "current" and a.number[:6] != customer.number]
        if draw.randrange(8) == 0 and strangers:
            found = _look_up(make, draw.choice(strangers).number)
            if make.find(Payee, customer_id=customer.id, number=found.number):
                continue
        added = history.draw_time(900, 100) if draw.randrange(6) else shift_time(START, hours=-draw.randint(1, 20))
        payee = Payee(make.new_id(Payee), customer.id, found.holder, found.bank, found.number, added)
        make.insert(payee)
        if added > PAST_START:
            continue
        for _ in range(draw.randint(0, 2)):
            _make_transfer(history, draw.choice(own), payee)
        if number % 2 == 0 and draw.randrange(3):
            _make_standing_order(history, draw.choice(own), payee)


def _make_transfer(history: _History, account: Account, payee: Payee) -> None:
    """Makes a transfer of the last weeks, or one that is planned."""
    draw, make, amount = history.draw, history.make, 50 * history.draw.randint(20, 900)
    transfer_id = make.new_id(Transfer)
    if draw.randrange(3) == 0:
        day = shift_time(START[:10], days=draw.randint(1, 40))
        make.insert(Transfer(transfer_id, account.id, payee.id, amount, day, "planned"))
        make.schedule(f"{day}T08:00", execute_transfer, transfer_id=transfer_id)
        return

    def send(at: str) -> None:
        if _pay_if_possible(make, account.id, payee, amount, "transfer", at):
            make.insert(Transfer(transfer_id, account.id, payee.id, amount, at[:10], "sent"))

    history.add(history.draw_time(60, 1) if draw.randrange(2) else history.draw_time(9, 1), send)


def _pay_if_possible(make: Generator, account_id: str, payee: Payee, amount: int, kind: EntryKind, at: str) -> bool:
    is_possible = _available(make.get(Account, account_id)) >= amount + FEES["foreign_transfer"]
    if is_possible:
        _pay(make, account_id, payee, amount, kind, at)
    return is_possible


def _make_standing_order(history: _History, account: Account, payee: Payee) -> None:
    """Makes a standing order, which was paid monthly or weekly, and schedules its next payment."""
    draw, make = history.draw, history.make
    every: Every = draw.choice(("weekly", "monthly", "monthly"))
    amount = 500 * draw.randint(2, 10 if every == "weekly" else 120)
    day = f"2025-12-{draw.randint(1, 28):02}"

    while f"{day}T06:00" < START:
        history.add(f"{day}T06:00", partial(_pay_if_possible, make, account.id, payee, amount, "standing_order"))
        day = _next_day(day, every)
    is_skipped = draw.randrange(6) == 0
    order = BankStandingOrder(
        make.new_id(BankStandingOrder), account.id, payee.id, amount, every, day, is_skipped=is_skipped
    )
    if draw.randrange(8) == 0:
        make.insert(replace(order, status="ended"))
    else:
        _schedule_order(make, make.insert(order))


def _make_direct_debits(history: _History, account: Account) -> None:
    """Makes direct debits with what was collected, and announces the next payments."""
    draw, make = history.draw, history.make
    for creditor in draw.sample(CREDITORS, draw.randint(1, 3)):
        signed = f"{draw.randint(2019, 2025)}-{draw.randint(1, 11):02}-{draw.randint(1, 28):02}"
        is_active = draw.randrange(8) > 0
        debit = DirectDebit(
            make.new_id(DirectDebit), account.id, creditor, signed, "active" if is_active else "cancelled"
        )
        make.insert(debit)
        amount, days = draw.randint(600, 9_900), list(history.months(draw.randint(1, 28), "07:00"))
        for at in days[:-1]:
            payment_id = make.new_id(DirectDebitPayment)
            payment = DirectDebitPayment(payment_id, debit.id, account.id, at[:10], amount, "announced")
            history.add(at, partial(_collect, make, make.insert(payment)))
        if is_active:
            last = DirectDebitPayment("", debit.id, account.id, days[-2][:10], amount, "announced")
            _announce(make, last)


def _make_loans(history: _History, accounts: list[Account]) -> None:
    """Makes loans of a third of the accounts, with the instalments of the last months."""
    draw, make = history.draw, history.make
    for account in draw.sample(accounts, max(1, len(accounts) // 3)):
        purpose: Literal["car", "home", "study"] = draw.choice(("car", "home", "study"))
        principal = 10_000 * draw.randint(30, 200)
        outstanding, instalment = principal * draw.randint(20, 90) // 100, principal // 60 // 100 * 100
        day = draw.randint(1, 28)
        *before, ahead = history.months(day, "05:00")
        postponed = draw.choice((None, None, "2025-08-14", "2024-11-03"))
        loan_id, rate = make.new_id(Loan), 10 * draw.randint(25, 79)
        make.insert(Loan(loan_id, account.id, purpose, principal, outstanding, rate, instalment, ahead[:10], postponed))
        moves = _Move("clearing", outstanding), _Move("loans", -outstanding)
        history.add(PAST_START, partial(_carry_over, make, moves))
        for at in before:
            history.add(at, partial(_take_instalment, make, loan_id))
        make.schedule(ahead, take_instalment, loan_id=loan_id)


def _carry_over(make: Generator, moves: tuple[_Move, ...], at: str) -> None:
    _post(make, "opening", "Carried over", *moves, at=at)


def _set_alerts(history: _History, accounts: list[Account]) -> None:
    alerts = list[AccountAlert]()
    for account in accounts:
        kinds: tuple[AlertKind, ...] = ("low_balance", "large_payment", "large_deposit")
        for kind in history.draw.sample(kinds, history.draw.choice((0, 0, 1, 2))):
            alerts.append(AccountAlert(account.id, kind, 5_000 * history.draw.randint(1, 40)))
    history.make.insert_all(alerts)


def _freeze_some(history: _History, accounts: list[Account], cards: list[Card]) -> None:
    """Freezes the share of accounts and cards that the knobs say, one of each at least unless it is 0."""
    draw, make, share = history.draw, history.make, history.knobs.frozen
    reasons: tuple[FreezeReason, ...] = ("lost_credentials", "suspected_fraud", "dispute_between_holders")
    some = draw.sample(accounts, -(-len(accounts) * share // 100))
    for at, account in enumerate(some):
        is_alone = len(_holders(make, account.id)) == 1
        reason = reasons[at % (2 if is_alone else 3)]
        make.update(account, status="frozen", frozen_for=reason)
    for card in draw.sample(cards, -(-len(cards) * share // 100)):
        make.update(card, status="frozen")
