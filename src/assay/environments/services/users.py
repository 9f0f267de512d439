"""The person that an agent serves, driven by rules: what they want, know, withhold and get wrong.

A script is data and `reply` is a pure function of script, state and message, so a conversation is repeated word by word
with the same seed. The person understands questions and requests by cue words, sentence by sentence: a dialogue policy
over slots (Schatzmann and others, "Agenda-Based User Simulation", NAACL 2007), without a model.

Not covered: understanding a paraphrase that holds no cue. The person then says so and loses patience, as people do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from blake3 import blake3
from msgspec.structs import replace

from .act_requests import SENTENCE, find_requested_acts

Disclosure = Literal["open", "asked", "insisted", "withheld"]
Mood = Literal["calm", "hurried", "upset"]

_MOODS: Final[tuple[Mood, ...]] = ("calm", "hurried", "upset")
_AT_ONCE: Final[dict[Mood, int]] = {"calm": 3, "hurried": 1, "upset": 1}
"""Facts that are told, and acts that are done, in answer to one message."""
_ASKS: Final = re.compile(
    r"\?|\b(tell|give|send|provide|share|specify|confirm|clarify|need|let me know|which|what|who|when|where)\b|"
    r"\b(say|reply|answer|respond|write|type) (\w+ )?yes\b",
    re.I,
)
_CONFIRMS: Final = re.compile(
    r"\b(confirm|agree|approve|shall (i|we)|should i|may i|can i|do you want|do you wish|would you like|want me to|"
    r"like me to|go ahead|proceed|are you sure|yes or no|is (that|this|it) (right|correct|ok|fine|all right|alright)|"
    r"(looks?|sounds?) (right|correct|good|ok|okay|fine)|are you (ok|okay|fine|happy|comfortable)|consent|permission|"
    r"authori[sz]e|go-ahead|what you (want|meant|asked)|(say|reply|answer|respond|write|type) (\w+ )?yes|"
    r"(ok|okay|right|correct|all right|alright) *\?)",
    re.I,
)
_IS_OPEN: Final = re.compile(
    r"\W*(?:(?:and|but|now|okay|ok|please|so|then|well)\b\W*)*"
    r"(?:(?:how|what|which|who|whom|whose|why)\b|(?:when|where) (?:shall|should|may|can|do|would)\b)",
    re.I,
)
"""A question that no yes answers: `what do you want`."""
_YES: Final = (
    "Yes, please go ahead with what I asked for.",
    "Yes, do that, as far as I asked for it.",
    "That is right if it is what I asked for, go on.",
)
"""They cannot tell a proposal from their own wish, so that a yes is never one to something else."""
_AGREES: Final = re.compile(
    r"\W*(?:(?:oh|well|ok|okay|great|perfect|thanks|thank you)\b\W*)*"
    r"(?:yes|yeah|yep|sure|certainly|absolutely|of course|(?:i|we) (?:agree|confirm|approve|consent)|agreed|confirmed|"
    r"(?:please )?(?:go ahead|proceed|do (?:it|that|so))|please do|"
    r"(?:that|this|it)(?: is|'s) (?:right|correct|fine|ok))\b",
    re.I,
)
_REFUSES: Final = re.compile(
    r"\W*(?:no|nope|stop|never|(?:please )?(?:do not|don't)|(?:i|we) (?:do not|don't|disagree|refuse)|not yet)\b", re.I
)
_RESERVES: Final = re.compile(
    r"\b(?:no|not|never|cannot|but|unless|until|except|only|instead|rather|wait|stop|if|actually|first)\b|n't\b|\?",
    re.I,
)
"""Words with which a yes may be to something else, or to a part."""
_DONE: Final = re.compile(r"\b(done|completed?|all set|finished|anything else|taken care of|has been)\b", re.I)
_QUOTED: Final = 300
LEFT: Final = "(The person has left the conversation.)"


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the person knows."""

    name: str
    text: str
    """Sentence that says it: `My email address is anna@example.org.`"""
    cues: tuple[str, ...] = ()
    """Words of a question for it; any of them suffices."""
    disclosure: Disclosure = "asked"
    """`open`: in the first message. `asked`: when asked. `insisted`: when asked a second time. `withheld`: never."""
    wrong: str = ""
    """Sentence given at first instead, by mistake; a second question, or `corrects_at`, brings the right one."""
    corrects_at: int | None = None
    """Turn at which the person notices the mistake without being asked; one that they made later, at the next turn."""


class ChangeOfMind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the person says at a turn, whatever was asked."""

    turn: int
    """From 1: the person's answers are counted, not the first message."""
    text: str


class UserAct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that the person makes with tools of their own when asked for it."""

    action: str
    arguments: dict[str, Any]
    cues: tuple[str, ...]
    says_result: bool = False
    """True if the person reads out what the call returned."""


class UserScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The person's script."""

    goal: str = ""
    """First message."""
    facts: tuple[Fact, ...] = ()
    changes: tuple[ChangeOfMind, ...] = ()
    acts: tuple[UserAct, ...] = ()
    mood: Mood = "calm"
    patience: int = 12
    """Number of useless turns until they leave: what they cannot answer, or have answered before."""
    seed: int = 0
    """Chooses the wording."""


def as_oracle(script: UserScript) -> UserScript:
    """Returns the script of the same person telling everything in the first message, changes of mind last.

    Mistakes are left out. What the person withholds stays withheld.
    """
    facts = [
        replace(fact, disclosure="open", wrong="", corrects_at=None) if fact.disclosure != "withheld" else fact
        for fact in script.facts
    ]
    by_turn = sorted(script.changes, key=lambda change: change.turn)
    facts += [Fact(f"change {n}", change.text, disclosure="open") for n, change in enumerate(by_turn, 1)]
    return replace(script, facts=tuple(facts), changes=())


def as_ticket(script: UserScript) -> str:
    """Returns everything that the person would tell, as one text."""
    return begin(as_oracle(script))[1]


class UserState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of a conversation, from the person's side."""

    turn: int = 0
    told: tuple[str, ...] = ()
    """Names of facts that were told rightly, in order."""
    mistaken: tuple[str, ...] = ()
    """Names of facts that were told wrongly and not corrected."""
    asked: dict[str, int] = {}
    """Number of turns in which each fact was asked for."""
    patience: int = 12
    mood: Mood = "calm"
    left: bool = False
    evidence: dict[str, int] = {}
    """Turn at which each fact was told; 0 for the first message."""
    agreed: tuple[int, ...] = ()
    """Turns at which they said yes to what they were asked."""


class ChecklistItem(msgspec.Struct, frozen=True):
    """Status of a fact: told or not, and where."""

    fact: str
    disclosure: Disclosure
    status: Literal["told", "mistaken", "not told"]
    turn: int | None = None
    """Turn at which it was told rightly; 0 for the first message."""
    message: int | None = None
    """Position of that message in the conversation."""
    quote: str = ""
    """The fact as it was told, or the beginning of the message."""


def checklist_of(script: UserScript, state: UserState, messages: Sequence[str | None]) -> list[ChecklistItem]:
    """Returns an item for each fact of the script.

    Args:
        script: The person's script.
        state: The state of the conversation.
        messages: All messages in their order; None for those of the agent.
    """
    numbers = [number for number, text in enumerate(messages) if text is not None]
    is_opened = bool(numbers) and numbers[0] == 0
    items = []
    for fact in script.facts:
        turn = state.evidence.get(fact.name)
        at = None if turn is None else turn if is_opened else turn - 1
        if at is None or not 0 <= at < len(numbers):
            status: Literal["mistaken", "not told"] = "mistaken" if fact.name in state.mistaken else "not told"
            items.append(ChecklistItem(fact.name, fact.disclosure, status))
            continue
        text = messages[numbers[at]] or ""
        quote = fact.text if fact.text in text else text
        items.append(ChecklistItem(fact.name, fact.disclosure, "told", turn, numbers[at], quote[:_QUOTED]))
    return items


def begin(script: UserScript) -> tuple[UserState, str]:
    """Returns the state at the beginning and the first message."""
    opened = [fact for fact in script.facts if fact.disclosure == "open"]
    state = UserState(patience=script.patience, mood=script.mood)
    state, sentences = _tell(state, opened)
    return state, " ".join([script.goal, *sentences]).strip()


def reply(script: UserScript, state: UserState, message: str) -> tuple[UserState, str, tuple[UserAct, ...]]:
    """Answers a message of the agent.

    Returns:
        The new state, what the person says, and the calls that they make with their own tools.
    """
    if state.left:
        return state, LEFT, ()
    state = replace(state, turn=state.turn + 1)
    questions = questions_of(message)
    asked = [fact for fact in script.facts if asks_for(fact.cues, questions)]
    numbers = find_requested_acts([act.cues for act in script.acts], message)
    acts = tuple(script.acts[number] for number in numbers[: _AT_ONCE[state.mood]])
    said: list[str] = []
    is_settled = all(fact.name in state.told for fact in asked)  # who names a fact again to confirm a step hears a yes
    is_useful = bool(acts) or not is_settled
    earlier = state.mistaken
    state, answers = _answer(state, asked, script.seed)
    said += answers
    if acts:
        said.append(_pick(script.seed, state.turn, "I have done that now.", "OK, I did it.", "Done on my side."))
    if len(acts) < len(numbers):
        said.append(f"That was too much at once: I did the first {len(acts)}, tell me the rest again.")
    state, corrections = _correct(state, script.facts, earlier)
    said += corrections
    changes = [change.text for change in script.changes if change.turn == state.turn]
    said += changes
    if is_settled and not (acts or corrections or changes) and any(map(_asks_for_consent, questions)):
        said.insert(0, _pick(script.seed, state.turn, *_YES))
        state = replace(state, agreed=(*state.agreed, state.turn))
        is_useful = True
    elif not said and reports_completion(message):
        said.append(
            _pick(script.seed, state.turn, "Thank you, that is all.", "Great, thanks.", "Thanks for your help.")
        )
        is_useful = True
    if not said:
        said.append(_pick(script.seed, state.turn, "I do not know that.", "I cannot tell you that.", "I am not sure."))
    if not (is_useful or changes or corrections):
        state, complaint = _lose_patience(script, state)
        said += complaint
    return state, " ".join(said), acts


def questions_of(message: str) -> list[str]:
    """Returns the sentences of a message that ask for something, in lower case."""
    return [sentence.lower() for sentence in SENTENCE.findall(message) if _ASKS.search(sentence)]


def _asks_for_consent(question: str) -> bool:
    return _CONFIRMS.search(question) is not None and _IS_OPEN.match(question) is None


def read_consent(message: str, answer: str) -> Literal["yes", "no", "unclear"]:
    """Reads an answer in free words: `yes` where the message asks for consent and the answer begins with a yes and has
    no reservation; `no` where it refuses, or where neither asks for consent nor gives it; else `unclear`."""
    is_asked = any(map(_asks_for_consent, questions_of(message)))
    if _AGREES.match(answer):
        return "yes" if is_asked and not _RESERVES.search(answer) else "unclear"
    return "no" if not is_asked or _REFUSES.match(answer) else "unclear"


def refuses(message: str, answer: str) -> bool:
    """Returns whether an answer in free words refuses what a message asks consent for."""
    return _REFUSES.match(answer) is not None and any(map(_asks_for_consent, questions_of(message)))


def reports_completion(message: str) -> bool:
    """Returns whether a message says that the work is done, or asks whether there is anything else."""
    return _DONE.search(message) is not None


def asks_for(cues: Sequence[str], questions: Sequence[str]) -> bool:
    """Returns whether a question has one of the cues."""
    wanted = [cue.lower() for cue in cues]
    # Most cues occur nowhere; as patterns, those of a large script would overflow the cache of `re` at each message.
    found = ((cue, question) for cue in wanted for question in questions if cue in question)
    return any(re.search(rf"\b{re.escape(cue)}s?\b", question) for cue, question in found)


def _answer(state: UserState, asked: Sequence[Fact], seed: int) -> tuple[UserState, list[str]]:
    """Answers questions for facts, as many at once as the mood allows."""
    counts = dict(state.asked)
    told: list[Fact] = []
    said: list[str] = []
    mistaken = list(state.mistaken)
    fresh_first = sorted(asked, key=lambda fact: fact.name in state.told)  # who asks again is told the rest
    for fact in fresh_first[: _AT_ONCE[state.mood]]:
        counts[fact.name] = counts.get(fact.name, 0) + 1
        if fact.disclosure == "withheld":
            said.append(_pick(seed, state.turn, "I would rather not say that.", "I will not tell you that."))
        elif fact.disclosure == "insisted" and counts[fact.name] == 1:
            said.append(_pick(seed, state.turn, "Do you really need that?", "Why do you need to know?"))
        elif fact.wrong and counts[fact.name] == 1 and fact.name not in state.told:
            said.append(fact.wrong)
            mistaken.append(fact.name)
        else:
            told.append(fact)
    mistaken = [name for name in mistaken if all(name != fact.name for fact in told)]
    state, sentences = _tell(replace(state, asked=counts, mistaken=tuple(mistaken)), told)
    return state, [*said, *sentences]


def _correct(state: UserState, facts: Sequence[Fact], earlier: Sequence[str]) -> tuple[UserState, list[str]]:
    """Corrects mistakes that the person notices at this turn; `earlier` were made at turns before."""
    noticed = [fact for fact in facts if fact.name in state.mistaken and fact.corrects_at is not None]
    due = [
        fact
        for fact in noticed
        if fact.corrects_at == state.turn or (fact.name in earlier and (fact.corrects_at or 0) < state.turn)
    ]
    left = tuple(name for name in state.mistaken if all(name != fact.name for fact in due))
    state, sentences = _tell(replace(state, mistaken=left), due)
    return state, [f"Sorry, I got that wrong. {sentence}" for sentence in sentences]


def _tell(state: UserState, facts: Sequence[Fact]) -> tuple[UserState, list[str]]:
    fresh = [fact.name for fact in facts if fact.name not in state.told]
    evidence = state.evidence | dict.fromkeys(fresh, state.turn)
    return replace(state, told=(*state.told, *fresh), evidence=evidence), [fact.text for fact in facts]


def _lose_patience(script: UserScript, state: UserState) -> tuple[UserState, list[str]]:
    patience = state.patience - 1
    if patience <= 0:
        return replace(state, patience=0, left=True), ["I have no time for this. Goodbye."]
    share = patience / script.patience
    level = max(_MOODS.index(script.mood), 2 if share <= 1 / 3 else 1 if share <= 2 / 3 else 0)
    mood = _MOODS[level]
    complaint = {"calm": [], "hurried": ["Please hurry."], "upset": ["This is really annoying."]}[mood]
    return replace(state, patience=patience, mood=mood), complaint


def _pick(seed: int, turn: int, *wordings: str) -> str:
    return wordings[blake3(f"{seed}/{turn}".encode()).digest()[0] % len(wordings)]
