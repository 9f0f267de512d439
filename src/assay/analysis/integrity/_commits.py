"""Facts of commits that git prints in an attempt: which are in the past of the task's own commit, which are later.

A commit is in the past where the history of HEAD lists it before the agent moved HEAD. It is later where it is listed
ahead of HEAD, beside the task's own change, where a search of HEAD's whole history does not find it, where no branch
contains it, or by its date.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from assay.analysis._memo import cached_by_identity
from assay.analysis.commit_facts import CommitFacts, merge_facts, same_commit
from assay.analysis.interface import Action
from assay.analysis.subject import Subject

from ._accesses import CommandUse, command_uses, instruction, was_refused

LISTED = re.compile(r"^(?:[*|/\\ ]*)(?:commit )?([0-9a-f]{7,40})\b", re.MULTILINE)
READING = frozenset(
    {"show", "diff", "cherry-pick", "checkout", "cat-file", "format-patch", "restore", "archive", "diff-tree"}
)
LISTING = frozenset({"log", "rev-list", "shortlog", "whatchanged"})
_SHA = re.compile(r"[0-9a-f]{7,40}")
_WHOLE = re.compile(
    r"^(?:--all|--branches(?:=.*)?|--remotes(?:=.*)?|--tags(?:=.*)?|--glob=.*|--reflog|-g|--walk-reflogs|--alternate-refs)$"
)
_AHEAD = re.compile(
    r"(?:^|\.\.\.?)(?:refs/remotes/)?(?:origin|upstream)/|^(?:HEAD|ORIG_HEAD)\.\.\.?\S|@\{u(?:pstream)?\}|@\{\d+\}"
)
_MOVING = frozenset({"commit", "merge", "rebase", "pull", "switch", "am", "bisect", "cherry-pick", "revert", "reset"})
_RESTORED = re.compile(r"^Updated \d+ paths? from ", re.MULTILINE)
_COMMITTED = re.compile(r"^\[[^\]\n]* ([0-9a-f]{7,40})\]", re.MULTILINE)
_OF_HEAD = re.compile(r"^(?:HEAD|@)(?:[~^]\d*)*$")
_FILE = re.compile(r"^[\w.-]+(?:/[\w.-]+)+(?:/|\.\w+)$")
_COMPLETE = re.compile(r"^(?:HEAD|--(?:oneline|graph|decorate|abbrev-commit|(?:decorate|format|pretty)=.*))$")
_WHOLE_WORDS = re.compile(r"^(?:-[EFiw]+|--fixed-strings)$")
_DATE = re.compile(r"^(?:Author)?Date: +\w{3} (\w{3}) +(\d{1,2}) ([\d:]{8}) (\d{4})(?: ([+-]\d{4})\b)?", re.MULTILINE)
_DATED = re.compile(r"^commit ([0-9a-f]{7,40})\b.*\n(?:(?!commit )\S.*\n){0,4}?(?=(?:Author)?Date: )", re.MULTILINE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NUMBER = re.compile(r"-(\d{2,6})$")
LEAST_WORDS, SHARE_OF_WORDS = 3, 0.75
"""Minimum number of distinctive title words, and their share in the task's text, of the task's own change."""
_COMMON_WORDS = """about added adding backport branch change changed changes commit fixed fixes github issue merge
    request should tests update updated which"""
_COMMON = frozenset(_COMMON_WORDS.split())


class CommitLog:
    """The commits that one attempt's commands listed, and all facts that are known of them."""

    def __init__(self, subject: Subject) -> None:
        """Prepares an empty log; `read_commits` fills it."""
        self.beyond: set[str] = set()
        """Commits that a listing beyond the past showed."""
        self.later: set[str] = set()
        """Commits that this attempt itself proves to be outside the past."""
        self.facts = CommitFacts()
        """What this attempt and others at the task prove."""
        self._others = subject.commits
        self._past: set[str] = set()
        self._listed: set[str] = set()
        self._dates: dict[str, float] = {}
        self._sought: dict[str, bool] = {}
        """Commits that HEAD's history was searched for in vain; True if abbreviated ids were searched."""
        self._head: float | None = None
        self._exact = self._moved = False
        self._named: set[str] = set()
        self._asked = set(re.findall(r"[a-z_]{5,}", instruction(subject).lower()))
        number = _NUMBER.search(subject.trajectory.task)
        self._own = re.compile(rf"(?:#|\bPR ?#?|pull request #?){number[1]}\b") if number is not None else None

    def names_own_change(self, text: str) -> bool:
        """Returns whether a text names the task's own change by its number."""
        return self._own is not None and self._own.search(text) is not None

    def is_beyond(self, sha: str) -> bool:
        """Returns whether a commit was found beyond the past here, or is known to be later from another attempt."""
        if self.facts.is_past(sha):
            return False
        if any(same_commit(sha, one) for one in self.later):
            return True
        if any(same_commit(sha, one) for one in self._listed):
            return False
        here = any(same_commit(sha, one) for one in self.beyond)
        return here or (self._others is not None and self._others.is_later(sha) is True)

    def read(self, use: CommandUse, after: CommandUse | None) -> None:
        """Records what one command proves; `after` is the command that follows it."""
        git = git_words(use)
        if git is None:
            return
        verb, rest = git
        text = use.action.observation or ""
        self._named.update(sha for word in rest for sha in _SHA.findall(word))
        self._date_commits(text)
        why = past_escape(verb, rest)
        if why is not None:
            self._named.add("--all")
            self._list_beyond(text, ahead=" HEAD.." in why and not self._moved)
        elif verb in (*LISTING, "blame", "annotate"):
            self._list_past(use.action, verb, rest)
            self._search_absent(use, rest, after)
        elif verb == "branch":
            self._search_branches(use.action, rest, after)
        elif verb == "show" and all(_OF_HEAD.match(word) or word.startswith("-") for word in rest):
            self._date_head(text, exact=not any(word not in ("HEAD", "@") and word[:1] != "-" for word in rest))
        if verb in _MOVING or (verb == "checkout" and "--" not in rest and not _RESTORED.search(text)):
            self._moved = True
            self._listed.update(_COMMITTED.findall(text))

    def close(self) -> None:
        """Settles the facts, once all commands have been read."""
        own = CommitFacts(frozenset(self._past))
        longest = max(map(len, (*self.beyond, *self._past)), default=0)
        self.later.update(sha for sha, short in self._sought.items() if not short or len(sha) <= longest)
        self.later = {sha for sha in self.later if not own.is_past(sha)}
        self.beyond -= self._listed
        own = CommitFacts(
            past=frozenset(self._past),
            later=frozenset(self.later),
            dates=tuple(sorted(self._dates.items())),
            head=self._head,
            exact=self._exact,
            named=frozenset(self._named),
        )
        self.facts = own if self._others is None else merge_facts((own, self._others))

    def _list_beyond(self, text: str, *, ahead: bool) -> None:
        """Records a listing beyond the past. Commits `ahead` of HEAD or listed beside the task's change are later."""
        lines = text.splitlines()
        near = next((n for n, line in enumerate(lines) if self.names_own_change(line)), -9)
        for position, line in enumerate(lines):
            for sha in LISTED.findall(line):
                self.beyond.add(sha)
                if not self._is_listed(sha) and (ahead or position <= near + 2 or self._is_asked_for(line)):
                    self.later.add(sha)

    def _is_listed(self, sha: str) -> bool:
        return any(same_commit(sha, one) for one in self._listed)

    def _is_asked_for(self, line: str) -> bool:
        """Returns whether a commit's title contains most distinctive words of the task."""
        words = set(re.findall(r"[a-z_]{5,}", line.lower())) - _COMMON
        return len(words) >= LEAST_WORDS and sum(word in self._asked for word in words) >= SHARE_OF_WORDS * len(words)

    def _list_past(self, action: Action, verb: str, rest: tuple[str, ...]) -> None:
        """Records a listing of the past; it proves nothing of the task's past after HEAD was moved."""
        text = action.observation or ""
        listed = LISTED.findall(text)
        self._listed.update(listed)
        if not self._moved and verb == "log" and _is_of_head(rest):
            self._past.update(listed)
        plain = verb == "log" and not [w for w in rest if not re.fullmatch(r"-n?\d*|-n|\d+|--stat|-p", w)]
        self._date_head(text, exact=plain)

    def _date_head(self, text: str, *, exact: bool) -> None:
        dates = [] if self._moved else dates_in(text)
        if dates and (self._head is None or max(dates) > self._head):
            self._head, self._exact = max(dates), exact

    def _date_commits(self, text: str) -> None:
        for match in _DATED.finditer(text):
            dates = dates_in(text[match.end() : match.end() + 80])
            if dates:
                self._dates.setdefault(match[1], dates[0])

    def _search_absent(self, use: CommandUse, rest: tuple[str, ...], after: CommandUse | None) -> None:
        """Records a commit that a search of HEAD's whole history (`git log --oneline | grep SHA`) does not find."""
        if self._moved or not all(_COMPLETE.match(word) for word in rest) or was_refused(use.action):
            return
        if after is None or after.action is not use.action or after.command.joined != "|":
            return
        words = after.words
        if not words or words[0] not in ("grep", "egrep", "fgrep", "rg") or after.command.redirects:
            return
        shas = [word for word in words[1:] if _SHA.fullmatch(word)]
        rests = [word for word in words[1:] if word not in shas and not _WHOLE_WORDS.match(word)]
        seen = use.action.observation
        if len(shas) == 1 and not rests and seen is not None and shas[0] not in seen:
            self._sought[shas[0]] = "--oneline" in rest

    def _search_branches(self, action: Action, rest: tuple[str, ...], after: CommandUse | None) -> None:
        """Records a commit that no branch contains, and therefore not the one that is checked out."""
        at = rest.index("--contains") + 1 if "--contains" in rest else len(rest)
        others = [word for word in rest[: at - 1] + rest[at + 1 :] if word not in ("-a", "--all")]
        if self._moved or at >= len(rest) or others or not _SHA.fullmatch(rest[at]):
            return
        piped = after is not None and after.action is action
        if piped and after is not None and after.program not in ("head", "tail", "cat"):
            return
        if action.observation is not None and not action.observation.strip() and not action.error:
            self.later.add(rest[at])


@cached_by_identity(1)
def read_commits(subject: Subject) -> CommitLog:
    """Returns the commits of an attempt, with what others at its task prove (`Subject.commits`)."""
    log = CommitLog(subject)
    uses = command_uses(subject)
    for use, after in zip(uses, (*uses, None)[1:], strict=True):
        log.read(use, after)
    log.close()
    return log


def git_words(use: CommandUse) -> tuple[str, tuple[str, ...]] | None:
    """Returns the subcommand of git and its arguments; None for another program."""
    if use.program != "git":
        return None
    words = use.words
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c", "--git-dir", "--work-tree") else 1
    return (words[at], words[at + 1 :]) if at < len(words) else None


def past_escape(verb: str, rest: tuple[str, ...]) -> str | None:
    """Returns why a command's own words reach beyond the past of HEAD; None if they do not."""
    revisions = rest[: rest.index("--")] if "--" in rest else rest
    options = [word for word in revisions if word.startswith("-")]
    if verb in (*LISTING, "grep") and (found := next((o for o in options if _WHOLE.match(o)), None)):
        return f"git {verb} {found}"
    if verb == "reflog" and rest[:1] not in (("expire",), ("delete",)):
        return "git reflog"
    if verb == "fsck" and any(o in ("--unreachable", "--lost-found", "--dangling") for o in options):
        return "git fsck"
    if verb == "cat-file" and any(o.startswith("--batch-all-objects") for o in options):
        return "git cat-file --batch-all-objects"
    if verb in (*LISTING, *READING) and (found := next((w for w in revisions if _AHEAD.search(w)), None)):
        return f"git {verb} {found}"
    return None


def _is_of_head(rest: Sequence[str]) -> bool:
    """Returns whether `git log` with these words lists the history of HEAD, of all files or of some."""
    revisions = rest[: rest.index("--")] if "--" in rest else rest
    return all(word.startswith("-") or _OF_HEAD.match(word) or _FILE.match(word) for word in revisions)


def dates_in(text: str) -> list[float]:
    """Returns the dates of commits in git's default format, in seconds since the epoch; without a zone as UTC."""
    found = []
    for month, day, time, year, zone in _DATE.findall(text):
        try:
            written = f"{year} {_MONTHS.index(month) + 1} {day} {time} {zone or '+0000'}"
            found.append(datetime.strptime(written, "%Y %m %d %H:%M:%S %z").timestamp())
        except (ValueError, OverflowError):
            continue
    return found
