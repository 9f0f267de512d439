"""Gymnasium environments with a discrete action space as text worlds; MiniGrid and BabyAI are shown in words.

Needs the extra `assay[gymnasium]`. A snapshot is the seed and the actions; restoring replays them, which also exposes
nondeterministic environments. The state is MiniGrid's whole grid, otherwise the last observation. Environments are
named by registered id alone; an id that names a module is refused, because tasks are untrusted.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from assay.errors import UserError
from assay.records import canonical_bytes

from .interface import Act, Turn
from .rules import Rules, WorldConfig

_MOST_SHOWN = 4_000
_BACK = 2**31
"""Upper bound of Gymnasium's seeds."""


class GymnasiumConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `gymnasium`. `turns` 0 means the environment's own limit, or 1,000."""

    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_./-]{1,100}$")]
    """Registered id, for example MiniGrid-Empty-5x5-v0."""
    options: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)
    """Keyword arguments of `gymnasium.make`."""
    view: Literal["map", "own"] = "map"
    """MiniGrid view: the whole grid, or the agent's own field of view."""
    success: float | None = None
    """Return from which the task counts as solved; default: terminated with a positive last reward."""
    search: Annotated[int, Meta(ge=0, le=200_000)] = 0
    """State limit of the search for a shortest solution; 0 disables the search and advice."""


class _Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Do an action."""

    action: str | int | list[float]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    done: list[str | int | list[float]]


class GymnasiumWorld(Rules[GymnasiumConfig, _Now]):
    """Gymnasium environment as a text world."""

    name: ClassVar[str] = "gymnasium"
    WorldConfig = GymnasiumConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"step": _Step}
    path_facts: ClassVar[frozenset[str]] = frozenset({"turns", "reward"})

    def generate(self, draw: random.Random) -> None:
        if not self.config.solvable:
            raise ValueError("a Gymnasium environment has no unsolvable twin")
        self._env = _make_env(self.config)
        self._bare: Any = self._env.unwrapped
        self._space: Any = self._env.action_space
        self._names = _names_of(self._bare, self._space)
        self.limit = self.config.turns or _limit_of(self._env)
        self.now = _Now([])
        self._plan: dict[bytes, str | int] | None = None
        self._begin()

    def _begin(self) -> None:
        self._last, _ = self._env.reset(seed=self.seed % _BACK)
        self._paid, self._reward, self._done = 0.0, 0.0, False

    def brief(self) -> str:
        mission = getattr(self._bare, "mission", None)
        return f"{mission}." if isinstance(mission, str) else f"Solve {self.config.id}."

    def tools(self) -> tuple[Any, ...]:
        """Returns the step tool, with named actions if the environment names them."""
        (spec,) = super().tools()
        schema: dict[str, Any] = {"enum": list(self._names)} if self._names else {"type": "array", "items": {}}
        parameters = {**spec.parameters, "properties": {"action": schema}}
        return (msgspec.structs.replace(spec, parameters=parameters),)

    def render(self) -> str:
        if hasattr(self._bare, "agent_pos") and hasattr(self._bare, "grid"):
            return _map_of(self._bare) if self.config.view == "map" else _view_of(self._last)
        return _plain(self._last)

    def do_step(self, given: _Step) -> Turn:
        action = self._action(given.action)
        if action is None:
            known = f"one of {', '.join(map(str, self._names))}" if self._names else f"what {self._space} holds"
            return Turn(f"{str(given.action)[:80]!r} is not an action: give {known}", error=True)
        self.now.done.append(given.action)
        terminated, truncated = self._apply_action(action)
        # What the environment itself cuts decides nothing either; the budget of turns says so by itself.
        seen = self.render() + (" (time is up)" if truncated and not terminated else "")
        return Turn(seen, self._reward, terminated, truncated and not terminated)

    def _apply_action(self, action: Any) -> tuple[bool, bool]:
        self._last, reward, terminated, truncated, _ = self._env.step(action)
        self._reward = float(reward)
        self._paid += self._reward
        self._done = bool(terminated)
        return bool(terminated), bool(truncated)

    def _action(self, given: str | int | list[float]) -> Any:
        """Returns the environment's action; None for an invalid one."""
        if self._names:
            start = int(getattr(self._space, "start", 0))
            return start + self._names.index(given) if given in self._names and type(given) is not bool else None
        import numpy as np

        if isinstance(given, str):
            return None
        try:
            action = np.asarray(given, dtype=self._space.dtype).reshape(self._space.shape)
        except (TypeError, ValueError, OverflowError):
            return None
        return action if self._space.contains(action) else None

    def resume(self) -> None:
        """Rebuilds the environment from its seed and replays the actions."""
        self._env = _make_env(self.config)
        self._bare, self._space = self._env.unwrapped, self._env.action_space
        self._begin()
        for given in self.now.done:
            action = self._action(given)
            if action is None:
                raise ValueError(f"the snapshot holds {str(given)[:80]!r}, which is not an action of {self.config.id}")
            self._apply_action(action)

    def constants(self) -> Any:
        return []  # what there is of it is in its place

    def position_key(self) -> bytes:
        bare = self._bare
        if hasattr(bare, "grid") and hasattr(bare.grid, "encode"):
            carried = getattr(bare, "carrying", None)
            carried = carried.encode() if carried is not None else ()
            at = [*map(int, bare.agent_pos), int(bare.agent_dir), *map(int, carried)]
            return canonical_bytes([at, str(getattr(bare, "mission", ""))]) + bytes(bare.grid.encode().tobytes())
        return _plain(self._last).encode()

    def solved(self) -> bool:
        if self.config.success is not None:
            return self._paid >= self.config.success
        return self._done and self._reward > 0

    def extra_facts(self) -> dict[str, Any]:
        return {"reward": self._paid, "at": self.state()}

    def oracle(self) -> Act | None:
        """Searches over states, if the option `search` allows it."""
        if self.over or not self.config.search or not self._names:
            return None
        here = self.position_key()
        if self._plan is None or here not in self._plan:
            self._plan = _search_plan(self)
        action = self._plan.get(here)
        return None if action is None else ("step", {"action": action})

    def choices(self) -> list[Act]:
        return [] if self.over else [("step", {"action": name}) for name in self._names[:100]]


def _make_env(config: GymnasiumConfig) -> Any:
    """Builds the environment. Raises `UserError` if Gymnasium is not installed, `ValueError` if it refuses."""
    try:
        import gymnasium

        if config.id.startswith(("MiniGrid-", "BabyAI-")):
            import minigrid

            minigrid.register_minigrid_envs() if config.id not in gymnasium.registry else None
    except ImportError as exc:
        raise UserError(f"the world 'gymnasium' needs {exc.name}: pip install 'assay[gymnasium]'") from exc
    try:
        return gymnasium.make(config.id, disable_env_checker=True, **config.options)
    except (gymnasium.error.Error, TypeError, ModuleNotFoundError) as exc:
        raise ValueError(f"Gymnasium does not make {config.id!r} with {config.options}: {exc}") from exc


def _names_of(bare: Any, space: Any) -> tuple[str | int, ...]:
    """Returns the actions of a discrete space: the environment's own names, or numbers."""
    count = getattr(space, "n", None)
    if count is None:
        return ()
    named = getattr(bare, "actions", None)
    try:
        names = tuple(str(action.name) for action in named)  # type: ignore[union-attr]
    except (TypeError, AttributeError):
        names = ()
    return names if len(names) == int(count) else tuple(range(int(count)))


def _limit_of(env: Any) -> int:
    spec = getattr(env, "spec", None)
    own = getattr(spec, "max_episode_steps", None) or getattr(env.unwrapped, "max_steps", None)
    return min(int(own), 100_000) if own else 1_000


def _plain(observation: Any) -> str:
    """Converts an observation to JSON: numbers rounded, long text cut."""
    text = canonical_bytes(_rounded(observation)).decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} ... ({len(text)} characters)"


def _rounded(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value if isinstance(value, int | str | None) else str(value)


_LETTERS = {"wall": "#", "goal": "G", "key": "K", "ball": "A", "box": "B", "lava": "~", "floor": "."}
_SIDES = ("right", "down", "left", "up")


def _map_of(bare: Any) -> str:
    """Draws MiniGrid's map, one character per cell; the agent is ^ > v <."""
    rows = []
    for row in range(bare.grid.height):
        line = ""
        for column in range(bare.grid.width):
            here = bare.grid.get(column, row)
            at = (column, row) == tuple(map(int, bare.agent_pos))
            line += ">v<^"[int(bare.agent_dir)] if at else _letter(here)
        rows.append(line)
    carried = f"\nyou carry a {bare.carrying.color} {bare.carrying.type}" if getattr(bare, "carrying", None) else ""
    return "\n".join(rows) + carried


def _letter(thing: Any) -> str:
    if thing is None:
        return "."
    if thing.type == "door":
        return "_" if thing.is_open else "L" if thing.is_locked else "D"
    return _LETTERS.get(thing.type, "?")


def _view_of(observation: Any) -> str:
    """Lists the objects in view; the agent stands in the middle of the nearest row and looks ahead."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT

    image = observation["image"]
    size, seen = image.shape[0], []
    for across in range(size):
        for ahead in range(size):
            thing, color, state = map(int, image[across, size - 1 - ahead])
            kind, side = IDX_TO_OBJECT[thing], across - size // 2
            beside = kind == "wall" and ahead + abs(side) == 1
            if kind in {"unseen", "empty", "wall", "floor", "agent"} and not beside:
                continue
            how = ("open ", "closed ", "locked ")[state] if kind == "door" else ""
            where = f"{ahead} ahead" if ahead else ""
            where += f" {abs(side)} {'right' if side > 0 else 'left'}" if side else ""
            seen.append(f"{how}{IDX_TO_COLOR[color]} {kind} {where.strip() or 'here'}")
    return f"you face {_SIDES[int(observation['direction'])]}; {'; '.join(seen) or 'nothing is near'}"


def _search_plan(world: GymnasiumWorld) -> dict[bytes, str | int]:
    """Maps each state of a shortest solution to its next action; empty if `search` states do not suffice."""
    start = world.fork()
    came: dict[bytes, tuple[bytes, str | int] | None] = {start.position_key(): None}
    edge = deque([start])
    while edge and len(came) < world.config.search:
        here = edge.popleft()
        for action in here._names:
            there = here.fork()
            turn = there.act("step", {"action": action})
            position_key = there.position_key()
            if position_key in came:
                continue
            came[position_key] = (here.position_key(), action)
            if there.solved():
                return _trace_plan(came, position_key)
            if not (turn.terminated or turn.truncated):
                edge.append(there)
    return {}


def _trace_plan(came: dict[bytes, tuple[bytes, str | int] | None], position_key: bytes) -> dict[bytes, str | int]:
    plan = {}
    while (before := came[position_key]) is not None:
        position_key = before[0]
        plan[position_key] = before[1]
    return plan
