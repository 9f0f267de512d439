"""The bank: double entry, rules of its actions, events, and what holds after any calls."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from assay.environments.services.apps._words import PERSON_EMAIL
from assay.environments.services.apps.airline import airline
from assay.environments.services.apps.bank import (
    FEES,
    Account,
    AccountAlert,
    AccountHolder,
    BankStandingOrder,
    Card,
    CardPayment,
    Customer,
    DirectDebit,
    DirectDebitPayment,
    Dispute,
    Fee,
    JournalEntry,
    LedgerLine,
    Loan,
    OutsideAccount,
    Payee,
    Statement,
    Transfer,
    bank,
)
from assay.environments.services.apps.console import console
from assay.environments.services.apps.mail import mail
from assay.environments.services.apps.tracker import tracker
from assay.environments.services.composition import compose
from assay.environments.services.conversation import conversation
from assay.environments.services.transaction import shift_time
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import (
    Calls,
    Letter,
    call,
    changed_tables,
    postbox,
    refuse,
    rows,
)

SIZES = [
    {"customers": 2, "payees": 0, "card_payments": 0},
    {},
    {"customers": 60, "payees": 6, "card_payments": 12, "lookalikes": 50, "mistakes": 50, "frozen": 30},
]
CALM = {"frozen": 0, "mistakes": 0}
"""Knobs of a world in which nothing is frozen and nothing is charged twice."""
TODAY = "2026-03-02"


def opened(seed: int = 1, **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([bank], seed, {"bank": knobs})


def assert_invariants(world: ServiceWorld) -> None:
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    lines = rows(world, LedgerLine)
    assert_ledger(world, lines)
    assert_holds_and_loans(world, lines)
    assert_statements(world, lines)
    for account in rows(world, Account):
        assert (account.frozen_for is None) == (account.status != "frozen")
        assert account.status != "closed" or (account.balance, account.held) == (0, 0)
        waived = [fee.waived for fee in rows(world, Fee, account_id=account.id) if fee.waived]
        assert len(waived) <= 2
        holders = rows(world, AccountHolder, account_id=account.id)
        assert len(holders) == (2 if account.kind == "joint" else 1)


def assert_ledger(world: ServiceWorld, lines: list[LedgerLine]) -> None:
    """Debits equal credits, in each entry and so in all, and balances are what the lines add up to."""
    entries, balances = Counter[str](), Counter[str]()
    for line in lines:
        assert line.debit >= 0 <= line.credit
        assert (line.debit == 0) != (line.credit == 0)
        assert (line.account_id is not None) == (line.ledger == "deposits")
        entries[line.entry_id] += line.credit - line.debit
        if line.account_id is not None:
            balances[line.account_id] += line.credit - line.debit
    assert set(entries) == {entry.id for entry in rows(world, JournalEntry)}
    assert set(entries.values()) == {0}
    assert sum(line.debit for line in lines) == sum(line.credit for line in lines)
    assert all(account.balance == balances[account.id] for account in rows(world, Account))


def assert_holds_and_loans(world: ServiceWorld, lines: list[LedgerLine]) -> None:
    ledgers, held = Counter[str](), Counter[str]()
    for line in lines:
        ledgers[line.ledger] += line.credit - line.debit
    payments, cards = rows(world, CardPayment), {card.id: card for card in rows(world, Card)}
    for payment in payments:
        if payment.status == "pending":
            held[cards[payment.card_id].account_id] += payment.amount
    assert all(account.held == held[account.id] for account in rows(world, Account))
    assert ledgers["cards"] == sum(payment.amount for payment in payments if payment.status == "booked")
    assert ledgers["disputes"] == -sum(dispute.credited for dispute in rows(world, Dispute, status="open"))
    assert ledgers["fees"] == sum(fee.amount for fee in rows(world, Fee, waived=None))
    assert ledgers["loans"] == -sum(loan.outstanding for loan in rows(world, Loan))
    assert all(loan.outstanding >= 0 for loan in rows(world, Loan))


def assert_statements(world: ServiceWorld, lines: list[LedgerLine]) -> None:
    """Each statement goes on where the last one ended, and its difference is what was booked in between."""
    times = {entry.id: entry.at for entry in rows(world, JournalEntry)}
    for account in rows(world, Account):
        own = [(times[line.entry_id], line.credit - line.debit) for line in lines if line.account_id == account.id]
        since, closing = "", 0
        for statement in sorted(rows(world, Statement, account_id=account.id), key=lambda s: s.month):
            until = f"{shift_time(f'{statement.month}-28', days=4)[:7]}-01T00:05"
            assert statement.opening == closing
            closing += sum(amount for at, amount in own if since < at <= until)
            assert statement.closing == closing
            since = until


@pytest.mark.long
@pytest.mark.parametrize("knobs", SIZES)
def test_generator(knobs: dict[str, int]) -> None:
    world = opened(5, **knobs)
    assert_invariants(world)
    names = [customer.name for customer in rows(world, Customer)]
    assert len(set(names)) < len(names) == knobs.get("customers", 12)
    assert len(rows(world, Payee)) <= knobs.get("payees", 3) * len(names)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_busy_desk_keeps_the_ledgers(seed: int) -> None:
    world, draw = opened(seed, mistakes=40, frozen=20), random.Random(seed)
    accepted: set[str] = set()
    for _ in range(400):
        name, arguments = likely_call(world, draw)
        if not world.act(name, arguments).error:
            accepted.add(name)
    assert_invariants(world)
    assert len(accepted) >= 25


def likely_call(world: ServiceWorld, draw: random.Random) -> tuple[str, dict[str, Any]]:
    """Returns a call whose arguments belong together."""
    account = draw.choice(rows(world, Account))
    customer = draw.choice(rows(world, AccountHolder, account_id=account.id)).customer_id
    other = draw.choice(rows(world, AccountHolder, customer_id=customer)).account_id
    of_account, amount = {"account_id": account.id}, {"amount": draw.choice((1_000, 5_000, 20_000, 90_000))}
    payees = rows(world, Payee, customer_id=customer) or rows(world, Payee)
    payment = {**of_account, "payee_id": draw.choice(payees).id, **amount}
    card, day = {"card_id": draw.choice(rows(world, Card)).id}, shift_time(world.now[:10], days=draw.randint(1, 20))
    alert = {"kind": draw.choice(("low_balance", "large_payment", "large_deposit"))}
    order = {"standing_order_id": draw.choice(rows(world, BankStandingOrder)).id}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("open_account", {"customer_id": customer, "kind": draw.choice(("current", "savings"))}),
        ("close_account", {**of_account, "to_account_id": other}),
        ("add_joint_holder", {**of_account, "customer_id": draw.choice(rows(world, Customer)).id}),
        ("freeze_account", {**of_account, "reason": draw.choice(("suspected_fraud", "lost_credentials"))}),
        ("unfreeze_account", of_account),
        ("set_overdraft", {**of_account, "overdraft": draw.choice(("none", "small", "medium", "large"))}),
        ("set_alert", {**of_account, **alert, "threshold": draw.choice((1_000, 50_000))}),
        ("remove_alert", {**of_account, **alert}),
        ("transfer_between_accounts", {**of_account, "to_account_id": other, **amount}),
        ("send_transfer", payment),
        ("schedule_transfer", {**payment, "day": day}),
        ("cancel_transfer", {"transfer_id": draw.choice(rows(world, Transfer)).id}),
        ("recall_transfer", {"transfer_id": draw.choice(rows(world, Transfer)).id}),
        ("add_payee", {"customer_id": customer, "account_number": draw.choice(rows(world, OutsideAccount)).number}),
        ("remove_payee", {"payee_id": payment["payee_id"]}),
        ("create_standing_order", {**payment, "every": draw.choice(("weekly", "monthly")), "first_day": day}),
        ("change_standing_order", {**order, **amount}),
        ("skip_standing_order", order),
        ("cancel_standing_order", order),
        ("cancel_direct_debit", {"direct_debit_id": draw.choice(rows(world, DirectDebit)).id}),
        ("refund_direct_debit", {"direct_debit_payment_id": draw.choice(rows(world, DirectDebitPayment)).id}),
        ("freeze_card", card),
        ("unfreeze_card", card),
        ("replace_card", {**card, "reason": draw.choice(("lost", "stolen", "damaged"))}),
        ("set_card_limit", {**card, "limit": draw.choice(("low", "standard", "high"))}),
        ("switch_card_use", {**card, "use": "online", "state": draw.choice(("on", "off"))}),
        ("open_dispute", {"card_payment_id": draw.choice(rows(world, CardPayment)).id, "reason": "charged_twice"}),
        ("withdraw_dispute", {"dispute_id": draw.choice(rows(world, Dispute)).id}),
        ("repay_loan", {"loan_id": draw.choice(rows(world, Loan)).id, **of_account, **amount}),
        ("postpone_instalment", {"loan_id": draw.choice(rows(world, Loan)).id}),
        ("waive_fee", {"fee_id": draw.choice(rows(world, Fee)).id}),
        ("order_statement_copy", {"statement_id": draw.choice(rows(world, Statement)).id}),
        ("wait", {"hours": draw.choice((1, 6, 30))}),
    ]
    return draw.choice(calls)


def test_applications_share_a_world() -> None:
    assert compose([tracker, console, airline, mail, bank, conversation]).actions


# Actions.


class Case:
    """A calm world with a customer who has money, cards and payees, and nothing frozen."""

    def __init__(self, seed: int = 4, **knobs: int) -> None:
        self.world = ServiceWorld.of([bank, postbox], seed, {"bank": {**CALM, **knobs}})
        self.account = max(rows(self.world, Account, kind="current"), key=lambda account: account.balance)
        self.customer = self.holder(self.account.id)
        self.id = {"account_id": self.account.id}
        self.savings = call(self.world, "open_account", customer_id=self.customer.id, kind="savings")
        self.card = rows(self.world, Card, account_id=self.account.id)[0]

    def holder(self, account_id: str) -> Customer:
        held = rows(self.world, AccountHolder, account_id=account_id)[0]
        found: Customer = rows(self.world, Customer, id=held.customer_id)[0]
        return found

    def stranger(self) -> Account:
        """Returns a current account of somebody with whom the customer holds nothing."""
        own = {held.account_id for held in rows(self.world, AccountHolder, customer_id=self.customer.id)}
        partners = {held.customer_id for account in own for held in rows(self.world, AccountHolder, account_id=account)}
        accounts = rows(self.world, Account, kind="current", status="active")
        found: Account = next(account for account in accounts if self.holder(account.id).id not in partners)
        return found

    def payee(self, *, is_abroad: bool = False, is_old: bool = True) -> str:
        """Adds a payee at another bank, two days ago unless it is to be new, and returns its identifier."""
        used = {payee.number for payee in rows(self.world, Payee)}
        outside = rows(self.world, OutsideAccount, is_abroad=is_abroad)
        number = next(account.number for account in outside if account.number not in used)
        added = call(self.world, "add_payee", customer_id=self.customer.id, account_number=number)
        if is_old:
            call(self.world, "wait", hours=25)
        return str(added["id"])

    def current(self) -> Account:
        found: Account = rows(self.world, Account, id=self.account.id)[0]
        return found

    def call(self, name: str, **arguments: Any) -> Any:
        return call(self.world, name, **self.id, **arguments)

    def refuse(self, name: str, **arguments: Any) -> str:
        return refuse(self.world, name, **self.id, **arguments)

    def happen(self, name: str, **payload: Any) -> None:
        """Lets an event happen in an hour."""
        with self.world.database.transaction():
            self.world.schedule(shift_time(self.world.now, hours=1), "bank", name, payload)
        call(self.world, "wait", hours=1)

    def prepare_card(self) -> None:
        """Lets the card pay without contact and up to the highest limit, whatever it could before."""
        card = {"card_id": self.card.id}
        self.world.act("set_card_limit", {**card, "limit": "high"})
        self.world.act("switch_card_use", {**card, "use": "contactless", "state": "on"})

    def pay_by_card(self, merchant: str = "Book Harbour", amount: int = 4_000) -> CardPayment:
        """Lets a payment with the customer's card arrive."""
        card = {"card_id": self.card.id}
        self.happen("arrive_card_payment", **card, merchant=merchant, amount=amount, use="contactless")
        found: CardPayment = rows(self.world, CardPayment, **card, at=self.world.now)[0]
        return found


def test_identification_needs_both_facts() -> None:
    case = Case()
    born, email = case.customer.born, case.customer.email
    assert call(case.world, "identify_customer", email=email.upper(), born=born)["id"] == case.customer.id
    assert "No customer" in refuse(case.world, "identify_customer", email=email, born="1901-01-01")
    assert "No customer" in refuse(case.world, "identify_customer", email="x@post.example", born=born)


def test_open_account() -> None:
    case = Case()
    assert (case.savings["balance"], case.savings["overdraft"], case.savings["opened"]) == (0, "none", TODAY)
    assert case.savings["number"].startswith(case.customer.number)
    assert changed_tables(case.world) == {"accounts", "holders"}
    given = {"customer_id": case.customer.id, "kind": "savings"}
    while not case.world.act("open_account", given).error:
        pass
    assert "6 accounts" in refuse(case.world, "open_account", **given)


def test_close_account() -> None:
    case = Case()
    target = {"to_account_id": case.account.id}
    case.call("transfer_between_accounts", to_account_id=case.savings["id"], amount=5_000)
    before = case.current().balance
    assert "these are the same" in case.refuse("close_account", **target)
    strange = case.stranger().id
    assert "no holder in common" in refuse(
        case.world, "close_account", account_id=case.savings["id"], to_account_id=strange
    )
    closed = call(case.world, "close_account", account_id=case.savings["id"], **target)
    assert (closed["status"], closed["balance"], case.current().balance) == ("closed", 0, before + 5_000)
    assert "is closed" in refuse(case.world, "close_account", account_id=case.savings["id"], **target)
    assert_invariants(case.world)


def test_an_account_with_obligations_stays_open() -> None:
    case = Case()
    target = {"to_account_id": case.savings["id"]}
    blockers = call(case.world, "show_account", **case.id)["blockers"]
    assert "a direct debit" in blockers
    assert all(blocker in case.refuse("close_account", **target) for blocker in blockers)
    for debit in rows(case.world, DirectDebit, **case.id, status="active"):
        call(case.world, "cancel_direct_debit", direct_debit_id=debit.id)
    for order in rows(case.world, BankStandingOrder, **case.id, status="active"):
        call(case.world, "cancel_standing_order", standing_order_id=order.id)
    for transfer in rows(case.world, Transfer, **case.id, status="planned"):
        call(case.world, "cancel_transfer", transfer_id=transfer.id)
    for loan in rows(case.world, Loan, **case.id):
        call(case.world, "repay_loan", loan_id=loan.id, **case.id, amount=loan.outstanding)
    call(case.world, "wait", hours=24 * 8)  # holds end
    call(case.world, "replace_card", card_id=case.card.id, reason="stolen")
    case.call("close_account", **target)
    call(case.world, "wait", hours=24 * 6)  # the new card does not come
    assert {card.status for card in rows(case.world, Card, **case.id)} == {"blocked"}
    assert_invariants(case.world)


def test_a_closed_account_stays_as_it_is() -> None:
    case = Case()
    closing = call(case.world, "open_account", customer_id=case.customer.id, kind="current")["id"]
    case.call("transfer_between_accounts", to_account_id=closing, amount=5_000)
    call(case.world, "wait", hours=24 * 31)
    fee = rows(case.world, Fee, account_id=closing, kind="monthly")[0]
    call(case.world, "close_account", account_id=closing, to_account_id=case.account.id)
    assert "is closed" in refuse(case.world, "waive_fee", fee_id=fee.id)
    assert "is closed" in refuse(case.world, "set_alert", account_id=closing, kind="low_balance", threshold=1_000)
    call(case.world, "wait", hours=24 * 31)
    assert {s["month"] for s in call(case.world, "list_statements", account_id=closing)} == {"2026-03"}
    assert_invariants(case.world)


def test_add_joint_holder() -> None:
    case = Case()
    stranger = case.holder(case.stranger().id)
    details = case.call("add_joint_holder", customer_id=stranger.id)
    assert {holder["id"] for holder in details["holders"]} == {case.customer.id, stranger.id}
    assert details["account"]["kind"] == "joint"
    assert case.account.id in [a["id"] for a in call(case.world, "list_accounts", customer_id=stranger.id)]
    assert "is a joint account" in case.refuse("add_joint_holder", customer_id=stranger.id)
    new = call(case.world, "open_account", customer_id=stranger.id, kind="current")
    given = {"account_id": new["id"], "customer_id": stranger.id}
    assert "holds account" in refuse(case.world, "add_joint_holder", **given)
    assert_invariants(case.world)


def test_a_frozen_account_moves_nothing() -> None:
    case = Case()
    payee, savings = {"payee_id": case.payee()}, case.savings["id"]
    assert "has one holder" in case.refuse("freeze_account", reason="dispute_between_holders")
    assert case.call("freeze_account", reason="lost_credentials")["frozen_for"] == "lost_credentials"
    assert [letter.subject for letter in rows(case.world, Letter)][-1] == "Your account is frozen"
    assert "is frozen" in case.refuse("freeze_account", reason="suspected_fraud")
    assert "is frozen" in case.refuse("send_transfer", **payee, amount=1_000)
    assert "is frozen" in case.refuse("schedule_transfer", **payee, amount=1_000, day="2026-03-20")
    assert "is frozen" in case.refuse("transfer_between_accounts", to_account_id=savings, amount=1_000)
    given = {"account_id": savings, "to_account_id": case.account.id, "amount": 1_000}
    assert "is frozen" in refuse(case.world, "transfer_between_accounts", **given)
    assert case.pay_by_card().status == "declined"
    case.call("unfreeze_account")
    assert "is active" in case.refuse("unfreeze_account")
    case.call("freeze_account", reason="suspected_fraud")
    assert "freeze for suspected fraud" in case.refuse("unfreeze_account")
    assert_invariants(case.world)


def test_a_frozen_payee_accepts_no_transfers() -> None:
    case = Case()
    target = case.stranger()
    added = call(case.world, "add_payee", customer_id=case.customer.id, account_number=target.number)
    given = {"payee_id": added["id"], "amount": 1_000}
    before = target.balance
    case.call("send_transfer", **given)
    assert rows(case.world, Account, id=target.id)[0].balance == before + 1_000
    call(case.world, "freeze_account", account_id=target.id, reason="suspected_fraud")
    assert "accepts no transfers" in case.refuse("send_transfer", **given)
    assert_invariants(case.world)


def test_overdraft_follows_salary_and_use() -> None:
    case = Case()
    given = {"account_id": case.savings["id"], "overdraft": "small"}
    assert "is a savings account" in refuse(case.world, "set_overdraft", **given)
    poor = call(case.world, "open_account", customer_id=case.customer.id, kind="current")["id"]
    assert "average salary" in refuse(case.world, "set_overdraft", account_id=poor, overdraft="small")
    assert "is none already" in refuse(case.world, "set_overdraft", account_id=poor, overdraft="none")
    case.call("set_overdraft", overdraft="large")
    assert call(case.world, "show_account", **case.id)["overdraft_limit"] == 100_000
    available = call(case.world, "show_account", **case.id)["available"]
    case.call("transfer_between_accounts", to_account_id=case.savings["id"], amount=available - 10_000)
    assert "overdraft is used" in case.refuse("set_overdraft", overdraft="small")
    assert_invariants(case.world)


def test_alerts() -> None:
    case = Case()
    for alert in rows(case.world, AccountAlert, **case.id):
        case.call("remove_alert", kind=alert.kind)
    assert "no account alert" in case.refuse("remove_alert", kind="low_balance")
    case.call("set_alert", kind="large_payment", threshold=9_000)
    case.call("set_alert", kind="large_payment", threshold=8_000)
    case.call("set_alert", kind="low_balance", threshold=case.current().balance)
    thresholds = [alert["threshold"] for alert in call(case.world, "list_account_alerts", **case.id)]
    assert thresholds == [8_000, case.current().balance]
    case.call("transfer_between_accounts", to_account_id=case.savings["id"], amount=8_000)
    subjects = Counter(letter.subject for letter in rows(case.world, Letter, recipient=case.customer.email))
    assert subjects == {"Large payment": 1, "Low balance": 1}
    case.call("transfer_between_accounts", to_account_id=case.savings["id"], amount=1_000)
    assert len(rows(case.world, Letter)) == 2


def test_transfers_between_own_accounts() -> None:
    case = Case()
    to_savings = {"to_account_id": case.savings["id"]}
    case.call("transfer_between_accounts", **to_savings, amount=50_000)
    assert rows(case.world, Account, id=case.savings["id"])[0].balance == 50_000
    assert "available" in case.refuse("transfer_between_accounts", **to_savings, amount=90_000_000)
    assert "no holder in common" in case.refuse(
        "transfer_between_accounts", to_account_id=case.stranger().id, amount=1_000
    )
    assert "these are the same" in case.refuse("transfer_between_accounts", to_account_id=case.account.id, amount=1_000)
    assert "Wrong arguments" in case.refuse("transfer_between_accounts", **to_savings, amount=999)
    back = {"account_id": case.savings["id"], "to_account_id": case.account.id, "amount": 1_000}
    for _ in range(3):
        call(case.world, "transfer_between_accounts", **back)
    assert "paid 3 times this month" in refuse(case.world, "transfer_between_accounts", **back)
    call(case.world, "wait", hours=24 * 31)
    call(case.world, "transfer_between_accounts", **back)
    assert_invariants(case.world)


def test_send_transfer_charges_what_was_quoted() -> None:
    case = Case()
    given = {"payee_id": case.payee(is_abroad=True), "amount": 10_000}
    available = call(case.world, "show_account", **case.id)["available"]
    quote = case.call("quote_transfer", **given)
    assert (quote["fee"], quote["left"]) == (FEES["foreign_transfer"], available - 10_500)
    assert case.call("send_transfer", **given)["status"] == "sent"
    assert call(case.world, "show_account", **case.id)["available"] == quote["left"]
    assert {"transfers", "journal", "lines", "accounts", "fees"} <= changed_tables(case.world)
    poor = call(case.world, "open_account", customer_id=case.customer.id, kind="current")["id"]
    assert "has 0.00 available; 105.00" in refuse(case.world, "quote_transfer", account_id=poor, **given)
    strange = {"account_id": case.stranger().id, **given}
    assert "does not hold" in refuse(case.world, "send_transfer", **strange)
    savings = {"account_id": case.savings["id"], **given}
    assert "is a savings account" in refuse(case.world, "send_transfer", **savings)
    assert_invariants(case.world)


def test_limits_of_transfers() -> None:
    case = Case(seed=9)
    new = {"payee_id": case.payee(is_old=False)}
    case.call("send_transfer", **new, amount=20_000)
    assert "at most 250.00 can be sent, and 200.00 was" in case.refuse("send_transfer", **new, amount=5_001)
    case.call("send_transfer", **new, amount=5_000)
    call(case.world, "wait", hours=25)
    case.call("send_transfer", **new, amount=6_000)
    assert "of 5000.00 was sent" in case.refuse("send_transfer", **new, amount=495_000)
    assert_invariants(case.world)


def test_planned_transfers() -> None:
    case = Case()
    given = {"payee_id": case.payee(), "amount": 3_000}
    day = shift_time(case.world.now[:10], days=2)
    assert "after today" in case.refuse("schedule_transfer", **given, day=case.world.now[:10])
    assert "at the latest" in case.refuse("schedule_transfer", **given, day="2028-01-01")
    planned = case.call("schedule_transfer", **given, day=day)
    broke = case.call("schedule_transfer", **given | {"amount": 90_000_000}, day=day)
    stopped = case.call("schedule_transfer", **given, day=day)
    call(case.world, "cancel_transfer", transfer_id=stopped["id"])
    assert "is cancelled" in refuse(case.world, "cancel_transfer", transfer_id=stopped["id"])
    call(case.world, "wait", hours=24 * 3)
    found = {transfer.id: transfer.status for transfer in rows(case.world, Transfer)}
    assert [found[each["id"]] for each in (planned, broke, stopped)] == ["sent", "failed", "cancelled"]
    assert "A transfer failed" in {letter.subject for letter in rows(case.world, Letter)}
    assert_invariants(case.world)


def test_a_planned_transfer_cannot_be_cancelled_on_its_day() -> None:
    case = Case()
    given = {"payee_id": case.payee(), "amount": 3_000, "day": shift_time(case.world.now[:10], days=1)}
    planned = case.call("schedule_transfer", **given)
    call(case.world, "wait", hours=24 - int(case.world.now[11:13]) + 1)
    assert "it is too late" in refuse(case.world, "cancel_transfer", transfer_id=planned["id"])


def test_recalls() -> None:
    case = Case()
    given = {"payee_id": case.payee(), "amount": 3_000}
    quick, slow, late = (case.call("send_transfer", **given)["id"] for _ in range(3))
    balance = case.current().balance
    assert call(case.world, "recall_transfer", transfer_id=quick)["status"] == "recalled"
    assert case.current().balance == balance - FEES["recall"]
    assert "is recalled" in refuse(case.world, "recall_transfer", transfer_id=quick)
    call(case.world, "wait", hours=24 * 4)
    call(case.world, "recall_transfer", transfer_id=slow)
    call(case.world, "wait", hours=24 * 7)
    found = {transfer.id: transfer.status for transfer in rows(case.world, Transfer)}
    assert (found[quick], found[slow]) == ("returned", "sent")
    assert "could be recalled until" in refuse(case.world, "recall_transfer", transfer_id=late)
    inside = call(case.world, "add_payee", customer_id=case.customer.id, account_number=case.stranger().number)
    sent = case.call("send_transfer", payee_id=inside["id"], amount=1_000)
    assert "inside this bank" in refuse(case.world, "recall_transfer", transfer_id=sent["id"])
    assert_invariants(case.world)


def test_payees() -> None:
    case = Case()
    outside = next(a for a in rows(case.world, OutsideAccount) if not rows(case.world, Payee, number=a.number))
    given = {"customer_id": case.customer.id, "account_number": outside.number}
    assert call(case.world, "check_payee", account_number=outside.number)["holder"] == outside.holder
    assert "No bank has" in refuse(case.world, "check_payee", account_number="1")
    payee = call(case.world, "add_payee", **given)
    assert (payee["name"], payee["bank"]) == (outside.holder, outside.bank)
    assert "already" in refuse(case.world, "add_payee", **given)
    assert "No bank has" in refuse(case.world, "add_payee", **given | {"account_number": "1"})
    planned = case.call("schedule_transfer", payee_id=payee["id"], amount=1_000, day="2026-03-20")
    assert "end them first" in refuse(case.world, "remove_payee", payee_id=payee["id"])
    call(case.world, "cancel_transfer", transfer_id=planned["id"])
    call(case.world, "remove_payee", payee_id=payee["id"])
    assert "is deleted" in refuse(case.world, "remove_payee", payee_id=payee["id"])
    assert "is deleted" in case.refuse("send_transfer", payee_id=payee["id"], amount=1_000)
    assert payee["id"] not in [p["id"] for p in call(case.world, "list_payees", customer_id=case.customer.id)]
    assert call(case.world, "add_payee", **given)["id"] != payee["id"]
    own = call(case.world, "add_payee", **given | {"account_number": case.account.number})
    assert "itself" in case.refuse("send_transfer", payee_id=own["id"], amount=1_000)


def test_standing_orders() -> None:
    case = Case()
    given = {"payee_id": case.payee(), "amount": 2_000, "every": "weekly"}
    assert "after today" in case.refuse("create_standing_order", **given, first_day="2026-03-01")
    assert "days 1 to 28" in case.refuse("create_standing_order", **given, first_day="2026-03-29")
    order = {"standing_order_id": case.call("create_standing_order", **given, first_day="2026-03-06")["id"]}
    assert "pays 20.00 already" in refuse(case.world, "change_standing_order", **order, amount=2_000)
    call(case.world, "change_standing_order", **order, amount=2_500)
    assert call(case.world, "skip_standing_order", **order)["next_day"] == "2026-03-13"
    assert "twice in a row" in refuse(case.world, "skip_standing_order", **order)
    call(case.world, "wait", hours=24 * 20)
    paid = [e for e in call(case.world, "list_entries", **case.id) if e["kind"] == "standing_order"]
    assert [(e["at"], e["amount"]) for e in paid if e["amount"] == -2_500] == [
        ("2026-03-20T06:00", -2_500),
        ("2026-03-13T06:00", -2_500),
    ]
    call(case.world, "cancel_standing_order", **order)
    assert "has ended" in refuse(case.world, "cancel_standing_order", **order)
    assert "has ended" in refuse(case.world, "skip_standing_order", **order)
    assert_invariants(case.world)


def test_a_standing_order_that_cannot_be_paid_goes_on() -> None:
    case = Case()
    given = {"payee_id": case.payee(), "amount": 90_000_000, "every": "monthly", "first_day": "2026-03-06"}
    order = case.call("create_standing_order", **given)
    call(case.world, "wait", hours=24 * 5)
    assert rows(case.world, BankStandingOrder, id=order["id"])[0].next_day == "2026-04-06"
    assert "A standing order was not paid" in {letter.subject for letter in rows(case.world, Letter)}


def test_direct_debits() -> None:
    case = Case()
    debit = rows(case.world, DirectDebit, **case.id, status="active")[0]
    paid = rows(case.world, DirectDebitPayment, direct_debit_id=debit.id, status="collected")
    paid = sorted(paid, key=lambda payment: payment.day)
    balance = case.current().balance
    call(case.world, "refund_direct_debit", direct_debit_payment_id=paid[-1].id)
    assert case.current().balance == balance + paid[-1].amount
    assert "is refunded" in refuse(case.world, "refund_direct_debit", direct_debit_payment_id=paid[-1].id)
    assert paid[0].day < "2026-01-04"
    assert "could be refunded until" in refuse(case.world, "refund_direct_debit", direct_debit_payment_id=paid[0].id)
    call(case.world, "cancel_direct_debit", direct_debit_id=debit.id)
    assert "cancelled already" in refuse(case.world, "cancel_direct_debit", direct_debit_id=debit.id)
    call(case.world, "wait", hours=24 * 31)
    later = rows(case.world, DirectDebitPayment, direct_debit_id=debit.id)
    assert max(payment.day for payment in later if payment.status != "cancelled") < TODAY
    assert_invariants(case.world)


def test_direct_debits_are_collected_or_returned() -> None:
    case = Case()
    announced = rows(case.world, DirectDebitPayment, status="announced")
    call(case.world, "wait", hours=24 * 31)
    found = {payment.id: payment.status for payment in rows(case.world, DirectDebitPayment)}
    assert {found[payment.id] for payment in announced} == {"collected", "returned"}
    again = [payment for payment in rows(case.world, DirectDebitPayment, status="announced")]
    assert {payment.direct_debit_id for payment in again} == {payment.direct_debit_id for payment in announced}
    assert rows(case.world, Fee, kind="returned_payment")
    assert_invariants(case.world)


def test_cards() -> None:
    case = Case()
    card = {"card_id": case.card.id}
    assert "is active" in refuse(case.world, "unfreeze_card", **card)
    call(case.world, "freeze_card", **card)
    assert "is frozen" in refuse(case.world, "freeze_card", **card)
    assert case.pay_by_card().status == "declined"
    call(case.world, "unfreeze_card", **card)
    limit = "low" if case.card.daily_limit == "high" else "high"
    call(case.world, "set_card_limit", **card, limit=limit)
    assert f"is {limit} already" in refuse(case.world, "set_card_limit", **card, limit=limit)
    state = "off" if case.card.contactless == "on" else "on"
    call(case.world, "switch_card_use", **card, use="contactless", state=state)
    assert "already" in refuse(case.world, "switch_card_use", **card, use="contactless", state=state)
    assert case.pay_by_card().status == ("pending" if state == "on" else "declined")
    assert_invariants(case.world)


def test_replace_card() -> None:
    case = Case()
    old, balance = {"card_id": case.card.id}, case.current().balance
    new = call(case.world, "replace_card", **old, reason="lost")
    assert case.current().balance == balance - FEES["card_replacement"]
    assert (new["status"], new["daily_limit"]) == ("ordered", case.card.daily_limit)
    for name, more in (("replace_card", {"reason": "lost"}), ("set_card_limit", {"limit": "low"})):
        assert "is blocked" in refuse(case.world, name, **old, **more)
    person, digits = case.customer.email, {"digits": int(new["digits"])}
    assert "waits to be activated" in case.world.act("activate_card", digits, role="user", actor=person).content
    call(case.world, "wait", hours=24 * 5)
    assert not case.world.act("activate_card", digits, role="user", actor=person).error
    balance = case.current().balance
    call(case.world, "replace_card", card_id=new["id"], reason="stolen")
    assert case.current().balance == balance
    assert_invariants(case.world)


def test_a_person_acts_on_their_own_cards_only() -> None:
    case = Case()
    card, stranger = {"card_id": case.card.id}, case.holder(case.stranger().id)
    assert "is not yours" in case.world.act("freeze_card", card, role="user", actor=stranger.id).content
    assert not case.world.act("freeze_card", card, role="user", actor=case.customer.id).error
    assert "is not a customer" in case.world.act("list_my_accounts", {}, role="user", actor="x@y.example").content
    assert "There is no tool" in case.world.act("waive_fee", {"fee_id": "FEE-1"}, role="user").content
    mine = json.loads(case.world.act("list_my_accounts", {}, role="user", actor=case.customer.email).content)
    assert case.account.id in [account["id"] for account in mine]


def test_card_payments_are_held_and_then_booked_or_released() -> None:
    case = Case()
    case.prepare_card()
    account = case.current()
    assert case.pay_by_card(amount=4_000).status == "pending"
    deposit = case.pay_by_card("Hotel Alpina deposit", 3_000)
    assert case.pay_by_card(amount=300_000).status == "declined"  # above any daily limit
    held = case.current()
    assert (held.held - account.held, held.balance) == (7_000, account.balance)
    case.pay_by_card(amount=1_000)
    call(case.world, "wait", hours=24 * 3)
    assert rows(case.world, CardPayment, id=deposit.id)[0].status == "pending"
    call(case.world, "wait", hours=24 * 5)
    assert rows(case.world, CardPayment, id=deposit.id)[0].status == "released"
    assert case.current().held == 0
    booked = {e["text"] for e in call(case.world, "list_entries", **case.id)}
    assert "Card payment to Book Harbour" in booked
    assert "Card payment to Hotel Alpina deposit" not in booked
    assert_invariants(case.world)


def booked_payment(case: Case, amount: int = 4_000) -> dict[str, str]:
    """Returns the argument that names a booked payment with the customer's card."""
    case.prepare_card()
    payment = case.pay_by_card(amount=amount)
    call(case.world, "wait", hours=49)
    return {"card_payment_id": payment.id}


def test_disputes_are_credited_and_decided() -> None:
    case = Case()
    paid = booked_payment(case)
    before = case.current().balance
    dispute = call(case.world, "open_dispute", **paid, reason="goods_not_received")
    assert (dispute["credited"], case.current().balance) == (4_000, before + 4_000)
    assert "disputed already" in refuse(case.world, "open_dispute", **paid, reason="wrong_amount")
    details = call(case.world, "show_card_payment", **paid)
    assert details["dispute"]["id"] == dispute["id"]
    single = call(case.world, "open_dispute", **booked_payment(case, 5_500), reason="charged_twice")
    call(case.world, "wait", hours=24 * 10)
    found = {each.id: each.status for each in rows(case.world, Dispute)}
    assert (found[dispute["id"]], found[single["id"]]) == ("accepted", "rejected")
    assert rows(case.world, CardPayment, id=paid["card_payment_id"])[0].status == "refunded"
    assert_invariants(case.world)


def test_one_of_two_equal_charges_is_given_back() -> None:
    case = Case()
    booked_payment(case)
    first, second = ({"card_payment_id": case.pay_by_card().id} for _ in range(2))
    call(case.world, "wait", hours=49)
    disputes = [call(case.world, "open_dispute", **each, reason="charged_twice")["id"] for each in (first, second)]
    call(case.world, "wait", hours=24 * 10)
    found = {each.id: each.status for each in rows(case.world, Dispute)}
    assert [found[dispute] for dispute in disputes] == ["accepted", "rejected"]
    assert_invariants(case.world)


def test_a_large_dispute_is_credited_when_it_is_won() -> None:
    case = Case()
    dispute = call(case.world, "open_dispute", **booked_payment(case, 16_000), reason="wrong_amount")
    assert dispute["credited"] == 0
    call(case.world, "wait", hours=24 * 10)
    won = [e for e in call(case.world, "list_entries", **case.id) if e["kind"] == "dispute"]
    assert [entry["amount"] for entry in won] == [16_000]
    assert_invariants(case.world)


def test_what_cannot_be_disputed() -> None:
    case = Case()
    paid = booked_payment(case)
    assert "freeze or replace it first" in refuse(case.world, "open_dispute", **paid, reason="not_recognised")
    call(case.world, "freeze_card", card_id=case.card.id)
    dispute = call(case.world, "open_dispute", **paid, reason="not_recognised")
    balance = case.current().balance
    call(case.world, "withdraw_dispute", dispute_id=dispute["id"])
    assert case.current().balance == balance - 4_000
    assert "is withdrawn" in refuse(case.world, "withdraw_dispute", dispute_id=dispute["id"])
    fork = case.world.fork()
    call(fork, "wait", hours=24 * 11)
    assert rows(fork, Dispute, id=dispute["id"])[0].status == "withdrawn"
    call(case.world, "unfreeze_card", card_id=case.card.id)
    pending = case.pay_by_card()
    assert "is pending" in refuse(case.world, "open_dispute", card_payment_id=pending.id, reason="wrong_amount")
    old = next(p.id for p in rows(case.world, CardPayment, status="booked") if p.at < "2026-01-01")
    assert "could be disputed until" in refuse(case.world, "open_dispute", card_payment_id=old, reason="wrong_amount")
    assert_invariants(case.world)


def test_loans() -> None:
    case = Case()
    loan = next(loan for loan in rows(case.world, Loan) if loan.postponed is None or loan.postponed < "2025-03")
    given = {"loan_id": loan.id, "account_id": loan.account_id}
    with case.world.database.transaction():
        case.world.schedule(case.world.now, "bank", "pay_salary", {
            "account_id": loan.account_id, "employer": "Lumenworks", "amount": 500_000,
        })  # fmt: skip
    call(case.world, "wait", hours=1)
    assert call(case.world, "repay_loan", **given, amount=9_900)["outstanding"] == loan.outstanding - 9_900
    assert "is outstanding" in refuse(case.world, "repay_loan", **given, amount=loan.outstanding)
    assert "Wrong arguments" in refuse(case.world, "repay_loan", **given, amount=4_999)
    holders = {held.customer_id for held in rows(case.world, AccountHolder, account_id=loan.account_id)}
    strange = next(h for h in rows(case.world, AccountHolder) if h.customer_id not in holders).account_id
    assert "no holder in common" in refuse(case.world, "repay_loan", loan_id=loan.id, account_id=strange, amount=5_000)
    with case.world.database.transaction():
        case.world.schedule(case.world.now, "bank", "pay_salary", {
            "account_id": loan.account_id, "employer": "Lumenworks", "amount": loan.outstanding,
        })  # fmt: skip
    call(case.world, "wait", hours=1)
    fork = case.world.fork()
    repaid = call(fork, "repay_loan", **given, amount=loan.outstanding - 9_900)
    assert repaid["outstanding"] == 0
    assert "is repaid" in refuse(fork, "postpone_instalment", loan_id=loan.id)
    call(fork, "wait", hours=24 * 31)
    assert rows(fork, Loan, id=loan.id)[0].next_due == loan.next_due
    assert_invariants(case.world)


def test_postpone_instalment() -> None:
    refusals, postponed = set[str](), 0
    for seed in range(4):
        world = opened(seed, customers=20, **CALM)
        for loan in rows(world, Loan):
            observation = world.act("postpone_instalment", {"loan_id": loan.id})
            is_recent = loan.postponed is not None and loan.postponed > "2025-03-02"
            is_late = loan.next_due < "2026-03-05"
            assert observation.error == (is_recent or is_late)
            refusals.add(observation.content.split("; ")[-1] if observation.error else "")
            if not observation.error:
                postponed += 1
                assert json.loads(observation.content)["next_due"][:7] > loan.next_due[:7]
                assert "once in twelve months" in refuse(world, "postpone_instalment", loan_id=loan.id)
    assert {"it is too late.", "once in twelve months is possible."} <= refusals
    assert postponed


def test_a_postponed_instalment_is_not_taken_on_its_old_day() -> None:
    world = opened(4, **CALM)
    due = [loan for loan in rows(world, Loan) if loan.next_due < "2026-04"]
    loan = next(loan for loan in due if not world.fork().act("postpone_instalment", {"loan_id": loan.id}).error)
    postponed = call(world, "postpone_instalment", loan_id=loan.id)
    call(world, "wait", hours=24 * (int(loan.next_due[8:]) - 1))
    assert world.now[:10] > loan.next_due
    after = rows(world, Loan, id=loan.id)[0]
    assert (after.outstanding, after.next_due) == (loan.outstanding, postponed["next_due"])


def test_instalments_are_taken() -> None:
    world = opened(4, **CALM)
    before = {loan.id: loan for loan in rows(world, Loan)}
    call(world, "wait", hours=24 * 31)
    after = {loan.id: loan for loan in rows(world, Loan)}
    paid = [loan for loan in before.values() if after[loan.id].outstanding < loan.outstanding]
    assert paid
    for loan in paid:
        interest = loan.outstanding * loan.rate // 120_000
        assert after[loan.id].outstanding == loan.outstanding + interest - loan.instalment
    assert_invariants(world)


def test_fee_waivers() -> None:
    case = Case()
    given = {"payee_id": case.payee(is_abroad=True), "amount": 1_000}
    for _ in range(3):
        case.call("send_transfer", **given)
    fees = [fee for fee in rows(case.world, Fee, **case.id) if fee.day == case.world.now[:10]]
    balance = case.current().balance
    for at, fee in enumerate(fees[:2]):
        assert call(case.world, "show_fee", fee_id=fee.id)["waivers_this_year"] == at
        call(case.world, "waive_fee", fee_id=fee.id)
    assert case.current().balance == balance + 2 * FEES["foreign_transfer"]
    assert "waived already" in refuse(case.world, "waive_fee", fee_id=fees[0].id)
    assert "2 fees of account" in refuse(case.world, "waive_fee", fee_id=fees[2].id)
    old = min(rows(case.world, Fee), key=lambda fee: fee.day)
    call(case.world, "wait", hours=72)
    assert "could be waived until" in refuse(case.world, "waive_fee", fee_id=old.id)
    assert_invariants(case.world)


def test_statement_copies() -> None:
    case = Case()
    statement = call(case.world, "list_statements", **case.id)[-1]
    assert statement["month"] == "2026-02"
    balance = case.current().balance
    assert call(case.world, "order_statement_copy", statement_id=statement["id"])["kind"] == "statement_copy"
    assert case.current().balance == balance - FEES["statement_copy"]
    case.call("freeze_account", reason="suspected_fraud")
    assert "is frozen" in refuse(case.world, "order_statement_copy", statement_id=statement["id"])


def test_months_pass() -> None:
    world = opened(3)
    for _ in range(3):
        call(world, "wait", hours=24 * 31)
    active = next(a for a in rows(world, Account, status="active", kind="current") if a.opened < TODAY)
    months = [s["month"] for s in call(world, "list_statements", account_id=active.id)]
    assert months[-3:] == ["2026-03", "2026-04", "2026-05"]
    assert {entry.kind for entry in rows(world, JournalEntry)} >= {"salary", "fee", "interest", "loan", "direct_debit"}
    assert not rows(world, CardPayment, status="pending")
    assert not rows(world, Dispute, status="open")
    assert_invariants(world)


def test_other_services_receive_its_mail() -> None:
    world = ServiceWorld.of([bank, mail], 3, {"bank": CALM})
    person = rows(world, Customer, email=PERSON_EMAIL)[0]
    account = rows(world, AccountHolder, customer_id=person.id)[0].account_id
    call(world, "freeze_account", account_id=account, reason="suspected_fraud")
    found = call(world, "search_messages", sender="service@tarnbank.example")
    assert [message["subject"] for message in found] == ["Your account is frozen"]


def test_views() -> None:
    world = opened()
    fee, dispute = rows(world, Fee)[0], rows(world, Dispute)[0]
    assert fee.id in [found["id"] for found in call(world, "list_fees", account_id=fee.account_id)]
    payment = rows(world, CardPayment, id=dispute.card_payment_id)[0]
    card = rows(world, Card, id=payment.card_id)[0]
    of_customer = {"customer_id": card.customer_id}
    assert dispute.id in [found["id"] for found in call(world, "list_disputes", **of_customer)]
    assert card.id in [found["id"] for found in call(world, "list_cards", **of_customer)]
    times = [found["at"] for found in call(world, "list_card_payments", card_id=card.id)]
    assert times == sorted(times, reverse=True)
    loan = rows(world, Loan)[0]
    holder = rows(world, AccountHolder, account_id=loan.account_id)[0].customer_id
    assert loan.id in [found["id"] for found in call(world, "list_loans", customer_id=holder)]
    for row, view in (
        (BankStandingOrder, "list_standing_orders"),
        (DirectDebit, "list_direct_debits"),
        (DirectDebitPayment, "list_direct_debit_payments"),
        (Transfer, "list_transfers"),
    ):
        found = rows(world, row)[0]
        assert found.id in [each["id"] for each in call(world, view, account_id=found.account_id)]
    entries = call(world, "list_entries", account_id=loan.account_id, limit=50)
    assert len(entries) < 50
    assert sum(entry["amount"] for entry in entries) == rows(world, Account, id=loan.account_id)[0].balance


FOUND: Calls = [("identify_customer", {})]
TRANSFER = {"account_id": "ACC-1", "payee_id": "PYE-1", "amount": 1_000}
SEND: Calls = [("quote_transfer", TRANSFER), ("send_transfer", TRANSFER)]
PAYEE = {"customer_id": "CUS-1", "account_number": "123"}
PAYMENT, FEE, ACCOUNT = {"card_payment_id": "CPM-1"}, {"fee_id": "FEE-1"}, {"account_id": "ACC-1"}
WAIVE: list[tuple[str, dict[str, Any]]] = [("show_fee", FEE), ("waive_fee", FEE)]
CONTRACTS: list[tuple[str, Calls, Calls]] = [
    ("identify-first", [*FOUND, ("list_accounts", {})], [("list_accounts", {})]),
    ("quote-transfer", [*FOUND, *SEND], [*FOUND, ("quote_transfer", {**TRANSFER, "amount": 900}), SEND[1]]),
    (
        "switch-off-only",
        [*FOUND, ("switch_card_use", {"use": "online", "state": "off"})],
        [*FOUND, ("switch_card_use", {"use": "overseas", "state": "on"})],
    ),
    (
        "no-high-limit",
        [*FOUND, ("set_card_limit", {"limit": "standard"})],
        [*FOUND, ("set_card_limit", {"limit": "high"})],
    ),
    (
        "check-payee",
        [*FOUND, ("check_payee", {"account_number": "123"}), ("add_payee", PAYEE)],
        [*FOUND, ("check_payee", {"account_number": "124"}), ("add_payee", PAYEE)],
    ),
    (
        "look-at-payment",
        [*FOUND, ("show_card_payment", PAYMENT), ("open_dispute", PAYMENT)],
        [*FOUND, ("show_card_payment", {"card_payment_id": "CPM-2"}), ("open_dispute", PAYMENT)],
    ),
    (
        "look-at-account",
        [*FOUND, ("show_account", ACCOUNT), ("close_account", ACCOUNT)],
        [*FOUND, ("close_account", ACCOUNT)],
    ),
    ("look-at-fee", [*FOUND, *WAIVE], [*FOUND, ("waive_fee", FEE)]),
    ("two-waivers", [*FOUND, *WAIVE * 2], [*FOUND, *WAIVE * 3]),
    (
        "no-payment-after-lifting",
        [*FOUND, *SEND, ("unfreeze_account", ACCOUNT)],
        [*FOUND, ("unfreeze_account", ACCOUNT), *SEND],
    ),
]
