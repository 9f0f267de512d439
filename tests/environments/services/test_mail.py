"""Mail and calendar: generator, rules of the actions, and what holds after any calls."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from assay.environments.services.apps._words import PERSON_EMAIL
from assay.environments.services.apps.airline import Fare, Passenger, PaymentMethod, airline
from assay.environments.services.apps.console import console
from assay.environments.services.apps.mail import (
    CALENDAR_ADDRESS,
    Attachment,
    Attendee,
    Calendar,
    CalendarEvent,
    Contact,
    ContactGroup,
    FilterRule,
    Folder,
    GroupMember,
    Habit,
    Mailbox,
    MailLabel,
    Message,
    MessageLabel,
    OutOfOffice,
    Recipient,
    Reminder,
    Room,
    mail,
)
from assay.environments.services.apps.tracker import tracker
from assay.environments.services.composition import compose
from assay.environments.services.conversation import conversation
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import Calls, accepted_actions, call, changed_tables, refuse, rows

SIZES = [
    {"colleagues": 2, "contacts": 1, "messages": 1, "events": 1, "surprises": 0},
    {},
    {"colleagues": 40, "contacts": 120, "messages": 300, "events": 80, "lookalikes": 60, "surprises": 30},
]


def opened(seed: int = 1, actor: str = "", **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([mail], seed, {"mail": {"surprises": 0, **knobs}}, actor)


def me(world: ServiceWorld) -> Mailbox:
    found: Mailbox = rows(world, Mailbox, email=PERSON_EMAIL)[0]
    return found


def colleague(world: ServiceWorld, at: int = 0) -> Mailbox:
    found: Mailbox = [mailbox for mailbox in rows(world, Mailbox) if mailbox.email != PERSON_EMAIL][at]
    return found


def folder(world: ServiceWorld, name: str) -> Folder:
    found: Folder = rows(world, Folder, mailbox_id=me(world).id, name=name)[0]
    return found


def received(world: ServiceWorld, **equal: Any) -> Message:
    found: Message = rows(world, Message, mailbox_id=me(world).id, status="received", **equal)[0]
    return found


def assert_invariants(world: ServiceWorld) -> None:
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    folders = {row.id: row for row in rows(world, Folder)}
    addressed = {recipient.message_id for recipient in rows(world, Recipient)}
    for message in rows(world, Message):
        where = folders[message.folder_id]
        assert where.mailbox_id == message.mailbox_id
        assert (message.status == "draft") == (where.kind == "drafts")
        assert message.status == "draft" or message.id in addressed
    for rule in rows(world, FilterRule):
        assert folders[rule.folder_id].mailbox_id == rule.mailbox_id
    assert_calendars(world)
    owners = {row.id: row.mailbox_id for cls in (Contact, ContactGroup, Message, MailLabel) for row in rows(world, cls)}
    assert all(owners[row.group_id] == owners[row.contact_id] for row in rows(world, GroupMember))
    assert all(owners[row.message_id] == owners[row.label_id] for row in rows(world, MessageLabel))


def assert_calendars(world: ServiceWorld) -> None:
    """Rooms are booked once at a time, and have a seat for everybody."""
    seats = {room.id: room.seats for room in rows(world, Room)}
    invited: dict[str, int] = {}
    for attendee in rows(world, Attendee):
        invited[attendee.event_id] = invited.get(attendee.event_id, 0) + 1
    booked: dict[str, list[CalendarEvent]] = {}
    for event in rows(world, CalendarEvent):
        assert event.starts < event.ends
        assert event.status == "confirmed" or event.room_id is None
        if event.room_id is not None:
            assert invited.get(event.id, 0) + 1 <= seats[event.room_id]
            booked.setdefault(event.room_id, []).append(event)
    for events in booked.values():
        events.sort(key=lambda event: event.starts)
        assert all(one.ends <= other.starts for one, other in pairwise(events))


@pytest.mark.parametrize("knobs", SIZES)
def test_generator(knobs: dict[str, int]) -> None:
    world = opened(5, **knobs)
    names = [mailbox.name for mailbox in rows(world, Mailbox)]
    assert len(set(names)) < len(names)
    assert len(rows(world, Message)) == knobs.get("messages", 60)
    busy = [e for e in rows(world, CalendarEvent, status="confirmed", organizer=PERSON_EMAIL)]
    busy += [
        event
        for attendee in rows(world, Attendee, email=PERSON_EMAIL, response="accepted")
        for event in rows(world, CalendarEvent, id=attendee.event_id, status="confirmed")
    ]
    busy.sort(key=lambda event: event.starts)
    assert all(one.ends <= later.starts for one, later in pairwise(busy))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_a_busy_office_keeps_its_rooms(seed: int) -> None:
    world = ServiceWorld.of([mail], seed)
    accepted = accepted_actions(world, likely_call, seed, 300)
    assert_invariants(world)
    assert len(accepted) >= 18


def likely_call(world: ServiceWorld, draw: random.Random) -> tuple[str, dict[str, Any]]:
    """Returns a call whose arguments belong together."""
    address = draw.choice([*rows(world, Mailbox), *rows(world, Contact)]).email
    own = rows(world, Message, mailbox_id=me(world).id)
    drafts = [message for message in own if message.status == "draft"] or own
    message, draft = {"message_id": draw.choice(own).id}, {"message_id": draw.choice(drafts).id}
    events = rows(world, CalendarEvent)
    event = {"event_id": draw.choice([e for e in events if e.organizer == PERSON_EMAIL] or events).id}
    starts = f"2026-03-{draw.randint(2, 14):02}T{draw.randint(8, 17):02}:00"
    written = {"subject": "Plans", "text": "Here they are."}
    folder_id = draw.choice(rows(world, Folder, mailbox_id=me(world).id)).id
    calls: list[tuple[str, dict[str, Any]]] = [
        ("send_mail", {"to": address, **written}),
        ("draft_mail", {"to": address, **written}),
        ("add_draft_recipient", {**draft, "email": address, "kind": "cc"}),
        ("attach_to_draft", {**draft, "attachment_id": draw.choice(rows(world, Attachment)).id}),
        ("send_draft", draft),
        ("reply_to_message", {**message, "text": "Yes"}),
        ("reply_to_all", {**message, "text": "Yes"}),
        ("forward_message", {**message, "to": address, "text": "See below"}),
        ("move_message", {**message, "folder_id": folder_id}),
        ("delete_message", message),
        ("add_filter_rule", {"sender": address, "folder_id": folder_id}),
        ("delete_contact", {"contact_id": draw.choice(rows(world, Contact)).id}),
        ("create_calendar_event", {
            "calendar_id": rows(world, Calendar, mailbox_id=me(world).id)[0].id,
            "title": "Talk", "starts": starts, "minutes": draw.choice((30, 45, 120)),
        }),
        ("invite_attendee", {**event, "email": address}),
        ("uninvite_attendee", {**event, "email": address}),
        ("reschedule_event", {**event, "starts": starts}),
        ("book_event_room", {**event, "room_id": draw.choice(rows(world, Room)).id}),
        ("release_event_room", event),
        ("cancel_calendar_event", event),
        ("answer_event_invitation", {"event_id": draw.choice(events).id, "response": "accepted"}),
        ("set_event_reminder", {**event, "minutes": 30}),
        ("wait", {"hours": draw.choice((1, 3, 6))}),
    ]  # fmt: skip
    return draw.choice(calls)


def test_applications_share_a_world() -> None:
    assert compose([tracker, console, airline, mail, conversation]).actions


# Messages.


def test_send_mail_and_an_answer_comes() -> None:
    world = opened()
    habit = next(h for h in rows(world, Habit) if h.address.endswith("@lumenworks.example"))
    sent = call(world, "send_mail", to=habit.address.upper(), subject="Lunch", text="Today?", cc="a@b.example")
    assert (sent["status"], sent["folder_id"]) == ("sent", folder(world, "Sent").id)
    copy = rows(world, Message, subject="Lunch", status="received")
    assert [rows(world, Mailbox, id=message.mailbox_id)[0].email for message in copy] == [habit.address]
    assert changed_tables(world) == {"messages", "recipients"}
    call(world, "wait", hours=habit.hours)
    answer = received(world, subject="Re: Lunch")
    assert (answer.sender, answer.text, answer.is_read) == (habit.address, habit.answer, False)
    thread = call(world, "list_mail_thread", message_id=answer.id)
    assert [message["subject"] for message in thread] == ["Lunch", "Re: Lunch"]


@pytest.mark.parametrize("address", ["", "x", "a b@c.example", "a@b", "a@@b.example", "nobody@lumenworks.example"])
def test_bad_addresses(address: str) -> None:
    message = refuse(opened(), "send_mail", to=address, subject="Hello", text="Text")
    assert "not an email address" in message or "The company has no address" in message


def test_drafts() -> None:
    world = opened()
    to = rows(world, Contact)[-1].email
    draft = call(world, "draft_mail", to=to, subject="Offer", text="Text")
    given = {"message_id": draft["id"]}
    call(world, "add_draft_recipient", **given, email=colleague(world).email, kind="cc")
    assert "a recipient already" in refuse(world, "add_draft_recipient", **given, email=to, kind="to")
    attachment = rows(world, Attachment)[0]
    call(world, "attach_to_draft", **given, attachment_id=attachment.id)
    assert "attached already" in refuse(world, "attach_to_draft", **given, attachment_id=attachment.id)
    call(world, "send_draft", **given)
    assert "is not a draft; it was sent" in refuse(world, "send_draft", **given)
    copy = rows(world, Message, mailbox_id=colleague(world).id, subject="Offer")[0]
    assert [file.text for file in rows(world, Attachment, message_id=copy.id)] == [attachment.text]
    assert "needs a text" in refuse(world, "draft_mail", to=to, subject="Offer", text=" ")


def test_answers() -> None:
    world = opened()
    cc = {recipient.message_id for recipient in rows(world, Recipient, kind="cc")}
    many = next(m for m in rows(world, Message, status="received") if m.id in cc)
    answer = call(world, "reply_to_message", message_id=many.id, text="Yes")
    assert answer["answers_id"] == many.id
    assert [r.email for r in rows(world, Recipient, message_id=answer["id"])] == [many.sender]
    wide = call(world, "reply_to_all", message_id=many.id, text="Yes")
    assert len(rows(world, Recipient, message_id=wide["id"])) > 1
    alone = next(m for m in rows(world, Message, status="received") if m.id not in cc and m.mailbox_id == me(world).id)
    assert "no other recipients" in refuse(world, "reply_to_all", message_id=alone.id, text="Yes")
    assert "cannot be answered" in refuse(world, "reply_to_message", message_id=answer["id"], text="Yes")
    assert_invariants(world)


def test_forwarding_stays_inside() -> None:
    world = opened()
    mine = rows(world, Message, mailbox_id=me(world).id, status="received")
    inside = next(m for m in mine if m.sender.endswith("@lumenworks.example"))
    outside = next(m for m in mine if not m.sender.endswith("@lumenworks.example"))
    stranger, friend = {"to": "a@b.example", "text": "See"}, {"to": colleague(world).email, "text": "See"}
    assert "cannot be forwarded" in refuse(world, "forward_message", message_id=inside.id, **stranger)
    forwarded = call(world, "forward_message", message_id=inside.id, **friend)
    assert forwarded["subject"] == f"Fwd: {inside.subject.removeprefix('Re: ')}"
    assert inside.text in forwarded["text"]
    assert not world.act("forward_message", {"message_id": outside.id, **stranger}).error
    draft = rows(world, Message, status="draft")[0]
    assert "send it instead" in refuse(world, "forward_message", message_id=draft.id, **friend)


def test_other_mailboxes_stay_closed() -> None:
    world = opened()
    message = received(world)
    world.actor = colleague(world).email
    assert "There is no message" in refuse(world, "get_message", message_id=message.id)
    assert "There is no message" in refuse(world, "delete_message", message_id=message.id)
    world.actor = "stranger@b.example"
    assert "no mailbox here" in refuse(world, "list_mail_folders")


def test_deleting_and_moving() -> None:
    world = opened()
    message = received(world, folder_id=folder(world, "Inbox").id)
    given = {"message_id": message.id}
    call(world, "move_message", **given, folder_id=folder(world, "Travel").id)
    assert "already" in refuse(world, "move_message", **given, folder_id=folder(world, "Travel").id)
    assert "cannot be moved to Sent" in refuse(world, "move_message", **given, folder_id=folder(world, "Sent").id)
    assert call(world, "delete_message", **given)["folder_id"] == folder(world, "Trash").id
    call(world, "delete_message", **given)
    assert "no message" in refuse(world, "get_message", **given)
    draft = rows(world, Message, status="draft")[0]
    call(world, "delete_message", message_id=draft.id)
    assert rows(world, Message, id=draft.id) == []
    assert_invariants(world)


def test_marks_and_labels() -> None:
    world = opened()
    given = {"message_id": received(world, is_read=True, is_flagged=False).id}
    call(world, "mark_message_unread", **given)
    assert "cannot be marked" in refuse(world, "mark_message_unread", **given)
    call(world, "mark_message_read", **given)
    assert "is read already" in refuse(world, "mark_message_read", **given)
    call(world, "flag_message", **given)
    assert "has a flag" in refuse(world, "flag_message", **given)
    call(world, "unflag_message", **given)
    assert "has no flag" in refuse(world, "unflag_message", **given)
    assert changed_tables(world) == set()
    label = call(world, "create_mail_label", name=" urgent ")
    assert "already" in refuse(world, "create_mail_label", name="urgent")
    call(world, "label_message", **given, label_id=label["id"])
    assert "already" in refuse(world, "label_message", **given, label_id=label["id"])
    call(world, "unlabel_message", **given, label_id=label["id"])
    assert "no message label" in refuse(world, "unlabel_message", **given, label_id=label["id"])


def test_folders_and_filters() -> None:
    world = opened()
    made = call(world, "create_mail_folder", name="Later")
    assert "already" in refuse(world, "create_mail_folder", name="Later")
    sender = colleague(world).email
    for rule in rows(world, FilterRule):
        call(world, "delete_filter_rule", filter_rule_id=rule.id)
    rule = call(world, "add_filter_rule", sender=sender, folder_id=made["id"])
    assert "There is a filter" in refuse(world, "add_filter_rule", sender=sender, folder_id=made["id"])
    inbox = folder(world, "Inbox").id
    assert "cannot lead" in refuse(world, "add_filter_rule", sender="a@b.example", folder_id=inbox)
    assert "A filter files messages" in refuse(world, "delete_mail_folder", folder_id=made["id"])
    note = {"to": PERSON_EMAIL, "subject": "Filed", "text": "Text"}
    assert not world.act("send_mail", note, actor=sender).error
    assert received(world, subject="Filed").folder_id == made["id"]
    call(world, "delete_filter_rule", filter_rule_id=rule["id"])
    assert "holds 1 messages" in refuse(world, "delete_mail_folder", folder_id=made["id"])
    assert "cannot be removed" in refuse(world, "delete_mail_folder", folder_id=inbox)
    call(world, "move_message", message_id=received(world, subject="Filed").id, folder_id=inbox)
    call(world, "delete_mail_folder", folder_id=made["id"])
    assert changed_tables(world) == {"messages", "recipients", "filter_rules"}


def test_out_of_office() -> None:
    world = opened()
    call(world, "set_out_of_office", first_day="2026-03-02", last_day="2026-03-04", text="Back on Thursday.")
    given = {"first_day": "2026-03-05", "last_day": "2026-03-04", "text": "Away"}
    assert "is before" in refuse(world, "set_out_of_office", **given)
    assert "at most 90 days" in refuse(world, "set_out_of_office", **{**given, "last_day": "2026-07-04"})
    note = {"to": PERSON_EMAIL, "subject": "Hello", "text": "Text"}
    assert not world.act("send_mail", note, actor=colleague(world).email).error
    answers = rows(world, Message, mailbox_id=colleague(world).id, status="received")
    assert [answer.subject for answer in answers] == ["Out of office: Hello"]
    assert call(world, "get_out_of_office")["last_day"] == "2026-03-04"
    call(world, "end_out_of_office")
    assert "No out-of-office answer" in refuse(world, "end_out_of_office")
    assert rows(world, OutOfOffice) == []


def test_junk_is_reported_by_the_person() -> None:
    world = opened()
    mine = rows(world, Message, mailbox_id=me(world).id, status="received")
    junk = next(m for m in mine if not m.sender.endswith("@lumenworks.example"))
    assert "There is no tool" in refuse(world, "report_junk", message_id=junk.id)
    assert not world.act("report_junk", {"message_id": junk.id}, role="user").error
    assert rows(world, FilterRule, sender=junk.sender)[0].folder_id == folder(world, "Spam").id


# Contacts.


def test_contacts_and_groups() -> None:
    world = opened()
    made = call(world, "add_contact", name="New One", email="New@One.example", company="One")
    assert made["email"] == "new@one.example"
    taken = {"email": "new@one.example"}
    assert "has this address already" in refuse(world, "add_contact", name="Other", company="Two", **taken)
    other = rows(world, Contact)[0]
    assert "has this address already" in refuse(world, "change_contact_email", contact_id=other.id, **taken)
    call(world, "change_contact_email", contact_id=made["id"], email="new@two.example")
    call(world, "change_contact_company", contact_id=made["id"], company="Two")
    assert "is with Two already" in refuse(world, "change_contact_company", contact_id=made["id"], company="Two")
    group = call(world, "create_contact_group", name="Choir")
    assert "There is a group" in refuse(world, "create_contact_group", name="Choir")
    written = {"group_id": group["id"], "subject": "Song", "text": "La"}
    assert "has no members" in refuse(world, "send_to_group", **written)
    member = {"group_id": group["id"], "contact_id": made["id"]}
    call(world, "add_group_member", **member)
    assert "already" in refuse(world, "add_group_member", **member)
    assert call(world, "send_to_group", **written)["status"] == "sent"
    assert [c["name"] for c in call(world, "get_contact_group", group_id=group["id"])["members"]] == ["New One"]
    call(world, "remove_group_member", **member)
    assert "no group member" in refuse(world, "remove_group_member", **member)
    call(world, "add_group_member", **member)
    call(world, "delete_contact", contact_id=made["id"])
    assert rows(world, GroupMember, group_id=group["id"]) == []


# Calendar.


def meeting(world: ServiceWorld, starts: str = "2026-04-20T10:00", minutes: int = 60) -> dict[str, Any]:
    calendar = rows(world, Calendar, mailbox_id=me(world).id)[0].id
    made: dict[str, Any] = call(
        world, "create_calendar_event", calendar_id=calendar, title="Talk", starts=starts, minutes=minutes
    )
    return {"event_id": made["id"]}


def test_events_need_a_free_time() -> None:
    world = opened()
    given = meeting(world)
    calendar = {"calendar_id": rows(world, Calendar, mailbox_id=me(world).id)[0].id, "title": "Other", "minutes": 30}
    assert "takes part in “Talk”" in refuse(world, "create_calendar_event", **calendar, starts="2026-04-20T10:45")
    assert "in the past" in refuse(world, "create_calendar_event", **calendar, starts="2026-03-01T10:00")
    assert "more than a year" in refuse(world, "create_calendar_event", **calendar, starts="2028-03-01T10:00")
    theirs = rows(world, Calendar, mailbox_id=colleague(world).id)[0].id
    assert "no calendar" in refuse(
        world, "create_calendar_event", **{**calendar, "calendar_id": theirs}, starts="2026-04-21T10:45"
    )
    moved = call(world, "reschedule_event", **given, starts="2026-04-21T08:15")
    assert moved["ends"] == "2026-04-21T09:15"
    assert "already" in refuse(world, "reschedule_event", **given, starts="2026-04-21T08:15")
    call(world, "cancel_calendar_event", **given)
    assert "is cancelled" in refuse(world, "reschedule_event", **given, starts="2026-04-22T08:15")
    assert changed_tables(world) == {"calendar_events"}


def test_colleagues_answer_invitations() -> None:
    world = opened()
    given, friend = meeting(world), colleague(world)
    call(world, "invite_attendee", **given, email=friend.email)
    assert "invited already" in refuse(world, "invite_attendee", **given, email=friend.email)
    assert "takes part anyway" in refuse(world, "invite_attendee", **given, email=PERSON_EMAIL)
    call(world, "wait", hours=3)
    assert rows(world, Attendee, event_id=given["event_id"])[0].response == "accepted"
    assert received(world, subject="Accepted: Talk").sender == CALENDAR_ADDRESS
    slots = call(world, "check_availability", email=friend.email, day="2026-04-20")
    assert [slot["starts"] for slot in slots] == ["2026-04-20T10:00"]
    assert "Nothing is known" in refuse(world, "check_availability", email="a@b.example", day="2026-04-20")
    call(world, "reschedule_event", **given, starts="2026-04-21T10:00")
    assert rows(world, Attendee, event_id=given["event_id"])[0].response == "pending"
    call(world, "uninvite_attendee", **given, email=friend.email)
    assert "no attendee" in refuse(world, "uninvite_attendee", **given, email=friend.email)
    assert rows(world, Message, mailbox_id=friend.id, subject="No longer invited: Talk")


def test_the_person_answers_invitations() -> None:
    world = opened(2, events=60)
    pending = call(world, "list_event_invitations")
    assert pending
    for event in pending:
        observation = world.act("answer_event_invitation", {"event_id": event["id"], "response": "accepted"})
        assert not observation.error or "takes part in" in observation.content
    given = {"event_id": pending[0]["id"]}
    call(world, "answer_event_invitation", **given, response="declined")
    assert "is declined already" in refuse(world, "answer_event_invitation", **given, response="declined")
    assert "Only its organiser" in refuse(world, "cancel_calendar_event", **given)
    mine = rows(world, Attendee, email=PERSON_EMAIL)
    hidden = next(e for e in rows(world, CalendarEvent) if e.organizer != PERSON_EMAIL
                  and e.id not in {attendee.event_id for attendee in mine})  # fmt: skip
    assert "is not invited" in refuse(world, "get_calendar_event", event_id=hidden.id)


def test_rooms() -> None:
    world = opened(colleagues=25)
    given = meeting(world)
    small = min(rows(world, Room), key=lambda room: room.seats)
    call(world, "book_event_room", **given, room_id=small.id)
    for at in range(small.seats - 1):
        call(world, "invite_attendee", **given, email=colleague(world, at).email)
    assert f"has {small.seats} seats" in refuse(
        world, "invite_attendee", **given, email=colleague(world, small.seats).email
    )
    assert "already" in refuse(world, "book_event_room", **given, room_id=small.id)
    free = call(world, "list_free_rooms", **given)
    assert all(room["seats"] >= small.seats for room in free)
    organizer = colleague(world, 20)
    theirs = {"calendar_id": rows(world, Calendar, mailbox_id=organizer.id)[0].id, "title": "Clash", "minutes": 30}
    observation = world.act("create_calendar_event", {**theirs, "starts": "2026-04-20T10:30"}, actor=organizer.email)
    clash = rows(world, CalendarEvent, title="Clash")[0]
    assert not observation.error
    blocked = world.act("book_event_room", {"event_id": clash.id, "room_id": small.id}, actor=organizer.email)
    assert "is taken from 2026-04-20T10:00" in blocked.content
    call(world, "release_event_room", **given)
    assert "has no room" in refuse(world, "release_event_room", **given)
    assert not world.act("book_event_room", {"event_id": clash.id, "room_id": small.id}, actor=organizer.email).error
    assert "is taken" in refuse(world, "book_event_room", **given, room_id=small.id)
    assert_invariants(world)


def test_reminders_move_with_their_event() -> None:
    world = opened()
    given = meeting(world, "2026-03-24T18:00")
    made = call(world, "set_event_reminder", **given, minutes=60)
    assert "this reminder already" in refuse(world, "set_event_reminder", **given, minutes=60)
    call(world, "reschedule_event", **given, starts="2026-03-24T19:00")
    assert rows(world, Reminder, id=made["id"])[0].at == "2026-03-24T18:00"
    own = call(world, "create_reminder", at="2026-03-02T12:00", text="Call the dentist")
    assert "in the past" in refuse(world, "create_reminder", at="2026-03-01T12:00", text="Late")
    call(world, "wait", hours=3)
    assert rows(world, Reminder, id=own["id"])[0].status == "shown"
    assert received(world, subject="Reminder").text == "Call the dentist"
    assert "was shown" in refuse(world, "delete_reminder", reminder_id=own["id"])
    call(world, "delete_reminder", reminder_id=made["id"])
    assert made["id"] not in {reminder["id"] for reminder in call(world, "list_reminders")}


def test_surprises_come() -> None:
    world = ServiceWorld.of([mail], 2, {"mail": {"surprises": 40, "events": 60}})
    before = len(rows(world, Message))
    call(world, "wait", hours=24 * 15)
    subjects = [message.subject for message in rows(world, Message)]
    assert len(subjects) > before
    assert any(subject.startswith("Moved: ") for subject in subjects)
    assert any(subject.startswith("Invitation: ") for subject in subjects)
    assert_invariants(world)


def test_other_services_send_mail_here() -> None:
    world = ServiceWorld.of([airline, mail], 3)
    person = rows(world, Passenger, email=PERSON_EMAIL)[0]
    card = rows(world, PaymentMethod, passenger_id=person.id, kind="card")[0]
    for fare in rows(world, Fare, family="classic"):
        given = {"fare_id": fare.id, "passenger_id": person.id, "payment_method_id": card.id}
        if not world.act("book_flight", given).error:
            break
    assert received(world, sender="service@haldenair.example").subject.startswith("Booked: HA ")


def test_views() -> None:
    world = opened()
    unread = call(world, "search_messages", unread_only=True)
    assert unread
    assert not any(message["is_read"] for message in unread)
    message = received(world)
    assert message.id in [m["id"] for m in call(world, "search_messages", text=message.subject, sender=message.sender)]
    attachment = rows(world, Attachment)[0]
    assert call(world, "get_attachment", attachment_id=attachment.id)["name"] == attachment.name
    details = call(world, "get_message", message_id=attachment.message_id)
    assert details["attachments"][0]["id"] == attachment.id
    assert call(world, "search_directory", text=colleague(world).title)
    event = rows(world, CalendarEvent, organizer=PERSON_EMAIL, status="confirmed")[0]
    found = call(world, "search_calendar_events", text=event.title, day=event.starts[:10])
    assert event.id in [e["id"] for e in found]
    assert call(world, "get_calendar_event", event_id=event.id)["event"]["title"] == event.title
    assert all(room["seats"] >= 8 for room in call(world, "search_rooms", seats=8))
    assert len(call(world, "list_calendars")) == 3
    assert len(call(world, "list_filter_rules")) == len(rows(world, FilterRule))
    assert len(call(world, "list_mail_labels")) == 5
    assert call(world, "list_contact_groups")[0]["name"] == "Football"
    assert call(world, "search_contacts", text=rows(world, Contact)[0].email)


MESSAGE, GROUP, GUEST = {"message_id": "MSG-1"}, {"group_id": "GRP-1"}, {"email": "a@lumenworks.example"}
CONTRACTS: list[tuple[str, Calls, Calls]] = [
    (
        "read-before-answering",
        [("get_message", MESSAGE), ("forward_message", MESSAGE)],
        [("get_message", {"message_id": "MSG-2"}), ("reply_to_message", MESSAGE)],
    ),
    ("five-deletions", [("delete_message", MESSAGE)] * 5, [("delete_message", MESSAGE)] * 6),
    (
        "availability-before-inviting",
        [("check_availability", GUEST), ("invite_attendee", GUEST)],
        [("check_availability", {"email": "b@lumenworks.example"}), ("invite_attendee", GUEST)],
    ),
    (
        "guests-are-not-invited",
        [("check_availability", GUEST), ("invite_attendee", {"email": GUEST["email"].title()})],
        [("invite_attendee", {"email": "a@lumenworks.example.com"})],
    ),
    (
        "no-filter-for-colleagues",
        [("add_filter_rule", {"sender": "a@b.example"})],
        [("add_filter_rule", {"sender": GUEST["email"].upper()})],
    ),
    ("look-at-group", [("get_contact_group", GROUP), ("send_to_group", GROUP)], [("send_to_group", GROUP)]),
    (
        "one-message-to-groups",
        [("get_contact_group", GROUP), ("send_to_group", GROUP)],
        [("get_contact_group", GROUP), *[("send_to_group", GROUP)] * 2],
    ),
    ("search-contacts", [("search_contacts", {}), ("add_contact", {})], [("add_contact", {})]),
    (
        "write-when-declining",
        [("answer_event_invitation", {"response": "declined"}), ("send_mail", {})],
        [("answer_event_invitation", {"response": "declined"})],
    ),
]
