"""WorkBench's domains: what their tools answer and leave, over a small database of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.environments.services.apps.workbench.analytics import workbench_analytics
from assay.environments.services.apps.workbench.calendar import workbench_calendar
from assay.environments.services.apps.workbench.company_directory import workbench_directory
from assay.environments.services.apps.workbench.customer_relationship_manager import workbench_customers
from assay.environments.services.apps.workbench.email import workbench_email
from assay.environments.services.apps.workbench.project_management import workbench_projects
from assay.environments.services.declaration import Service
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import refuse
from tests.environments.services.small_workbench import write_workbench

SERVICES = (
    workbench_calendar,
    workbench_email,
    workbench_analytics,
    workbench_projects,
    workbench_customers,
    workbench_directory,
)
WRITES = {
    "create_event",
    "delete_event",
    "update_event",
    "send_email",
    "delete_email",
    "forward_email",
    "reply_email",
    "create_plot",
    "create_task",
    "delete_task",
    "update_task",
    "update_customer",
    "add_customer",
    "delete_customer",
}


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], ServiceWorld]:
    knobs = {service.name: {"data": str(write_workbench(tmp_path))} for service in SERVICES}
    return lambda: ServiceWorld.of(SERVICES, 0, knobs)


def said(world: ServiceWorld, name: str, /, **arguments: Any) -> str:
    observation = world.act(name, arguments)
    assert not observation.error, observation.content
    return observation.content


def test_the_tools_are_those_of_the_benchmark() -> None:
    actions = {name: action for service in SERVICES for name, action in service.actions.items()}
    assert len(actions) == 27
    assert {name for name, action in actions.items() if not action.reads_only} == WRITES


def test_the_clock_begins_on_the_benchmarks_day(opened: Callable[[], ServiceWorld]) -> None:
    assert opened().now == "2023-11-30T00:00"


def test_events_are_searched_and_changed(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    assert '"event_id":"00000001"' in said(world, "search_events", query="ADA", time_max="2023-12-02 00:00:00")
    assert said(world, "search_events", time_min="2023-12-09") == '"No events found."'
    assert said(world, "get_event_information_by_id", event_id="00000002", field="duration") == '{"duration":"60"}'
    assert said(world, "delete_event", event_id="00000002") == "Event deleted successfully."
    event = {"event_name": "Swim", "participant_email": "Bo@X.org", "event_start": "soon", "duration": "5"}
    assert said(world, "create_event", **event) == "00000002"
    assert "bo@x.org" in said(world, "search_events", query="swim")
    assert refuse(world, "get_event_information_by_id", event_id="00000002", field="x").endswith("Field not found.")
    assert refuse(world, "delete_event", event_id="7") == "Error (not_found): Event not found."
    assert refuse(world, "delete_event") == "Error (invalid): Event ID not provided."
    assert refuse(world, "create_event", event_name="Swim").endswith("Participant email not provided.")
    assert "unable to parse: tomorrow" in refuse(world, "search_events", time_min="tomorrow")


def test_an_update_of_an_unknown_field_adds_it_to_all_events(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    start = world.database.digest()
    assert (
        said(world, "update_event", event_id="00000001", field="room", new_value="A") == "Event updated successfully."
    )
    said(world, "update_event", event_id="00000001", field="room", new_value="B")
    assert said(world, "get_event_information_by_id", event_id="00000001", field="room") == '{"room":"B"}'
    assert said(world, "get_event_information_by_id", event_id="00000000", field="room") == '{"room":null}'
    said(world, "delete_event", event_id="00000001")
    other = opened()
    said(other, "delete_event", event_id="00000001")
    assert len({start, world.database.digest(), other.database.digest()}) == 3


def test_an_identifier_can_be_changed_and_shared(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    said(world, "update_event", event_id="00000001", field="event_id", new_value="00000000")
    said(world, "delete_event", event_id="00000000")
    assert said(world, "search_events").count("event_id") == 1
    said(world, "update_event", event_id="00000002", field="event_id", new_value="last")
    event = {"event_name": "Swim", "participant_email": "bo@x.org", "event_start": "soon", "duration": "5"}
    assert "invalid literal for int() with base 10: 'last'" in refuse(world, "create_event", **event)


def test_mail_is_sent_forwarded_and_answered(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    assert said(world, "forward_email", email_id="00000000", recipient="Bo@x.org") == "Email forwarded successfully."
    assert said(world, "reply_email", email_id="00000001", body="Yes.") == "Email replied successfully."
    forwarded, answered = (said(world, "search_emails", query=text) for text in ("fw: TEA", "yes."))
    assert '"email_id":"3"' in forwarded
    assert '"sender/recipient":"bo@x.org"' in forwarded
    assert '"sent_datetime":"2023-11-30 00:00:00"' in answered
    assert said(world, "search_emails", query="review", date_max="2023-11-02").count("email_id") == 1
    assert "Re: Review" in said(world, "search_emails", date_min="2023-11-03")
    assert said(world, "get_email_information_by_id", email_id="00000001", field="inbox/outbox") == (
        '{"inbox/outbox":"inbox"}'
    )
    assert refuse(world, "send_email", recipient="bo", subject="a", body="b").endswith("recipient email address.")
    assert refuse(world, "reply_email", email_id="9", body="b") == "Error (not_found): Email not found."
    assert refuse(world, "get_email_information_by_id", email_id="00000001", field="sender").endswith("not found.")


def test_mail_sent_after_a_deletion_overwrites_the_last_one(opened: Callable[[], ServiceWorld]) -> None:
    """In WorkBench it is stored under the label that is the number of messages."""
    world = opened()
    said(world, "delete_email", email_id="00000000")
    said(world, "send_email", recipient="bo@x.org", subject="News", body="None.")
    assert "Re: Review" not in said(world, "search_emails")
    assert said(world, "search_emails").count("email_id") == 2
    other = opened()
    said(other, "delete_email", email_id="00000002")
    said(other, "delete_email", email_id="00000001")
    said(other, "send_email", recipient="bo@x.org", subject="News", body="None.")
    assert said(other, "search_emails").count("email_id") == 2
    labels = [change.after for change in other.database.changes() if change.table == "workbenchemail_emails_labels"]
    assert labels == [{"id": 0, "size": 3, "labels": "0-1"}]


def test_tasks_are_validated_and_labelled_anew(opened: Callable[[], ServiceWorld]) -> None:
    task = {
        "task_name": "Dig",
        "assigned_to_email": "BO.lund@example.org",
        "list_name": "Backlog",
        "due_date": "2023-12-01",
        "board": "Design",
    }
    first, second = opened(), opened()
    assert said(first, "create_task", **task) == "00000003"
    said(first, "delete_task", task_id="00000001")
    said(second, "delete_task", task_id="00000001")
    said(second, "create_task", **task)
    assert first.database.digest() != second.database.digest()
    assert said(first, "search_tasks", assigned_to_email="BO.LUND") == said(
        second, "search_tasks", assigned_to_email="bo.lund"
    )
    assert refuse(first, "create_task", **task | {"board": "design"}).startswith("Error (invalid): Board not valid.")
    assert refuse(first, "create_task", **task | {"due_date": ""}) == "Error (invalid): Missing task details."
    assert refuse(first, "search_tasks") == "Error (invalid): No search parameters provided."
    update = {"task_id": "00000000", "field": "list_name", "new_value": "Done"}
    assert "List not valid." in refuse(first, "update_task", **update)
    assert "Assignee email not valid." in refuse(
        first, "update_task", task_id="00000000", field="assigned_to_email", new_value="cy@moss"
    )
    assert refuse(first, "update_task", task_id="00000000", field="x", new_value="y").endswith("Field not valid.")
    assert refuse(first, "update_task", task_id="7", field="x", new_value="y").endswith("Task not found.")
    said(first, "update_task", task_id="00000000", field="board", new_value="Design")
    assert said(first, "get_task_information_by_id", task_id="00000000", field="board") == '{"board":"Design"}'


def test_customers_are_searched_added_and_deleted(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    added = {"customer_name": "Eve", "assigned_to_email": "Ada.Hill@example.org", "status": "Anything"}
    assert said(world, "add_customer", **added) == "00000002"
    assert '"notes":""' in said(world, "search_customers", assigned_to_email="ada", status="any")
    assert said(world, "search_customers", customer_email="@").count("customer_id") == 2
    assert said(world, "search_customers", last_contact_date_max="2023-11-11").count("customer_id") == 1
    assert (
        said(world, "search_customers", follow_up_by_min="2023-12-02", follow_up_by_max="2023-12-31").count("Cy") == 1
    )
    said(world, "update_customer", customer_id="00000000", field="customer_email", new_value="CY@MOSS.org")
    assert "cy@moss.org" in said(world, "search_customers", customer_name="cy")
    said(world, "delete_customer", customer_id="00000001")
    assert refuse(world, "delete_customer", customer_id="00000001") == "Error (not_found): Customer not found."
    assert "at least one parameter" in refuse(world, "search_customers")
    assert "all required fields" in refuse(world, "add_customer", customer_name="Eve")
    for field, value, message in (("status", "won", "Status"), ("product_interest", "x", "Product interest")):
        text = refuse(world, "update_customer", customer_id="00000000", field=field, new_value=value)
        assert text.startswith(f"Error (invalid): {message} not valid.")
    assert "Field not valid." in refuse(world, "update_customer", customer_id="00000000", field="x", new_value="y")


def test_visits_are_counted_and_plots_are_kept(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    assert said(world, "total_visits_count") == '{"2023-11-01":2,"2023-11-02":1}'
    assert said(world, "total_visits_count", time_min="2023-11-02", time_max="2023-11-03") == '{"2023-11-02":1}'
    assert said(world, "engaged_users_count") == '{"2023-11-01":1,"2023-11-02":0}'
    assert said(world, "traffic_source_count", traffic_source="referral") == '{"2023-11-01":0,"2023-11-02":1}'
    assert said(world, "get_average_session_duration", time_max="2023-11-01") == '{"2023-11-01":6.5}'
    assert said(world, "get_visitor_information_by_id", visitor_id="0001").count("date_of_visit") == 2
    assert refuse(world, "get_visitor_information_by_id", visitor_id="9") == "Error (not_found): Visitor not found."
    plot = {"time_min": "2023-11-01", "time_max": "2023-11-02", "value_to_plot": "visits_direct", "plot_type": "bar"}
    assert said(world, "create_plot", **plot) == "plots/2023-11-01_2023-11-02_visits_direct_bar.png"
    assert "Plot type must be one of" in refuse(world, "create_plot", **plot | {"plot_type": "pie"})
    assert "Value to plot must be one of" in refuse(world, "create_plot", **plot | {"value_to_plot": "direct"})
    assert refuse(world, "create_plot", **plot | {"time_max": None}) == "Error (invalid): End date not provided."
    assert [change.table for change in world.database.changes(judged_only=True)] == ["workbenchanalytics_plots"]


def test_addresses_are_found_by_name_and_by_no_pattern(opened: Callable[[], ServiceWorld]) -> None:
    world = opened()
    assert said(world, "find_email_address", name="Ada") == '["ada.hill@example.org"]'
    assert said(world, "find_email_address", name="(a+)+$") == said(world, "find_email_address", name=".*") == "[]"
    assert refuse(world, "find_email_address") == "Error (invalid): Name not provided."


@pytest.mark.parametrize(
    ("service", "file", "content", "message"),
    [
        (workbench_email, "emails.csv", b"email_id,subject\n1,a\n", "has no column 'inbox/outbox'"),
        (workbench_email, "emails.csv", b"", "has no column 'email_id'"),
        (workbench_directory, "email_addresses.csv", b"a@b.org,c\n", "row 1 has 2 cells, and there are 1 columns"),
        (workbench_directory, "email_addresses.csv", b"a\0b\n", "row 1 holds the character|is not a CSV file"),
        (workbench_directory, "email_addresses.csv", b"\xff\n", "is not a CSV file"),
        (workbench_directory, "email_addresses.csv", b'"a\n', "is not a CSV file"),
    ],
)
def test_other_files_are_named(tmp_path: Path, service: Service, file: str, content: bytes, message: str) -> None:
    (write_workbench(tmp_path) / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ServiceWorld.of([service], 0, {service.name: {"data": str(tmp_path)}})


def test_rows_that_do_not_fit_are_named(tmp_path: Path) -> None:
    folder = write_workbench(tmp_path)
    for service, file, row, message in (
        (workbench_analytics, "analytics_data.csv", "2023-11-01,0001,7,long,direct,False", "row 4: could not convert"),
        (workbench_projects, "project_tasks.csv", ",Dig,,,,", "does not fit this domain: Expected `str`"),
    ):
        with (folder / file).open("a") as stream:
            stream.write(f"{row}\n")
        with pytest.raises(ValueError, match=message):
            ServiceWorld.of([service], 0, {service.name: {"data": str(tmp_path)}})


def test_a_changed_file_and_an_absent_folder_are_refused(tmp_path: Path) -> None:
    knobs = {"data": str(write_workbench(tmp_path)), "hash": "0" * 64}
    with pytest.raises(ValueError, match=r"has the SHA-256 .* is wanted"):
        ServiceWorld.of([workbench_email], 0, {"workbenchemail": knobs})
    with pytest.raises(ValueError, match="needs the knob `data`"):
        ServiceWorld.of([workbench_email])
    with pytest.raises(ValueError, match=r"Found no emails\.csv"):
        ServiceWorld.of([workbench_email], 0, {"workbenchemail": {"data": str(tmp_path / "absent")}})
