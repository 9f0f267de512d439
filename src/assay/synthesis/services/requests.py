"""Requests other than writes that can be done: questions, and writes that must be declined.

A write must be declined because the world refuses it (`impossible`), because a rule forbids that very call whatever
comes before it (`forbidden`), or because it fits several rows and the person is not there to be asked (`ambiguous`).
Who declines names the record that the request is about, which only reading can show.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from assay.environments.services.declaration import Question
from assay.environments.services.plans import PlannedCall, answer_in, foreign_plan, identifiers
from assay.environments.services.record_names import row_of
from assay.environments.services.ticket import Reason, answer_question, decline_request
from assay.environments.services.transaction import Code
from assay.environments.services.world import ServiceWorld
from assay.records import canonical_bytes
from assay.verify.logged_calls import calls_of_plan
from assay.verify.service_checks import rule_results, texts_of_one_call_rules

from .instruction import Descriptions, Unspeakable, Wish, wish_of, write_change
from .walk import LastWrite, PersonFact, Walk, Walker

Kind = Literal["possible", "impossible", "forbidden", "ambiguous", "question"]
KINDS: Final[tuple[Kind, ...]] = ("possible", "impossible", "forbidden", "ambiguous", "question")

_REFUSALS: Final = frozenset({"conflict", "forbidden"})
"""Kinds of refusal that are due to the records; others are due to the arguments."""
_MOST_ALIKE: Final = 40
"""Rows that the words of an ambiguous request may fit."""
_MOST_ROWS: Final = 30
"""Rows of the answer to a question."""
MOST_GUESSED: Final = 0.1
"""Largest probability that the answers to the same questions about other records, in another world, are the right
ones; above, a guess is worth making."""
_SAMPLED: Final = 40
"""Records about which a question is asked to find that probability."""


class Refusal(NamedTuple):
    """An acceptable way of declining a request."""

    reason: Reason
    record_id: str


class Draft(NamedTuple):
    """A plan with its wishes."""

    walk: Walk
    wishes: tuple[Wish, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    """Acceptable refusals of the one request that must be declined; the plan holds the first."""
    answers: tuple[AnsweredQuestion, ...] = ()
    asked: Walk | None = None
    """Request at first, where the person changes it later; None: the walk."""
    change: str = ""
    """Message by which the person changes the request; empty if they do not."""
    instead: Wish | None = None
    """Wish that takes the place of the last one by that message."""

    @property
    def final_wishes(self) -> tuple[Wish, ...]:
        """Wishes of the walk's writes."""
        return self.wishes if self.instead is None else (*self.wishes[:-1], self.instead)


class AnsweredQuestion(NamedTuple):
    """A question with its answer."""

    question: Question
    rows: tuple[tuple[str, ...], ...]
    path: tuple[str, ...]
    """Generated identifiers that the reads before the answer need, in their order."""


def draw_possible(walker: Walker, writes: int, draw: random.Random, last: LastWrite | None = None) -> Draft | None:
    """Returns writes that can all be done, without their wishes; None if this try led to none. `last` are demands on
    the last one."""
    walk = walker.walk(writes, draw, last)
    return None if walk is None else Draft(walk)


def draw_changed(descriptions: Descriptions, walker: Walker, writes: int, draw: random.Random) -> Draft | None:
    """Returns writes whose last one takes the place of another, which is asked for at first; None if this try led to
    none. Raises `Unspeakable`."""
    drawn = walker.walk(writes + 1, draw)
    if drawn is None:
        return None
    *kept, dropped, added = drawn.writes
    asked, walk = walker.with_reads([*kept, dropped]), walker.with_reads([*kept, added])
    if asked is None or walk is None:
        return None
    wishes = tuple(wish_of(descriptions, call) for call in asked.writes)
    facts = [fact for fact in walk.known if fact not in asked.known]
    instead = wish_of(descriptions, added)
    return Draft(walk, wishes, asked=asked, change=write_change(wishes[-1], instead, facts), instead=instead)


def draw_declined(
    descriptions: Descriptions, walker: Walker, kind: Kind, writes: int, draw: random.Random
) -> Draft | None:
    """Returns writes one of which must be declined; None if this try led to none. Raises `Unspeakable`."""
    world = descriptions.world
    first = Trial(world)
    unclear: _Ambiguous | None = None

    def is_wanted(changed: ServiceWorld, call: PlannedCall) -> bool:
        nonlocal unclear
        if kind != "ambiguous":
            if not _generated(world, call):
                return False
            if kind == "impossible":
                return first.is_refused(call) and Trial(changed).is_refused(call)
            return _is_forbidden(changed, call) and Trial(changed).is_accepted(call)
        before = ambiguous_argument(descriptions, first, call)
        found = None if before is None else ambiguous_argument(descriptions, Trial(changed), call)
        if found is None or before is None or found.name != before.name:
            return False
        unclear = found._replace(records=[record for record in found.records if record in before.records])
        return len(unclear.records) > 1

    among = forbidden_actions(world.composition.actions, world.policy.contracts) if kind == "forbidden" else None
    walk = walker.walk(writes, draw, LastWrite(is_wanted, among))
    if walk is None:
        return None
    declined, at = walk.writes[-1], draw.randrange(writes)
    records, words = _generated(world, declined), dict[str, str]()
    about: Sequence[PersonFact] = ()
    if unclear is not None:
        # Facts by which one of the records is found would say which one is meant; those of their owner lead to all.
        to_owner = walker.path_to(*unclear.owner)
        about = () if to_owner is None else to_owner[1]
        kind_of_record = world.composition.actions[declined.action].takes[unclear.name]
        records = [record for record in unclear.records if _leads_to(walker, about, kind_of_record, record)]
        words = {unclear.name: unclear.words}
        if len(records) < 2:
            return None
    reasons: tuple[Reason, ...] = ("unclear",) if kind == "ambiguous" else ("not_possible", "not_allowed")
    if kind == "forbidden":
        reasons = reasons[::-1]
    refusals = tuple(Refusal(reason, record) for reason in reasons for record in records)
    asked = [*walk.writes[:-1]]
    asked.insert(at, declined)
    wishes = tuple(
        wish_of(descriptions, call, words=words if number == at else {}) for number, call in enumerate(asked)
    )
    call = PlannedCall(decline_request.__name__, {"request": at + 1, **refusals[0]._asdict()})
    plan = [*walk.plan[:-1], call]
    kept = walker.with_reads([*walk.writes[:-1], _without(declined, words)])
    if kept is None:
        return None
    known = dict.fromkeys([*kept.known, *about])
    return Draft(Walk(tuple(plan), tuple(asked), tuple(known)), wishes, refusals)


def _leads_to(walker: Walker, about: Iterable[PersonFact], kind: str, record: str) -> bool:
    """Returns whether whoever knows some facts can find a record, at most by searching for its own words and dates:
    another record on the way, such as the passenger whose trips are listed, must be named by the facts."""
    path = walker.path_to(kind, record)
    if path is None:
        return False
    reads, needed = path
    on_the_way = {str(value) for read in reads[:-1] for value in read.arguments.values()}
    known = set(about)
    return all(fact in known or (fact.kind in ("words", "date") and fact.value not in on_the_way) for fact in needed)


def with_refusal(call: PlannedCall, refusal: Refusal) -> PlannedCall:
    """Returns the call that declines a request in another way; every other call as it is."""
    return _with(call, refusal._asdict()) if call.action == decline_request.__name__ else call


def forbidden_actions(actions: Iterable[str], contracts: Sequence[str]) -> frozenset[str]:
    """Returns the actions that a rule may forbid by themselves, whatever came before. Raises `TaskError`."""
    return texts_of_one_call_rules(contracts).intersection(actions)


def is_known_in(elsewhere: ServiceWorld, world: ServiceWorld, draft: Draft) -> bool:
    """Returns whether a world of another seed has a declined record, or gives the same answer to a question, be it
    about the same records or about others."""
    for refusal in draft.refusals:
        kind = elsewhere.composition.generated_kind(refusal.record_id)
        if kind is not None and row_of(elsewhere, kind, refusal.record_id) is not None:
            return True
    foreign = [
        call for call in foreign_plan(world, elsewhere, draft.walk.plan) if call.action == answer_question.__name__
    ]
    for one, asked, other in zip(draft.answers, draft.walk.writes, foreign, strict=False):
        right = [list(row) for row in one.rows]
        if right in (answer_in(elsewhere, one.question, asked), other.arguments["rows"]):
            return True
    return False


def guess_probability(world: ServiceWorld, elsewhere: ServiceWorld, draft: Draft) -> float:
    """Returns the probability that records drawn from both worlds give the same answers to all questions of a draft;
    0 without questions.

    Questions whose views take no identifier count as not guessable.
    """
    if not draft.answers:
        return 0.0
    probability = 1.0
    for one, asked in zip(draft.answers, draft.walk.writes, strict=True):
        here, there = (_answers_about_others(each, one.question, asked) for each in (world, elsewhere))
        pairs = here.total() * there.total()
        probability *= sum(number * there[answer] for answer, number in here.items()) / pairs if pairs else 0.0
    return probability


def _answers_about_others(world: ServiceWorld, question: Question, asked: PlannedCall) -> Counter[bytes]:
    """Returns the answers that the question may have about records of a world, with how often each was found."""
    draw = random.Random(world.seed)
    known = {name: identifiers(world, kind) for name, kind in question.view.takes.items() if name in asked.arguments}
    found: Counter[bytes] = Counter()
    if not known or not all(known.values()):
        return found
    for _ in range(_SAMPLED):
        other = _with(asked, {name: draw.choice(values) for name, values in known.items()})
        answer = answer_in(world, question, other)
        if answer:
            found[canonical_bytes(answer)] += 1
    return found


def as_questions(answers: Sequence[AnsweredQuestion]) -> list[dict[str, Any]]:
    """Returns the questions as parameters of the check `answer`."""
    return [
        {
            "request": number,
            "rows": [list(row) for row in one.rows],
            "kinds": ["number" if unit == "cents" else unit for unit in one.question.cells],
            "path": list(one.path),
        }
        for number, one in enumerate(answers, 1)
    ]


def draw_questions(descriptions: Descriptions, walker: Walker, count: int, draw: random.Random) -> Draft | None:
    """Returns questions with their answers; None if this try led to none. Raises `Unspeakable`."""
    world = descriptions.world
    known = [question for service in world.composition.services for question in service.questions]
    if not known:
        return None
    plan: list[PlannedCall] = []
    walks: list[Walk] = []
    wishes: list[Wish] = []
    answers: list[AnsweredQuestion] = []
    for question in draw.sample(known, min(count, len(known))):
        call = walker.arguments(question.view, question.wish, draw)
        walk = None if call is None else walker.with_reads([call])
        if call is None or walk is None:
            return None
        answer = answer_in(world, question, call)
        if not 0 < len(answer) <= _MOST_ROWS or answer in ([["0"]], [["0.00"]]):  # nothing is the first guess
            return None
        walks.append(walk)
        wishes.append(wish_of(descriptions, call, question.wish))
        path = dict.fromkeys(value for read in walk.plan for value in _generated(world, read))
        answers.append(AnsweredQuestion(question, tuple(map(tuple, answer)), tuple(path)))
        plan += [read for read in walk.plan if read not in plan]
    for number, one in enumerate(answers, 1):
        plan.append(PlannedCall(answer_question.__name__, {"request": number, "rows": [list(row) for row in one.rows]}))
    asked = tuple(walk.writes[0] for walk in walks)
    facts = dict.fromkeys(fact for walk in walks for fact in walk.known)
    return Draft(Walk(tuple(plan), asked, tuple(facts)), tuple(wishes), answers=tuple(answers))


def _generated(world: ServiceWorld, call: PlannedCall) -> list[str]:
    """Returns the generated identifiers among the arguments of a call, each once."""
    return list(dict.fromkeys(value for _, value in generated_arguments(world, call)))


def generated_arguments(world: ServiceWorld, call: PlannedCall) -> Iterator[tuple[str, str]]:
    """Yields name and value of the arguments that are generated identifiers."""
    composition = world.composition
    for name in composition.actions[call.action].takes:
        value = call.arguments.get(name)
        if composition.generated_kind(value) is not None:
            yield name, str(value)


def _is_forbidden(world: ServiceWorld, call: PlannedCall) -> bool:
    """Returns whether a rule forbids the call whatever came before it."""
    results = rule_results(world.policy.contracts, calls_of_plan(world, [call]), "the policy")
    return any(result.status == "fail" and result.is_of_one_call for result in results)


class Trial:
    """Tries calls in a world, which it does not change."""

    def __init__(self, world: ServiceWorld) -> None:
        self.world = world
        self._fork: ServiceWorld | None = None

    def is_refused(self, call: PlannedCall) -> bool:
        """Returns whether the call is refused because of the records."""
        return self._try(call)[0] in _REFUSALS

    def is_accepted(self, call: PlannedCall) -> bool:
        """Returns whether the call succeeds and changes something."""
        code, changed = self._try(call)
        return code is None and changed

    def _try(self, call: PlannedCall) -> tuple[Code | None, bool]:
        fork = self._fork or self.world.fork()
        fork.act(call.action, call.arguments)
        done = fork.calls[-1]
        self._fork = fork if done.code is not None else None  # a call that was refused has changed nothing
        return done.code, done.digest != self.world.database.digest()


class _Ambiguous(NamedTuple):
    """An argument of a call, and words for it that fit several rows."""

    name: str
    words: str
    records: list[str]
    """Identifiers of all rows that the words fit; with at least two of them the world accepts the call."""
    owner: tuple[str, str]
    """Kind and value of the identifier of the row to which all of them belong."""


def ambiguous_argument(descriptions: Descriptions, trial: Trial, call: PlannedCall) -> _Ambiguous | None:
    """Returns words that fit several rows, because they say only to which other row it belongs: `the order of Anna`.

    None where at most one row fits each argument.
    """
    world = trial.world
    if not trial.is_accepted(call):
        return None
    for name, value in generated_arguments(world, call):
        found = row_of(world, world.composition.actions[call.action].takes[name], value)
        if found is None:
            continue
        table, row = found
        for column in table.columns:
            owner = getattr(row, column.name)
            if not column.identifier or column.name in table.key or owner is None:
                continue
            if row_of(world, column.identifier, str(owner)) is None:  # a postal code owns no address
                continue
            query = f"SELECT {table.key[0]} FROM {table.sql_name} WHERE {column.name} = ? ORDER BY 1 LIMIT ?"
            alike = [one for (one,) in world.database.connection.execute(query, (owner, _MOST_ALIKE + 1))]
            if len(alike) > _MOST_ALIKE:
                continue
            fitting = [one for one in alike if trial.is_accepted(_with(call, {name: one}))]
            if len(fitting) < 2 or value not in fitting:
                continue
            try:
                words = f"the {descriptions.noun(table)} of {descriptions.describe(column.identifier, str(owner))}"
                return _Ambiguous(name, words, alike, (column.identifier, str(owner)))
            except Unspeakable:
                continue
    return None


def _with(call: PlannedCall, arguments: Mapping[str, str]) -> PlannedCall:
    return PlannedCall(call.action, {**call.arguments, **arguments})


def _without(call: PlannedCall, names: Iterable[str]) -> PlannedCall:
    return PlannedCall(call.action, {name: value for name, value in call.arguments.items() if name not in set(names)})
