"""The task family `services`: tasks from walks over the actions of one or several applications.

A plan becomes a task if it keeps the policy; its outcome is not that of doing nothing or of its reads alone; the same
calls in a world of another seed do not lead to it, so that the agent has to read; no generated identifier is in the
text; and no other task has the same outcome. Where the outcome depends on the order of the writes, that of each order
that the world accepts is acceptable. The same `n`, `seed` and options give the same tasks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from blake3 import blake3

from assay.environments.browser.picture_options import FamilyPictures
from assay.environments.services.composition import compose
from assay.environments.services.declaration import Service
from assay.environments.services.files import FILE
from assay.environments.services.plans import PlannedCall, foreign_plan, outcome_key, play
from assay.environments.services.ticket import ticket
from assay.environments.services.users import UserScript
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.plugins import load
from assay.records import Check, Task, canonical_bytes
from assay.verify.economy_check import ECONOMY

from .building import Planned, TaskSet, accepted_orders, build_task
from .counterparts import Twin, draw_ambiguous_twins, draw_declined_twins
from .days import WAIT, draw_waits, event_matters, walk_over_days, with_wait
from .family_options import read_harder, require_interface, require_types, resembling_knobs
from .instruction import (
    LEVELS,
    USER_MODES,
    Descriptions,
    Level,
    Unspeakable,
    UserMode,
    Wording,
    wish_of,
    write_instruction,
)
from .person import change_mind, questions_needed, shape_person
from .policy_compliance import ask_for_consents, keep_policy
from .requests import (
    KINDS,
    MOST_GUESSED,
    Draft,
    Kind,
    draw_changed,
    draw_declined,
    draw_possible,
    draw_questions,
    forbidden_actions,
    generated_arguments,
    guess_probability,
    is_known_in,
)
from .required_reads import needed_reads
from .similarity import is_near, most_distractors, word_triples
from .value_requests import TellingRequest, draw_telling
from .walk import Walker

_TRIES: Final = 400
"""Walks drawn for one task before a world counts as exhausted."""
_BARREN_WORLDS: Final = 3
"""Exhausted worlds in a row after which no more tasks are sought."""
_TASKS_OF_A_WORLD: Final = 5
_EVENTFUL_TRIES: Final = 60
"""Walks drawn for one task before one is taken in which no event matters."""
_MOST_WRITES: Final = 8


class GeneratedTasks(NamedTuple):
    """Tasks, and why other plans were dropped."""

    tasks: tuple[Task, ...]
    dropped: Mapping[str, int]
    """Number of plans by what they were dropped for; those that are unsound are not counted."""


class Assignment(NamedTuple):
    """Where in a set a task stands, and with what it is drawn."""

    seed: int
    number: int
    level: Level
    kind: Kind
    draw: random.Random
    """Source of randomness of the task."""
    missed: int
    """Walks drawn for it before."""
    more: random.Random
    """Source of randomness of what the options of `Harder` add."""
    twin: Twin | None = None
    """The twin that the task is."""


class ServiceTasks:
    """Tasks in worlds of services.

    Args:
        app: Applications, joined by `+`: `shop`, `airline+mail`, or `path/file.py:attribute`.
        level: `explicit`, `implicit`, `persona`, or `mixed` for all three in turn.
        kind: Kinds of requests, joined by `+`, in turn: `possible`; `impossible`, `forbidden` or `ambiguous`, in which
            one request must be declined; `question`; or `mixed` for all that the applications have.
        changed: Whether the person changes one request in the middle of the work: the first write is stopped with the
            message, or with level=persona they say so in the conversation; the changed request is what is judged. For
            kind=possible; level=mixed then is explicit and implicit.
        user: Person of the level `persona`: `rules` tells facts when asked, `oracle` tells everything in the first
            message, with `none` the instruction holds everything, and with `model` a model chooses the words
            (`--user-model`). The requests are the same in each.
        writes: Number of requests of a task; 0 draws one, two or three.
        interface: How the agent reaches the applications: `tools`, or `pages` in a browser. The tasks are the same.
        knobs: Options of the applications' generators, as a table by application.
        marks: True for pictures of pages in which elements are marked with their numbers.
        picture_type: Form of pictures of pages: `webp` or `png`.
        computer: True to offer the tool `computer` of computer-use models in a browser, too.
        aims: True to note what acts on pages aim at, and to judge it by the check `pointing`.
        theme: Seed of the looks of the pages; default: the world's own.
        **harder: Fields of `Harder`.
    """

    def __init__(
        self,
        *,
        app: str,
        level: str = "mixed",
        kind: str = "possible",
        user: str = "rules",
        writes: int = 0,
        changed: bool = False,
        interface: str = "tools",
        knobs: Mapping[str, Mapping[str, Any]] | None = None,
        marks: bool = False,
        picture_type: str = "webp",
        computer: bool = False,
        aims: bool = False,
        theme: int | None = None,
        **harder: Any,
    ) -> None:
        require_types(
            app=app, level=level, kind=kind, user=user, writes=writes, changed=changed, interface=interface, knobs=knobs
        )
        require_interface(interface, user=user, changed=changed)
        if level not in (*LEVELS, "mixed"):
            raise UserError(f"level={level} of the family 'services': expected {', '.join(LEVELS)} or mixed")
        if not 0 <= writes <= _MOST_WRITES:
            raise UserError(f"writes={writes} of the family 'services': expected 0 to {_MOST_WRITES}")
        if kind != "mixed" and not set(kind.split("+")) <= set(KINDS):
            raise UserError(f"kind={kind} of the family 'services': expected {', '.join(KINDS)}, joined by +, or mixed")
        if user not in USER_MODES:
            raise UserError(f"user={user} of the family 'services': expected {', '.join(USER_MODES)}")
        if user != "rules" and level not in ("persona", "mixed"):
            raise UserError(f"user={user} of the family 'services': level={level} has no person; add level=persona")
        self._apps = tuple(name for name in app.split("+") if name)
        if not self._apps:
            raise UserError("app= of the family 'services': name an application, as app=shop or app=shop+mail")
        self._levels: tuple[Level, ...] = tuple(one for one in LEVELS if level in (one, "mixed"))
        if changed:
            if kind != "possible":
                raise UserError("changed=true of the family 'services' needs kind=possible")
            if level == "mixed":
                self._levels = tuple(one for one in self._levels if one != "persona")
        self._changed = changed
        self._harder = read_harder(
            harder, level=level, kind=kind, user=user, changed=changed, pages=interface == "pages"
        )
        self._has_pages = interface == "pages"
        self._pictures = FamilyPictures(
            "services", marks, picture_type, computer, aims, theme, has_pages=self._has_pages
        )
        self._kind = kind
        self._user: UserMode = next(mode for mode in USER_MODES if mode == user)
        self._writes = writes
        self._held: tuple[int, Descriptions, Walker] | None = None
        self._given_knobs = {name: dict(table) for name, table in (knobs or {}).items()}

    @cached_property
    def _services(self) -> tuple[Service, ...]:
        services = tuple(load("services", name) for name in self._apps)
        try:
            found = compose(services).applications
        except ValueError as exc:
            raise UserError(f"{self._application}: {exc}") from exc
        if not any(service.questions or any(a.wish for a in service.actions.values()) for service in found):
            raise UserError(
                f"{self._application}: no action has a `wish`, so that tasks cannot ask for anything there; tasks of "
                "benchmarks have families of their own (`assay plugins`)"
            )
        if self._harder.files and not any(
            FILE in a.takes.values() for one in found for a in one.actions.values() if a.wish
        ):
            raise UserError(
                f"{self._application}: files=true needs an action that takes a file, as app=tracker+attachments"
            )
        return found

    @property
    def _application(self) -> str:
        """The option `app` for errors."""
        return f"app={'+'.join(self._apps)} of the family 'services'"

    @cached_property
    def _world_services(self) -> tuple[Service, ...]:
        """The applications, and the ticket if there is something to decline or to answer."""
        return self._services if self._kinds == ("possible",) else (*self._services, ticket)

    @cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        """Kinds in the order in which they take turns. Raises `UserError` if the applications lack one."""
        contracts = [text for service in self._services for text in service.policy.contracts]
        wished = [a.name for service in self._services for a in service.actions.values() if a.wish]
        lacking: dict[Kind, str] = {}
        if not forbidden_actions(wished, contracts):
            lacking["forbidden"] = "have no rule that forbids a call by itself"
        if not any(service.questions for service in self._services):
            lacking["question"] = "declare no questions"
        if self._levels == ("persona",) and not self._harder.twins:
            lacking["ambiguous"] = "are served for a person who can be asked (level=persona)"
        if self._kind == "mixed":
            return tuple(kind for kind in KINDS if kind not in lacking)
        kinds = tuple(kind for kind in KINDS if kind in self._kind.split("+"))
        if wrong := [kind for kind in kinds if kind in lacking]:
            named = ", ".join(service.name for service in self._services)
            raise UserError(f"kind={wrong[0]} of the family 'services': the applications {named} {lacking[wrong[0]]}")
        return kinds

    @cached_property
    def _knobs(self) -> Mapping[str, Mapping[str, Any]]:
        return resembling_knobs(self._services, self._given_knobs) if self._harder.distractors else self._given_knobs

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        return self.make_set(n, seed).tasks

    def make_set(self, n: int, seed: int, progress: Callable[[int], None] = lambda _: None) -> GeneratedTasks:
        """Returns at most `n` tasks, and how many plans were dropped; `progress` is told how many there are."""
        made: list[Task] = []
        outcomes: set[bytes] = set()
        dropped: Counter[str] = Counter()
        said: list[frozenset[tuple[str, ...]]] = []
        missed = attempts = exhausted = barren = 0
        while len(made) < n and barren < _BARREN_WORLDS:
            number = len(made) // _TASKS_OF_A_WORLD + attempts // _TRIES + exhausted
            attempts += 1
            world_seed = self._world_seed(seed, number)
            place = self._assign(seed, len(made), world_seed, attempts)._replace(missed=missed)
            found = self._made_at(place, world_seed, outcomes, dropped)
            if found and self._harder.distinct:
                triples = [word_triples(task) for task in found]
                if is_near(triples[0], said):
                    dropped["near-duplicate"] += 1
                    found = ()
                said += triples if found else []
            if found:
                made += found
                progress(len(made))
                missed = barren = 0
                continue
            missed += 1
            if missed == _TRIES:
                missed = 0
                exhausted, barren = exhausted + 1, barren + 1
        return GeneratedTasks(self._pictures.apply(made[:n]), dropped)

    def _world_of(self, world_seed: int) -> tuple[Descriptions, Walker]:
        """Returns what draws and describes in a world; that of the last one is held, because it is asked often."""
        if self._held is None or self._held[0] != world_seed:
            try:
                world = ServiceWorld.of(self._world_services, world_seed, self._knobs)
            except ValueError as exc:
                raise UserError(f"{self._application}: {exc}") from exc
            self._held = world_seed, Descriptions(world), Walker(world)
        return self._held[1:]

    def _world_seed(self, seed: int, number: int) -> int:
        words = f"{'+'.join(service.name for service in self._services)}/{seed}/{number}"
        return int.from_bytes(blake3(words.encode()).digest()[:6], "big")

    def _assign(self, seed: int, number: int, world_seed: int, attempt: int) -> Assignment:
        turn = number // 2 if self._harder.twins else number
        level = self._levels[turn % len(self._levels)]
        kind = self._kinds[turn // len(self._levels) % len(self._kinds)]
        if kind == "ambiguous" and level == "persona" and not self._harder.twins:
            level = "implicit"
        words = f"{world_seed}/{attempt}"
        return Assignment(seed, number, level, kind, random.Random(words), 0, random.Random(f"{words}/harder"))

    def _made_at(
        self, place: Assignment, world_seed: int, outcomes: set[bytes], dropped: Counter[str]
    ) -> tuple[Task, ...]:
        """Returns a task, or a pair of twins; empty if this try led to none."""
        descriptions, walker = self._world_of(world_seed)
        try:
            if not self._harder.twins:
                draft = self._draft(descriptions, walker, place)
                task = None if draft is None else self._task(place, descriptions, draft, outcomes, dropped)
                return () if task is None else (task,)
            return self._twins(place, descriptions, walker, outcomes, dropped)
        except Unspeakable:
            return ()

    def _twins(
        self, place: Assignment, descriptions: Descriptions, walker: Walker, outcomes: set[bytes], dropped: Counter[str]
    ) -> tuple[Task, ...]:
        count = self._writes or place.draw.choice((1, 2, 3))
        if place.kind == "ambiguous":
            twins = draw_ambiguous_twins(descriptions, walker, count, place.draw)
        else:
            twins = draw_declined_twins(descriptions, walker, place.kind, count, place.draw)
        made: list[Task] = []
        fresh = [set(outcomes) for _ in twins or ()]  # the outcome may be the same for both
        for at, twin in enumerate(twins or ()):
            mine = place._replace(number=place.number + at, twin=twin)
            task = self._task(mine, descriptions, twin.draft, fresh[at], dropped)
            if task is None:
                return ()
            made.append(task)
        outcomes.update(*fresh)
        return tuple(made)

    def _task(
        self,
        place: Assignment,
        descriptions: Descriptions,
        draft: Draft,
        outcomes: set[bytes],
        dropped: Counter[str],
    ) -> Task | None:
        """Returns the task of a draft; None if it is not sound, or not as hard as wanted. Raises `Unspeakable`."""
        world, harder, twin = descriptions.world, self._harder, place.twin
        asked = draft.asked or draft.walk

        def shape(script: UserScript) -> UserScript:
            if twin is not None and twin.script is not None:
                script = twin.script
            requests = tuple(zip(asked.writes, draft.wishes, strict=True))
            shaped = shape_person(script, harder, descriptions, requests, place.more)
            return change_mind(shaped, draft.change, place.more) if draft.change else shaped

        wording = write_instruction(draft.wishes, asked, place.level, place.draw.randrange(1_000), self._user, shape)
        done = play(world, draft.walk.plan)
        if outcome_key(done) in outcomes or any(call.code is not None for call in done.calls):
            return None
        is_fixed = bool(draft.answers) or harder.days > 0
        orders = {outcome_key(done): draft.walk.plan} if is_fixed else accepted_orders(world, draft.walk.plan)
        if orders is None or not outcomes.isdisjoint(orders) or not self._is_sound(world, draft, wording, set(orders)):
            return None
        if reason := self._too_easy(world, draft, place):
            dropped[reason] += 1
            return None
        planned = self._planned(place, world, done, draft, wording, tuple(orders.values()))
        if planned is None:
            return None
        outcomes.update(orders)
        shared = TaskSet(
            self._apps, self._services, self._world_services, self._knobs, self._user, has_pages=self._has_pages
        )
        return build_task(shared, planned, world, done)

    def _too_easy(self, world: ServiceWorld, draft: Draft, place: Assignment) -> str:
        """Returns why a draft is not as hard as the options say; empty if it is."""
        harder = self._harder
        if harder.distractors and most_distractors(world, draft.walk.writes) < harder.distractors:
            return "few distractors"
        if harder.reads and needed_reads(world, draft) < harder.reads:
            return "few reads"
        wants_event = harder.days and place.number % 2 == 0 and place.missed < _EVENTFUL_TRIES
        if wants_event and not event_matters(world, draft.walk):
            return "no event matters"
        return ""

    def _planned(
        self,
        place: Assignment,
        world: ServiceWorld,
        done: ServiceWorld,
        draft: Draft,
        wording: Wording,
        orders: Sequence[Sequence[PlannedCall]],
    ) -> Planned | None:
        """Returns a sound plan with what it says to the person; None if there is nothing to tell, or no consent."""
        harder, twin = self._harder, place.twin
        telling: TellingRequest | None = None
        script = wording.script
        if harder.tell and script is not None:
            telling = draw_telling(done, f"{canonical_bytes(script).decode()} {draft.change}", place.more)
            if telling is None:
                return None
            wording = wording.with_sentence(telling.wish)
            script = wording.script
        plan, consents = draft.walk.plan, done.policy.consents
        if script is not None and consents:
            with_consents = ask_for_consents(draft, script, {consent.action for consent in consents})
            if with_consents is None:
                return None
            plan = with_consents
        if telling is not None:
            plan = (*plan, telling.message)
        tags = tuple(tag for tag, is_so in (("days", harder.days), ("tell", telling)) if is_so)
        metadata: dict[str, Any] = {}
        if harder.days:
            metadata["event"] = event_matters(world, draft.walk)
        checks: tuple[Check, ...] = ()
        if twin is not None:
            tags += (twin.name,) if twin.name == "plain" else ()
            metadata |= {"twins": f"{place.seed}-{place.number // 2}", "twin": twin.name}
        if harder.distractors:
            metadata["distractors"] = most_distractors(world, draft.walk.writes)
        if script is not None and (harder.has_person or harder.needs):
            metadata["mood"] = script.mood
        if harder.needs or harder.reads:
            needs = {"reads": needed_reads(world, draft), "questions": 0}
            if script is not None:
                agreed = [call for call in draft.walk.writes if call.action in {one.action for one in consents}]
                needs["questions"] = questions_needed(script) + len(agreed) + (telling is not None)
            metadata["needs"] = needs
            if harder.needs:
                checks = (Check(ECONOMY, ECONOMY, needs),)
        return Planned(
            place.seed, place.number, place.level, place.kind, draft, wording, plan, orders, telling, checks, tags,
            metadata,
        )  # fmt: skip

    def _draft(self, descriptions: Descriptions, walker: Walker, place: Assignment) -> Draft | None:
        """Returns a plan of a kind that keeps the policy, and its wishes. Raises `Unspeakable`."""
        kind, draw = place.kind, place.draw
        count = self._writes or draw.choice((1, 2, 3))
        waits: tuple[int, ...] = ()
        if self._harder.days:
            waits = draw_waits(self._harder.days, count, place.more)
            walk = walk_over_days(walker, waits, draw)
            draft = None if walk is None else Draft(walk)
        elif self._changed:
            draft = draw_changed(descriptions, walker, count, draw)
        elif kind == "possible":
            draft = draw_possible(walker, count, draw, walker.taking_files() if self._harder.files else None)
        elif kind == "question":
            draft = draw_questions(descriptions, walker, count, draw)
        else:
            draft = draw_declined(descriptions, walker, kind, count, draw)
        contracts = descriptions.world.policy.contracts
        if draft is not None and contracts:
            walk = keep_policy(descriptions.world, draft.walk, contracts)
            draft = None if walk is None else draft._replace(walk=walk)
        if draft is None or draft.wishes:
            return draft
        wishes = tuple(wish_of(descriptions, call) for call in draft.walk.writes)
        if waits:
            wishes = tuple(with_wait(wish, days) for wish, days in zip(wishes, waits, strict=True))
        return draft._replace(wishes=wishes)

    def _is_sound(self, world: ServiceWorld, draft: Draft, wording: Wording, keys: set[bytes]) -> bool:
        """Returns whether reading, and the plan in another world, do not lead to one of the outcomes, and the text
        holds no generated identifier."""
        plan, actions = draft.walk.plan, world.composition.actions
        reads = [call for call in plan if actions[call.action].reads_only or call.action == WAIT]
        if not keys.isdisjoint((outcome_key(world), outcome_key(play(world, reads)))):
            return False
        said = wording.text if wording.script is None else canonical_bytes(wording.script).decode()
        said += draft.change
        generated = {value for call in draft.walk.writes for _, value in generated_arguments(world, call)}
        generated.update(refusal.record_id for refusal in draft.refusals)
        if any(value in said for value in generated):
            return False
        elsewhere = ServiceWorld.of(self._world_services, world.seed + 1, self._knobs)
        if draft.refusals or draft.answers:
            is_guessed = guess_probability(world, elsewhere, draft) > MOST_GUESSED
            return not is_guessed and not is_known_in(elsewhere, world, draft)
        blind = play(world, foreign_plan(world, elsewhere, plan))  # the same plan, if the request names all of it
        return keys.isdisjoint((outcome_key(play(elsewhere, plan)), outcome_key(blind)))
