"""A rule-driven agent for the service tasks that knows the instruction and the tools, and nothing else.

It stands for a reader who did not write the tasks: it parses the sentences of the instruction, or asks the person
whom it serves, looks the described records up by views, and acts. What it cannot read it leaves alone, so that a
share of passed tasks measures the wording and the tools, not a plan. It never reads the task's plan or checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from assay.environments.services.world import ServiceWorld
from assay.records import Observation, Task, ToolCall

Record = dict[str, Any]

MONTHS = (
    "January February March April May June July August September October November December"  # fmt: skip
).split()
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
GREETING = re.compile(r"^(?:Hi, I hope you can help me|Hello|Good morning)\. ")
START = re.compile(r"(?:^|(?<=\s))(?:Please|Besides, please|Also, please|Then please) ")
WISH = re.compile(r"(?:^|(?<=[.!?\"”] ))(?:I would like you to|Then|Also,|Besides,) ")


class NotUnderstood(Exception):
    """The solver has no rule for a sentence or finds no record that fits."""


class Refused(Exception):
    """A tool refused a call."""


class Unclear(Exception):
    """A description fits several records."""

    def __init__(self, records: list[str]) -> None:
        super().__init__(f"fits {records}")
        self.records = records


def read_day(text: str) -> str:
    """Returns `14 March 2026` as `2026-03-14`; a date in that form is returned as it is."""
    if found := re.fullmatch(r"(\d{1,2}) ([A-Z][a-z]+) (\d{4})", text):
        return f"{found[3]}-{MONTHS.index(found[2]) + 1:02d}-{int(found[1]):02d}"
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return text
    raise NotUnderstood(f"no date: {text}")


def read_moment(text: str) -> str:
    """Returns `14 March 2026 at 08:55` as `2026-03-14T08:55`, and a date alone as a date."""
    day, _, time = text.partition(" at ")
    return read_day(day) + (f"T{time}" if time else "")


def read_cents(text: str) -> int:
    return round(float(text) * 100)


def unquote(text: str) -> str:
    return text.strip().strip('"“”')


def compiled(template: str) -> re.Pattern[str]:
    """Returns the pattern of a template: `{slot}` takes any text, `{slot:a|b}` one of these, `[...]` is optional."""
    text = ""
    for part in re.split(r"(\{.+?\}|\[|\])", template):
        if part.startswith("{"):
            slot, _, options = part[1:-1].partition(":")
            text += f"(?P<{slot}>{options or '.+?'})"
        else:
            text += {"[": "(?:", "]": ")?"}.get(part) or re.escape(part)
    return re.compile(text, re.DOTALL)


class Desk:
    """The tools of one task, with what the solver does alike in every application.

    Attributes:
        templates: Sentences and the action that each asks for.
        before: Views that the policy wants read before an action, from its arguments.
    """

    templates: tuple[tuple[str, str], ...] = ()
    before: Mapping[str, Callable[[Any, Record], None]] = {}
    main: Mapping[str, str] = {}

    def __init__(self, task: Task) -> None:
        self.world = ServiceWorld(task.environment.parameters, task.environment.seed)
        self.specs = {spec.name: spec.parameters for spec in self.world.specs()}
        self.text = task.instruction.split("\n\nPolicy of ")[0]
        self.answers: dict[tuple[int, str], str] = {}
        self.facts: list[str] = []
        self.number = 0
        self.talks = "read_messages" in self.specs and "`read_messages`" in self.text
        self.problems: list[str] = []
        self.calls: list[tuple[ToolCall, Observation]] = []
        self._seen: dict[str, Any] = {}

    def call(self, name: str, **arguments: Any) -> Any:
        key = json.dumps([name, arguments])
        if key in self._seen:
            return self._seen[key]
        observation = self.world.act(name, arguments)
        self.calls.append((ToolCall(f"c{len(self.calls)}", name, json.dumps(arguments), arguments), observation))
        if observation.error:
            raise Refused(observation.content)
        try:
            result = json.loads(observation.content)
        except ValueError:
            result = observation.content
        if name.startswith(("get_", "list_", "search_", "show_", "find_", "read_metrics", "identify_")):
            self._seen[key] = result
        else:
            self._seen.clear()
        return result

    def all_of(self, name: str, **arguments: Any) -> list[Record]:
        """Returns every row of a view that has `limit` and `offset`."""
        found: list[Record] = []
        paged = "offset" in self.specs[name]["properties"]
        while True:
            rows = self.call(name, **arguments, **({"limit": 50, "offset": len(found)} if paged else {}))
            found += rows
            if not paged or len(rows) < 50:
                return found

    # reading ---------------------------------------------------------------------------------------------------

    def solve(self) -> None:
        """Does what the instruction asks for as far as it is understood; `problems` says what was not."""
        for self.number, wish in enumerate(self.wishes(), 1):
            try:
                self.grant(wish)
            except NotUnderstood as problem:
                self.problems.append(f"{self.number}: {problem}")
        if self.talks:
            self.say("Everything that I could do is done.")

    def wishes(self) -> list[str]:
        if self.talks:
            return self.hear()
        if self.text.startswith("Do the following"):
            lines = self.text.split("\n")[1:]
            self.facts = [line for line in lines if not re.match(r"\d+\. ", line)]
            return [re.sub(r"^\d+\. ", "", line).removesuffix(".") for line in lines if re.match(r"\d+\. ", line)]
        body = GREETING.sub("", self.text)
        pieces = START.split(body)
        self.facts = re.findall(r"[^.]+(?:\.[^. ][^.]*)*\.", pieces[0])
        return [piece.strip().removesuffix(".") for piece in pieces[1:]]

    def say(self, text: str) -> str:
        answer = self.call("send_message", text=text)
        return answer if isinstance(answer, str) else json.dumps(answer)

    def hear(self) -> list[str]:
        """Reads the person's first message, and asks for everything that it leaves open."""
        first = self.call("read_messages")[0]["text"]
        pieces = [piece.strip().removesuffix(".") for piece in WISH.split(first)[1:]]
        for term in sorted(self.terms(first), key=len, reverse=True):
            if not any(term == known for _, known in self.answers):
                self.note(self.say(f"Which {term}?"))
        for question in ("What is the email address?", "What is the date of birth?"):
            self.facts.append(self.say(question))
        return pieces

    def terms(self, first: str) -> set[str]:
        """Returns the nouns for records in a message: those that the tools use, and what follows an article."""
        found = set()
        for schema in self.specs.values():
            for name in schema["properties"]:
                if name.endswith("_id"):
                    found.add(name.removesuffix("_id").replace("_", " "))
        found = {term for term in found if re.search(rf"\ban? {term}\b", first)}
        for words in re.findall(r"\ban? ((?:[a-z]+ ){0,3}[a-z]+)", first):
            parts = words.split()
            while len(parts) > 1 and not any(" ".join(parts[-size:]) in found for size in range(1, len(parts) + 1)):
                parts.pop()
            found.add(" ".join(parts))
        return found

    def note(self, answer: str) -> None:
        """Keeps what the person said about each thing: `In the second matter: the account is ...`."""
        head = re.compile(r"(?:^|(?<=\. ))(?:In the (\w+) matter: )?[Tt]he ([a-z]+(?: [a-z]+){0,3}?) is ")
        heads = list(head.finditer(answer))
        ends = [head.start() for head in heads[1:]] + [len(answer)]
        for this, end in zip(heads, ends, strict=False):
            text = answer[this.end() : end].strip().removesuffix(".")
            self.answers[ORDINALS.index(this[1]) + 1 if this[1] else 1, this[2]] = text

    # acting ----------------------------------------------------------------------------------------------------

    def grant(self, wish: str) -> None:
        failure = NotUnderstood(f"no rule for: {wish}")
        for template, action in self.templates:
            found = compiled(template).fullmatch(wish[:1].lower() + wish[1:])
            if found is None:
                continue
            try:
                arguments = self.arguments(action, {k: v for k, v in found.groupdict().items() if v is not None})
            except NotUnderstood as problem:
                failure = problem
                continue
            self.carry_out(action, arguments)
            return
        raise failure

    def arguments(self, action: str, texts: Mapping[str, str]) -> Record:
        """Reads each text as the tool's parameter wants it; lists of identifiers stay lists."""
        found: Record = {}
        for name, text in texts.items():
            schema = self.specs[action]["properties"].get(name, {})
            found[name] = self.value(name, text.strip(), schema, found)
        return found

    def value(self, name: str, text: str, schema: Mapping[str, Any], before: Record) -> Any:
        if name.endswith("_id"):
            kind = name.removesuffix("_id")
            return self.find(kind, self.spoken(kind, text), before)
        options = schema.get("anyOf", [schema])
        for option in options:
            if "enum" in option:
                wanted = re.sub(r"^(?:the|my) ", "", unquote(text).lower()).replace(" ", "_").replace("-", "_")
                if wanted in option["enum"]:
                    return wanted
                raise NotUnderstood(f"{text} is not one of {option['enum']}")
            kind = option.get("type")
            if kind == "integer":
                try:
                    if "in cents" in option.get("description", ""):
                        return read_cents(text)
                    return int(text)
                except ValueError:
                    raise NotUnderstood(f"no number: {text}") from None
            if kind == "boolean":
                return text in ("yes", "on", "true")
            if option.get("pattern", "").startswith(r"^\d{4}") or "YYYY-MM-DD" in option.get("description", ""):
                return read_moment(text)
        return unquote(text)

    def spoken(self, kind: str, text: str) -> str:
        """Returns what the person said about `an account`, and any other description as it is."""
        if self.talks and (found := re.fullmatch(r"(?:an?|another|the) ([a-z ]+)", text)):
            answer = self.answers.get((self.number, found[1]))
            if answer:
                return answer
        return text

    def find(self, kind: str, text: str, before: Record) -> list[str]:
        finder = getattr(self, f"find_{kind}", None)
        if finder is None:
            raise NotUnderstood(f"cannot find a {kind}: {text}")
        records = [row if isinstance(row, str) else row["id"] for row in finder(text)]
        if not records:
            raise NotUnderstood(f"no {kind} fits: {text}")
        return list(dict.fromkeys(records))

    def carry_out(self, action: str, arguments: Record) -> None:
        for name, value in arguments.items():
            if isinstance(value, list) and name.endswith("_id"):
                if len(value) > 1:
                    self.decline("unclear", value[0])
                    return
                arguments[name] = value[0]
        main = arguments.get(self.main.get(action, "")) or next(
            (value for name, value in arguments.items() if name.endswith("_id")), ""
        )
        reason = self.forbidden(action, arguments)
        if reason:
            self.decline("not_allowed", main, reason)
            return
        try:
            self.prepare(action, arguments)
            self.call(action, **arguments)
        except Refused as refusal:
            self.decline("not_possible", main, str(refusal))

    def prepare(self, action: str, arguments: Record) -> None:
        """Reads what the policy wants read, and tells the person what is about to be done."""
        if action in self.before:
            self.before[action](self, arguments)
        if self.talks:
            self.say(f"I am going to do this now: {action.replace('_', ' ')}. Do you agree?")

    def forbidden(self, action: str, arguments: Record) -> str:
        """Returns why the policy forbids a call that the tool would carry out, or an empty text."""
        return ""

    def decline(self, reason: str, record: str, why: str = "") -> None:
        self.problems.append(f"{self.number}: declined as {reason}: {why}")
        self.call("decline_request", request=self.number, reason=reason, record_id=record)
        if self.talks:
            self.say(f"I cannot do this: {why or 'several records fit'}.")


class AirlineDesk(Desk):
    templates = (
        ("let {passenger_id} travel along in {booking_id}, paid with {payment_method_id}", "add_traveller"),
        ("upgrade {segment_id} to business with miles", "upgrade_with_miles"),
        ("upgrade {segment_id} to business, paid with {payment_method_id}", "upgrade_segment"),
        ('report that {bag_id} did not arrive: "{description}"', "report_missing_bag"),
        ("note for {segment_id} that this is needed: {kind}", "request_assistance"),
        ("cancel {segment_id}, and nothing else of that booking", "cancel_segment"),
        ("cancel all of {booking_id}", "cancel_booking"),
        ("move {segment_id} to {fare_id}; what is due is paid with {payment_method_id}", "change_segment"),
        ("book {fare_id} for {passenger_id}, paid with {payment_method_id}", "book_flight"),
        (
            "add a bag of {weight_kg} kg to {segment_id}; if it costs something, use {payment_method_id}",
            "add_bag",
        ),
    )
    before = {
        "cancel_segment": lambda desk, it: desk.call("get_segment", segment_id=it["segment_id"]),
        "cancel_booking": lambda desk, it: desk.call("quote_cancellation", booking_id=it["booking_id"]),
        "change_segment": lambda desk, it: desk.call(
            "quote_change", segment_id=it["segment_id"], fare_id=it["fare_id"]
        ),
        "issue_compensation": lambda desk, it: desk.call("get_segment", segment_id=it["segment_id"]),
    }

    def find_passenger(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(.+?)(?:, born on (\d+ \w+ \d+),?)?(?: \((\S+@\S+)\))?", text.strip().removesuffix(","))
        if not found:
            raise NotUnderstood(text)
        rows = self.all_of("search_passengers", text=found[1])
        return [
            row
            for row in rows
            if row["name"] == found[1]
            and (not found[2] or row["born"] == read_day(found[2]))
            and (not found[3] or row["email"] == found[3])
        ]

    def find_flight(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(?:the )?flight (\w+ \d+) from .+ to .+ on (\d+ \w+ \d+)", text)
        if not found:
            raise NotUnderstood(text)
        return [row for row in self.call("search_flights", text=found[1], day=read_day(found[2]))]

    def find_segment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the trip of (.+?),? on (flight .+)", text)
        if not found:
            raise NotUnderstood(text)
        flights = {row["id"] for row in self.find_flight(found[2])}
        rows = [
            row
            for person in self.find_passenger(found[1])
            for row in self.all_of("list_segments", passenger_id=person["id"])
            if row["flight_id"] in flights
        ]
        alive = [row for row in rows if row["status"] != "cancelled"]
        return alive or rows

    def find_booking(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the booking for (flight .+?) that (.+?),? made on (.+)", text)
        if not found:
            raise NotUnderstood(text)
        flights = {row["id"] for row in self.find_flight(found[1])}
        rows = [
            row
            for person in self.find_passenger(found[2])
            for row in self.all_of("list_passenger_bookings", passenger_id=person["id"])
            if row["booker_id"] == person["id"] and row["created"].startswith(read_moment(found[3]))
        ]
        return [
            row
            for row in rows
            if flights & {trip["flight_id"] for trip in self.call("get_booking", booking_id=row["id"])["segments"]}
        ]

    def find_payment_method(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (.+? ending in \d+) of (.+)", text)
        if found:
            return [
                row
                for person in self.find_passenger(found[2])
                for row in self.call("list_passenger_payment_methods", passenger_id=person["id"])
                if row["label"].lower() == found[1].lower()
            ]
        found = re.fullmatch(r"the voucher “(.+?)” over ([\d.]+)(?:, valid to (\S+?),)? of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_passenger(found[4])
            for row in self.call("list_passenger_payment_methods", passenger_id=person["id"])
            if row["kind"] == "voucher"
            and row["label"] == found[1]
            and read_cents(found[2]) in (row["issued"], row["balance"])
            and (not found[3] or row["expires"] == read_day(found[3]))
        ]

    def find_fare(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (\w+) fare (?:of|on) (flight .+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for flight in self.find_flight(found[2])
            for row in self.call("list_fares", flight_id=flight["id"])
            if row["family"] == found[1]
        ]

    def find_bag(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the bag of (\d+) kg (?:on|of) (the trip .+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for trip in self.find_segment(found[2])
            for row in self.call("list_bags", segment_id=trip["id"])
            if row["weight_kg"] == int(found[1])
        ]

    def find_seat(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(?:the )?seat (\w+) (?:of|on) (flight .+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for flight in self.find_flight(found[2])
            for row in self.call("list_seats", flight_id=flight["id"])
            if row["label"] == found[1]
        ]


class BankDesk(Desk):
    templates = (
        ("add the account with the number {account_number} as a payee of {customer_id}", "add_payee"),
        ("change {standing_order_id} so that it pays {amount} each time", "change_standing_order"),
        ("send {amount} on {day} from {account_id} to {payee_id}", "schedule_transfer"),
        ("send {amount} from {account_id} to {payee_id}", "send_transfer"),
        ("postpone by a month the next instalment of {loan_id}", "postpone_instalment"),
        ("order a paper copy of {statement_id}", "order_statement_copy"),
        ("have {direct_debit_payment_id} refunded", "refund_direct_debit"),
        ("unfreeze {card_id}", "unfreeze_card"),
        ("freeze {account_id}; the reason is {reason}", "freeze_account"),
        ("close {account_id} and move what is left on it to {to_account_id}", "close_account"),
        ("set the overdraft of {account_id} to {overdraft}", "set_overdraft"),
        ("delete {payee_id}", "remove_payee"),
    )
    before = {
        "add_payee": lambda desk, it: desk.call("check_payee", account_number=it["account_number"]),
        "send_transfer": lambda desk, it: desk.quote(it),
        "schedule_transfer": lambda desk, it: desk.quote(it),
        "close_account": lambda desk, it: desk.call("show_account", account_id=it["account_id"]),
        "open_dispute": lambda desk, it: desk.call("show_card_payment", card_payment_id=it["card_payment_id"]),
        "waive_fee": lambda desk, it: desk.call("show_fee", fee_id=it["fee_id"]),
    }

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._customers: list[Record] | None = None

    def quote(self, it: Record) -> None:
        self.call("quote_transfer", account_id=it["account_id"], payee_id=it["payee_id"], amount=it["amount"])

    def customers(self) -> list[Record]:
        """Identifies everybody whose email address and date of birth were given, in whatever order."""
        if self._customers is None:
            text = " ".join(self.facts)
            emails = dict.fromkeys(re.findall(r"\b[\w.]+@[\w.]+\w", text))
            births = dict.fromkeys(re.findall(r"\b\d{4}-\d{2}-\d{2}\b", text))
            self._customers = []
            for email, born in product(emails, births):
                try:
                    self._customers.append(self.call("identify_customer", email=email, born=born))
                except Refused:
                    continue
        return self._customers

    def find_customer(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(.+?)(?: \(born on (.+?)\))?", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for row in self.customers()
            if row["name"] == found[1] and (not found[2] or row["born"] == read_day(found[2]))
        ]

    def find_account(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (current|savings|joint) account(?: (?:with the number )?(\d+))? of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        people = [person for name in found[3].split(" and ") for person in self.find_customer(name)]
        rows = [row for person in people for row in self.call("list_accounts", customer_id=person["id"])]
        named = [re.sub(r" \(.*\)", "", name) for name in found[3].split(" and ")]
        fitting = []
        for row in rows:
            if row["kind"] != found[1] or (found[2] and row["number"] != found[2]):
                continue
            holders = [holder["name"] for holder in self.call("show_account", account_id=row["id"])["holders"]]
            if all(name in holders for name in named):
                fitting.append(row)
        return fitting

    find_to_account = find_account

    def find_payee(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the payee (.+?) \((.+?)\) of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[3])
            for row in self.call("list_payees", customer_id=person["id"])
            if row["name"] == found[1] and row["bank"] == found[2] and not row["is_deleted"]
        ]

    def find_standing_order(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (\w+) standing order of ([\d.]+) to (.+?) \((.+?)\) from (.+)", text)
        if not found:
            raise NotUnderstood(text)
        payees = {
            row["id"]: row for person in self.customers() for row in self.call("list_payees", customer_id=person["id"])
        }
        return [
            row
            for account in self.find_account(found[5])
            for row in self.call("list_standing_orders", account_id=account["id"])
            if row["every"] == found[1]
            and row["amount"] == read_cents(found[2])
            and payees.get(row["payee_id"], {"name": found[3]})["name"] == found[3]
        ]

    def find_direct_debit_payment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the direct debit payment of ([\d.]+) to (.+?) on (\d+ \w+ \d+) from (.+)", text)
        if not found:
            raise NotUnderstood(text)
        rows = []
        for account in self.find_account(found[4]):
            creditors = {row["id"]: row for row in self.call("list_direct_debits", account_id=account["id"])}
            rows += [
                row
                for row in self.all_of("list_direct_debit_payments", account_id=account["id"])
                if row["amount"] == read_cents(found[1])
                and row["day"] == read_day(found[3])
                and creditors.get(row["direct_debit_id"], {"creditor": found[2]})["creditor"] == found[2]
            ]
        return rows

    def find_loan(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (.+?) loan over ([\d.]+) that is paid from (.+)", text)
        if not found:
            raise NotUnderstood(text)
        accounts = {row["id"] for row in self.find_account(found[3])}
        return [
            row
            for person in self.customers()
            for row in self.call("list_loans", customer_id=person["id"])
            if row["account_id"] in accounts and read_cents(found[2]) in row.values()
        ]

    def find_card(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the card ending in (\d+) of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[2])
            for row in self.call("list_cards", customer_id=person["id"])
            if row["digits"] == found[1]
        ]

    def find_statement(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the statement for (\w+) (\d+) of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        month = f"{found[2]}-{MONTHS.index(found[1]) + 1:02d}"
        return [
            row
            for account in self.find_account(found[3])
            for row in self.call("list_statements", account_id=account["id"])
            if row["month"] == month
        ]


class MailDesk(Desk):
    templates = (
        ("delete {reminder_id}", "delete_reminder"),
        ('answer {message_id}: "{text}"', "reply_to_message"),
        ('forward {message_id} to {to}: "{text}"', "forward_message"),
        ("take {email} off the people invited to {event_id}", "uninvite_attendee"),
        ("take the flag off {message_id}", "unflag_message"),
        ("add {contact_id} to {group_id}", "add_group_member"),
        ("book {room_id} for {event_id}", "book_event_room"),
    )
    before = {
        "reply_to_message": lambda desk, it: desk.read(it),
        "reply_to_all": lambda desk, it: desk.read(it),
        "forward_message": lambda desk, it: desk.read(it),
        "send_to_group": lambda desk, it: desk.call("get_contact_group", group_id=it["group_id"]),
        "book_event_room": lambda desk, it: desk.call("list_free_rooms", event_id=it["event_id"]),
        "add_contact": lambda desk, it: desk.call("search_contacts", text=it["name"]),
        "invite_attendee": lambda desk, it: desk.check(it),
    }

    def read(self, it: Record) -> None:
        self._seen.clear()
        self.call("get_message", message_id=it["message_id"])

    def check(self, it: Record) -> None:
        event = self.call("get_calendar_event", event_id=it["event_id"])["event"]
        if it["email"].endswith("@lumenworks.example"):
            self.call("check_availability", email=it["email"], day=event["starts"][:10])

    def find_reminder(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the reminder “(.+)” for (.+)", text)
        if not found:
            raise NotUnderstood(text)
        rows = self.call("list_reminders")
        return [row for row in rows if row["text"] == found[1] and row["at"].startswith(read_moment(found[2]))]

    def find_message(self, text: str) -> list[Record]:
        found = re.fullmatch(
            r"the (?:message|draft) “(.+)” (?:that|which) (?:came|went|was sent)?.*?(\S+@\S+) on (.+)", text
        )
        if not found:
            raise NotUnderstood(text)
        rows = self.all_of("search_messages", text="")
        return [
            row
            for row in rows
            if row["subject"] == found[1] and row["sender"] == found[2] and row["at"].startswith(read_moment(found[3]))
        ]

    def find_event(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the event “(.+?)”(?: of (\S+@\S+))? on (.+)", text)
        if not found:
            raise NotUnderstood(text)
        rows = self.all_of("search_calendar_events", text="", include_cancelled=True)
        return [
            row
            for row in rows
            if row["title"] == found[1]
            and (not found[2] or row["organizer"] == found[2])
            and row["starts"].startswith(read_moment(found[3]))
        ]

    def find_contact(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(.+?)(?: of (.+?))?(?: \((\S+@\S+)\))?", text)
        if not found:
            raise NotUnderstood(text)
        rows = self.all_of("search_contacts", text="")
        return [row for row in rows if row["name"] == found[1] and (not found[3] or row["email"] == found[3])]

    def named(self, noun: str, view: str, text: str, column: str = "name") -> list[Record]:
        found = re.fullmatch(rf"the (?:\w+ )?{noun} “?(.+?)”?", text)
        if not found:
            raise NotUnderstood(text)
        return [row for row in self.call(view) if row[column] == found[1]]

    def find_group(self, text: str) -> list[Record]:
        return self.named("group", "list_contact_groups", text)

    def find_room(self, text: str) -> list[Record]:
        return self.named("room", "search_rooms", text)

    def find_folder(self, text: str) -> list[Record]:
        return self.named("folder", "list_mail_folders", text)

    def find_label(self, text: str) -> list[Record]:
        return self.named("label", "list_mail_labels", text)

    def find_calendar(self, text: str) -> list[Record]:
        return self.named("calendar", "list_calendars", text)


class ShopDesk(Desk):
    templates = (
        ("postpone the delivery of {shipment_id} to {day}", "postpone_delivery"),
        ("have {order_id} sent to {address_id}", "change_order_address"),
        (
            "return {order_item_id} (number of pieces: {quantity}, reason: {reason}), "
            "with the refund going to {refund_to}",
            "announce_return",
        ),
        ("cancel {order_id} (reason: {reason})", "cancel_order"),
        ("refund the drop in price of {order_item_id}", "adjust_item_price"),
        ("redeem {coupon_code} for {order_id}", "apply_coupon"),
        ("add {street}, {postal_code}, to the addresses of {customer_id}", "add_address"),
        ("exchange {order_item_id} (number of pieces: {quantity}) for {variant_id}", "request_exchange"),
        ("use {address_id} as the default address from now on", "set_default_address"),
        ('escalate {ticket_id} to the specialists: "{note}"', "escalate_ticket"),
    )
    before = {
        "announce_return": lambda desk, it: desk.call(
            "quote_return", order_item_id=it["order_item_id"], quantity=it["quantity"], reason=it["reason"]
        ),
        "request_exchange": lambda desk, it: desk.variants_of(it["order_item_id"]),
        "adjust_item_price": lambda desk, it: desk.call("quote_price_adjustment", order_item_id=it["order_item_id"]),
        "postpone_delivery": lambda desk, it: desk.call("get_shipment", shipment_id=it["shipment_id"]),
        "report_missing_parcel": lambda desk, it: desk.call("get_shipment", shipment_id=it["shipment_id"]),
        "give_goodwill": lambda desk, it: desk.call("get_order", order_id=it["order_id"]),
    }

    def prepare(self, action: str, arguments: Record) -> None:
        if "order_id" in arguments:
            self.call("get_order", order_id=arguments["order_id"])
        super().prepare(action, arguments)

    def variants_of(self, item: str) -> None:
        for rows in self._items.values():
            for row in rows:
                if row["id"] == item:
                    self.call("list_variants", product_id=row["product_id"])

    _items: dict[str, list[Record]] = {}

    def find_customer(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(.+?)(?: \((\S+@\S+)\))?", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for row in self.all_of("search_customers", text=found[1])
            if row["name"] == found[1] and (not found[2] or row["email"] == found[2])
        ]

    def find_order(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the order that (.+?) placed on (\d+ \w+ \d+(?: at \S+)?)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[1])
            for row in self.all_of("list_customer_orders", customer_id=person["id"])
            if row["placed"].startswith(read_moment(found[2]))
        ]

    def find_shipment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the parcel with (the order .+)", text)
        if not found:
            raise NotUnderstood(text)
        orders = [self.call("get_order", order_id=row["id"]) for row in self.find_order(found[1])]
        return [row["shipment"] for row in orders if row["shipment"]]

    def variants(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (.+?) \((.+?)\)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for goods in self.all_of("search_products", text=found[1])
            if goods["name"] == found[1]
            for row in self.call("list_variants", product_id=goods["id"])
            if row["options"] == found[2]
        ]

    find_variant = variants

    def find_order_item(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(the .+? \(.+?\)) from (the order .+)", text)
        if not found:
            raise NotUnderstood(text)
        wanted = {row["id"] for row in self.variants(found[1])}
        rows = [
            row
            for order in self.find_order(found[2])
            for row in self.call("get_order", order_id=order["id"])["items"]
            if row["variant_id"] in wanted
        ]
        self._items = self._items | {text: rows}
        return rows

    def find_address(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the address (.+) in (\d+) (.+?) of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[4])
            for row in self.call("get_customer", customer_id=person["id"])["addresses"]
            if (row["street"], row["postal_code"]) == (found[1], found[2]) and not row["is_removed"]
        ]

    def find_payment_method(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (.+?) of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[2])
            for row in self.call("get_customer", customer_id=person["id"])["payment_methods"]
            if row["label"].lower() == found[1].lower()
        ]

    def find_ticket(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the ticket about (.+?) that (.+) opened on (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[2])
            for row in self.all_of("list_tickets", customer_id=person["id"])
            if row["topic"] == found[1].replace(" ", "_") and row["opened"].startswith(read_moment(found[3]))
        ]


class TrackerDesk(Desk):
    templates = (
        (
            "report a {kind} “{title}” of {priority} priority in {project_id}: {description}",
            "open_issue",
        ),
        ("take {label_id} off {issue_id}", "unlabel_issue"),
        ("move {issue_id} to {status}[, because: {reason}]", "move_issue"),
        ("estimate {issue_id} at {points} points", "estimate_issue"),
        ("correct {work_log_id} to {minutes} minutes", "correct_work_log"),
        ("close {issue_id} as a duplicate of {original_id}", "close_as_duplicate"),
        ("record that {issue_id} {kind:blocks|relates}[ to] {other_id}", "link_issues"),
        ("set the due date of {issue_id} to {due}", "set_due_date"),
        ("put {issue_id} under {component_id}", "set_issue_component"),
        ("delete {work_log_id}", "delete_work_log"),
    )
    before = {
        "open_issue": lambda desk, it: desk.call("search_issues", text=it["title"]),
        "move_issue": lambda desk, it: desk.comments(it),
        "edit_page": lambda desk, it: desk.call("get_page", page_id=it["page_id"]),
        "close_sprint": lambda desk, it: desk.call("get_sprint_report", sprint_id=it["sprint_id"]),
        "restore_page_revision": lambda desk, it: desk.call(
            "get_page_revision", page_id=it["page_id"], version=it["version"]
        ),
    }

    def comments(self, it: Record) -> None:
        if it["status"] == "wont_fix":
            self._seen.clear()
            self.call("list_comments", issue_id=it["issue_id"])

    def find_member(self, text: str) -> list[Record]:
        rows = self.all_of("search_members", text="")
        exact = [row for row in rows if row["name"] == text]
        if exact:
            return exact
        found = re.fullmatch(r"(.+?)(?: \((.+)\)|, (?:the )?(.+))", text)
        if not found:
            raise NotUnderstood(text)
        detail = found[2] or found[3]
        return [row for row in rows if row["name"] == found[1] and detail in (row["title"], row["email"])]

    def find_project(self, text: str) -> list[Record]:
        name = text.removeprefix("the project ")
        return [row for row in self.call("search_projects") if row["name"] == name]

    def find_issue(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (bug|story|task) “(.+)” in (\w+)(?: \((.+?)\))? that (.+?) reported on (.+)", text)
        if not found:
            raise NotUnderstood(text)
        reporters = {row["id"] for row in self.find_member(found[5])}
        projects = {row["id"] for row in self.find_project(found[3])}
        rows = self.all_of("search_issues", text="")
        return [
            row
            for row in rows
            if row["kind"] == found[1]
            and row["title"] == found[2]
            and row["project_id"] in projects
            and row["reporter_id"] in reporters
            and row["created"].startswith(read_moment(found[6]))
        ]

    find_original = find_issue
    find_other = find_issue

    def find_label(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the label “(.+)” of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for project in self.find_project(found[2])
            for row in self.call("list_labels", project_id=project["id"])
            if row["name"] == found[1]
        ]

    def find_component(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the component “?(.+?)”? of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for project in self.find_project(found[2])
            for row in self.call("list_components", project_id=project["id"])
            if row["name"] == found[1]
        ]

    def find_work_log(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (\d+) minutes \(“(.+?)”\) that (.+?) logged for (\d+ \w+ \d+) on (.+)", text)
        if not found:
            raise NotUnderstood(text)
        people = {row["id"] for row in self.find_member(found[3])}
        return [
            row
            for issue in self.find_issue(found[5])
            for row in self.all_of("list_work_logs", issue_id=issue["id"])
            if row["member_id"] in people
            and row["minutes"] == int(found[1])
            and row["note"] == found[2]
            and row["day"] == read_day(found[4])
        ]


class ConsoleDesk(Desk):
    templates = (
        ("drain {host_id}", "drain_host"),
        ("turn {flag_id} to {percent} percent of users (on: {is_on})", "set_feature_flag"),
        ("withdraw {release_id} because {reason}", "withdraw_release"),
        ("rotate {certificate_id}", "rotate_certificate"),
        ("give {shift_id} to {engineer_id}", "hand_over_shift"),
        ("deploy {release_id}", "deploy_release"),
    )

    def find_host(self, text: str) -> list[Record]:
        name = text.removeprefix("the host ")
        return [row for row in self.call("search_hosts", text=name) if row["name"] == name]

    def find_service(self, text: str) -> list[Record]:
        name = text.removeprefix("the service ")
        return [row for row in self.all_of("search_services", text=name) if row["name"] == name]

    def find_flag(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (?:feature )?flag “(.+)” of (\S+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for service in self.find_service(found[2])
            for row in self.call("search_feature_flags", service_id=service["id"])
            if row["name"] == found[1]
        ]

    def find_release(self, text: str) -> list[Record]:
        found = re.fullmatch(r"version (\S+) of (\S+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for service in self.find_service(found[2])
            for row in self.all_of("list_releases", service_id=service["id"])
            if row["version"] == found[1]
        ]

    def find_certificate(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the certificate (?:for|of) (\S+)", text)
        if not found:
            raise NotUnderstood(text)
        return [row for row in self.call("list_certificates") if row["domain"] == found[1]]

    def find_engineer(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(.+?)(?: (?:of|from) the team (\w+))?(?: \((.+?)\))?", text)
        if not found:
            raise NotUnderstood(text)
        details = {found[2], (found[3] or "").removeprefix("team ")} - {None, ""}
        return [
            row
            for row in self.all_of("search_engineers", text="")
            if row["name"] == found[1] and details <= {row["team"], row["email"]}
        ]

    def find_shift(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the on-call shift of the team (\w+) that begins on (.+)", text)
        if not found:
            raise NotUnderstood(text)
        rows = self.call("list_shifts", team=found[1])
        return [row for row in rows if row["starts"].startswith(read_moment(found[2]))]


DESKS: Mapping[str, type[Desk]] = {
    "airline": AirlineDesk,
    "bank": BankDesk,
    "console": ConsoleDesk,
    "mail": MailDesk,
    "shop": ShopDesk,
    "tracker": TrackerDesk,
}


def solve(task: Task) -> Desk:
    """Opens the task's world, does what its instruction asks for, and returns the desk with the world as it is then."""
    app = next(tag for tag in task.tags if tag in DESKS)
    desk = DESKS[app](task)
    desk.solve()
    return desk
