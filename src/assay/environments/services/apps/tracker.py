"""Tracker: issues, sprints and work logs of software projects, and a wiki whose pages keep all revisions.

A caller acts as the member who is signed in, given by identifier or email address; by default as the
workspace's assistant, who maintains every project. Rights follow from the member's role in a project.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from assay.environments.services.clock import START
from assay.environments.services.declaration import Policy, Role, Service
from assay.environments.services.schema import Date, Timestamp, identifier
from assay.environments.services.transaction import Generator, Transaction, shift_time, without_none

from ._requests import Limit, Offset, find_caller
from ._words import OFFICE_FIRST_NAMES, OFFICE_SURNAMES, phrases, spoken_date, words

POLICY: Final = """
# How we work with the tracker

You act for the member of staff who is signed in: everything that you write stands under their name. Do what they ask,
nothing more. If a request does not name one issue, page or person clearly, look it up; if two fit, ask which one is
meant. Several colleagues share a name, and several issues share a title: compare job title, component, reporter and
date.

**Opening issues.** Search before you open an issue. If the same fault is already reported and open, do not report it
again: comment on the existing issue, or watch it for the person you serve. Only bugs may be `urgent`: money, data or
access is at stake right now. Stories and tasks start at `high` at most. Open at most three issues in one
conversation; whoever brings more should write them up on a wiki page first.

**Assigning.** Assign only people who work on the project and are not away. An issue goes to the owner of its
component unless the person you serve names somebody. When you assign an issue to another person, leave a comment that
says what you expect of them.

**Moving issues.** Work goes open, in progress, in review, done. An issue needs an assignee before work begins and
logged time before review. Whoever did the work does not accept it: the reporter or a maintainer moves it to done, and
open blockers come first. An issue that stays in review for fourteen days counts as accepted. Only the reporter or a
maintainer may reject an issue (`wont_fix`), always with a reason. Before you reject one, read its comments; if you
looked at the comments of another issue in between, read them again. A closed issue may be reopened within thirty
days, with a reason; after that open a new one and link it. If two issues are the same, close the younger as a
duplicate of the older.

**Sprints.** Only maintainers change what is in an active sprint, start one or close one. Estimate before you plan. A
sprint never holds more points than its capacity: take something out first, lowest priority first, or plan for the next
sprint. When a sprint closes, unfinished issues move to the next planned sprint as far as they fit, by priority; the
rest goes back to the backlog. Read the sprint's report right before you close it.

**Time.** Members log time for themselves, on the day they worked, at most fourteen days back and twelve hours a day.
You may correct the person's own entries only. Never log time for work that they did not mention.

**Comments.** Be brief and factual. Authors may edit their comment for 24 hours. Do not delete a comment that somebody
has asked about; maintainers delete another's comment only if the person you serve asks for that very one.

**Wiki.** Read a page right before you change it, and give the version that you read: if a colleague saved in the
meantime, read again and merge. Never overwrite what others wrote without being told to. Right before you restore an old
revision, read that revision. Pages of restricted spaces are changed by the owner of the space only; ask the owner by a
comment or by mail. Archive a page rather than emptying it, and move its current sub-pages first.

**If it is not possible.** Say so, give the reason that the tracker gave, and name the person who can help: the lead
of the project, the owner of the component or of the space. Do not look for a way around a rule.
"""

CONTRACTS: Final = (
    """
contract = "tracker-search-before-opening"
[[rules]]
name = "search-first"
kind = "precondition"
when = 'call.name == "open_issue"'
require = 'earlier(call.name == "search_issues" and result.ok)'
message = "search for the same issue before you open one"
""",
    """
contract = "tracker-opening"
[[rules]]
name = "three-issues"
kind = "governance"
require = 'count(call.name == "open_issue" and result.ok) <= 3'
[[rules]]
name = "urgent-bugs"
kind = "precondition"
when = 'call.name == "open_issue" and known(call.arguments.priority) and call.arguments.priority == "urgent"'
require = 'call.arguments.kind == "bug"'
message = "only bugs are urgent"
""",
    """
contract = "tracker-read-before-rejecting"
[[rules]]
name = "read-comments"
kind = "precondition"
when = 'call.name == "move_issue" and call.arguments.status == "wont_fix"'
require = '''earlier(call.name == "list_comments" and result.ok) and
latest(call.arguments.issue_id, call.name == "list_comments" and result.ok) == call.arguments.issue_id'''
message = "read the issue's comments before you reject it"
""",
    """
contract = "tracker-read-before-editing"
[[rules]]
name = "read-page"
kind = "precondition"
when = 'call.name == "edit_page"'
require = '''earlier(call.name == "get_page" and result.ok) and
latest(call.arguments.page_id, call.name == "get_page" and result.ok) == call.arguments.page_id'''
message = "read the page right before you change it"
[[rules]]
name = "read-revision"
kind = "precondition"
when = 'call.name == "restore_page_revision"'
require = '''earlier(call.name == "get_page_revision" and result.ok) and
latest(call.arguments.page_id, call.name == "get_page_revision" and result.ok) == call.arguments.page_id and
latest(call.arguments.version, call.name == "get_page_revision" and result.ok) == call.arguments.version'''
message = "read the revision before you restore it"
""",
    """
contract = "tracker-tell-assignee"
[[rules]]
name = "comment-on-assignment"
kind = "recovery"
when = 'call.name == "assign_issue" and result.ok'
require = 'eventually(call.name == "comment_on_issue" and result.ok)'
message = "tell the assignee in a comment what you expect"
""",
    """
contract = "tracker-report-before-closing-sprint"
[[rules]]
name = "read-report"
kind = "precondition"
when = 'call.name == "close_sprint"'
require = '''earlier(call.name == "get_sprint_report" and result.ok) and
latest(call.arguments.sprint_id, call.name == "get_sprint_report" and result.ok) == call.arguments.sprint_id'''
message = "read the sprint's report before you close it"
""",
)


class TrackerKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the generator."""

    members: Annotated[int, Meta(ge=3, le=2_000)] = 12
    projects: Annotated[int, Meta(ge=1, le=200)] = 4
    issues: Annotated[int, Meta(ge=1, le=20_000)] = 50
    pages: Annotated[int, Meta(ge=1, le=5_000)] = 20
    lookalikes: Annotated[int, Meta(ge=0, le=100)] = 15
    """Percentage of issues that share their title with another one."""
    restricted: Annotated[int, Meta(ge=0, le=100)] = 25
    """Percentage of wiki spaces that only their owner may change."""
    surprises: Annotated[int, Meta(ge=0, le=200)] = 6
    """Number of comments and edits by colleagues in the first two weeks."""


tracker = Service(
    "tracker",
    "Issues, sprints, work logs and a wiki of software projects.",
    knobs=TrackerKnobs,
    policy=Policy(POLICY, CONTRACTS),
)

ADDRESS: Final = "tracker@lumenworks.example"
BOTH: Final[tuple[Role, ...]] = ("agent", "user")
REOPEN_DAYS: Final = 30
REVIEW_DAYS: Final = 14
LOG_DAYS: Final = 14
DAILY_MINUTES: Final = 12 * 60
CLOSED: Final = ("done", "wont_fix")
POINTS: Final = (1, 2, 3, 5, 8, 13)

# Identifiers and values.

MemberId = Annotated[str, identifier("member", "MEM-")]
EmailAddress = Annotated[str, identifier("email address")]
ProjectId = Annotated[str, identifier("project", "PRJ-")]
ComponentId = Annotated[str, identifier("component", "CMP-")]
SprintId = Annotated[str, identifier("sprint", "SPR-")]
LabelId = Annotated[str, identifier("label", "LBL-")]
IssueId = Annotated[str, identifier("issue", "ISS-")]
CommentId = Annotated[str, identifier("comment", "COM-")]
WorkLogId = Annotated[str, identifier("work log", "WRK-")]
SpaceId = Annotated[str, identifier("wiki space", "SPC-")]
PageId = Annotated[str, identifier("wiki page", "PAG-")]

Status = Literal["open", "in_progress", "in_review", "done", "wont_fix"]
Kind = Literal["bug", "task", "story"]
Priority = Literal["low", "medium", "high", "urgent"]
ProjectRole = Literal["viewer", "contributor", "maintainer"]
Title = Annotated[str, Meta(min_length=3, max_length=120, pattern=r"\S")]
IssueTitle = Annotated[
    Title,
    Meta(
        examples=[
            "Sums are rounded twice",
            "Explain the limits in the help",
            "Sort the list by date",
            "Shorten the form",
        ]
    ),
]
PageTitle = Annotated[
    Title, Meta(examples=["Release calendar", "Glossary", "How we answer customers", "Decisions of the spring"])
]
Text = Annotated[str, Meta(min_length=1, max_length=4_000, pattern=r"\S")]
IssueText = Annotated[
    Text,
    Meta(examples=["Three customers asked for it.", "It happens every time.", "Wanted for the next release."]),
]
CommentText = Annotated[
    Text, Meta(examples=["The cause is known.", "Please wait for the next release.", "I could not repeat it."])
]
WorkNote = Annotated[Text, Meta(examples=["Tests", "Pairing", "Reading the logs", "Talking to the customer"])]
PageText = Annotated[
    Text, Meta(examples=["Ask the owner of the space first.", "This page is under construction.", "See the minutes."])
]
Minutes = Annotated[int, Meta(ge=1, le=DAILY_MINUTES)]
Version = Annotated[int, Meta(ge=1, le=1_000_000)]

RANKS: Final[dict[str, int]] = {"viewer": 0, "contributor": 1, "maintainer": 2}
PRIORITIES: Final[tuple[Priority, ...]] = ("urgent", "high", "medium", "low")
MOVES: Final[dict[Status, tuple[Status, ...]]] = {
    "open": ("in_progress", "wont_fix"),
    "in_progress": ("open", "in_review", "wont_fix"),
    "in_review": ("in_progress", "done"),
    "done": ("open",),
    "wont_fix": ("open",),
}
"""The states that an issue may go to from each."""

# Tables.


@tracker.table(indexes=[("name",)], unique=[("email",)])
class Member(msgspec.Struct, frozen=True):
    id: MemberId
    name: str
    email: EmailAddress
    title: str
    is_active: bool = True
    away_until: Date | None = None


@tracker.table(unique=[("name",)])
class Project(msgspec.Struct, frozen=True):
    id: ProjectId
    name: str
    description: str
    lead_id: MemberId
    status: Literal["active", "archived"]


@tracker.table(key=("project_id", "member_id"))
class ProjectMember(msgspec.Struct, frozen=True):
    project_id: ProjectId
    member_id: MemberId
    role: ProjectRole


@tracker.table(unique=[("project_id", "name")])
class Component(msgspec.Struct, frozen=True):
    id: ComponentId
    project_id: ProjectId
    name: str
    owner_id: MemberId


@tracker.table(unique=[("project_id", "name")])
class Sprint(msgspec.Struct, frozen=True):
    id: SprintId
    project_id: ProjectId
    name: str
    status: Literal["planned", "active", "closed"]
    starts: Date
    ends: Date
    capacity: int
    """Story points that fit."""


@tracker.table(unique=[("project_id", "name")])
class Label(msgspec.Struct, frozen=True):
    id: LabelId
    project_id: ProjectId
    name: str


@tracker.table(indexes=[("project_id",), ("assignee_id",), ("sprint_id",)])
class Issue(msgspec.Struct, frozen=True):
    id: IssueId
    project_id: ProjectId
    title: str
    description: str
    kind: Kind
    priority: Priority
    status: Status
    reporter_id: MemberId
    created: Timestamp
    moved: Timestamp
    """Time of the last change of the status."""
    assignee_id: MemberId | None = None
    component_id: ComponentId | None = None
    sprint_id: SprintId | None = None
    points: int | None = None
    due: Date | None = None
    logged_minutes: int = 0
    """Sum of its work logs."""


@tracker.table("issue_labels", key=("issue_id", "label_id"))
class IssueLabel(msgspec.Struct, frozen=True):
    issue_id: IssueId
    label_id: LabelId


@tracker.table(key=("issue_id", "kind", "other_id"), indexes=[("other_id",)])
class IssueLink(msgspec.Struct, frozen=True):
    """Reads as a sentence: the issue blocks, duplicates or relates to the other."""

    issue_id: IssueId
    kind: Literal["blocks", "duplicates", "relates"]
    other_id: IssueId


@tracker.table(key=("issue_id", "member_id"))
class Watcher(msgspec.Struct, frozen=True):
    issue_id: IssueId
    member_id: MemberId


@tracker.table(indexes=[("issue_id",)])
class Comment(msgspec.Struct, frozen=True):
    id: CommentId
    issue_id: IssueId
    author_id: MemberId
    created: Timestamp
    text: str
    is_edited: bool = False


@tracker.table(indexes=[("issue_id",), ("member_id", "day")])
class WorkLog(msgspec.Struct, frozen=True):
    id: WorkLogId
    issue_id: IssueId
    member_id: MemberId
    day: Date
    minutes: int
    note: str


@tracker.table(key=("issue_id", "number"), judged=False)
class IssueChange(msgspec.Struct, frozen=True):
    """One line of an issue's history."""

    issue_id: IssueId
    number: int
    at: Timestamp
    member_id: MemberId
    field: str
    old: str | None
    new: str | None


@tracker.table(unique=[("name",)])
class Space(msgspec.Struct, frozen=True):
    id: SpaceId
    name: str
    owner_id: MemberId
    is_restricted: bool


@tracker.table(unique=[("space_id", "title")], indexes=[("parent_id",)])
class Page(msgspec.Struct, frozen=True):
    id: PageId
    space_id: SpaceId
    title: str
    text: str
    version: int
    status: Literal["current", "archived"]
    parent_id: PageId | None = None


@tracker.table(key=("page_id", "version"))
class PageRevision(msgspec.Struct, frozen=True):
    page_id: PageId
    version: int
    author_id: MemberId
    created: Timestamp
    text: str
    summary: str


# Descriptions: how a person refers to a row.


@tracker.describe(Member, noun="colleague")
def describe_member(tx: Transaction, member: Member) -> str:
    return f"{member.name}, the {member.title}"


@tracker.describe(Project)
def describe_project(tx: Transaction, project: Project) -> str:
    return f"the project {project.name}"


@tracker.describe(Component)
def describe_component(tx: Transaction, component: Component) -> str:
    return f"the component “{component.name}” of {tx.get(Project, component.project_id).name}"


@tracker.describe(Sprint)
def describe_sprint(tx: Transaction, sprint: Sprint) -> str:
    return f"{sprint.name} of {tx.get(Project, sprint.project_id).name}"


@tracker.describe(Label)
def describe_label(tx: Transaction, label: Label) -> str:
    return f"the label “{label.name}” of {tx.get(Project, label.project_id).name}"


@tracker.describe(Issue)
def describe_issue(tx: Transaction, issue: Issue) -> str:
    project, reporter = tx.get(Project, issue.project_id), tx.get(Member, issue.reporter_id)
    reported = f"that {reporter.name} reported on {spoken_date(issue.created)}"
    return f"the {issue.kind} “{issue.title}” in {project.name} {reported}"


@tracker.describe(Comment)
def describe_comment(tx: Transaction, comment: Comment) -> str:
    issue, author = tx.get(Issue, comment.issue_id), tx.get(Member, comment.author_id)
    return (
        f"the comment “{comment.text[:60]}” that {author.name} wrote on {spoken_date(comment.created)} "
        f"at {comment.created[11:]} on {describe_issue(tx, issue)}"
    )


@tracker.describe(WorkLog, noun="entry of logged time")
def describe_work_log(tx: Transaction, log: WorkLog) -> str:
    member, issue = tx.get(Member, log.member_id), tx.get(Issue, log.issue_id)
    return (
        f"the {log.minutes} minutes (“{log.note}”) that {member.name} logged for {spoken_date(log.day)} "
        f"on {describe_issue(tx, issue)}"
    )


@tracker.describe(Space, noun="wiki space")
def describe_space(tx: Transaction, space: Space) -> str:
    return f"the wiki space “{space.name}”"


@tracker.describe(Page, noun="wiki page")
def describe_page(tx: Transaction, page: Page) -> str:
    return f"the wiki page “{page.title}” in the space “{tx.get(Space, page.space_id).name}”"


# Views.


class ProjectRights(msgspec.Struct, frozen=True):
    """A person's place in a project."""

    member: Member
    role: ProjectRole


class IssueDetails(msgspec.Struct, frozen=True):
    """An issue with what hangs on it."""

    issue: Issue
    labels: list[Label]
    links: list[IssueLink]
    """In both directions."""
    watchers: list[Member]
    comments: int
    """Number of comments."""


class SprintReport(msgspec.Struct, frozen=True):
    """State of a sprint."""

    sprint: Sprint
    done_points: int
    open_points: int
    free_points: int
    unfinished: list[Issue]
    """Neither done nor rejected, most urgent first."""


class PageSummary(msgspec.Struct, frozen=True):
    """A page without its text."""

    id: PageId
    space_id: SpaceId
    title: str
    version: int
    status: str
    parent_id: PageId | None


@tracker.view(roles=BOTH)
def search_members(tx: Transaction, text: str, limit: Limit = 20, offset: Offset = 0) -> list[Member]:
    """Finds people by words of their name, email address or job title. Names are not unique: compare the title.

    Args:
        text: Words that must all occur; empty for everybody.
    """
    return tx.search(Member, text, "name", "email", "title", order_by="name", limit=limit, offset=offset)


@tracker.view(roles=BOTH)
def get_member(tx: Transaction, member_id: MemberId) -> Member:
    """Returns a person: email address, job title, and until when they are away."""
    return tx.get(Member, member_id)


@tracker.view(roles=BOTH)
def search_projects(tx: Transaction, text: str = "", limit: Limit = 20, offset: Offset = 0) -> list[Project]:
    """Finds projects by words of their name or description."""
    return tx.search(Project, text, "name", "description", order_by="name", limit=limit, offset=offset)


@tracker.view()
def list_project_members(
    tx: Transaction, project_id: ProjectId, limit: Limit = 50, offset: Offset = 0
) -> list[ProjectRights]:
    """Lists who works on a project: viewers read, contributors write, maintainers also run sprints."""
    tx.get(Project, project_id)
    rights = tx.find(ProjectMember, project_id=project_id, limit=limit, offset=offset)
    return [ProjectRights(tx.get(Member, right.member_id), right.role) for right in rights]


@tracker.view()
def list_components(tx: Transaction, project_id: ProjectId) -> list[Component]:
    """Lists the components of a project with their owners."""
    tx.get(Project, project_id)
    return tx.find(Component, project_id=project_id, order_by="name", limit=100)


@tracker.view()
def list_labels(tx: Transaction, project_id: ProjectId) -> list[Label]:
    """Lists the labels that a project's issues may have."""
    tx.get(Project, project_id)
    return tx.find(Label, project_id=project_id, order_by="name", limit=100)


@tracker.view()
def list_sprints(
    tx: Transaction,
    project_id: ProjectId,
    status: Literal["planned", "active", "closed"] | None = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[Sprint]:
    """Lists the sprints of a project by their first day.

    Args:
        status: Only sprints in this state.
    """
    tx.get(Project, project_id)
    filters = without_none(project_id=project_id, status=status)
    return tx.find(Sprint, order_by="starts", limit=limit, offset=offset, **filters)


@tracker.view(roles=BOTH)
def search_issues(
    tx: Transaction,
    text: str = "",
    *,
    project_id: ProjectId | None = None,
    status: Status | None = None,
    kind: Kind | None = None,
    assignee_id: MemberId | None = None,
    reporter_id: MemberId | None = None,
    component_id: ComponentId | None = None,
    sprint_id: SprintId | None = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[Issue]:
    """Finds issues, the newest first. Titles are not unique: compare component, reporter and date.

    Args:
        text: Words that must all occur in title or description; empty for all issues.
    """
    filters = without_none(
        project_id=project_id,
        status=status,
        kind=kind,
        assignee_id=assignee_id,
        reporter_id=reporter_id,
        component_id=component_id,
        sprint_id=sprint_id,
    )
    found = tx.search(Issue, text, "title", "description", order_by="-created", limit=limit, offset=offset, **filters)
    return found


@tracker.view(roles=BOTH)
def list_my_issues(tx: Transaction, limit: Limit = 20, offset: Offset = 0) -> list[Issue]:
    """Lists the unfinished issues assigned to the person who is signed in."""
    where = "assignee_id = ? AND status NOT IN ('done', 'wont_fix')"
    return tx.select(Issue, where, _signed_in(tx).id, order_by="created", limit=limit, offset=offset)


@tracker.view(roles=BOTH)
def get_issue(tx: Transaction, issue_id: IssueId) -> IssueDetails:
    """Returns an issue with its labels, links, watchers and number of comments."""
    issue = tx.get(Issue, issue_id)
    labels = [tx.get(Label, label.label_id) for label in tx.find(IssueLabel, issue_id=issue_id)]
    links = tx.select(IssueLink, "issue_id = ? OR other_id = ?", issue_id, issue_id)
    watchers = [tx.get(Member, watcher.member_id) for watcher in tx.find(Watcher, issue_id=issue_id)]
    return IssueDetails(issue, labels, links, watchers, tx.count(Comment, "issue_id = ?", issue_id))


@tracker.view(roles=BOTH)
def list_comments(tx: Transaction, issue_id: IssueId, limit: Limit = 20, offset: Offset = 0) -> list[Comment]:
    """Lists the comments on an issue, the oldest first."""
    tx.get(Issue, issue_id)
    return tx.find(Comment, issue_id=issue_id, order_by="created", limit=limit, offset=offset)


@tracker.view()
def list_issue_changes(tx: Transaction, issue_id: IssueId, limit: Limit = 50, offset: Offset = 0) -> list[IssueChange]:
    """Lists the history of an issue: who changed which field when."""
    tx.get(Issue, issue_id)
    return tx.find(IssueChange, issue_id=issue_id, limit=limit, offset=offset)


@tracker.view(roles=BOTH)
def list_work_logs(
    tx: Transaction,
    issue_id: IssueId | None = None,
    member_id: MemberId | None = None,
    day: Date | None = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[WorkLog]:
    """Lists logged time by day, of an issue, a person, a day, or any combination."""
    filters = without_none(issue_id=issue_id, member_id=member_id, day=day)
    return tx.find(WorkLog, order_by="day", limit=limit, offset=offset, **filters)


@tracker.view()
def get_sprint_report(tx: Transaction, sprint_id: SprintId) -> SprintReport:
    """Returns a sprint's points that are done, open and free, and its unfinished issues."""
    sprint = tx.get(Sprint, sprint_id)
    issues = tx.find(Issue, sprint_id=sprint_id)
    done = sum(issue.points or 0 for issue in issues if issue.status == "done")
    unfinished = sorted(
        (issue for issue in issues if issue.status not in CLOSED), key=lambda i: (PRIORITIES.index(i.priority), i.id)
    )
    pending = sum(issue.points or 0 for issue in unfinished)
    return SprintReport(sprint, done, pending, sprint.capacity - done - pending, unfinished[:50])


@tracker.view(roles=BOTH)
def search_spaces(tx: Transaction, text: str = "", limit: Limit = 20, offset: Offset = 0) -> list[Space]:
    """Finds wiki spaces by words of their name; restricted ones are changed by their owner only."""
    return tx.search(Space, text, "name", order_by="name", limit=limit, offset=offset)


@tracker.view(roles=BOTH)
def search_pages(
    tx: Transaction,
    text: str = "",
    space_id: SpaceId | None = None,
    parent_id: PageId | None = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[PageSummary]:
    """Finds wiki pages, without their text.

    Args:
        text: Words that must all occur in title or text; empty for all pages.
        parent_id: Only sub-pages of this page.
    """
    filters = without_none(space_id=space_id, parent_id=parent_id)
    pages = tx.search(Page, text, "title", "text", order_by="title", limit=limit, offset=offset, **filters)
    return [PageSummary(p.id, p.space_id, p.title, p.version, p.status, p.parent_id) for p in pages]


@tracker.view(roles=BOTH)
def get_page(tx: Transaction, page_id: PageId) -> Page:
    """Returns a wiki page with its text and current version."""
    return tx.get(Page, page_id)


@tracker.view()
def list_page_revisions(tx: Transaction, page_id: PageId, limit: Limit = 20, offset: Offset = 0) -> list[PageRevision]:
    """Lists the revisions of a wiki page, the newest first."""
    tx.get(Page, page_id)
    return tx.find(PageRevision, page_id=page_id, order_by="-version", limit=limit, offset=offset)


@tracker.view()
def get_page_revision(tx: Transaction, page_id: PageId, version: Version) -> PageRevision:
    """Returns the text that a wiki page had in a version."""
    tx.get(Page, page_id)
    return tx.get(PageRevision, page_id, version)


# Questions.


@tracker.question(get_sprint_report, "tell me how many points of {sprint_id} are done")
def points_done(report: SprintReport) -> int:
    return report.done_points


@tracker.question(get_sprint_report, "list the titles of the unfinished issues of {sprint_id}")
def unfinished_titles(report: SprintReport) -> list[str]:
    return [issue.title for issue in report.unfinished]


@tracker.question(get_issue, "list the names of everybody who watches {issue_id}")
def watcher_names(found: IssueDetails) -> list[str]:
    return [member.name for member in found.watchers]


@tracker.question(get_issue, "tell me when {issue_id} is due")
def due_date(found: IssueDetails) -> Date | None:
    return found.issue.due


# Rights and history, for the actions below.


def _signed_in(tx: Transaction) -> Member:
    """Returns the member who is signed in; by default the assistant."""
    member = find_caller(tx, Member, ADDRESS)
    if member is None or not member.is_active:
        tx.refuse(f"{tx.actor!r} is not an active member of this tracker.", "forbidden")
    return member


def _role_in(tx: Transaction, project_id: str, member: Member) -> ProjectRole | None:
    right = tx.get_or_none(ProjectMember, project_id, member.id)
    return None if right is None else right.role


def _require_role(tx: Transaction, project_id: str, role: ProjectRole) -> Member:
    """Returns who is signed in. Refuses it without the role in the project, or if the project is archived."""
    member, project = _signed_in(tx), tx.get(Project, project_id)
    tx.require(project.status == "active", f"The project {project.name} is archived; nothing in it can be changed.")
    given = _role_in(tx, project_id, member)
    if given is None or RANKS[given] < RANKS[role]:
        lead = tx.get(Member, project.lead_id)
        standing = f"a {given} of" if given else "not on"
        tx.refuse(
            f"This needs a {role} of {project.name}, and {member.name} is {standing} the project. "
            f"Its lead is {lead.name}, {lead.email}.",
            "forbidden",
        )
    return member


def is_project_maintainer(tx: Transaction, project_id: str, member: Member) -> bool:
    return _role_in(tx, project_id, member) == "maintainer"


def writable_issue(tx: Transaction, issue_id: str) -> tuple[Issue, Member]:
    issue = tx.get(Issue, issue_id)
    return issue, _require_role(tx, issue.project_id, "contributor")


def _unfinished_issue(tx: Transaction, issue_id: str) -> tuple[Issue, Member]:
    issue, me = writable_issue(tx, issue_id)
    tx.require(issue.status not in CLOSED, f"Issue {issue_id} is closed ({issue.status}); reopen it first.")
    return issue, me


def _same_project(tx: Transaction, issue: Issue, project_id: str, what: str) -> None:
    tx.require(issue.project_id == project_id, f"The {what} belongs to another project than issue {issue.id}.")


def _add_change(tx: Transaction, issue: Issue, member: Member, field: str, values: tuple[Any, Any]) -> None:
    number = tx.count(IssueChange, "issue_id = ?", issue.id) + 1
    old, new = (None if value is None else str(value) for value in values)
    tx.insert(IssueChange(issue.id, number, tx.now, member.id, field, old, new))


def _change_issue(tx: Transaction, issue: Issue, member: Member, **changes: Any) -> Issue:
    """Updates fields, writes the history, and tells the watchers."""
    if "status" in changes:
        changes["moved"] = tx.now
    changed = tx.update(issue, **changes)
    for field in sorted(changes.keys() - {"moved", "logged_minutes"}):
        if getattr(issue, field) != changes[field]:
            _add_change(tx, issue, member, field, (getattr(issue, field), changes[field]))
    if "status" in changes:
        tell_watchers(tx, changed, member, f"{member.name} moved it from {issue.status} to {changed.status}.")
    return changed


def _send(tx: Transaction, member_id: str, subject: str, text: str) -> None:
    recipient = tx.get(Member, member_id).email
    tx.publish("mail.deliver", sender=ADDRESS, recipient=recipient, subject=subject, text=text)


def tell_watchers(tx: Transaction, issue: Issue, author: Member, text: str) -> None:
    for watcher in tx.find(Watcher, issue_id=issue.id):
        if watcher.member_id != author.id:
            _send(tx, watcher.member_id, f"[{tx.get(Project, issue.project_id).name}] {issue.title}", text)


def _watch(tx: Transaction, issue_id: str, member_id: str) -> None:
    if tx.get_or_none(Watcher, issue_id, member_id) is None:
        tx.insert(Watcher(issue_id, member_id))


def _planned_points(tx: Transaction, sprint_id: str) -> int:
    issues = tx.find(Issue, sprint_id=sprint_id)
    return sum(issue.points or 0 for issue in issues if issue.status != "wont_fix")


def _require_capacity(tx: Transaction, sprint: Sprint, more: int) -> None:
    used = _planned_points(tx, sprint.id)
    tx.require(
        used + more <= sprint.capacity,
        f"{sprint.name} has room for {max(0, sprint.capacity - used)} of its {sprint.capacity} points; "
        f"this needs {more}.",
        "conflict",
    )


# Actions on issues.


@tracker.action(
    wish="report a {kind} “{title}” of {priority} priority in {project_id}, with the description “{description}”"
)
def open_issue(
    tx: Transaction,
    project_id: ProjectId,
    title: IssueTitle,
    description: IssueText,
    kind: Kind,
    *,
    priority: Priority = "medium",
    component_id: ComponentId | None = None,
    due: Date | None = None,
) -> Issue:
    """Opens an issue, reported and watched by the person who is signed in.

    Args:
        component_id: Part of the project that it concerns.
        due: Last day for it; not in the past.
    """
    me = _require_role(tx, project_id, "contributor")
    tx.require(due is None or due >= tx.today, f"The due date {due} is in the past.")
    issue = Issue(
        tx.new_id(Issue), project_id, title, description, kind, priority, "open", me.id, tx.now, tx.now, due=due
    )
    if component_id is not None:
        component = tx.get(Component, component_id)
        _same_project(tx, issue, component.project_id, "component")
        issue = msgspec.structs.replace(issue, component_id=component_id)
        _send(tx, component.owner_id, f"New {kind} in {component.name}", title)
    tx.insert(issue)
    _watch(tx, issue.id, me.id)
    if due is not None:
        tx.schedule(f"{due}T08:00", remind_of_due_issue, issue_id=issue.id, due=due)
    return issue


@tracker.action(wish="change the priority of {issue_id} to {priority}")
def set_issue_priority(tx: Transaction, issue_id: IssueId, priority: Priority) -> Issue:
    """Changes the priority of an unfinished issue. Only maintainers make an issue urgent, or less than urgent."""
    issue, me = _unfinished_issue(tx, issue_id)
    tx.require(priority != issue.priority, f"Issue {issue_id} has {priority} priority already.")
    if "urgent" in (priority, issue.priority):
        _require_role(tx, issue.project_id, "maintainer")
    return _change_issue(tx, issue, me, priority=priority)


@tracker.action(wish="reword {issue_id}: title “{title}”, description “{description}”")
def edit_issue(tx: Transaction, issue_id: IssueId, title: IssueTitle, description: IssueText) -> Issue:
    """Replaces title and description of an unfinished issue. Its reporter and maintainers may do that."""
    issue, me = _unfinished_issue(tx, issue_id)
    if me.id != issue.reporter_id:
        _require_role(tx, issue.project_id, "maintainer")
    return _change_issue(tx, issue, me, title=title, description=description)


@tracker.action(wish="set the due date of {issue_id} to {due}")
def set_due_date(tx: Transaction, issue_id: IssueId, due: Date | None) -> Issue:
    """Sets or clears the last day of an unfinished issue; the assignee is reminded on that morning.

    Args:
        due: Today or later; null for none.
    """
    issue, me = _unfinished_issue(tx, issue_id)
    tx.require(due is None or due >= tx.today, f"The due date {due} is in the past.")
    if due is not None:
        tx.schedule(f"{due}T08:00", remind_of_due_issue, issue_id=issue_id, due=due)
    return _change_issue(tx, issue, me, due=due)


@tracker.action(wish="put {issue_id} under {component_id}")
def set_issue_component(tx: Transaction, issue_id: IssueId, component_id: ComponentId) -> Issue:
    """Files an unfinished issue under a component of its project."""
    issue, me = _unfinished_issue(tx, issue_id)
    _same_project(tx, issue, tx.get(Component, component_id).project_id, "component")
    return _change_issue(tx, issue, me, component_id=component_id)


@tracker.action(wish="assign {issue_id} to {member_id}")
def assign_issue(tx: Transaction, issue_id: IssueId, member_id: MemberId | None) -> Issue:
    """Assigns an unfinished issue to a contributor or maintainer of its project who is not away.

    Args:
        member_id: Who works on it; null to unassign it, which is possible only before work begins.
    """
    issue, me = _unfinished_issue(tx, issue_id)
    if member_id is None:
        tx.require(issue.status == "open", f"Issue {issue_id} is {issue.status}; it needs an assignee.")
        return _change_issue(tx, issue, me, assignee_id=None)
    member = tx.get(Member, member_id)
    tx.require(member.is_active, f"{member.name} has left.")
    role = _role_in(tx, issue.project_id, member)
    tx.require(role in ("contributor", "maintainer"), f"{member.name} does not contribute to this issue's project.")
    tx.require(
        member.away_until is None or member.away_until < tx.today,
        f"{member.name} is away until {member.away_until}; choose somebody else.",
        "unavailable",
    )
    _watch(tx, issue_id, member_id)
    _send(tx, member_id, f"Assigned to you: {issue.title}", f"{me.name} assigned this issue to you.")
    return _change_issue(tx, issue, me, assignee_id=member_id)


@tracker.action(wish="move {issue_id} to “{status}”, with the reason “{reason}”")
def move_issue(tx: Transaction, issue_id: IssueId, status: Status, reason: str = "") -> Issue:
    """Moves an issue to another state: open, in_progress, in_review, done; or wont_fix, and back to open.

    Work needs an assignee, review needs logged time. The reporter or a maintainer, but not who did the work, accepts
    it once nothing open blocks it. Rejecting and reopening need a reason, which becomes a comment; a closed issue can
    be reopened within 30 days.

    Args:
        reason: Becomes a comment.
    """
    issue, me = writable_issue(tx, issue_id)
    tx.require(len(reason) <= 4_000, "A reason has at most 4000 characters.")
    if status not in MOVES[issue.status]:
        allowed = " or ".join(MOVES[issue.status])
        tx.refuse(f"Issue {issue_id} is {issue.status}; from there it can go to {allowed}.")
    is_reopened = issue.status in CLOSED
    if is_reopened or status == "wont_fix":
        tx.require(reason.strip(), "Give a reason.")
    if is_reopened:
        _require_recent(tx, issue)
    elif status == "in_progress":
        tx.require(issue.assignee_id, f"Issue {issue_id} has no assignee; assign it before work begins.")
    elif status == "in_review":
        tx.require(issue.logged_minutes, f"No time is logged on issue {issue_id}; log the work before review.")
        tx.schedule(tx.later(days=REVIEW_DAYS), accept_after_review, issue_id=issue_id, since=tx.now)
    elif status in CLOSED:
        _require_closable(tx, issue, me, status)
    if reason.strip():
        tx.insert(Comment(tx.new_id(Comment), issue_id, me.id, tx.now, reason))
    outside = {"sprint_id": None} if status == "wont_fix" or is_reopened else {}
    return _change_issue(tx, issue, me, status=status, **outside)


def _require_recent(tx: Transaction, issue: Issue) -> None:
    tx.require(
        issue.moved >= tx.later(days=-REOPEN_DAYS),
        f"Issue {issue.id} was closed on {issue.moved[:10]}; reopening is possible within {REOPEN_DAYS} days. "
        "Open a new issue and link it.",
    )
    duplicates = tx.find(IssueLink, issue_id=issue.id, kind="duplicates")
    tx.require(not duplicates, f"Issue {issue.id} duplicates {duplicates and duplicates[0].other_id}; see there.")


def _require_closable(tx: Transaction, issue: Issue, me: Member, status: Status) -> None:
    is_maintainer = is_project_maintainer(tx, issue.project_id, me)
    tx.require(
        is_maintainer or me.id == issue.reporter_id,
        f"Only its reporter or a maintainer can close issue {issue.id}.",
        "forbidden",
    )
    if status == "done":
        tx.require(
            me.id != issue.assignee_id, "Whoever did the work cannot accept it; ask another maintainer.", "forbidden"
        )
        links = tx.find(IssueLink, other_id=issue.id, kind="blocks")
        blockers = [b for link in links if (b := tx.get(Issue, link.issue_id)).status not in CLOSED]
        tx.require(not blockers, f"Issue {issue.id} is blocked by {', '.join(b.id for b in blockers)}.", "conflict")


@tracker.action(wish="close {issue_id} as a duplicate of {original_id}")
def close_as_duplicate(tx: Transaction, issue_id: IssueId, original_id: IssueId) -> Issue:
    """Closes an unfinished issue as a duplicate of an older one in the same project, whose watchers it joins."""
    issue, me = _unfinished_issue(tx, issue_id)
    original = tx.get(Issue, original_id)
    _same_project(tx, issue, original.project_id, "original")
    tx.require((original.created, original.id) < (issue.created, issue.id), "The original must be the older issue.")
    tx.require(
        not tx.find(IssueLink, issue_id=original_id, kind="duplicates"), f"Issue {original_id} is itself a duplicate."
    )
    tx.insert(IssueLink(issue_id, "duplicates", original_id))
    for watcher in tx.find(Watcher, issue_id=issue_id):
        _watch(tx, original_id, watcher.member_id)
    return _change_issue(tx, issue, me, status="wont_fix", sprint_id=None)


@tracker.action(wish="record that {issue_id} {kind} {other_id}")
def link_issues(tx: Transaction, issue_id: IssueId, kind: Literal["blocks", "relates"], other_id: IssueId) -> IssueLink:
    """Links two issues: the first blocks the other, or relates to it. Blocking must not run in a circle."""
    writable_issue(tx, issue_id)
    tx.get(Issue, other_id)
    tx.require(issue_id != other_id, "An issue cannot be linked to itself.")
    if kind == "relates":
        tx.require(
            tx.get_or_none(IssueLink, other_id, kind, issue_id) is None, "These issues are related already.", "conflict"
        )
    else:
        tx.require(not _blocks(tx, other_id, issue_id), f"Issue {other_id} blocks {issue_id} already.", "conflict")
    tx.require(tx.get_or_none(IssueLink, issue_id, kind, other_id) is None, "This link exists already.", "conflict")
    return tx.insert(IssueLink(issue_id, kind, other_id))


def _blocks(tx: Transaction, first: str, last: str) -> bool:
    """Returns whether an issue blocks another one, directly or through others."""
    pending, seen = deque([first]), {first}
    while pending:
        for link in tx.find(IssueLink, issue_id=pending.popleft(), kind="blocks"):
            if link.other_id == last:
                return True
            if link.other_id not in seen:
                seen.add(link.other_id)
                pending.append(link.other_id)
    return False


@tracker.action(wish="remove the link that says {issue_id} {kind} {other_id}")
def unlink_issues(
    tx: Transaction, issue_id: IssueId, kind: Literal["blocks", "relates"], other_id: IssueId
) -> IssueLink:
    """Removes a link between two issues."""
    writable_issue(tx, issue_id)
    link = tx.get(IssueLink, issue_id, kind, other_id)
    tx.delete(link)
    return link


@tracker.action(wish="put {label_id} on {issue_id}")
def label_issue(tx: Transaction, issue_id: IssueId, label_id: LabelId) -> IssueLabel:
    """Puts a label of its project on an issue; at most five a time."""
    issue, _ = writable_issue(tx, issue_id)
    _same_project(tx, issue, tx.get(Label, label_id).project_id, "label")
    tx.require(tx.get_or_none(IssueLabel, issue_id, label_id) is None, "The issue has this label already.", "conflict")
    tx.require(tx.count(IssueLabel, "issue_id = ?", issue_id) < 5, "An issue has at most five labels.")
    return tx.insert(IssueLabel(issue_id, label_id))


@tracker.action(wish="take {label_id} off {issue_id}")
def unlabel_issue(tx: Transaction, issue_id: IssueId, label_id: LabelId) -> IssueLabel:
    """Takes a label off an issue."""
    writable_issue(tx, issue_id)
    label = tx.get(IssueLabel, issue_id, label_id)
    tx.delete(label)
    return label


@tracker.action(wish="have {issue_id} watched, so that news about it comes by mail")
def watch_issue(tx: Transaction, issue_id: IssueId) -> Watcher:
    """Makes the person who is signed in a watcher: they get mail about an issue."""
    issue, me = tx.get(Issue, issue_id), _signed_in(tx)
    tx.require(_role_in(tx, issue.project_id, me), "Only people on the project can watch its issues.", "forbidden")
    tx.require(tx.get_or_none(Watcher, issue_id, me.id) is None, f"{me.name} watches this issue already.", "conflict")
    return tx.insert(Watcher(issue_id, me.id))


@tracker.action(wish="stop watching {issue_id}")
def unwatch_issue(tx: Transaction, issue_id: IssueId) -> Watcher:
    """Ends mail about an issue to the person who is signed in."""
    watcher = tx.get(Watcher, issue_id, _signed_in(tx).id)
    tx.delete(watcher)
    return watcher


@tracker.action(wish="comment on {issue_id}: “{text}”")
def comment_on_issue(tx: Transaction, issue_id: IssueId, text: CommentText) -> Comment:
    """Adds a comment to an issue, closed ones included. Its watchers get mail."""
    issue, me = writable_issue(tx, issue_id)
    tell_watchers(tx, issue, me, text)
    return tx.insert(Comment(tx.new_id(Comment), issue_id, me.id, tx.now, text))


@tracker.action(wish="change {comment_id} to “{text}”")
def edit_comment(tx: Transaction, comment_id: CommentId, text: CommentText) -> Comment:
    """Replaces the text of one's own comment, within 24 hours."""
    comment = tx.get(Comment, comment_id)
    _, me = writable_issue(tx, comment.issue_id)
    tx.require(comment.author_id == me.id, f"Comment {comment_id} is not by {me.name}.", "forbidden")
    tx.require(
        comment.created >= tx.later(hours=-24),
        f"Comment {comment_id} is of {comment.created}; comments can be edited for 24 hours.",
    )
    return tx.update(comment, text=text, is_edited=True)


@tracker.action(wish="delete {comment_id}")
def delete_comment(tx: Transaction, comment_id: CommentId) -> Comment:
    """Deletes a comment: one's own, or as a maintainer anybody's."""
    comment = tx.get(Comment, comment_id)
    issue, me = writable_issue(tx, comment.issue_id)
    if comment.author_id != me.id:
        _require_role(tx, issue.project_id, "maintainer")
    tx.delete(comment)
    return comment


# Actions on time and sprints.


@tracker.action(wish="log {minutes} minutes on {issue_id} for {day}, with the note “{note}”")
def log_work(tx: Transaction, issue_id: IssueId, day: Date, minutes: Minutes, note: WorkNote) -> WorkLog:
    """Logs time of the person who is signed in: at most 14 days back and 12 hours a day.

    Args:
        day: The day of the work, not in the future.
    """
    issue, me = _unfinished_issue(tx, issue_id)
    tx.require(day <= tx.today, f"{day} is in the future.")
    tx.require(day >= tx.later(days=-LOG_DAYS)[:10], f"{day} is more than {LOG_DAYS} days ago.")
    _require_hours(tx, me, day, minutes)
    _change_issue(tx, issue, me, logged_minutes=issue.logged_minutes + minutes)
    return tx.insert(WorkLog(tx.new_id(WorkLog), issue_id, me.id, day, minutes, note))


def _require_hours(tx: Transaction, member: Member, day: str, more: int) -> None:
    logged = sum(log.minutes for log in tx.find(WorkLog, member_id=member.id, day=day))
    tx.require(
        logged + more <= DAILY_MINUTES,
        f"{member.name} has logged {logged} minutes for {day}; a day has at most {DAILY_MINUTES}.",
    )


def _own_work_log(tx: Transaction, work_log_id: str) -> tuple[WorkLog, Issue, Member]:
    log = tx.get(WorkLog, work_log_id)
    issue, me = _unfinished_issue(tx, log.issue_id)
    tx.require(log.member_id == me.id, f"Work log {work_log_id} is not of {me.name}.", "forbidden")
    return log, issue, me


@tracker.action(wish="correct {work_log_id} to {minutes} minutes")
def correct_work_log(tx: Transaction, work_log_id: WorkLogId, minutes: Minutes) -> WorkLog:
    """Changes the minutes of one's own entry on an unfinished issue."""
    log, issue, me = _own_work_log(tx, work_log_id)
    _require_hours(tx, me, log.day, minutes - log.minutes)
    _change_issue(tx, issue, me, logged_minutes=issue.logged_minutes + minutes - log.minutes)
    return tx.update(log, minutes=minutes)


@tracker.action(wish="delete {work_log_id}")
def delete_work_log(tx: Transaction, work_log_id: WorkLogId) -> WorkLog:
    """Deletes one's own entry on an unfinished issue. An issue in review keeps at least one."""
    log, issue, me = _own_work_log(tx, work_log_id)
    left = issue.logged_minutes - log.minutes
    tx.require(left or issue.status != "in_review", f"Issue {issue.id} is in review and needs logged time.")
    _change_issue(tx, issue, me, logged_minutes=left)
    tx.delete(log)
    return log


@tracker.action(wish="estimate {issue_id} at {points} points")
def estimate_issue(tx: Transaction, issue_id: IssueId, points: Annotated[int, Meta(ge=1, le=13)]) -> Issue:
    """Sets the story points of an unfinished issue. What is in a sprint must still fit.

    Args:
        points: 1, 2, 3, 5, 8 or 13.
    """
    issue, me = _unfinished_issue(tx, issue_id)
    tx.require(points in POINTS, f"An estimate is one of {', '.join(map(str, POINTS))}.")
    if issue.sprint_id is not None:
        sprint = _changeable_sprint(tx, issue.sprint_id)
        _require_capacity(tx, sprint, max(0, points - (issue.points or 0)))
    return _change_issue(tx, issue, me, points=points)


def _changeable_sprint(tx: Transaction, sprint_id: str) -> Sprint:
    sprint = tx.get(Sprint, sprint_id)
    tx.require(sprint.status != "closed", f"{sprint.name} is closed.")
    _require_role(tx, sprint.project_id, "maintainer" if sprint.status == "active" else "contributor")
    return sprint


@tracker.action(wish="plan {issue_id} for {sprint_id}")
def plan_issue(tx: Transaction, issue_id: IssueId, sprint_id: SprintId) -> Issue:
    """Puts an estimated, unfinished issue into a planned sprint, or as a maintainer into the active one."""
    issue, me = _unfinished_issue(tx, issue_id)
    sprint = _changeable_sprint(tx, sprint_id)
    _same_project(tx, issue, sprint.project_id, "sprint")
    tx.require(issue.sprint_id != sprint_id, f"Issue {issue_id} is in {sprint.name} already.", "conflict")
    if issue.points is None:
        tx.refuse(f"Issue {issue_id} has no estimate; estimate it before you plan it.")
    if issue.sprint_id is not None:
        _changeable_sprint(tx, issue.sprint_id)
    _require_capacity(tx, sprint, issue.points)
    return _change_issue(tx, issue, me, sprint_id=sprint_id)


@tracker.action(wish="take {issue_id} out of its sprint")
def unplan_issue(tx: Transaction, issue_id: IssueId) -> Issue:
    """Puts an unfinished issue back into the backlog."""
    issue, me = _unfinished_issue(tx, issue_id)
    if issue.sprint_id is None:
        tx.refuse(f"Issue {issue_id} is in no sprint.")
    _changeable_sprint(tx, issue.sprint_id)
    return _change_issue(tx, issue, me, sprint_id=None)


@tracker.action(wish="start {sprint_id}")
def start_sprint(tx: Transaction, sprint_id: SprintId) -> Sprint:
    """Starts a planned sprint that holds an issue. A project has one active sprint; maintainers start it."""
    sprint = tx.get(Sprint, sprint_id)
    _require_role(tx, sprint.project_id, "maintainer")
    tx.require(sprint.status == "planned", f"{sprint.name} is {sprint.status}.")
    active = tx.find(Sprint, project_id=sprint.project_id, status="active")
    tx.require(not active, f"{active[0].name if active else ''} is active; close it first.", "conflict")
    tx.require(tx.count(Issue, "sprint_id = ?", sprint_id), f"{sprint.name} holds no issue.")
    ends = max(sprint.ends, tx.later(days=1)[:10])
    tx.schedule(f"{ends}T16:00", remind_of_sprint_end, sprint_id=sprint_id)
    return tx.update(sprint, status="active", starts=tx.today, ends=ends)


@tracker.action(wish="close {sprint_id}")
def close_sprint(tx: Transaction, sprint_id: SprintId) -> SprintReport:
    """Closes an active sprint. Unfinished issues go to the next planned sprint as they fit, by priority; others to the
    backlog. Maintainers close sprints. Returns the report as it was before.
    """
    sprint = tx.get(Sprint, sprint_id)
    me = _require_role(tx, sprint.project_id, "maintainer")
    tx.require(sprint.status == "active", f"{sprint.name} is {sprint.status}.")
    report = get_sprint_report(tx, sprint_id)
    planned = tx.find(Sprint, project_id=sprint.project_id, status="planned", order_by="starts", limit=1)
    free = planned[0].capacity - _planned_points(tx, planned[0].id) if planned else 0
    for issue in sorted(
        tx.select(Issue, "sprint_id = ? AND status NOT IN ('done', 'wont_fix')", sprint_id),
        key=lambda i: (PRIORITIES.index(i.priority), i.id),
    ):
        points = issue.points or 0
        fits = bool(planned) and points <= free
        free -= points if fits else 0
        _change_issue(tx, issue, me, sprint_id=planned[0].id if fits else None)
    tx.update(sprint, status="closed", ends=min(sprint.ends, tx.today))
    return report


# Actions on the wiki.


def _writable_space(tx: Transaction, space_id: str) -> tuple[Space, Member]:
    space, me = tx.get(Space, space_id), _signed_in(tx)
    owner = tx.get(Member, space.owner_id)
    tx.require(
        not space.is_restricted or owner.id == me.id,
        f"The space {space.name} is restricted; its owner is {owner.name}, {owner.email}.",
        "forbidden",
    )
    return space, me


def _writable_page(tx: Transaction, page_id: str) -> tuple[Page, Member]:
    page = tx.get(Page, page_id)
    _, me = _writable_space(tx, page.space_id)
    tx.require(page.status == "current", f"The page {page.title!r} is archived.")
    return page, me


def _save_page(tx: Transaction, page: Page, author: Member, text: str, summary: str) -> Page:
    version = page.version + 1
    tx.insert(PageRevision(page.id, version, author.id, tx.now, text, summary))
    return tx.update(page, text=text, version=version)


def _require_free_title(tx: Transaction, space_id: str, title: str) -> None:
    taken = tx.find(Page, space_id=space_id, title=title)
    tx.require(not taken, f"The space has a page {title!r} already.", "conflict")


@tracker.action(wish="write a wiki page “{title}” in {space_id}, with the text “{text}”")
def create_page(
    tx: Transaction, space_id: SpaceId, title: PageTitle, text: PageText, parent_id: PageId | None = None
) -> Page:
    """Creates a wiki page. Titles are unique within a space.

    Args:
        parent_id: Page of the same space under which it stands; default: at the top.
    """
    _, me = _writable_space(tx, space_id)
    _require_free_title(tx, space_id, title)
    if parent_id is not None:
        _require_parent(tx, space_id, parent_id)
    page = tx.insert(Page(tx.new_id(Page), space_id, title, text, 1, "current", parent_id))
    tx.insert(PageRevision(page.id, 1, me.id, tx.now, text, "First version"))
    return page


def _require_parent(tx: Transaction, space_id: str, parent_id: str) -> Page:
    parent = tx.get(Page, parent_id)
    tx.require(parent.space_id == space_id, "A page and its sub-pages are in one space.")
    tx.require(parent.status == "current", f"The page {parent.title!r} is archived.")
    return parent


@tracker.action(wish="replace the text of {page_id} by “{text}” (summary: {summary})")
def edit_page(tx: Transaction, page_id: PageId, base_version: Version, text: PageText, summary: Text) -> Page:
    """Saves a new text of a wiki page as the next version.

    Args:
        base_version: The version that the new text was made from; saving is refused if there is a newer one.
        summary: One sentence about the change.
    """
    page, me = _writable_page(tx, page_id)
    tx.require(
        base_version == page.version,
        f"The page {page.title!r} is at version {page.version}, not {base_version}; read it again and merge.",
        "conflict",
    )
    tx.require(text != page.text, "The text is the same.")
    return _save_page(tx, page, me, text, summary)


@tracker.action(wish="bring back version {version} of {page_id}")
def restore_page_revision(tx: Transaction, page_id: PageId, version: Version) -> Page:
    """Saves the text of an old version as the newest one; nothing is lost."""
    page, me = _writable_page(tx, page_id)
    revision = tx.get(PageRevision, page_id, version)
    tx.require(version != page.version, f"Version {version} is the current one.")
    return _save_page(tx, page, me, revision.text, f"Version {version} restored")


@tracker.action(wish="rename {page_id} to “{title}”")
def rename_page(tx: Transaction, page_id: PageId, title: PageTitle) -> Page:
    """Changes the title of a wiki page."""
    page, _ = _writable_page(tx, page_id)
    _require_free_title(tx, page.space_id, title)
    return tx.update(page, title=title)


@tracker.action(wish="move {page_id} below {parent_id}")
def move_page(tx: Transaction, page_id: PageId, parent_id: PageId | None) -> Page:
    """Puts a wiki page below another page of its space.

    Args:
        parent_id: The page above it; null for the top of the space.
    """
    page, _ = _writable_page(tx, page_id)
    above = None if parent_id is None else _require_parent(tx, page.space_id, parent_id)
    while above is not None:
        tx.require(above.id != page_id, "A page cannot stand below itself.", "conflict")
        above = None if above.parent_id is None else tx.get(Page, above.parent_id)
    return tx.update(page, parent_id=parent_id)


@tracker.action(wish="archive {page_id}")
def archive_page(tx: Transaction, page_id: PageId) -> Page:
    """Archives a wiki page that has no current sub-pages."""
    page, _ = _writable_page(tx, page_id)
    below = tx.find(Page, parent_id=page_id, status="current")
    tx.require(not below, f"{len(below)} current pages stand below it; move or archive them first.", "conflict")
    return tx.update(page, status="archived")


# Actions of people.


@tracker.action(roles=("user",))
def set_absence(tx: Transaction, until: Date | None) -> Member:
    """Says until which day one is away; null ends it."""
    tx.require(until is None or until >= tx.today, f"{until} is in the past.")
    return tx.update(_signed_in(tx), away_until=until)


# Events.


@tracker.event()
def accept_after_review(tx: Transaction, issue_id: str, since: str) -> None:
    """Accepts an issue that has been in review since then."""
    issue = tx.get(Issue, issue_id)
    if issue.status == "in_review" and issue.moved == since:
        _change_issue(tx, issue, tx.get(Member, issue.reporter_id), status="done")


@tracker.event()
def remind_of_due_issue(tx: Transaction, issue_id: str, due: str) -> None:
    """Sends mail to the assignee of an issue that is due."""
    issue = tx.get(Issue, issue_id)
    if issue.due == due and issue.status not in CLOSED and issue.assignee_id is not None:
        _send(tx, issue.assignee_id, f"Due today: {issue.title}", "This issue is due today.")


@tracker.event()
def remind_of_sprint_end(tx: Transaction, sprint_id: str) -> None:
    """Sends mail to the project's lead if a sprint that should end is active."""
    sprint = tx.get(Sprint, sprint_id)
    if sprint.status == "active":
        project = tx.get(Project, sprint.project_id)
        _send(tx, project.lead_id, f"{sprint.name} of {project.name} ends today", "Please close it.")


@tracker.event()
def receive_comment(tx: Transaction, issue_id: str, member_id: str, text: str) -> None:
    """Adds a colleague's comment."""
    issue, author = tx.get(Issue, issue_id), tx.get(Member, member_id)
    tx.insert(Comment(tx.new_id(Comment), issue_id, member_id, tx.now, text))
    tell_watchers(tx, issue, author, text)


@tracker.event()
def receive_page_edit(tx: Transaction, page_id: str, member_id: str, addition: str) -> None:
    """Saves a colleague's edit of a wiki page."""
    page = tx.get(Page, page_id)
    if page.status == "current":
        _save_page(tx, page, tx.get(Member, member_id), f"{page.text}\n\n{addition}"[:4_000], "Addition")


# Generator.

TITLES: Final = phrases(
    """
    backend developer | frontend developer | mobile developer | data engineer | test engineer | product manager
    | designer | technical writer | support engineer | security engineer | site reliability engineer | release
    manager
    """
)
PROJECT_NAMES: Final = words(
    """
    Aurora Beacon Cascade Compass Driftwood Ember Falcon Glacier Harbour Horizon Juniper Keystone Lantern
    Lighthouse Meadow Meridian Nimbus Orchard Outpost Pinnacle Quarry Redwood Saffron Sextant Tern Thicket Umbra
    Vantage Willow Zephyr
    """
)
PROJECT_PURPOSES: Final = phrases(
    """
    Billing and invoices of all customers | The app for iOS and Android | Search and recommendations | Sign-in,
    accounts and permissions | Reports and dashboards for customers | Imports from partners and their checks |
    Tools of the support team
    """
)
COMPONENTS: Final = phrases(
    """
    Accounts | Billing | Dashboard | Exports | Imports | Mobile app | Notifications | Search
    """
)
LABELS: Final = phrases(
    """
    accessibility | customer request | documentation | flaky | good first issue | performance | regression
    """
)
BUG_SYMPTOMS: Final = phrases(
    """
    Wrong total on | Time-out when opening | Blank area on | Duplicate rows in | Missing translations on | Error
    500 when saving | Old values shown on | Keyboard focus lost on | Broken link on | Time zone ignored on |
    Unreadable text on | Slow scrolling on
    """
)
TASKS: Final = phrases(
    """
    Add tests for | Remove the old code of | Write a guide to | Measure the load time of | Upgrade the libraries
    of | Add an audit log to | Offer a CSV download of | Allow filters on | Remember the last choice on | Show
    an empty state on
    """
)
AREAS: Final = phrases(
    """
    the invoice page | the sign-in form | the customer list | the weekly report | the settings of a team | the
    price calculator | the search results | the import wizard | the notification centre | the profile page | the
    order history | the permission matrix | the onboarding tour | the usage chart | the contract overview | the
    mobile start screen
    """
)
SITUATIONS: Final = phrases(
    """
    for trial accounts | in Safari | for administrators | with more than 100 entries | on small screens | after
    an upgrade | for customers in Canada | in dark mode
    """
)
COMMENTS: Final = phrases(
    """
    I can reproduce this on staging. | Does this also happen with an empty account? | A customer asked about it
    again today. | The change is on a branch, tests are missing. | Please keep the old behaviour for the export.
    | We decided on Monday to do the small version first. | This worked two releases ago. | Screenshots are in
    the wiki. | Blocked until the library is upgraded. | Let us talk about the design before anybody starts.
    """
)
NOTES: Final = ("Analysis", "Implementation", "Tests", "Review comments", "Pairing", "Rework after feedback")
SPACES: Final = phrases(
    """
    Engineering Handbook | Product Decisions | Support Playbook | Security | Release Notes | Onboarding |
    Architecture | Customer Research
    """
)
PAGE_SUBJECTS: Final = phrases(
    """
    Branching | Code review | Database migrations | Error messages | Feature flags | Incident reports |
    Interview notes | Naming of services | On-call rota | Password rules | Pricing experiments | Refund process
    | Release checklist | Style of mails | Test data | Vendor contracts
    """
)
PAGE_FORMS: Final = ("guide", "checklist", "decision record", "overview", "frequent questions", "minutes")
SENTENCES: Final = phrases(
    """
    Every change is reviewed by a second person. | Ask in the team channel before you deviate. | The owner
    checks this page once a quarter. | Exceptions are written down with their date. | Test on staging with a
    copy of the data. | Never send passwords or keys by mail. | Decisions of more than a day's work need an
    issue. | Dates are written with year, month and day. | Customers are told within two working days. | Old
    versions are kept for ninety days.
    """
)
SITUATION_DETAILS: Final = phrases(
    """
    A customer reported it last week; a video is attached to the ticket. | It happens every time and needs no
    special rights. | It happens about once in ten attempts. | Support gets two or three questions about it
    every day. | Needed before the spring release. | See the minutes of the planning meeting. | Agreed with
    design; the drawings are in the wiki. | The old behaviour must stay behind a setting.
    """
)
STEPS: Final[dict[Status, tuple[Status, ...]]] = {
    "open": (),
    "in_progress": ("in_progress",),
    "in_review": ("in_progress", "in_review"),
    "done": ("in_progress", "in_review", "done"),
    "wont_fix": ("wont_fix",),
}
"""The states that a generated issue went through after `open`."""


class _Team(NamedTuple):
    """A generated project with what its issues refer to."""

    project: Project
    contributors: list[Member]
    components: list[Component]
    labels: list[Label]
    sprints: list[Sprint]


@tracker.generator
def _fill_tracker(make: Generator, knobs: TrackerKnobs) -> None:
    members = _make_members(make, knobs.members)
    teams = _make_teams(make, knobs.projects, members)
    issues = _make_issues(make, knobs, teams)
    _make_links(make, issues)
    pages = _make_wiki(make, knobs, members)
    people = [member for member in members if member.is_active]
    for at in range(knobs.surprises):
        when, author = shift_time(START, hours=make.draw.randint(2, 24 * 14)), make.draw.choice(people)
        if at % 2:
            page = make.draw.choice(pages)
            addition = make.draw.choice(SENTENCES)
            make.schedule(when, receive_page_edit, page_id=page.id, member_id=author.id, addition=addition)
        else:
            issue = make.draw.choice(issues)
            text = make.draw.choice(COMMENTS)
            make.schedule(when, receive_comment, issue_id=issue.id, member_id=author.id, text=text)


def _make_members(make: Generator, number: int) -> list[Member]:
    """Makes the assistant and the people; the last two share a name, and one of the others has left."""
    draw = make.draw
    members = [Member(make.new_id(Member), "Tracker Assistant", ADDRESS, "assistant")]
    for at in range(number):
        name = f"{draw.choice(OFFICE_FIRST_NAMES)} {draw.choice(OFFICE_SURNAMES)}"
        if at == number - 1:
            name = members[-1].name
        others = [member.title for member in members if member.name == name]
        title = draw.choice([title for title in TITLES if title not in others] or TITLES)
        email = f"{name.lower().replace(' ', '.')}{len(others) + 1 if others else ''}@lumenworks.example"
        away = shift_time(START[:10], days=draw.randint(1, 20)) if at > 2 and draw.randrange(8) == 0 else None
        members.append(
            Member(make.new_id(Member), name, email, title, is_active=number < 5 or at != 1, away_until=away)
        )
    make.insert_all(members)
    return members


def _make_teams(make: Generator, number: int, members: list[Member]) -> list[_Team]:
    draw, teams, rights = make.draw, [], list[ProjectMember]()
    active = [member for member in members[1:] if member.is_active]
    for at in range(number):
        name = PROJECT_NAMES[at % len(PROJECT_NAMES)] + (f" {at // len(PROJECT_NAMES) + 1}" if at >= 30 else "")
        crew = draw.sample(active, min(len(active), draw.randint(3, 7)))
        status: Literal["active", "archived"] = "archived" if number > 2 and at == number - 1 else "active"
        project = Project(make.new_id(Project), name, draw.choice(PROJECT_PURPOSES), crew[0].id, status)
        roles: list[ProjectRole] = ["maintainer", "contributor", "contributor", "viewer", "contributor", "maintainer"]
        rights.append(ProjectMember(project.id, members[0].id, "maintainer"))
        rights += [ProjectMember(project.id, m.id, roles[i % len(roles)]) for i, m in enumerate(crew)]
        workers = [member for i, member in enumerate(crew) if roles[i % len(roles)] != "viewer"]
        parts = sorted(draw.sample(COMPONENTS, 4))
        components = [Component(make.new_id(Component), project.id, p, draw.choice(workers).id) for p in parts]
        labels = [Label(make.new_id(Label), project.id, name) for name in sorted(draw.sample(LABELS, 4))]
        teams.append(_Team(project, workers, components, labels, _make_sprints(make, project)))
    make.insert_all([team.project for team in teams])
    make.insert_all(rights)
    make.insert_all([component for team in teams for component in team.components])
    make.insert_all([label for team in teams for label in team.labels])
    make.insert_all([sprint for team in teams for sprint in team.sprints])
    return teams


def _make_sprints(make: Generator, project: Project) -> list[Sprint]:
    """Makes a closed, an active and two planned sprints of two weeks; an archived project has the closed one."""
    first, sprints = make.draw.randint(3, 40), []
    offset = make.draw.randint(3, 10)
    statuses: tuple[Literal["closed", "active", "planned"], ...] = ("closed", "active", "planned", "planned")
    for at, status in enumerate(statuses if project.status == "active" else statuses[:1]):
        starts = shift_time(START[:10], days=14 * (at - 1) - offset)
        ends = shift_time(starts, days=13)
        capacity = make.draw.randint(15, 35)
        sprint = Sprint(make.new_id(Sprint), project.id, f"Sprint {first + at}", status, starts, ends, capacity)
        sprints.append(sprint)
        if status == "active":
            make.schedule(f"{ends}T16:00", remind_of_sprint_end, sprint_id=sprint.id)
    return sprints


def _make_issues(make: Generator, knobs: TrackerKnobs, teams: list[_Team]) -> list[Issue]:
    draw, issues = make.draw, list[Issue]()
    free = {sprint.id: sprint.capacity for team in teams for sprint in team.sprints}
    changes, logs = list[IssueChange](), list[WorkLog]()
    comments, labels, watchers = list[Comment](), list[IssueLabel](), list[Watcher]()
    for _ in range(knobs.issues):
        team = draw.choice(teams)
        twin = draw.choice(issues) if issues and draw.randrange(100) < knobs.lookalikes else None
        if twin is not None:
            team = next(t for t in teams if t.project.id == twin.project_id)
        issue, history, worked = _make_issue(make, team, twin, free)
        issues.append(issue)
        changes += history
        logs += worked
        crew = team.contributors
        for text in draw.sample(COMMENTS, draw.choice((0, 0, 1, 1, 2, 3))):
            comments.append(Comment(make.new_id(Comment), issue.id, draw.choice(crew).id, _between(make, issue), text))
        labels += [IssueLabel(issue.id, label.id) for label in draw.sample(team.labels, draw.choice((0, 0, 1, 2)))]
        people = dict.fromkeys([issue.reporter_id, *([issue.assignee_id] if issue.assignee_id else [])])
        watchers += [Watcher(issue.id, member_id) for member_id in people]
        if issue.status == "in_review":
            at = max(shift_time(issue.moved, days=REVIEW_DAYS), shift_time(START, hours=20))
            make.schedule(at, accept_after_review, issue_id=issue.id, since=issue.moved)
        if issue.due is not None:
            make.schedule(f"{issue.due}T08:00", remind_of_due_issue, issue_id=issue.id, due=issue.due)
    for rows in (issues, changes, logs, comments, labels, watchers):
        make.insert_all(rows)
    return issues


def _between(make: Generator, issue: Issue) -> str:
    """Returns a time after an issue was opened and before the start of the world."""
    return shift_time(START, minutes=-make.draw.randint(1, _age(issue.created)))


def _age(created: str) -> int:
    """Returns the minutes from a time to the start of the world."""
    return (datetime.fromisoformat(START) - datetime.fromisoformat(created)) // timedelta(minutes=1)


def _make_issue(
    make: Generator, team: _Team, twin: Issue | None, free: dict[str, int]
) -> tuple[Issue, list[IssueChange], list[WorkLog]]:
    """Makes an issue with its history and logged time; `free` are the points left in each sprint."""
    draw, issue_id = make.draw, make.new_id(Issue)
    reporter = draw.choice([m for m in team.contributors if twin is None or m.id != twin.reporter_id])
    worker = draw.choice([member for member in team.contributors if member is not reporter])
    open_statuses: list[Status] = ["open", "open", "open", "in_progress", "in_progress", "in_review"]
    statuses: list[Status] = ["done", "done", "wont_fix"]
    status = draw.choice(statuses if team.project.status == "archived" else open_statuses + statuses)
    age = draw.randint(20, 150) * 1_440 + draw.randrange(-60, 500)
    moments = sorted(draw.sample(range(30, age), len(STEPS[status])), reverse=True)
    if status == "in_review":
        moments[-1] = min(moments[-1], draw.randint(30, 13 * 1_440))
    times = [shift_time(START, minutes=-minutes) for minutes in moments]
    created = shift_time(START, minutes=-age)
    logs = []
    if times and status != "wont_fix":
        until = moments[1] if len(moments) > 1 else 0
        for _ in range(draw.randint(1, 3)):
            day = shift_time(START, minutes=-draw.randint(until, moments[0]))[:10]
            minutes = 15 * draw.randint(1, 16)
            logs.append(WorkLog(make.new_id(WorkLog), issue_id, worker.id, day, minutes, draw.choice(NOTES)))
    kind, title = (twin.kind, twin.title) if twin is not None else _make_title(make)
    points = draw.choice((*POINTS[:5], None, None)) if status != "in_progress" else draw.choice(POINTS[:5])
    moved = times[-1] if times else created
    issue = Issue(
        issue_id,
        team.project.id,
        title,
        f"{title}. {draw.choice(SITUATION_DETAILS)}",
        kind,
        draw.choice(PRIORITIES[kind != "bug" :]),
        status,
        reporter.id,
        created,
        moved,
        worker.id if times and status != "wont_fix" else None,
        draw.choice(team.components).id,
        _choose_sprint(team, status, moved, points, free),
        points,
        shift_time(START[:10], days=draw.randint(1, 20)) if status not in CLOSED and draw.randrange(4) == 0 else None,
        sum(log.minutes for log in logs),
    )
    return issue, _make_history(issue, times), logs


def _make_title(make: Generator) -> tuple[Kind, str]:
    draw = make.draw
    kind = draw.choice(("bug", "bug", "task", "story"))
    beginning = draw.choice(BUG_SYMPTOMS if kind == "bug" else TASKS)
    return kind, f"{beginning} {draw.choice(AREAS)} {draw.choice(SITUATIONS)}"  # type: ignore[return-value]


def _choose_sprint(team: _Team, status: Status, moved: str, points: int | None, free: dict[str, int]) -> str | None:
    """Returns a sprint that an issue of this state could be in and that has room, and takes the room."""
    if points is None or status == "wont_fix":
        return None
    for sprint in team.sprints:
        if status == "done":
            fits = sprint.status != "planned" and sprint.starts <= moved[:10] <= sprint.ends
        else:
            fits = sprint.status == ("planned" if status == "open" else "active")
        if fits and free[sprint.id] >= points:
            free[sprint.id] -= points
            return sprint.id
    return None


def _make_history(issue: Issue, times: list[str]) -> list[IssueChange]:
    history, old = list[IssueChange](), "open"
    for at, new in zip(times, STEPS[issue.status], strict=True):
        author = issue.assignee_id if new in ("in_progress", "in_review") else issue.reporter_id
        if new == "in_progress":
            change = IssueChange(issue.id, 1, at, issue.reporter_id, "assignee_id", None, issue.assignee_id)
            history.append(change)
        number = len(history) + 1
        history.append(IssueChange(issue.id, number, at, author or issue.reporter_id, "status", old, new))
        old = new
    return history


def _make_links(make: Generator, issues: list[Issue]) -> None:
    """Links some issues of each project. Only unfinished issues are blocked, by those generated before them."""
    draw, by_project, links = make.draw, dict[str, list[Issue]](), list[IssueLink]()
    for issue in issues:
        before = by_project.setdefault(issue.project_id, [])
        if before and draw.randrange(100) < 25:
            kind: Literal["blocks", "relates"] = "relates" if issue.status in CLOSED else "blocks"
            links.append(IssueLink(draw.choice(before).id, kind, issue.id))
        before.append(issue)
    make.insert_all(links)


def _make_wiki(make: Generator, knobs: TrackerKnobs, members: list[Member]) -> list[Page]:
    draw, pages, revisions = make.draw, list[Page](), list[PageRevision]()
    authors = [member for member in members if member.is_active]
    spaces = [
        Space(make.new_id(Space), name, draw.choice(authors).id, draw.randrange(100) < knobs.restricted)
        for name in SPACES[: max(2, min(len(SPACES), knobs.pages // 4))]
    ]
    titles, parents = set[tuple[str, str]](), set[str]()
    for at in range(knobs.pages):
        space = draw.choice(spaces)
        title = f"{draw.choice(PAGE_SUBJECTS)}: {draw.choice(PAGE_FORMS)}"
        if (space.id, title) in titles:
            title += f" {at + 1}"
        titles.add((space.id, title))
        above = [page for page in pages[-20:] if page.space_id == space.id]
        parent_id = draw.choice(above).id if above and draw.randrange(3) == 0 else None
        parents.update([parent_id] if parent_id else [])
        page_id, sentences = make.new_id(Page), draw.sample(SENTENCES, draw.randint(2, 6))
        count = draw.randint(1, len(sentences) - 1)
        texts = ["\n".join(sentences[: 2 + at]) for at in range(count)]
        days = sorted(draw.sample(range(1, 300), count), reverse=True)
        for version, (text, ago) in enumerate(zip(texts, days, strict=True), start=1):
            saved = shift_time(START, days=-ago, minutes=draw.randrange(480))
            summary = "First version" if version == 1 else "Addition"
            revisions.append(PageRevision(page_id, version, draw.choice(authors).id, saved, text, summary))
        pages.append(Page(page_id, space.id, title, texts[-1], count, "current", parent_id))
    pages = [
        msgspec.structs.replace(page, status="archived") if page.id not in parents and draw.randrange(10) == 0 else page
        for page in pages
    ]
    make.insert_all(spaces)
    make.insert_all(pages)
    make.insert_all(revisions)
    return pages
