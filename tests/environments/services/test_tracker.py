"""The tracker: generator, rules of its actions, and what holds after any calls."""

from __future__ import annotations

from typing import Any

import pytest

from assay.environments.services.apps.tracker import (
    CLOSED,
    Comment,
    Component,
    Issue,
    IssueChange,
    IssueLabel,
    IssueLink,
    Label,
    Member,
    Page,
    PageRevision,
    Project,
    ProjectMember,
    Space,
    Sprint,
    Watcher,
    WorkLog,
    tracker,
)
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import Calls, Letter, call, changed_tables, postbox, refuse, rows

SIZES = [
    {"members": 3, "projects": 1, "issues": 1, "pages": 1, "surprises": 0},
    {},
    {"members": 60, "projects": 8, "issues": 300, "pages": 80, "lookalikes": 60},
]


def opened(seed: int = 1, actor: str = "", **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([tracker], seed, {"tracker": knobs}, actor)


def assert_invariants(world: ServiceWorld) -> None:
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    logs: dict[str, int] = {}
    for log in rows(world, WorkLog):
        logs[log.issue_id] = logs.get(log.issue_id, 0) + log.minutes
    points: dict[str, int] = {}
    history = {(c.issue_id, c.field): c.new for c in rows(world, IssueChange)}
    projects = {row.id: row.project_id for cls in (Sprint, Component, Label, Issue) for row in rows(world, cls)}
    for issue in rows(world, Issue):
        assert issue.logged_minutes == logs.get(issue.id, 0)
        assert issue.status == history.get((issue.id, "status"), "open")
        assert issue.assignee_id or issue.status in ("open", "wont_fix")
        assert all(projects[part] == issue.project_id for part in (issue.component_id, issue.sprint_id) if part)
        if issue.sprint_id and issue.status != "wont_fix":
            points[issue.sprint_id] = points.get(issue.sprint_id, 0) + issue.points
    for sprint in rows(world, Sprint):
        assert points.get(sprint.id, 0) <= sprint.capacity
    assert all(projects[row.issue_id] == projects[row.label_id] for row in rows(world, IssueLabel))
    revisions = {(r.page_id, r.version): r.text for r in rows(world, PageRevision)}
    for page in rows(world, Page):
        assert revisions[page.id, page.version] == page.text
        assert all((page.id, version) in revisions for version in range(1, page.version))
    active = [sprint.project_id for sprint in rows(world, Sprint, status="active")]
    assert len(active) == len(set(active))


@pytest.mark.parametrize("knobs", SIZES)
def test_generator(knobs: dict[str, int]) -> None:
    world = opened(5, **knobs)
    names = [member.name for member in rows(world, Member)]
    assert len(set(names)) < len(names)
    assert len(rows(world, Issue)) == knobs.get("issues", 50)


def test_bad_knobs() -> None:
    with pytest.raises(ValueError, match="it has members, projects"):
        opened(issues=0)


# Actions. The assistant maintains every project; `actor` signs somebody else in.


def issue_of(world: ServiceWorld, status: str = "open", **equal: Any) -> Issue:
    active = {project.id for project in rows(world, Project, status="active")}
    return next(issue for issue in rows(world, Issue, status=status, **equal) if issue.project_id in active)


def crew(world: ServiceWorld, project_id: str, role: str) -> Member:
    right = rows(world, ProjectMember, project_id=project_id, role=role)[-1]
    return rows(world, Member, id=right.member_id)[0]


def test_open_issue() -> None:
    world = opened()
    project = rows(world, Project, status="active")[0]
    component = rows(world, Component, project_id=project.id)[0]
    given = {"project_id": project.id, "title": "New one", "description": "Words.", "kind": "bug"}
    issue = call(world, "open_issue", **given, component_id=component.id, due="2026-03-05")
    assert (issue["status"], issue["priority"], issue["component_id"]) == ("open", "medium", component.id)
    assert changed_tables(world) == {"issues", "watchers"}
    assert "in the past" in refuse(world, "open_issue", **given, due="2026-03-01")
    other = next(c for c in rows(world, Component) if c.project_id != project.id)
    assert "another project" in refuse(world, "open_issue", **given, component_id=other.id)
    archived = rows(world, Project, status="archived")[0]
    assert "is archived" in refuse(world, "open_issue", **{**given, "project_id": archived.id})


def test_rights() -> None:
    world = opened()
    issue = issue_of(world)
    world.actor = crew(world, issue.project_id, "viewer").email
    assert "Error (forbidden): This needs a contributor" in refuse(
        world, "comment_on_issue", issue_id=issue.id, text="Hello"
    )
    world.actor = "nobody@example.org"
    assert "not an active member" in refuse(world, "comment_on_issue", issue_id=issue.id, text="Hello")
    assert "not an active member" in refuse(world, "list_my_issues")


def test_fields_of_an_issue() -> None:
    world = opened()
    issue = issue_of(world, priority="low")
    assert call(world, "set_issue_priority", issue_id=issue.id, priority="urgent")["priority"] == "urgent"
    assert "has urgent priority already" in refuse(world, "set_issue_priority", issue_id=issue.id, priority="urgent")
    call(world, "edit_issue", issue_id=issue.id, title="Other", description="Words")
    call(world, "set_due_date", issue_id=issue.id, due="2026-03-09")
    assert "in the past" in refuse(world, "set_due_date", issue_id=issue.id, due="2026-02-09")
    component = rows(world, Component, project_id=issue.project_id)[-1]
    call(world, "set_issue_component", issue_id=issue.id, component_id=component.id)
    assert changed_tables(world) == {"issues"}
    assert {c["field"] for c in call(world, "list_issue_changes", issue_id=issue.id)} >= {"priority", "title", "due"}
    world.actor = crew(world, issue.project_id, "contributor").id
    assert "needs a maintainer" in refuse(world, "set_issue_priority", issue_id=issue.id, priority="low")


def test_assign_issue() -> None:
    world = opened()
    issue = issue_of(world)
    member = next(
        m
        for right in rows(world, ProjectMember, project_id=issue.project_id, role="contributor")
        if not (m := rows(world, Member, id=right.member_id)[0]).away_until
    )
    assert call(world, "assign_issue", issue_id=issue.id, member_id=member.id)["assignee_id"] == member.id
    assert Watcher(issue.id, member.id) in rows(world, Watcher)
    viewer = crew(world, issue.project_id, "viewer")
    assert "does not contribute" in refuse(world, "assign_issue", issue_id=issue.id, member_id=viewer.id)
    call(world, "assign_issue", issue_id=issue.id, member_id=None)
    assert not world.act("set_absence", {"until": "2026-03-20"}, role="user", actor=member.id).error
    assert "Error (unavailable)" in refuse(world, "assign_issue", issue_id=issue.id, member_id=member.id)
    busy = issue_of(world, "in_progress")
    assert "needs an assignee" in refuse(world, "assign_issue", issue_id=busy.id, member_id=None)


def test_an_issue_goes_its_way() -> None:
    world = opened()
    issue = issue_of(world)
    blocker = next(i for i in rows(world, Issue, project_id=issue.project_id, status="open") if i.id != issue.id)
    for link in rows(world, IssueLink, other_id=issue.id, kind="blocks"):
        call(world, "unlink_issues", issue_id=link.issue_id, kind="blocks", other_id=issue.id)
    call(world, "link_issues", issue_id=blocker.id, kind="blocks", other_id=issue.id)
    assert "can go to in_progress or wont_fix" in refuse(world, "move_issue", issue_id=issue.id, status="done")
    assert "no assignee" in refuse(world, "move_issue", issue_id=issue.id, status="in_progress")
    assistant = rows(world, Member, title="assistant")[0]
    call(world, "assign_issue", issue_id=issue.id, member_id=assistant.id)
    call(world, "move_issue", issue_id=issue.id, status="in_progress")
    assert "No time is logged" in refuse(world, "move_issue", issue_id=issue.id, status="in_review")
    call(world, "log_work", issue_id=issue.id, day="2026-03-01", minutes=90, note="Work")
    call(world, "move_issue", issue_id=issue.id, status="in_review")
    assert "cannot accept it" in refuse(world, "move_issue", issue_id=issue.id, status="done")
    world.actor = issue.reporter_id
    assert f"blocked by {blocker.id}" in refuse(world, "move_issue", issue_id=issue.id, status="done")
    world.actor = ""
    assert "Give a reason" in refuse(world, "move_issue", issue_id=blocker.id, status="wont_fix")
    call(world, "move_issue", issue_id=blocker.id, status="wont_fix", reason="Not needed")
    world.actor = issue.reporter_id
    assert call(world, "move_issue", issue_id=issue.id, status="done")["status"] == "done"
    assert "Give a reason" in refuse(world, "move_issue", issue_id=issue.id, status="open")
    call(world, "wait", hours=24 * 31)
    assert "was closed on 2026-03-02" in refuse(world, "move_issue", issue_id=issue.id, status="open", reason="Again")
    assert_invariants(world)


def test_review_ends_by_itself_after_fourteen_days() -> None:
    world = opened()
    issue = issue_of(world, "in_progress")
    call(world, "move_issue", issue_id=issue.id, status="in_review")
    call(world, "wait", hours=24 * 14 - 1)
    assert rows(world, Issue, id=issue.id)[0].status == "in_review"
    call(world, "wait", hours=1)
    assert rows(world, Issue, id=issue.id)[0].status == "done"


def test_duplicates_and_links() -> None:
    world = opened()
    project = next(p.id for p in rows(world, Project, status="active"))
    older, younger, third = [
        i for i in sorted(rows(world, Issue, project_id=project), key=lambda i: i.created) if i.status not in CLOSED
    ][:3]
    assert "must be the older" in refuse(world, "close_as_duplicate", issue_id=older.id, original_id=younger.id)
    closed = call(world, "close_as_duplicate", issue_id=younger.id, original_id=older.id)
    assert (closed["status"], closed["sprint_id"]) == ("wont_fix", None)
    assert "is closed" in refuse(world, "close_as_duplicate", issue_id=younger.id, original_id=older.id)
    assert "duplicates" in refuse(world, "move_issue", issue_id=younger.id, status="open", reason="Is not")
    assert "itself a duplicate" in refuse(world, "close_as_duplicate", issue_id=third.id, original_id=younger.id)
    assert "to itself" in refuse(world, "link_issues", issue_id=third.id, kind="blocks", other_id=third.id)
    fresh = [
        call(world, "open_issue", project_id=project, title=f"Issue {at}", description="-", kind="task")["id"]
        for at in range(3)
    ]
    call(world, "link_issues", issue_id=fresh[0], kind="blocks", other_id=fresh[1])
    call(world, "link_issues", issue_id=fresh[1], kind="blocks", other_id=fresh[2])
    assert "already" in refuse(world, "link_issues", issue_id=fresh[2], kind="blocks", other_id=fresh[0])
    call(world, "link_issues", issue_id=fresh[0], kind="relates", other_id=fresh[2])
    assert "already" in refuse(world, "link_issues", issue_id=fresh[2], kind="relates", other_id=fresh[0])
    assert "no issue link" in refuse(world, "unlink_issues", issue_id=fresh[2], kind="blocks", other_id=fresh[0])
    assert changed_tables(world) == {"issues", "issue_links", "watchers"}


def test_labels_and_watching() -> None:
    world = opened()
    issue = call(
        world, "open_issue", project_id=issue_of(world).project_id, title="Issue", description="-", kind="task"
    )
    label = rows(world, Label, project_id=issue["project_id"])[0]
    call(world, "label_issue", issue_id=issue["id"], label_id=label.id)
    assert "already" in refuse(world, "label_issue", issue_id=issue["id"], label_id=label.id)
    other = next(row for row in rows(world, Label) if row.project_id != issue["project_id"])
    assert "another project" in refuse(world, "label_issue", issue_id=issue["id"], label_id=other.id)
    assert call(world, "get_issue", issue_id=issue["id"])["labels"][0]["name"] == label.name
    call(world, "unlabel_issue", issue_id=issue["id"], label_id=label.id)
    assert "no issue label" in refuse(world, "unlabel_issue", issue_id=issue["id"], label_id=label.id)
    assert "already" in refuse(world, "watch_issue", issue_id=issue["id"])
    call(world, "unwatch_issue", issue_id=issue["id"])
    assert "no watcher" in refuse(world, "unwatch_issue", issue_id=issue["id"])
    call(world, "watch_issue", issue_id=issue["id"])
    assert changed_tables(world) == {"issues", "watchers"}


def test_comments() -> None:
    world = opened()
    issue, old = issue_of(world), rows(world, Comment)[0]
    comment = call(world, "comment_on_issue", issue_id=issue.id, text="Hello")
    assert call(world, "edit_comment", comment_id=comment["id"], text="Hello all")["is_edited"]
    assert "is not by" in refuse(world, "edit_comment", comment_id=old.id, text="Mine now")
    assert changed_tables(world) == {"comments"}
    call(world, "wait", hours=25)
    assert "for 24 hours" in refuse(world, "edit_comment", comment_id=comment["id"], text="Late")
    call(world, "delete_comment", comment_id=comment["id"])
    assert "no comment" in refuse(world, "delete_comment", comment_id=comment["id"])


def test_work_logs() -> None:
    world = opened()
    issue = issue_of(world, "in_progress")
    given = {"issue_id": issue.id, "note": "Work"}
    log = call(world, "log_work", **given, day="2026-02-20", minutes=600)
    assert "has logged 600 minutes" in refuse(world, "log_work", **given, day="2026-02-20", minutes=121)
    assert "in the future" in refuse(world, "log_work", **given, day="2026-03-03", minutes=1)
    assert "more than 14 days ago" in refuse(world, "log_work", **given, day="2026-02-15", minutes=1)
    call(world, "correct_work_log", work_log_id=log["id"], minutes=30)
    assert call(world, "get_issue", issue_id=issue.id)["issue"]["logged_minutes"] == issue.logged_minutes + 30
    theirs = rows(world, WorkLog, issue_id=issue.id)[0]
    assert "is not of" in refuse(world, "correct_work_log", work_log_id=theirs.id, minutes=5)
    call(world, "delete_work_log", work_log_id=log["id"])
    assert changed_tables(world) == set()


def test_sprints() -> None:
    world = opened()
    project = rows(world, Sprint, status="active")[0].project_id
    active = rows(world, Sprint, project_id=project, status="active")[0]
    planned, later = sorted(rows(world, Sprint, project_id=project, status="planned"), key=lambda s: s.starts)
    issue = call(world, "open_issue", project_id=project, title="Issue", description="-", kind="task")["id"]
    assert "no estimate" in refuse(world, "plan_issue", issue_id=issue, sprint_id=planned.id)
    assert "An estimate is one of" in refuse(world, "estimate_issue", issue_id=issue, points=4)
    call(world, "estimate_issue", issue_id=issue, points=1)
    for other in rows(world, Issue, sprint_id=planned.id) + rows(world, Issue, sprint_id=later.id):
        call(world, "unplan_issue", issue_id=other.id)
    call(world, "plan_issue", issue_id=issue, sprint_id=planned.id)
    assert "close it first" in refuse(world, "start_sprint", sprint_id=planned.id)
    report = call(world, "get_sprint_report", sprint_id=active.id)
    assert report["done_points"] + report["open_points"] + report["free_points"] == active.capacity
    assert call(world, "close_sprint", sprint_id=active.id) == report
    assert all(rows(world, Issue, id=i["id"])[0].sprint_id != active.id for i in report["unfinished"])
    assert "holds no issue" in refuse(world, "start_sprint", sprint_id=later.id)
    assert "is closed" in refuse(world, "plan_issue", issue_id=issue, sprint_id=active.id)
    assert call(world, "start_sprint", sprint_id=planned.id)["status"] == "active"
    assert_invariants(world)
    assert changed_tables(world) == {"issues", "sprints", "watchers"}


def test_a_sprint_holds_its_capacity() -> None:
    world = opened()
    sprint = rows(world, Sprint, status="planned")[0]
    refusals = ""
    for at in range(6):
        issue = call(world, "open_issue", project_id=sprint.project_id, title=f"No {at}", description="-", kind="task")
        call(world, "estimate_issue", issue_id=issue["id"], points=13)
        refusals += world.act("plan_issue", {"issue_id": issue["id"], "sprint_id": sprint.id}).content
    assert "Error (conflict): Sprint" in refusals
    assert_invariants(world)


def test_wiki() -> None:
    world = opened(restricted=0)
    space = rows(world, Space)[0]
    page = call(world, "create_page", space_id=space.id, title="How to", text="One")
    assert "already" in refuse(world, "create_page", space_id=space.id, title="How to", text="Two")
    below = call(world, "create_page", space_id=space.id, title="Part", text="Two", parent_id=page["id"])
    edit = {"page_id": page["id"], "summary": "More"}
    assert call(world, "edit_page", **edit, base_version=1, text="Two")["version"] == 2
    assert "read it again and merge" in refuse(world, "edit_page", **edit, base_version=1, text="Three")
    assert "is the same" in refuse(world, "edit_page", **edit, base_version=2, text="Two")
    assert call(world, "restore_page_revision", page_id=page["id"], version=1)["text"] == "One"
    assert "no page revision" in refuse(world, "restore_page_revision", page_id=page["id"], version=9)
    assert "below itself" in refuse(world, "move_page", page_id=page["id"], parent_id=below["id"])
    assert "1 current pages stand below it" in refuse(world, "archive_page", page_id=page["id"])
    call(world, "move_page", page_id=below["id"], parent_id=None)
    call(world, "rename_page", page_id=below["id"], title="Whole")
    call(world, "archive_page", page_id=page["id"])
    assert "is archived" in refuse(world, "rename_page", page_id=page["id"], title="New")
    assert changed_tables(world) == {"pages", "page_revisions"}


def test_restricted_spaces() -> None:
    world = opened(restricted=100)
    space = next(s for s in rows(world, Space) if rows(world, Member, id=s.owner_id)[0].title != "assistant")
    assert "is restricted; its owner is" in refuse(world, "create_page", space_id=space.id, title="Mine", text="No")
    world.actor = space.owner_id
    call(world, "create_page", space_id=space.id, title="Mine", text="Yes")


def test_watchers_and_assignees_get_mail() -> None:
    world = ServiceWorld.of([tracker, postbox], 1)
    issue = issue_of(world)
    call(world, "comment_on_issue", issue_id=issue.id, text="News")
    reporter = rows(world, Member, id=issue.reporter_id)[0]
    assert [(letter.recipient, letter.text) for letter in rows(world, Letter)] == [(reporter.email, "News")]
    assistant = rows(world, Member, title="assistant")[0]
    call(world, "assign_issue", issue_id=issue.id, member_id=assistant.id)
    call(world, "set_due_date", issue_id=issue.id, due="2026-03-04")
    call(world, "wait", hours=48)
    assert [letter.subject for letter in rows(world, Letter, recipient=assistant.email)] == [
        f"Assigned to you: {issue.title}",
        f"Due today: {issue.title}",
    ]


def test_colleagues_comment_and_edit() -> None:
    world = opened(surprises=40)
    call(world, "wait", hours=24 * 14)
    assert {"comments", "pages", "page_revisions"} <= changed_tables(world)
    assert_invariants(world)


ISSUE, PAGE, SPRINT = {"issue_id": "ISS-1"}, {"page_id": "PAG-1"}, {"sprint_id": "SPR-1"}
CONTRACTS: list[tuple[str, Calls, Calls]] = [
    ("search-first", [("search_issues", {}), ("open_issue", {"kind": "bug"})], [("open_issue", {"kind": "bug"})]),
    (
        "three-issues",
        [("search_issues", {}), *[("open_issue", {"kind": "bug"})] * 3],
        [("search_issues", {}), *[("open_issue", {"kind": "bug"})] * 4],
    ),
    (
        "urgent-bugs",
        [
            ("search_issues", {}),
            ("open_issue", {"kind": "bug", "priority": "urgent"}),
            ("open_issue", {"kind": "task"}),
        ],
        [("search_issues", {}), ("open_issue", {"kind": "task", "priority": "urgent"})],
    ),
    (
        "read-comments",
        [("list_comments", ISSUE), ("move_issue", {**ISSUE, "status": "wont_fix"})],
        [("list_comments", {"issue_id": "ISS-2"}), ("move_issue", {**ISSUE, "status": "wont_fix"})],
    ),
    ("read-page", [("get_page", PAGE), ("edit_page", PAGE)], [("get_page", {"page_id": "PAG-2"}), ("edit_page", PAGE)]),
    (
        "read-revision",
        [("get_page_revision", {**PAGE, "version": 2}), ("restore_page_revision", {**PAGE, "version": 2})],
        [("get_page_revision", {"page_id": "PAG-2", "version": 2}), ("restore_page_revision", {**PAGE, "version": 2})],
    ),
    ("comment-on-assignment", [("assign_issue", ISSUE), ("comment_on_issue", ISSUE)], [("assign_issue", ISSUE)]),
    ("read-report", [("get_sprint_report", SPRINT), ("close_sprint", SPRINT)], [("close_sprint", SPRINT)]),
]
