"""Conformance checks of text worlds and in-process worlds, for their tests.

`check_world` tries every promise of `TextWorld` on several seeds, after random acts; `PROPERTIES` lists them for
parametrised tests. `check_in_process` does the same for other in-process worlds. An exception of a world is a finding.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from assay.environments.conformance import PropertyResult
from assay.environments.hooks import DoesNothing, Perturbs, Shortcuts, SolvesItself
from assay.environments.interface import World
from assay.errors import AssayError, TaskError, boundary
from assay.records import Observation, canonical_bytes, require_finite

from .interface import Act, OffersChoices, TextWorld, Turn
from .sampling import sampled_act

SEEDS = (0, 1, 2, 7, 2**40)
_WALK, _MOST = 12, 20_000
_WRONG: tuple[Any, ...] = (
    {},
    {"x": 1},
    {"": None},
    {"direction": 3, "command": [], "numbers": {}},
    None,
    [],
    7,
    "text",
)
Make: TypeAlias = Callable[[int], TextWorld]
Property: TypeAlias = Callable[[Make, int], None]


def check_world(
    make: Make, *, seeds: Sequence[int] = SEEDS, properties: Sequence[Property] | None = None
) -> tuple[PropertyResult, ...]:
    """Tries each promise (default: all) on each seed. Returns one finding for each, in order, with the problem of the
    first failing seed."""
    return tuple(
        PropertyResult(trial.__name__, next(_problems(trial, make, seeds), None)) for trial in properties or PROPERTIES
    )


def _problems(trial: Property, make: Make, seeds: Sequence[int]) -> Iterator[str]:
    for seed in seeds:
        try:
            with boundary(TaskError, trial.__name__):
                trial(make, seed)
        except AssayError as exc:
            said = exc.__cause__ if isinstance(exc, TaskError) and exc.__cause__ is not None else exc
            kind = "" if isinstance(said, _BrokenError) else f"{type(said).__name__}: "
            yield f"seed {seed}: {kind}{said}"[:500]


class _BrokenError(Exception):
    """A violated promise."""


def _expect(holds: object, what: str, seen: object = "") -> None:
    if not holds:
        message = f"{what}; seen: {seen!r}" if seen != "" else what
        raise _BrokenError(message[:400])


def _has_type(value: Any, kind: type) -> bool:
    return isinstance(value, kind)


def _act(world: TextWorld, draw: random.Random) -> Act | None:
    known = list(world.choices()) if isinstance(world, OffersChoices) else []
    return draw.choice(known) if known else sampled_act(world.tools(), draw)


def _random_walk(world: TextWorld, seed: int) -> list[tuple[Act, Turn]]:
    draw, done = random.Random(seed), list[tuple[Act, Turn]]()
    for _ in range(draw.randrange(_WALK)):
        act = _act(world, draw)
        if act is None:
            break
        turn = world.act(*act)
        done.append((act, turn))
        if turn.terminated or turn.truncated:
            break
    return done


def _fingerprint(world: TextWorld) -> tuple[str, bytes, float | None]:
    return world.state(), canonical_bytes(world.facts()), world.progress()


def tools_are_named_once_and_take_objects(make: Make, seed: int) -> None:
    world = make(seed)
    tools = world.tools()
    _expect(tools, "there is at least one tool")
    names = [tool.name for tool in tools]
    _expect(len(set(names)) == len(names), "each name stands once", names)
    for tool in tools:
        _expect(tool.name and tool.description, "a tool has a name and a description", tool.name)
        _expect(tool.parameters.get("type") == "object", f"the schema of {tool.name} is that of an object")
        canonical_bytes(tool.parameters)
    _random_walk(world, seed)
    _expect(world.tools() == tools, "the tools stay the same during an episode")


def a_seed_makes_one_world(make: Make, seed: int) -> None:
    one, other = make(seed), make(seed)
    _expect(_fingerprint(one) == _fingerprint(other), "two worlds of one seed are equal")
    first = one.reset()
    _expect(isinstance(first, str), "reset() returns the first observation as text", first)
    _expect(
        first == other.reset(seed) and _fingerprint(one) == _fingerprint(other),
        "reset(seed) makes the world of that seed",
    )
    _random_walk(one, seed)
    _expect(one.reset() == first and _fingerprint(one) == _fingerprint(make(seed)), "reset() starts a new episode")


def the_same_acts_lead_to_the_same_places(make: Make, seed: int) -> None:
    for walk in range(4):
        one, other = make(seed), make(seed)
        _expect(_random_walk(one, walk) == _random_walk(other, walk), "the same acts bring the same turns")
        _expect(_fingerprint(one) == _fingerprint(other), "and lead to the same state")


def turns_are_well_formed(make: Make, seed: int) -> None:
    for walk in range(4):
        for act, turn in _random_walk(make(seed), walk):
            _expect(_has_type(turn, Turn) and _has_type(turn.observation, str), "an act returns a Turn", turn)
            require_finite(float(turn.reward), f"the reward of {act}")
            flags = (turn.terminated, turn.truncated, turn.error)
            _expect(all(isinstance(flag, bool) for flag in flags), "terminated, truncated and error are bools", flags)


def possible_acts_are_no_errors(make: Make, seed: int) -> None:
    world = make(seed)
    if not isinstance(world, OffersChoices):
        return
    choices = world.choices()
    _expect(len(choices) <= 100, "choices() gives a hundred acts at most", len(choices))
    for act in choices:
        turn = world.fork().act(*act)
        _expect(not turn.error, f"choices() gives {act}, and it is an error", turn.observation)


def wrong_acts_are_answered_and_change_nothing(make: Make, seed: int) -> None:
    world = make(seed)
    names = ["", "no_such_tool", "x" * 10_000, *(tool.name for tool in world.tools())]
    for name in names:
        for arguments in _WRONG:
            other = world.fork()
            before = other.state()
            turn = other.act(name, arguments)
            _expect(_has_type(turn.observation, str) and len(turn.observation) < 100_000, "the answer is bounded text")
            known = name in names[3:] and isinstance(arguments, dict)
            _expect(turn.error or known, f"act({name[:40]!r}, {arguments!r}) is not an error")
            if turn.error:
                _expect(other.state() == before, f"act({name[:40]!r}, {arguments!r}) is an error and changes the state")
                _expect(turn.reward == 0, "an error is not paid", turn.reward)


def what_was_kept_can_be_restored(make: Make, seed: int) -> None:
    for walk in range(4):
        world = make(seed)
        _random_walk(world, walk)
        kept, before = world.snapshot(), _fingerprint(world)
        _expect(isinstance(kept, bytes), "snapshot() returns bytes", type(kept).__name__)
        _expect(_fingerprint(world) == before and world.snapshot() == kept, "to keep it changes nothing")
        _random_walk(world, walk + 1)
        world.restore(kept)
        _expect(_fingerprint(world) == before, "a restored world is as it was kept", _fingerprint(world))
        other = make(seed + 1)
        other.restore(kept)
        _expect(_fingerprint(other) == before, "another world becomes it as well", _fingerprint(other))
        _expect(_random_walk(other, 9) == _random_walk(world, 9), "what follows is the same")


def bytes_of_no_snapshot_are_refused(make: Make, seed: int) -> None:
    for bad in (b"", b"\xff\x00", b"{}", b"[]", b"null"):
        world = make(seed)
        before = _fingerprint(world)
        try:
            world.restore(bad)
        except ValueError:
            _expect(_fingerprint(world) == before, "a refused snapshot changes nothing")
        else:
            _expect(holds=False, what=f"restore({bad!r}) raises no ValueError")


def a_fork_lives_alone(make: Make, seed: int) -> None:
    for walk in range(4):
        world = make(seed)
        _random_walk(world, walk)
        fork, before = world.fork(), _fingerprint(world)
        _expect(_fingerprint(fork) == before, "a fork is the same", _fingerprint(fork))
        _random_walk(fork, walk + 1)
        _expect(_fingerprint(world) == before, "what is done in a fork is not done in the world")
        _expect(
            _random_walk(world, 9) == _random_walk(_replay_walk(make, seed, before, walk), 9), "nor the other way round"
        )


def _replay_walk(make: Make, seed: int, before: object, walk: int) -> TextWorld:
    world = make(seed)
    _random_walk(world, walk)
    _expect(_fingerprint(world) == before, "the same acts lead to the same state")
    return world


def states_are_named(make: Make, seed: int) -> None:
    known: dict[str, bytes] = {}
    for walk in range(12):
        world = make(seed)
        _random_walk(world, walk)
        name = world.state()
        _expect(_has_type(name, str) and 8 <= len(name) <= 200, "state() is a digest, as text", name)
        path_facts = getattr(world, "path_facts", frozenset({"turns"}))
        facts = canonical_bytes({key: value for key, value in world.facts().items() if key not in path_facts})
        _expect(known.setdefault(name, facts) == facts, "one name stands for one state", facts)


def facts_are_plain_and_say_whether_it_is_solved(make: Make, seed: int) -> None:
    for walk in range(4):
        world = make(seed)
        if walk:
            _random_walk(world, walk)
        facts = world.facts()
        require_finite(facts, "facts")
        canonical_bytes(facts)
        _expect(isinstance(facts.get("solved"), bool), "facts()['solved'] is a bool", facts.get("solved"))
        _expect(walk or not facts["solved"], "nothing is solved at first")


def the_oracle_solves_what_can_be_solved(make: Make, seed: int) -> None:
    world = make(seed)
    act, turn = world.oracle(), None
    if act is None:
        return  # a world that cannot be solved, or an adapter that knows no solution
    for _ in range(_MOST):
        turn = world.act(*act)
        if turn.terminated or turn.truncated or (act := world.oracle()) is None:
            break
    _expect(turn is not None and not turn.error, "the oracle's acts are no errors", turn)
    _expect(world.facts()["solved"], "the oracle's acts solve it", world.facts())
    _expect(world.oracle() is None, "nothing is advised once it is over")


def progress_goes_from_0_to_1(make: Make, seed: int) -> None:
    world = make(seed)
    for _ in range(_MOST):
        value = world.progress()
        _expect(value is None or 0 <= value <= 1, "progress() lies between 0 and 1", value)
        _expect(value != 1 or world.facts()["solved"], "it is 1 only where it is solved")
        act = world.oracle()
        if act is None:
            break
        world.act(*act)
    _expect(not world.facts()["solved"] or world.progress() in (1, None), "what is solved is whole", world.progress())


def an_episode_ends_and_stays_so(make: Make, seed: int) -> None:
    world, draw, turn = make(seed), random.Random(seed), None
    for _ in range(_MOST):
        act = _act(world, draw)
        turn = world.act(*(act or ("no_such_tool", {})))
        if turn.terminated or turn.truncated:
            break
    _expect(turn is not None and (turn.terminated or turn.truncated), f"{_MOST} acts end no episode")
    before = _fingerprint(world)
    for tool in world.tools():
        after = world.act(tool.name, {})
        _expect(after.error and after.reward == 0, f"{tool.name} after the end is an error, and not paid", after)
    _expect(_fingerprint(world)[0] == before[0], "acts after the end change nothing")
    _expect(world.oracle() is None, "nothing is advised once it is over")


PROPERTIES: tuple[Property, ...] = (
    tools_are_named_once_and_take_objects,
    a_seed_makes_one_world,
    the_same_acts_lead_to_the_same_places,
    turns_are_well_formed,
    possible_acts_are_no_errors,
    wrong_acts_are_answered_and_change_nothing,
    what_was_kept_can_be_restored,
    bytes_of_no_snapshot_are_refused,
    a_fork_lives_alone,
    states_are_named,
    facts_are_plain_and_say_whether_it_is_solved,
    the_oracle_solves_what_can_be_solved,
    progress_goes_from_0_to_1,
    an_episode_ends_and_stays_so,
)

# A `World` that is not a text world promises less.


async def tools_of_a_world(make: Callable[[], World]) -> None:
    specs = make().specs()
    _expect(specs and len({spec.name for spec in specs}) == len(specs), "tools have names, each once")


async def wrong_calls_are_answered(make: Callable[[], World]) -> None:
    for name in ("", "no_such_tool", *(spec.name for spec in make().specs())):
        for arguments in _WRONG[:4]:
            seen = await make().call(name, arguments)
            _expect(isinstance(seen, Observation), f"call({name!r}, {arguments!r}) returns an Observation", seen)
            known = name in {spec.name for spec in make().specs()}
            _expect(seen.error or known, f"call({name!r}, {arguments!r}) is not an error")


async def two_worlds_are_one(make: Callable[[], World]) -> None:
    one, other, draw = make(), make(), random.Random(1)
    for _ in range(_WALK):
        act = sampled_act(one.specs(), draw)
        if act is None:
            break
        seen, again = await one.call(*act), await other.call(*act)
        _expect((seen.content, seen.error) == (again.content, again.error), f"{act} brings the same twice", again)
        _expect(await one.digest() == await other.digest(), f"after {act} the digests are equal")
    _expect(canonical_bytes(one.facts()) == canonical_bytes(other.facts()), "the facts are equal")


async def facts_of_a_world_are_plain(make: Callable[[], World]) -> None:
    facts = make().facts()
    require_finite(facts, "facts")
    _expect(isinstance(facts, dict), "facts() is a table", type(facts).__name__)


async def hooks_give_calls(make: Callable[[], World]) -> None:
    world: Any = make()
    before = await world.digest()
    if isinstance(world, SolvesItself):
        _expect(all(hasattr(call, "parsed") for call in world.oracle()), "oracle() gives tool calls")
    for kind, ask in ((DoesNothing, "null"), (Perturbs, "perturb"), (Shortcuts, "shortcuts")):
        if isinstance(world, kind):
            asked = getattr(world, ask)
            ways = asked() if ask == "null" else asked(1)
            _expect(isinstance(ways, dict), f"{ask}() gives names and calls", type(ways).__name__)
    _expect(await world.digest() == before, "nothing is done to a world by asking")


async def closing_twice_is_once(make: Callable[[], World]) -> None:
    world = make()
    await world.close()
    await world.close()


IN_PROCESS: tuple[Callable[[Callable[[], World]], Awaitable[None]], ...] = (
    tools_of_a_world,
    wrong_calls_are_answered,
    two_worlds_are_one,
    facts_of_a_world_are_plain,
    hooks_give_calls,
    closing_twice_is_once,
)


async def check_in_process(make: Callable[[], World]) -> tuple[PropertyResult, ...]:
    """Tries the promises of a `World`. A check that raises or takes more than a minute is a finding."""
    findings = []
    for trial in IN_PROCESS:
        problem: str | None = None
        try:
            with boundary(TaskError, trial.__name__):
                async with asyncio.timeout(60):
                    await trial(make)
        except AssayError as exc:
            problem = str(exc.__cause__) if isinstance(exc.__cause__, _BrokenError) else str(exc)
        findings.append(PropertyResult(trial.__name__, problem))
    return tuple(findings)
