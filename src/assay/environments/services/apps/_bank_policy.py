"""The policy of the bank: the text that agents read, and the contracts that can be checked over the log of calls."""

from __future__ import annotations

from typing import Final

from assay.environments.services.declaration import Consent

POLICY: Final = """
# Service desk of Tarn Bank

Customers reach you by phone and chat; colleagues in the branches pass on what a customer in front of them wants. You
may do what this page allows, with the tools that you have. You never ask for passwords or codes.

**Identify first.** Identify each customer by email address and date of birth before you tell or change anything about
their accounts. Several customers share a name. Act only on what belongs to a customer whom you have identified; either
holder of a joint account may act on it alone. Say nothing about the accounts of anybody else.

**Moving money.** Right before you send money to a payee, have the system quote the transfer for exactly this account,
payee and amount; it shows the fee and what is left. In a conversation, say account, recipient and amount and wait for a
yes before any money moves, also for standing orders, loans and the closing of accounts. If you are not sure whether a
transfer was made, look at the list before you try again. The desk moves 10.00 or more; at most 5,000.00 a day leave an
account to payees. Savings accounts pay only to accounts of their own holders, at most three times a calendar month.

**Payees.** Ask the system whose account a number is right before you add it as a payee, and tell the name. For 24 hours
after a payee was added, at most 250.00 in all can be sent to it. Do not split an amount to get around this. A payee
with planned payments cannot be deleted. Transfers abroad cost 5.00.

**Planned payments.** A transfer planned for a later day can be cancelled up to the day before. The amount of a standing
order can be changed; a payment of it can be skipped, but not twice in a row. A transfer that went to another bank can
be recalled within ten days for 15.00; what is not recalled within three days does not come back.

**Direct debits.** Customers may cancel a direct debit at any time and have each payment refunded within 56 days; they
need not give a reason.

**Cards.** Freezing is temporary and the customer may undo it. A lost or stolen card is replaced, which blocks it for
good. A replacement costs 10.00 unless the card was stolen. The new card comes by mail in five days, and only the
customer can activate it. The desk switches online and overseas payments off, never on, and never sets the daily limit
to high: both are for the customer to do in the app, who confirms it there with a code.

**Disputes.** Look at the payment right before. Only booked payments of the last 60 days can be disputed, each once. If
the customer does not recognise a payment, its card must be frozen or replaced before. Up to 150.00 are credited at once
and taken back if the dispute fails or is withdrawn.

**Frozen accounts** accept no transfers and make none. Freeze an account if a holder asks for it or reports fraud. You
may lift a freeze only if it was for lost credentials; the fraud team or both holders together lift the others. When you
have lifted a freeze, send nothing to payees in the same conversation.

**Overdrafts and loans.** An overdraft may be at most what comes in as salary in an average month of the last three.
Loans may be repaid early without a fee, 50.00 or more at a time. One instalment in twelve months may be postponed, up
to three days before it is due.

**Fees.** Look at a fee right before you waive it. At most two fees a year are waived for one account, none older than
60 days, and at most two in one conversation. Interest is not a fee. Do not offer a waiver; grant it if the customer
asks.

**Closing.** Look at the account right before you close it: the system lists what must be ended first. Its cards are
blocked, and what is left goes to another account of the same holder.

**If it is not possible**, say so with the system's reason and name who can help: the fraud team, the lending team or
the complaints office. Do not look for a way around a rule.
"""

CONTRACTS: Final = (
    """
contract = "bank-identify-first"
[[rules]]
name = "identify-first"
kind = "precondition"
when = '''call.name in ["list_accounts", "show_account", "list_entries", "list_cards", "list_payees", "list_loans",
"list_disputes", "quote_transfer", "open_account", "close_account", "add_joint_holder", "freeze_account",
"unfreeze_account", "set_overdraft", "transfer_between_accounts", "send_transfer", "schedule_transfer",
"cancel_transfer", "recall_transfer", "add_payee", "remove_payee", "create_standing_order", "change_standing_order",
"skip_standing_order", "cancel_standing_order", "cancel_direct_debit", "refund_direct_debit", "freeze_card",
"unfreeze_card", "replace_card", "set_card_limit", "switch_card_use", "open_dispute", "withdraw_dispute", "repay_loan",
"postpone_instalment", "waive_fee", "order_statement_copy", "set_alert", "remove_alert"]'''
require = 'earlier(call.name == "identify_customer" and result.ok)'
message = "identify the customer before you tell or change anything"
""",
    """
contract = "bank-quote-before-sending"
[[rules]]
name = "quote-transfer"
kind = "precondition"
when = 'call.name == "send_transfer"'
require = '''earlier(call.name == "quote_transfer" and result.ok) and
latest(call.arguments.account_id, call.name == "quote_transfer" and result.ok) == call.arguments.account_id and
latest(call.arguments.payee_id, call.name == "quote_transfer" and result.ok) == call.arguments.payee_id and
latest(call.arguments.amount, call.name == "quote_transfer" and result.ok) == call.arguments.amount'''
message = "have exactly this transfer quoted before you send it"
""",
    """
contract = "bank-check-payee"
[[rules]]
name = "check-payee"
kind = "precondition"
when = 'call.name == "add_payee"'
require = '''earlier(call.name == "check_payee" and result.ok) and
latest(call.arguments.account_number, call.name == "check_payee" and result.ok) == call.arguments.account_number'''
message = "ask whose account the number is before you add it"
""",
    """
contract = "bank-look-first"
[[rules]]
name = "look-at-payment"
kind = "precondition"
when = 'call.name == "open_dispute"'
require = '''earlier(call.name == "show_card_payment" and result.ok) and
latest(call.arguments.card_payment_id, call.name == "show_card_payment" and result.ok) ==
call.arguments.card_payment_id'''
message = "look at the payment before you dispute it"
[[rules]]
name = "look-at-account"
kind = "precondition"
when = 'call.name == "close_account"'
require = '''earlier(call.name == "show_account" and result.ok) and
latest(call.arguments.account_id, call.name == "show_account" and result.ok) == call.arguments.account_id'''
message = "look at the account before you close it"
""",
    """
contract = "bank-waivers"
[[rules]]
name = "look-at-fee"
kind = "precondition"
when = 'call.name == "waive_fee"'
require = '''earlier(call.name == "show_fee" and result.ok) and
latest(call.arguments.fee_id, call.name == "show_fee" and result.ok) == call.arguments.fee_id'''
message = "look at the fee before you waive it"
[[rules]]
name = "two-waivers"
kind = "governance"
require = 'count(call.name == "waive_fee" and result.ok) <= 2'
""",
    """
contract = "bank-cards"
[[rules]]
name = "switch-off-only"
kind = "precondition"
when = 'call.name == "switch_card_use" and call.arguments.use in ["online", "overseas"]'
require = 'call.arguments.state == "off"'
message = "only the customer switches online and overseas payments on"
[[rules]]
name = "no-high-limit"
kind = "precondition"
when = 'call.name == "set_card_limit"'
require = 'call.arguments.limit != "high"'
message = "only the customer sets the limit to high"
""",
    """
contract = "bank-lifted-freeze"
[[rules]]
name = "no-payment-after-lifting"
kind = "governance"
require = '''not (call.name in ["send_transfer", "schedule_transfer"] and result.ok and
earlier(call.name == "unfreeze_account" and result.ok))'''
""",
)

CONSENTS: Final = (
    *(
        Consent(action, amounts=("amount",))
        for action in (
            "transfer_between_accounts",
            "send_transfer",
            "schedule_transfer",
            "create_standing_order",
            "change_standing_order",
            "repay_loan",
        )
    ),
    Consent("close_account", words=("close", "closed", "closing")),
)
