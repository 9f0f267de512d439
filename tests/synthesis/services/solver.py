"""A rule-driven agent for the service tasks that knows the instruction and the tools, and nothing else.

It stands for a reader who did not write the tasks: it parses the sentences of the instruction, or asks the person
whom it serves, looks the described records up by views, and acts. What it cannot read it leaves alone, so that a
share of passed tasks measures the wording and the tools, not a plan. It never reads the task's plan or checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, ClassVar

from assay.environments.services.world import ServiceWorld
from assay.records import Observation, Task, ToolCall

Record = dict[str, Any]
Finder = Callable[[str], list[Record]]
Rows = list[list[Any]]

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
GREETING = re.compile(r"^(?:Hi, I hope you can help me|Hello|Good morning)\. ")
START = re.compile(r"(?:^|(?<=\s))(?:Please|And please|Besides, please|Also, please|Then please) ")
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


def money(cents: int) -> str:
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def unquote(text: str) -> str:
    return text.strip().strip('"“”')


def readings(template: str, sentence: str) -> Iterator[dict[str, str]]:
    """Yields the texts of the slots for each way to read a sentence by a template.

    In a template `{slot}` takes any text, `{slot:a|b}` one of these, and `[...]` is optional.
    """
    sentence = sentence[:1].lower() + sentence[1:]
    for variant in dict.fromkeys((re.sub(r"[\[\]]", "", template), re.sub(r"\[.*?\]", "", template))):
        yield from _readings(re.split(r"(\{.+?\})", variant), sentence)


def _readings(parts: list[str], text: str) -> Iterator[dict[str, str]]:
    literal, *rest = parts
    if not text.startswith(literal):
        return
    text = text[len(literal) :]
    if not rest:
        if not text:
            yield {}
        return
    slot, _, options = rest[0][1:-1].partition(":")
    after = rest[1]
    ends = [found.start() for found in re.finditer(re.escape(after), text)] if after else [len(text)]
    for end in ends:
        if end > 0 and (not options or text[:end] in options.split("|")):
            for others in _readings(rest[1:], text[end:]):
                yield {slot: text[:end], **others}


class Desk:
    """The tools of one task, with what the solver does alike in every application.

    Attributes:
        templates: Sentences and the action that each asks for.
        before: Views that the policy wants read before an action, from its arguments.
        belongings: By kind of record: its noun, a view, the view's argument, and the kind to which it belongs.
        questions: Sentences with one slot, the kind of record in it, and a function that reads the answer.
    """

    templates: ClassVar[tuple[tuple[str, str], ...]] = ()
    before: ClassVar[Mapping[str, Callable[[Any, Record], object]]] = {}
    belongings: ClassVar[Mapping[str, tuple[tuple[str, str, str, str], ...]]] = {}
    questions: ClassVar[tuple[tuple[str, str, Callable[[Any, str], Rows]], ...]] = ()

    def __init__(self, task: Task) -> None:
        self.world = ServiceWorld(task.environment.parameters, task.environment.seed)
        self.specs = {spec.name: spec.parameters for spec in self.world.specs()}
        self.text = str(task.instruction).split("\n\nPolicy of ")[0]
        self.answers: dict[tuple[int, str], str] = {}
        self.facts: list[str] = []
        self.number = 0
        self.talks = "read_messages" in self.specs and "`read_messages`" in self.text
        self.problems: list[str] = []
        self.calls: list[tuple[ToolCall, Observation]] = []
        self._seen: dict[str, Any] = {}

    def call(self, name: str, /, **arguments: Any) -> Any:
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

    def all_of(self, name: str, /, **arguments: Any) -> list[Record]:
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
        for number, wish in enumerate(self.wishes(), 1):
            self.number = number
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
                if sum(bool(re.search(rf"\ban? {term}\b", piece)) for piece in pieces) > sum(
                    term == known for _, known in self.answers
                ):
                    self.note(self.say(f"And which {term} for the rest?"))
        for question in ("What is the email address?", "What is the date of birth?"):
            while (answer := self.say(question)) not in self.facts and len(
                self.facts
            ) < 8:  # as many as there are people
                self.facts.append(answer)
        return pieces

    def terms(self, first: str) -> set[str]:
        """Returns the nouns for records in a message: those that the tools use, and what follows an article."""
        found = set()
        for schema in self.specs.values():
            for name in schema["properties"]:
                if name.endswith("_id"):
                    found.add(name.removesuffix("_id").replace("_", " "))
        found = {term for term in found if re.search(rf"\ban? {term}\b", first)}
        for words in re.findall(r"\ban? ((?:[a-z-]+ ){0,3}[a-z-]+)", first):
            parts = words.split()
            while len(parts) > 1 and not any(" ".join(parts[-size:]) in found for size in range(1, len(parts) + 1)):
                parts.pop()
            found.add(" ".join(parts))
        return found

    def note(self, answer: str) -> None:
        """Keeps what the person said about each thing: `In the second matter: the account is ...`."""
        answer = re.sub(r"(?:^|(?<=\. ))(?:It is about .*?|Please hurry|This is really annoying)\.(?= |$)", "", answer)
        answer = answer.strip()
        head = re.compile(r"(?:^|(?<=\. ))(?:In the (\w+) matter: )?[Tt]he ([a-z-]+(?: [a-z-]+){0,3}?) is ")
        heads = list(head.finditer(answer))
        ends = [head.start() for head in heads[1:]] + [len(answer)]
        for this, end in zip(heads, ends, strict=False):
            text = answer[this.end() : end].strip().removesuffix(".")
            self.answers[ORDINALS.index(this[1]) + 1 if this[1] else 1, this[2]] = text

    # acting ----------------------------------------------------------------------------------------------------

    def grant(self, wish: str) -> None:
        if self.ask(wish):
            return
        failure = NotUnderstood(f"no rule for: {wish}")
        for template, action in self.templates:
            for texts in readings(template, wish):
                try:
                    arguments = self.arguments(action, texts)
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
                return text == "on"
            if option.get("pattern", "").startswith(r"^\d{4}") or "YYYY-MM-DD" in option.get("description", ""):
                return read_moment(text)
        return unquote(self.spoken("", text))

    def spoken(self, kind: str, text: str) -> str:
        """Returns what the person said about `an account`, and any other description as it is."""
        if self.talks and (found := re.fullmatch(r"(an|a|another|the) ([a-z -]+)", text)):
            term = f"other {found[2]}" if found[1] == "another" else found[2]
            return self.answers.get((self.number, term), text)
        return text

    def find(self, kind: str, text: str, before: Record) -> list[str]:
        finder: Finder | None = getattr(self, f"find_{kind}", None)
        if finder is None:
            raise NotUnderstood(f"cannot find a {kind}: {text}")
        try:
            rows = finder(text)
        except NotUnderstood:
            rows = []
        rows = rows or self.belonging_to(kind, text)
        records = [row["id"] for row in rows]
        if not records:
            raise NotUnderstood(f"no {kind} fits: {text}")
        return list(dict.fromkeys(records))

    def belonging_to(self, kind: str, text: str) -> list[Record]:
        """Finds `the card of the joint account of Anna`: every record of a kind that belongs to another one."""
        for phrase, view, argument, owner in self.belongings.get(kind, ()):
            found = re.fullmatch(rf"{phrase} of (.+)", text)
            if found:
                rows = []
                try:
                    owners = self.find(owner, found[1], {})
                except NotUnderstood:
                    continue
                for record in owners:
                    result = self.call(view, **{argument: record}) if argument else self.call(view)
                    rows += self.unpacked(kind, result, record)
                return rows
        raise NotUnderstood(f"no {kind} fits: {text}")

    def unpacked(self, kind: str, result: Any, owner: str) -> list[Record]:
        """Returns the records of a kind in the result of a view."""
        return list(result)

    def ask(self, wish: str) -> bool:
        """Answers a question; False if the wish is none that is known."""
        for template, kind, answer in self.questions:
            for texts in readings(template, wish):
                (record,) = self.find(kind, self.spoken(kind, texts["it"]), {})
                rows = [[str(cell) for cell in row] for row in answer(self, record)]
                self.call("answer_question", request=self.number, rows=rows)
                if self.talks:
                    self.say(f"The answer is: {'; '.join(', '.join(row) for row in rows)}.")
                return True
        return False

    def carry_out(self, action: str, arguments: Record) -> None:
        for name, value in arguments.items():
            if isinstance(value, list) and name.endswith("_id"):
                if len(value) > 1:
                    self.decline("unclear", value[0])
                    return
                arguments[name] = value[0]
        main = next((value for name, value in arguments.items() if name.endswith("_id")), "")
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
            self._seen.clear()  # the policies want it read right before
            self.before[action](self, arguments)
        if self.talks:
            amount = f" {money(arguments['amount'])}" if "amount" in arguments else ""
            records = ", ".join(str(value) for name, value in arguments.items() if name.endswith("_id"))
            self.say(f"I am going to do this now: {action.replace('_', ' ')}{amount} ({records}). Do you agree?")

    def forbidden(self, action: str, arguments: Record) -> str:
        """Returns why the policy forbids a call that the tool would carry out, or an empty text."""
        return ""

    def decline(self, reason: str, record: str, why: str = "") -> None:
        self.problems.append(f"{self.number}: declined as {reason}: {why}")
        self.call("decline_request", request=self.number, reason=reason, record_id=record)
        if self.talks:
            self.say(f"I cannot do this: {why or 'several records fit'}.")


class AirlineDesk(Desk):
    belongings: ClassVar = {
        "segment": (
            ("the trip", "get_booking", "booking_id", "booking"),
            ("the trip", "list_segments", "passenger_id", "passenger"),
        ),
        "bag": (("the bag", "list_bags", "segment_id", "segment"),),
        "payment_method": (("the payment method", "list_passenger_payment_methods", "passenger_id", "passenger"),),
        "booking": (("the booking", "list_passenger_bookings", "passenger_id", "passenger"),),
        "waitlist_entry": (("the place on a waiting list", "list_waitlist_entries", "passenger_id", "passenger"),),
        "fare": (("the fare", "list_fares", "flight_id", "flight"),),
        "seat": (("the seat", "list_seats", "flight_id", "flight"),),
    }
    questions = (
        (
            "tell me how much was paid for {it} in all",
            "booking",
            lambda desk, it: [[money(desk.call("get_booking", booking_id=it)["paid"])]],
        ),
        (
            "list the names of everybody who travels on {it}",
            "booking",
            lambda desk, it: [[who["name"]] for who in desk.call("get_booking", booking_id=it)["travellers"]],
        ),
        (
            "tell me how much would be refunded if {it} were cancelled now",
            "segment",
            lambda desk, it: [[money(desk.call("get_segment", segment_id=it)["refund"])]],
        ),
        (
            "tell me how many economy seats are free on {it}",
            "flight",
            lambda desk, it: [[desk.call("get_flight", flight_id=it)["free_economy"]]],
        ),
        (
            "tell me on which day the travel document of {it} expires",
            "passenger",
            lambda desk, it: [[desk.call("get_passenger", passenger_id=it)["passenger"]["document_expires"]]],
        ),
    )
    templates = (
        ("let {passenger_id} travel along in {booking_id}, paid with {payment_method_id}", "add_traveller"),
        ("upgrade {segment_id} to business with miles", "upgrade_with_miles"),
        ("upgrade {segment_id} to business, paid with {payment_method_id}", "upgrade_segment"),
        ("report that {bag_id} did not arrive: {description}", "report_missing_bag"),
        ("note for {segment_id} that this is needed: {kind}", "request_assistance"),
        ("withdraw the special request {kind} from {segment_id}", "withdraw_assistance"),
        ("cancel {segment_id}, and nothing else of that booking", "cancel_segment"),
        ("cancel all of {booking_id}", "cancel_booking"),
        ("move {segment_id} to {fare_id}; what is due is paid with {payment_method_id}", "change_segment"),
        ("book {fare_id} for {passenger_id}, paid with {payment_method_id}", "book_flight"),
        ("add a bag of {weight_kg} kg to {segment_id}; if it costs something, use {payment_method_id}", "add_bag"),
        ("take off {bag_id}", "remove_bag"),
        ("change the phone number of {passenger_id} to {phone}", "change_passenger_phone"),
        ("correct the name of {passenger_id} to {name}", "correct_passenger_name"),
        ("reserve {seat_id} for {segment_id}; if it costs something, use {payment_method_id}", "choose_seat"),
        ("give up the seat reserved for {segment_id}", "release_seat"),
        ("give up {waitlist_entry_id}", "leave_waitlist"),
        ("check in {segment_id}", "check_in_segment"),
        ("undo the check-in of {segment_id}", "undo_check_in"),
        ("claim the compensation for {segment_id}", "issue_compensation"),
        ("put {passenger_id} on the waiting list for {cabin} on {flight_id}", "join_waitlist"),
        ("enrol {passenger_id} in the miles programme", "enrol_frequent_flyer"),
    )
    before: ClassVar = {
        "cancel_segment": lambda desk, it: desk.call("get_segment", segment_id=it["segment_id"]),
        "cancel_booking": lambda desk, it: desk.call("quote_cancellation", booking_id=it["booking_id"]),
        "change_segment": lambda desk, it: desk.call(
            "quote_change", segment_id=it["segment_id"], fare_id=it["fare_id"]
        ),
        "issue_compensation": lambda desk, it: desk.call("get_segment", segment_id=it["segment_id"]),
    }

    def forbidden(self, action: str, arguments: Record) -> str:
        if action == "add_bag" and arguments["weight_kg"] > 26:
            return "the desk registers bags up to 26 kg only"
        if action == "request_assistance" and arguments["kind"] == "unaccompanied_minor":
            return "minors who fly alone are registered by the care team"
        return ""

    def find_passenger(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(.+?)(?: \(born on (\d+ \w+ \d+)\))?", text)
        if not found:
            raise NotUnderstood(text)
        rows = self.all_of("search_passengers", text=found[1])
        return [row for row in rows if row["name"] == found[1] and (not found[2] or row["born"] == read_day(found[2]))]

    def find_flight(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(?:the )?flight (\w+ \d+) from .+ to .+ on (\d+ \w+ \d+)", text)
        if not found:
            raise NotUnderstood(text)
        return [row for row in self.call("search_flights", text=found[1], day=read_day(found[2]))]

    def find_segment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the trip of ((?!the booking).+?) on (flight .+?)(?: \(.+\))?", text)
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
        found = re.fullmatch(r"the booking for (flight .+?) that (.+?) made on (.+)", text)
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
        found = re.fullmatch(r"the voucher “(.+?)” over ([\d.]+)(?:, valid to (\d+ \w+ \d+),)? of (.+)", text)
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

    def unpacked(self, kind: str, result: Any, owner: str) -> list[Record]:
        return list(result["segments"] if kind == "segment" and isinstance(result, dict) else result)

    def find_waitlist_entry(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the place of (.+) on the (\w+) waiting list of (flight .+)", text)
        if not found:
            raise NotUnderstood(text)
        flights = {row["id"] for row in self.find_flight(found[3])}
        return [
            row
            for person in self.find_passenger(found[1])
            for row in self.call("list_waitlist_entries", passenger_id=person["id"])
            if row["flight_id"] in flights and row["cabin"] == found[2]
        ]


class BankDesk(Desk):
    belongings: ClassVar = {
        "card": (("the card", "list_cards", "", "account"),),
        "direct_debit": (("the direct debit", "list_direct_debits", "account_id", "account"),),
        "direct_debit_payment": (
            ("the payment by direct debit", "list_direct_debit_payments", "account_id", "account"),
        ),
        "standing_order": (("the standing order", "list_standing_orders", "account_id", "account"),),
        "transfer": (("the transfer", "list_transfers", "account_id", "account"),),
        "fee": (("the fee", "list_fees", "account_id", "account"),),
        "statement": (("the statement", "list_statements", "account_id", "account"),),
        "payee": (("the payee", "list_payees", "customer_id", "customer"),),
        "loan": (("the loan", "list_loans", "", "account"),),
        "card_payment": (("the card payment", "list_card_payments", "card_id", "card"),),
        "account": (("the account", "list_accounts", "customer_id", "customer"),),
    }
    questions = (
        (
            "tell me how much is available on {it}",
            "account",
            lambda desk, it: [[money(desk.call("show_account", account_id=it)["available"])]],
        ),
        (
            "list the active standing orders from {it}, each with its amount and next day",
            "account",
            lambda desk, it: [
                [money(row["amount"]), row["next_day"]]
                for row in desk.call("list_standing_orders", account_id=it)
                if row["status"] == "active"
            ],
        ),
        (
            "list the months for which {it} has a statement, each with its closing balance",
            "account",
            lambda desk, it: [
                [row["month"], money(row["closing"])] for row in desk.call("list_statements", account_id=it)
            ],
        ),
        (
            "tell me until when {it} can be disputed",
            "card_payment",
            lambda desk, it: [[desk.call("show_card_payment", card_payment_id=it)["disputable_until"]]],
        ),
        (
            "tell me until when {it} can be waived",
            "fee",
            lambda desk, it: [[desk.call("show_fee", fee_id=it)["waivable_until"]]],
        ),
    )
    templates = (
        ("add the account with the number {account_number} as a payee of {customer_id}", "add_payee"),
        ("add {customer_id} as a second holder of {account_id}", "add_joint_holder"),
        ("change {standing_order_id} so that it pays {amount} each time", "change_standing_order"),
        ("skip the next payment of {standing_order_id}", "skip_standing_order"),
        ("end {standing_order_id}", "cancel_standing_order"),
        (
            "set up a {every} standing order of {amount}, first due on {first_day}, from {account_id} to {payee_id}",
            "create_standing_order",
        ),
        ("send {amount} on {day} from {account_id} to {payee_id}", "schedule_transfer"),
        ("send {amount} from {account_id} to {payee_id}", "send_transfer"),
        ("move {amount} from {account_id} to {to_account_id}", "transfer_between_accounts"),
        ("postpone by a month the next instalment of {loan_id}", "postpone_instalment"),
        ("repay {amount} early from {account_id} on {loan_id}", "repay_loan"),
        ("order a paper copy of {statement_id}", "order_statement_copy"),
        ("have {direct_debit_payment_id} refunded", "refund_direct_debit"),
        ("unfreeze {card_id}", "unfreeze_card"),
        ("freeze {account_id}; the reason is {reason}", "freeze_account"),
        ("freeze {card_id}", "freeze_card"),
        ("lift the freeze on {account_id}", "unfreeze_account"),
        ("close {account_id} and move what is left on it to {to_account_id}", "close_account"),
        ("open a {kind} account for {customer_id}", "open_account"),
        ("set the overdraft of {account_id} to {overdraft}", "set_overdraft"),
        ("set up a {kind} alert at {threshold} for {account_id}", "set_alert"),
        ("remove the {kind} alert of {account_id}", "remove_alert"),
        ("delete {payee_id}", "remove_payee"),
        ("cancel {direct_debit_id}", "cancel_direct_debit"),
        ("cancel {transfer_id}", "cancel_transfer"),
        ("recall {transfer_id}", "recall_transfer"),
        ("replace {card_id}, which is {reason}", "replace_card"),
        ("set the daily limit of {card_id} to {limit}", "set_card_limit"),
        ("turn {state} {use} payments with {card_id}", "switch_card_use"),
        ("dispute {card_payment_id}; the reason is {reason}", "open_dispute"),
        ("withdraw {dispute_id}", "withdraw_dispute"),
        ("waive {fee_id}", "waive_fee"),
    )
    before: ClassVar = {
        "add_payee": lambda desk, it: desk.call("check_payee", account_number=it["account_number"]),
        "send_transfer": lambda desk, it: desk.quote(it),
        "close_account": lambda desk, it: desk.call("show_account", account_id=it["account_id"]),
        "open_dispute": lambda desk, it: desk.call("show_card_payment", card_payment_id=it["card_payment_id"]),
        "waive_fee": lambda desk, it: desk.call("show_fee", fee_id=it["fee_id"]),
    }

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._customers: list[Record] | None = None

    def quote(self, it: Record) -> None:
        self.call("quote_transfer", account_id=it["account_id"], payee_id=it["payee_id"], amount=it["amount"])

    def forbidden(self, action: str, arguments: Record) -> str:
        if action == "switch_card_use" and arguments["use"] in ("online", "overseas") and arguments["state"] == "on":
            return "the desk switches online and overseas payments off, never on"
        if action == "set_card_limit" and arguments["limit"] == "high":
            return "the desk never sets the daily limit to high"
        return ""

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
        found = re.fullmatch(
            r"the (closed )?(current|savings|joint) account (?:of|that) (.+?)(?: opened on (.+))?", text
        )
        if not found:
            raise NotUnderstood(text)
        owners = [self.find_customer(name) for name in found[3].split(" and ")]
        names = sorted(re.sub(r" \(.*\)", "", name) for name in found[3].split(" and "))
        rows = {
            row["id"]: row
            for people in owners
            for person in people
            for row in self.call("list_accounts", customer_id=person["id"])
        }
        fitting = []
        for row in rows.values():
            if row["kind"] != found[2] or (found[4] and row["opened"] != read_day(found[4])):
                continue
            if (row["status"] == "closed") != bool(found[1]):
                continue
            holders = self.call("show_account", account_id=row["id"])["holders"]
            if names == sorted(holder["name"] for holder in holders) and all(
                not people or {person["id"] for person in people} & {holder["id"] for holder in holders}
                for people in owners
            ):
                fitting.append(row)
        return fitting

    find_to_account = find_account

    def find_payee(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (?:former )?payee (.+?) \((.+?)\) of (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for person in self.find_customer(found[3])
            for row in self.call("list_payees", customer_id=person["id"])
            if row["name"] == found[1] and row["bank"] == found[2] and not row["is_deleted"]
        ]

    def find_standing_order(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (?:ended )?(\w+) standing order of ([\d.]+) to (.+?) \((.+?)\) from (.+)", text)
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

    def unpacked(self, kind: str, result: Any, owner: str) -> list[Record]:
        return list(result)

    def belonging_to(self, kind: str, text: str) -> list[Record]:
        found = re.fullmatch(r"the (card|loan) of (the .+)", text)
        if found and kind == found[1]:
            accounts = {row["id"] for row in self.find_account(found[2])}
            return [
                row
                for person in self.customers()
                for row in self.call(f"list_{kind}s", customer_id=person["id"])
                if row["account_id"] in accounts
            ]
        found_debit = re.fullmatch(r"the payment by direct debit of (the direct debit .+ from (the .+))", text)
        if found_debit and kind == "direct_debit_payment":
            debits = {row["id"] for row in self.find_direct_debit(found_debit[1])}
            return [
                row
                for account in self.find_account(found_debit[2])
                for row in self.all_of("list_direct_debit_payments", account_id=account["id"])
                if row["direct_debit_id"] in debits
            ]
        if found is None and (found := re.fullmatch(r"the card of (.+)", text)) and kind == "card":
            return [
                row
                for person in self.find_customer(found[1])
                for row in self.call("list_cards", customer_id=person["id"])
            ]
        return super().belonging_to(kind, text)

    def payee_names(self) -> dict[str, str]:
        return {
            row["id"]: f"{row['name']} ({row['bank']})"
            for person in self.customers()
            for row in self.call("list_payees", customer_id=person["id"])
        }

    def find_transfer(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the transfer of ([\d.]+) to (.+), dated (\d+ \w+ \d+), from (.+)", text)
        if not found:
            raise NotUnderstood(text)
        payees = self.payee_names()
        return [
            row
            for account in self.find_account(found[4])
            for row in self.all_of("list_transfers", account_id=account["id"])
            if row["amount"] == read_cents(found[1])
            and row["day"] == read_day(found[3])
            and payees.get(row["payee_id"], found[2]) == found[2]
        ]

    def find_direct_debit(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the direct debit of (.+) from (the .+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for account in self.find_account(found[2])
            for row in self.call("list_direct_debits", account_id=account["id"])
            if row["creditor"] == found[1]
        ]

    def find_card_payment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the payment of ([\d.]+) to (.+) on (\d+ \w+ \d+ at \S+) with (the card .+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for card in self.find_card(found[4])
            for row in self.all_of("list_card_payments", card_id=card["id"])
            if row["amount"] == read_cents(found[1])
            and row["merchant"] == found[2]
            and row["at"] == read_moment(found[3])
        ]

    def find_dispute(self, text: str) -> list[Record]:
        payments = {row["id"] for row in self.find_card_payment(text.removeprefix("the dispute over "))}
        return [
            row
            for person in self.customers()
            for row in self.call("list_disputes", customer_id=person["id"])
            if row["card_payment_id"] in payments
        ]

    def find_fee(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (.+) fee of ([\d.]+) that was charged on (\d+ \w+ \d+) to (.+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for account in self.find_account(found[4])
            for row in self.all_of("list_fees", account_id=account["id"])
            if row["kind"] == found[1].replace(" ", "_")
            and row["amount"] == read_cents(found[2])
            and row["day"] == read_day(found[3])
        ]


class MailDesk(Desk):
    belongings: ClassVar = {
        "message": (("the message", "search_messages", "folder_id", "folder"),),
        "event": (("the event", "search_calendar_events", "", "calendar"),),
        "attachment": (("the attachment", "get_message", "message_id", "message"),),
    }
    questions = (
        (
            "list the addresses of everybody who has accepted the invitation to {it}",
            "event",
            lambda desk, it: [
                [row["email"]]
                for row in desk.call("get_calendar_event", event_id=it)["attendees"]
                if row["response"] == "accepted"
            ],
        ),
        (
            "list the names and phone numbers of everybody in {it}",
            "group",
            lambda desk, it: [
                [row["name"], row["phone"]] for row in desk.call("get_contact_group", group_id=it)["members"]
            ],
        ),
        (
            "list the names of the files that are attached to {it}",
            "message",
            lambda desk, it: [[row["name"]] for row in desk.call("get_message", message_id=it)["attachments"]],
        ),
    )
    templates = (
        ("delete {reminder_id}", "delete_reminder"),
        ("delete {contact_id} from the contacts", "delete_contact"),
        ("delete {message_id}", "delete_message"),
        ("answer the invitation to {event_id} with {response}", "answer_event_invitation"),
        ("answer {message_id}, to everybody who got it: {text}", "reply_to_all"),
        ("answer {message_id}: {text}", "reply_to_message"),
        ("forward {message_id} to {to}: {text}", "forward_message"),
        ("send a message to {to} with the subject “{subject}”: {text}", "send_mail"),
        ("prepare a draft to {to} with the subject “{subject}”, without sending it: {text}", "draft_mail"),
        ("write to {group_id} with the subject “{subject}”: {text}", "send_to_group"),
        ("put {email} on the {kind:“cc”|“to”} line of {message_id}", "add_draft_recipient"),
        ("attach {attachment_id} to {message_id}", "attach_to_draft"),
        ("send {message_id}", "send_draft"),
        ("take {email} off the people invited to {event_id}", "uninvite_attendee"),
        ("invite {email} to {event_id}", "invite_attendee"),
        ("take the flag off {message_id}", "unflag_message"),
        ("flag {message_id}", "flag_message"),
        ("mark {message_id} as unread", "mark_message_unread"),
        ("mark {message_id} as read", "mark_message_read"),
        ("put {label_id} on {message_id}", "label_message"),
        ("take {label_id} off {message_id}", "unlabel_message"),
        ("put “{title}” into {calendar_id} on {starts}, for {minutes} minutes", "create_calendar_event"),
        ("move {event_id} to {starts}", "reschedule_event"),
        ("move {message_id} to {folder_id}", "move_message"),
        ("create a folder called “{name}”", "create_mail_folder"),
        ("create a label called “{name}”", "create_mail_label"),
        ("create a group of contacts called “{name}”", "create_contact_group"),
        ("remove {folder_id}", "delete_mail_folder"),
        ("remove {filter_rule_id}", "delete_filter_rule"),
        ("file what comes from {sender} in {folder_id} from now on", "add_filter_rule"),
        ("set the out-of-office answer from {first_day} to {last_day}: {text}", "set_out_of_office"),
        ("switch the out-of-office answer off", "end_out_of_office"),
        ("add {name} of {company} with the address {email} to the contacts", "add_contact"),
        ("change the address of {contact_id} to {email}", "change_contact_email"),
        ("note that {contact_id} now works for {company}", "change_contact_company"),
        ("add {contact_id} to {group_id}", "add_group_member"),
        ("take {contact_id} out of {group_id}", "remove_group_member"),
        ("cancel {event_id}", "cancel_calendar_event"),
        ("book {room_id} for {event_id}", "book_event_room"),
        ("give back the room of {event_id}", "release_event_room"),
        ("set a reminder {minutes} minutes before {event_id}", "set_event_reminder"),
        ("set a reminder for {at}: {text}", "create_reminder"),
    )
    before: ClassVar = {
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

    def forbidden(self, action: str, arguments: Record) -> str:
        if action == "add_filter_rule" and arguments["sender"].endswith("@lumenworks.example"):
            return "what colleagues write is never filed by a filter"
        if action == "invite_attendee" and not arguments["email"].endswith("@lumenworks.example"):
            return "people outside are not invited to meetings"
        return ""

    def find_reminder(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the reminder “(.+)” for (.+)", text)
        if not found:
            raise NotUnderstood(text)
        rows = self.call("list_reminders")
        return [row for row in rows if row["text"] == found[1] and row["at"].startswith(read_moment(found[2]))]

    def find_message(self, text: str) -> list[Record]:
        came = re.fullmatch(r"the message “(.+)” that came from (\S+) on (.+)", text)
        wrote = re.fullmatch(r"the (draft|message that was sent)(?: by (\S+))? with the subject “(.+)”, of (.+)", text)
        if came:
            subject, sender, moment, statuses = came[1], came[2], came[3], ("received",)
        elif wrote:
            status = "draft" if wrote[1] == "draft" else "sent"
            subject, sender, moment, statuses = wrote[3], wrote[2], wrote[4], (status,)
        else:
            raise NotUnderstood(text)
        return [
            row
            for row in self.all_of("search_messages", text="")
            if row["subject"] == subject
            and (sender is None or row["sender"] == sender)
            and row["at"].startswith(read_moment(moment))
            and row["status"] in statuses
        ]

    def find_event(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (?:cancelled )?event “(.+?)”(?: of (\S+@\S+))? on (.+)", text)
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
        found = re.fullmatch(rf"the {noun} “?(.+?)”?", text)
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

    def unpacked(self, kind: str, result: Any, owner: str) -> list[Record]:
        if kind == "attachment":
            return list(result["attachments"])
        if kind == "event":
            return [row for row in self.all_of("search_calendar_events", text="") if row["calendar_id"] == owner]
        return list(result)

    def belonging_to(self, kind: str, text: str) -> list[Record]:
        """Finds also what belongs to the person: `the contact of Robin Falk, developer in Product`."""
        found = re.fullmatch(r"the (\w+) of ([^“@]+, .+ in .+)", text)
        views = {
            "contact": "search_contacts",
            "group": "list_contact_groups",
            "folder": "list_mail_folders",
            "label": "list_mail_labels",
            "calendar": "list_calendars",
            "reminder": "list_reminders",
            "filter_rule": "list_filter_rules",
        }
        if found and kind in views and found[1] == kind.removesuffix("_rule"):
            return self.all_of(views[kind])
        return super().belonging_to(kind, text)

    def find_attachment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the file “(.+)” in (the .+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for message in self.find_message(found[2])
            for row in self.call("get_message", message_id=message["id"])["attachments"]
            if row["name"] == found[1]
        ]

    def find_filter_rule(self, text: str) -> list[Record]:
        sender = text.removeprefix("the filter for messages from ")
        return [row for row in self.call("list_filter_rules") if row["sender"] == sender]


class ShopDesk(Desk):
    belongings: ClassVar = {
        "order": (("the order", "list_customer_orders", "customer_id", "customer"),),
        "order_item": (("the item", "get_order", "order_id", "order"),),
        "address": (("the address", "get_customer", "customer_id", "customer"),),
        "payment_method": (("the payment method", "get_customer", "customer_id", "customer"),),
        "ticket": (("the ticket", "list_tickets", "customer_id", "customer"),),
        "return": (("the return", "list_returns", "order_id", "order"),),
        "exchange": (("the exchange", "list_exchanges", "order_id", "order"),),
        "variant": (("the variant", "list_variants", "product_id", "product"),),
    }
    questions = (
        (
            "tell me what {it} costs in all",
            "order",
            lambda desk, it: [[money(desk.call("get_order", order_id=it)["total"])]],
        ),
        (
            "tell me for which day {it} is announced",
            "shipment",
            lambda desk, it: [[desk.call("get_shipment", shipment_id=it)["expected"]]],
        ),
        (
            "tell me what adjusting the price of {it} would give back",
            "order_item",
            lambda desk, it: [[money(desk.call("quote_price_adjustment", order_item_id=it)["refund"])]],
        ),
        (
            "list what was given back for each return of {it}",
            "order",
            lambda desk, it: [
                [money(row["refund"])] for row in desk.call("list_returns", order_id=it) if row["status"] == "refunded"
            ],
        ),
        (
            "tell me how many stock alerts {it} has",
            "customer",
            lambda desk, it: [[len(desk.call("list_stock_alerts", customer_id=it))]],
        ),
    )
    templates = (
        ("postpone the delivery of {shipment_id} to {day}", "postpone_delivery"),
        ("have {order_id} sent to {address_id}", "change_order_address"),
        (
            "return {order_item_id} (number of pieces: {quantity}, reason: {reason}), "
            "with the refund going to {refund_to}",
            "announce_return",
        ),
        ("cancel {order_id} (reason: {reason})", "cancel_order"),
        ("cancel {order_item_id} and keep the other items", "cancel_order_item"),
        ("cancel the stock alert of {customer_id} for {variant_id}", "remove_stock_alert"),
        ("refund the drop in price of {order_item_id}", "adjust_item_price"),
        ("redeem {coupon_code} for {order_id}", "apply_coupon"),
        ("take the coupon off {order_id}", "remove_coupon"),
        ("add {street}, {postal_code}, to the addresses of {customer_id}", "add_address"),
        (
            "order {variant_id} (number of pieces: {quantity}) for {customer_id}, sent by {delivery} delivery to "
            "{address_id} and paid with {payment_method_id}",
            "place_order",
        ),
        ("add {variant_id} (number of pieces: {quantity}) to {order_id}", "add_order_item"),
        ("exchange {order_item_id} (number of pieces: {quantity}) for {variant_id}", "request_exchange"),
        ("use {address_id} as the default address from now on", "set_default_address"),
        ("remove {address_id}", "remove_address"),
        ("escalate {ticket_id} to the specialists: {note}", "escalate_ticket"),
        ("open a ticket about {topic} for {customer_id}: {note}", "open_ticket"),
        ("mark {ticket_id} as resolved", "resolve_ticket"),
        ("change the number of pieces to {quantity} for {order_item_id}", "change_item_quantity"),
        ("change the payment method of {order_id} to {payment_method_id}", "change_order_payment"),
        ("change {order_item_id} to {variant_id}", "change_item_variant"),
        ("switch {order_id} to {delivery} delivery", "change_order_delivery"),
        ("withdraw {return_id}, because the customer keeps the item", "withdraw_return"),
        ("call off {exchange_id}", "cancel_exchange"),
        ("start a search for {shipment_id}, which has not arrived", "report_missing_parcel"),
        ("give goodwill credit for the delay of {order_id}", "give_goodwill"),
        ("turn points of {customer_id} into store credit, {hundreds} times a hundred of them", "redeem_points"),
        ("move what is left on {payment_method_id} to the store credit", "convert_gift_card"),
        ("let {customer_id} know by mail as soon as the shop has {variant_id} again", "add_stock_alert"),
    )
    before: ClassVar = {
        "announce_return": lambda desk, it: desk.call(
            "quote_return", order_item_id=it["order_item_id"], quantity=it["quantity"], reason=it["reason"]
        ),
        "request_exchange": lambda desk, it: desk.look_at_variants(it["variant_id"]),
        "adjust_item_price": lambda desk, it: desk.call("quote_price_adjustment", order_item_id=it["order_item_id"]),
        "postpone_delivery": lambda desk, it: desk.call("get_shipment", shipment_id=it["shipment_id"]),
        "report_missing_parcel": lambda desk, it: desk.call("get_shipment", shipment_id=it["shipment_id"]),
        "give_goodwill": lambda desk, it: desk.call("get_order", order_id=it["order_id"]),
    }

    def prepare(self, action: str, arguments: Record) -> None:
        if "order_id" in arguments:
            self.call("get_order", order_id=arguments["order_id"])
        super().prepare(action, arguments)

    def forbidden(self, action: str, arguments: Record) -> str:
        if action == "change_order_delivery" and arguments["delivery"] == "express":
            return "express delivery cannot be added after the order"
        return ""

    def look_at_variants(self, variant: str) -> None:
        for goods in self.all_of("search_products", text=""):
            if any(row["id"] == variant for row in self.call("list_variants", product_id=goods["id"])):
                return

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

    def unpacked(self, kind: str, result: Any, owner: str) -> list[Record]:
        inside = {"order_item": "items", "address": "addresses", "payment_method": "payment_methods"}
        return list(result[inside[kind]] if kind in inside else result)

    def find_product(self, text: str) -> list[Record]:
        name = text.removeprefix("the ")
        return [row for row in self.all_of("search_products", text=name) if row["name"] == name]

    def parcels(self, verb: str, view: str, column: str, text: str) -> list[Record]:
        found = re.fullmatch(rf"the {verb} on (\d+ \w+ \d+), of (the .+ from the order .+)", text)
        if not found:
            raise NotUnderstood(text)
        items = {row["id"]: row["order_id"] for row in self.find_order_item(found[2])}
        return [
            row
            for order in dict.fromkeys(items.values())
            for row in self.call(view, order_id=order)
            if row["order_item_id"] in items and row[column].startswith(read_day(found[1]))
        ]

    def find_return(self, text: str) -> list[Record]:
        return self.parcels("return, announced", "list_returns", "announced", text)

    def find_exchange(self, text: str) -> list[Record]:
        return self.parcels("exchange, requested", "list_exchanges", "requested", text)


class TrackerDesk(Desk):
    belongings: ClassVar = {
        "issue": (("the issue", "search_issues", "", "project"), ("the issue", "search_issues", "", "sprint")),
        "label": (("the label", "list_labels", "project_id", "project"),),
        "sprint": (("the sprint", "list_sprints", "project_id", "project"),),
        "component": (("the component", "list_components", "project_id", "project"),),
        "comment": (("the comment", "list_comments", "issue_id", "issue"),),
        "work_log": (("the entry of logged time", "list_work_logs", "issue_id", "issue"),),
        "page": (("the wiki page", "search_pages", "space_id", "space"),),
    }
    questions = (
        (
            "tell me how many points of {it} are done",
            "sprint",
            lambda desk, it: [[desk.call("get_sprint_report", sprint_id=it)["done_points"]]],
        ),
        (
            "list the titles of the unfinished issues of {it}",
            "sprint",
            lambda desk, it: [[row["title"]] for row in desk.call("get_sprint_report", sprint_id=it)["unfinished"]],
        ),
        (
            "list the names of everybody who watches {it}",
            "issue",
            lambda desk, it: [[row["name"]] for row in desk.call("get_issue", issue_id=it)["watchers"]],
        ),
        (
            "tell me when {it} is due",
            "issue",
            lambda desk, it: [[desk.call("get_issue", issue_id=it)["issue"]["due"]]],
        ),
    )
    templates = (
        (
            "report a {kind} “{title}” of {priority} priority in {project_id}, with the description “{description}”",
            "open_issue",
        ),
        ("take {issue_id} out of its sprint", "unplan_issue"),
        ("take {label_id} off {issue_id}", "unlabel_issue"),
        ("put {label_id} on {issue_id}", "label_issue"),
        ("move {issue_id} to “{status}”, with the reason “{reason}”", "move_issue"),
        ("move {page_id} below {parent_id}", "move_page"),
        ("estimate {issue_id} at {points} points", "estimate_issue"),
        ("correct {work_log_id} to {minutes} minutes", "correct_work_log"),
        ("close {issue_id} as a duplicate of {original_id}", "close_as_duplicate"),
        ("close {sprint_id}", "close_sprint"),
        ("start {sprint_id}", "start_sprint"),
        ("plan {issue_id} for {sprint_id}", "plan_issue"),
        ("record that {issue_id} {kind:blocks|relates}[ to] {other_id}", "link_issues"),
        ("remove the link that says {issue_id} {kind:blocks|relates}[ to] {other_id}", "unlink_issues"),
        ("set the due date of {issue_id} to {due}", "set_due_date"),
        ("put {issue_id} under {component_id}", "set_issue_component"),
        ("change the priority of {issue_id} to {priority}", "set_issue_priority"),
        ("reword {issue_id}: title “{title}”, description “{description}”", "edit_issue"),
        ("assign {issue_id} to {member_id}", "assign_issue"),
        ("have {issue_id} watched, so that news about it comes by mail", "watch_issue"),
        ("stop watching {issue_id}", "unwatch_issue"),
        ("comment on {issue_id}: {text}", "comment_on_issue"),
        ("change {comment_id} to {text}", "edit_comment"),
        ("delete {comment_id}", "delete_comment"),
        ("delete {work_log_id}", "delete_work_log"),
        ("log {minutes} minutes on {issue_id} for {day}, with the note “{note}”", "log_work"),
        ("write a wiki page “{title}” in {space_id}, with the text “{text}”", "create_page"),
        ("replace the text of {page_id} by “{text}” (summary: {summary})", "edit_page"),
        ("bring back version {version} of {page_id}", "restore_page_revision"),
        ("rename {page_id} to “{title}”", "rename_page"),
        ("archive {page_id}", "archive_page"),
    )
    before: ClassVar = {
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

    def belonging_to(self, kind: str, text: str) -> list[Record]:
        found = re.fullmatch(r"the issue of (.+)", text)
        if kind in ("issue", "original", "other") and found:
            columns = {
                "project_id": self.find_project,
                "component_id": self.find_component,
                "sprint_id": self.find_sprint,
                "reporter_id": self.find_member,
            }
            for column, finder in columns.items():
                try:
                    wanted = {row["id"] for row in finder(found[1])}
                except NotUnderstood:
                    continue
                if wanted:
                    return [row for row in self.all_of("search_issues", text="") if row[column] in wanted]
        found = re.fullmatch(r"the wiki space of (.+)", text)
        if kind == "space" and found:
            owners = {row["id"] for row in self.find_member(found[1])}
            return [row for row in self.all_of("search_spaces", text="") if row["owner_id"] in owners]
        return super().belonging_to(kind, text)

    def forbidden(self, action: str, arguments: Record) -> str:
        if action == "open_issue" and arguments.get("priority") == "urgent" and arguments["kind"] != "bug":
            return "only bugs may be urgent"
        return ""

    def find_sprint(self, text: str) -> list[Record]:
        found = re.fullmatch(r"(Sprint .+) of (\w+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for project in self.find_project(found[2])
            for row in self.call("list_sprints", project_id=project["id"])
            if row["name"] == found[1]
        ]

    def find_space(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (?:wiki )?space “(.+)”", text)
        if not found:
            raise NotUnderstood(text)
        return [row for row in self.all_of("search_spaces", text="") if row["name"] == found[1]]

    def find_page(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the wiki page “(.+)” in (the space “.+”)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for space in self.find_space(found[2])
            for row in self.all_of("search_pages", text="", space_id=space["id"])
            if row["title"] == found[1]
        ]

    find_parent = find_page

    def find_comment(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the comment “(.*)” that (.+?) wrote on (.+?) on (the (?:bug|story|task) .+)", text, re.S)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for issue in self.find_issue(found[4])
            for row in self.call("list_comments", issue_id=issue["id"])
            if row["created"].startswith(read_moment(found[3])) and row["text"].startswith(found[1])
        ]


class ConsoleDesk(Desk):
    belongings: ClassVar = {
        "release": (("the release", "list_releases", "service_id", "service"),),
        "alert": (("the alert", "list_alerts", "service_id", "service"),),
        "incident": (("the incident", "search_incidents", "service_id", "service"),),
        "flag": (("the flag", "search_feature_flags", "service_id", "service"),),
        "certificate": (("the certificate", "get_service", "service_id", "service"),),
    }
    questions = (
        (
            "list the domains of the certificates of {it}, each with the day it expires",
            "service",
            lambda desk, it: [
                [row["domain"], row["expires"]] for row in desk.call("get_service", service_id=it)["certificates"]
            ],
        ),
        (
            "tell me the version of the release that {it} runs",
            "service",
            lambda desk, it: [[desk.call("get_service", service_id=it)["release"]["version"]]],
        ),
        (
            "tell me how many gigabytes of the disk of {it} are in use",
            "host",
            lambda desk, it: [[desk.call("get_host", host_id=it)["used_gb"]]],
        ),
        (
            "tell me how many entries the timeline of {it} has",
            "incident",
            lambda desk, it: [[len(desk.call("get_incident", incident_id=it)["timeline"])]],
        ),
    )
    templates = (
        ("drain {host_id}", "drain_host"),
        ("put {host_id} back into use", "return_host"),
        ("resize the disk of {host_id} to {disk_gb} GB", "resize_disk"),
        ("purge old logs on {host_id}", "purge_host_logs"),
        ("turn {flag_id} {is_on:on|off}, with a share of {percent} percent of users", "set_feature_flag"),
        ("withdraw {release_id}, with the reason “{reason}”", "withdraw_release"),
        ("rotate {certificate_id}", "rotate_certificate"),
        ("give {shift_id} to {engineer_id}", "hand_over_shift"),
        ("deploy {release_id}", "deploy_release"),
        ("roll {service_id} back to the release before, with the reason “{reason}”", "roll_back_service"),
        ("restart {service_id}", "restart_service"),
        ("set the number of instances of {service_id} to {replicas}", "scale_service"),
        ("set {name} of {service_id} to {value}, with the reason “{reason}”", "set_config_value"),
        ("acknowledge {alert_id} with the note “{note}”", "acknowledge_alert"),
        ("open a {severity} incident “{title}” for {service_id}", "open_incident"),
        ("note on {incident_id}: {text}", "add_timeline_entry"),
        ("make {incident_id} a {severity}", "change_incident_severity"),
        ("hand {incident_id} over to {engineer_id}", "assign_incident_commander"),
        ("mark {incident_id} as mitigated, with the note “{note}”", "mitigate_incident"),
        ("resolve {incident_id}, whose cause was: {cause}", "resolve_incident"),
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

    def unpacked(self, kind: str, result: Any, owner: str) -> list[Record]:
        return list(result["certificates"] if kind == "certificate" else result)

    def belonging_to(self, kind: str, text: str) -> list[Record]:
        found = re.fullmatch(r"the on-call shift of ((?!the team).+)", text)
        if kind == "shift" and found:
            return [
                row
                for engineer in self.find_engineer(found[1])
                for row in self.all_of("list_shifts", team=engineer["team"])
                if row["engineer_id"] == engineer["id"]
            ]
        return super().belonging_to(kind, text)

    def find_alert(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the (\w+) alert of (\S+) of (\d+ \w+ \d+), (\S+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for service in self.find_service(found[2])
            for status in ("firing", "resolved")
            for row in self.all_of("list_alerts", service_id=service["id"], status=status)
            if row["metric"] == found[1] and row["opened"] == f"{read_day(found[3])}T{found[4]}"
        ]

    def find_incident(self, text: str) -> list[Record]:
        found = re.fullmatch(r"the incident “(.+)” of (\S+) of (\d+ \w+ \d+), (\S+)", text)
        if not found:
            raise NotUnderstood(text)
        return [
            row
            for service in self.find_service(found[2])
            for row in self.all_of("search_incidents", service_id=service["id"])
            if row["title"] == found[1] and row["opened"] == f"{read_day(found[3])}T{found[4]}"
        ]

    def forbidden(self, action: str, arguments: Record) -> str:
        if action == "scale_service" and arguments["replicas"] < 2:
            return "a service has at least two instances"
        return ""

    def prepare(self, action: str, arguments: Record) -> None:
        if "service_id" in arguments:
            self.call("check_service_health", service_id=arguments["service_id"])
        if action == "set_feature_flag":
            flag = next(row for row in self.all_of("search_feature_flags") if row["id"] == arguments["flag_id"])
            self.call("read_metrics", service_id=flag["service_id"], metric="error_permille")
        super().prepare(action, arguments)


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
