"""Reads the plan back from a rewritten instruction: every value in its place, every act, and nothing else.

The values of the plan (how a person says each argument, and each fact by which a record is found) are taken out of the
text first. What is left may hold no further value, no act of the applications that the original does not ask for, no
other negation or condition, and only words of the original and words that frame a request ("could you", "thanks"): a
word that is in neither might say anything. Then each request must stand in one sentence, in the order of the plan, with
the verb of its action, its own values, and the prepositions that tell values of one kind apart. Facts by which records
are found stand together as in the original, each behind a word of its own label.

Covered: English; verbs of the declared wishes in their usual forms. Not covered: meaning. A rewrite in other verbs is
rejected, though a person would understand it; words of the original in another order are not understood.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from string import Formatter
from typing import Final, NamedTuple

from .instruction import Wish
from .planned import PlannedTask, UnsuitableError
from .walk import Walker


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


MOST_CHARACTERS: Final = 8_000
_MARK: Final = "\x00{}\x00"
_TOKEN: Final = re.compile("\x00(\\d+)\x00")
_TOUCHING: Final = re.compile("([^\\s\"'(\x00])\x00\\d+\x00|\x00\\d+\x00([^\\s\"'),.;:!?\x00])")
"""A sign or letter at a value, which makes another value of it: `-4`."""
_LIST_NUMBER: Final = re.compile(r"(?m)^\s*(?:\d{1,2}[.)]|[-*•])\s+")
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?", re.I)
_SENTENCE: Final = re.compile(r"[.!?\n]+(?:\s|$)")
_QUOTES: Final = str.maketrans({"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u2018": "'", "\u2019": "'"})
_STOP: Final = _listed(
    "the a an of to for from on in with and it so that which what is are as at by each into them they this"
)
_PREPOSITIONS: Final = _listed("to from for on in into with by at of as until through off under before after")
_TURNS: Final = _listed(
    "not never no nor neither without except unless if instead rather only but maybe perhaps nothing none cannot "
    "whether or either stop avoid everything everyone everybody anything any all every both half twice double again "
    "undo ignore forget"
)
_WEAK: Final = _listed("have be do make let")
"""Verbs that say what is wanted only with the other words of the wish."""
_FRAME: Final = _listed(
    "hi hey hello dear good there i i'd i'll i'm i've me my we we'd us our you your "
    "am is are be have has do would could can will may might should like love want wish need hope ask asking "
    "glad happy grateful pleased appreciate please kindly thank thanks many much very a an the this that these those "
    "it them they which and also as well too so then next after afterwards first second third finally lastly "
    "additionally besides furthermore moreover further addition in to for of on with at by from help assist request "
    "requests favour favor thing things task tasks matter matters couple few following advance regards best cheers bye"
)
"""Words around a request: greetings, courtesies, pronouns, auxiliaries and connectives."""
_GREETING: Final = re.compile(r"\bgood (?:morning|afternoon|evening|day)\b", re.I)
"""Elsewhere these words say when to act."""
_TELLERS: Final = _listed("i we have had has i've we've")
_OTHERS: Final = _listed("you they it")
_BETWEEN: Final = _listed("also then just already first please")
"""Words that may stand between a subject and its verb."""
_PUNCTUATION: Final = frozenset(".,;:!?'\"()-\u2013\u2014\u2026/&")


class Misread(Exception):
    """A rewrite from which the plan is not read back; the message says why."""


class _Span(NamedTuple):
    start: int
    end: int


class PlanReader:
    """Reads rewrites of one instruction.

    Raises:
        UnsuitableError: The original instruction itself does not give the plan back.
    """

    def __init__(self, planned: PlannedTask) -> None:
        self._wishes = planned.require_wishes()
        walk = Walker(planned.world).with_reads(planned.acts)
        facts = () if walk is None else walk.known
        spoken = [slot.spoken for wish in self._wishes for slot in wish.slots.values()]
        said = _plain(planned.wording).lower()
        spoken += [form for fact in facts for form in _forms(fact.kind, fact.value) if form.lower() in said]
        self._values = sorted({_plain(text).strip('"') for text in spoken if text.strip('"')}, key=len, reverse=True)
        self._rivals = [a.wish for a in planned.world.composition.actions.values() if a.wish]
        self._verbs = frozenset(map(_verb, self._rivals)) - _WEAK
        self._original = self._mask(planned.wording)
        self._vocabulary = _FRAME | frozenset(_words(_TOKEN.sub(" ", self._original)))
        self._own_verbs = frozenset(_verb(wish.template) for wish in self._wishes)
        self._signs = _PUNCTUATION | frozenset(self._original)
        self._needed = Counter(_TOKEN.findall(self._original))
        requested = {token for wish in self._wishes for token in self._tokens(wish)}
        self._told = frozenset(self._needed) - requested
        self._labels = _labels(self._original)
        try:
            self.read(planned.wording)
        except Misread as exc:
            raise UnsuitableError(f"its own wording does not give the plan back: {exc}") from exc

    def read(self, text: str) -> None:
        """Reads a rewrite. Raises `Misread` if the plan does not come back."""
        if not text.strip() or len(text) > MOST_CHARACTERS or "\x00" in text:
            raise Misread("it is empty, or too long for an instruction")
        masked = self._mask(text)
        self._refuse_other_values(masked)
        present = Counter(_TOKEN.findall(masked))
        for difference, problem in ((self._needed - present, "leaves out"), (present - self._needed, "repeats")):
            if difference:
                raise Misread(f"it {problem} {self._values[int(min(difference, key=int))]!r}")
        self._refuse_other_acts(masked)
        for wish, region in zip(self._wishes, self._regions(masked), strict=True):
            self._require_wish(wish, masked[region.start : region.end])
        self._require_facts(masked)
        kept, told = _turns(masked), _turns(self._original)
        if more := kept - told:
            raise Misread(f"it says {min(more)!r}, which the original does not")
        self._refuse_other_words(masked)

    def _mask(self, text: str) -> str:
        """Returns a text with each value of the plan replaced by a mark."""
        masked = _LIST_NUMBER.sub(" \n ", _plain(text))
        for number, value in enumerate(self._values):
            words = r"\s+".join(re.escape(word) for word in value.split())
            masked = re.sub(rf'"?(?<![\w\x00]){words}(?![\w\x00])"?', _MARK.format(number), masked, flags=re.I)
        return masked

    def _refuse_other_values(self, masked: str) -> None:
        rest = _TOKEN.sub(lambda mark: " " * len(mark[0]), masked)
        found = re.search(r"\S*[\d@#€$£%]\S*", rest) or re.search(r'"[^"\s][^"]*"', rest)
        if found:
            raise Misread(f"it names {found[0][:60]!r}, which is not a value of the plan")
        if touching := _TOUCHING.search(masked):
            raise Misread(f"it writes {touching[1] or touching[2]!r} at a value of the plan")

    def _refuse_other_words(self, masked: str) -> None:
        rest = _GREETING.sub(" ", _TOKEN.sub(" ", masked))
        for word in _words(rest):
            if word not in self._vocabulary and not any(_is_form(word, verb) for verb in self._own_verbs):
                raise Misread(f"it says {word!r}, a word that is not of the original and does not just frame a request")
        odd = next((one for one in _WORD.sub("", rest) if not one.isspace() and one not in self._signs), "")
        if odd:
            raise Misread(f"it holds the character {odd!r}, which is not of the original")

    def _require_facts(self, masked: str) -> None:
        """Requires that the facts of each sentence of the original stand behind each other, each with its label."""
        said = [token for token in _TOKEN.findall(masked) if token in self._told]
        for sentence in _sentences(self._original):
            inside = _TOKEN.findall(self._original[sentence.start : sentence.end])
            group = [token for token in inside if token in self._told]
            if not any(said[at : at + len(group)] == group for at in range(len(said) - len(group) + 1)):
                raise Misread(f"it does not say {self._values[int(group[0])]!r} with the facts that belong to it")
        labels = _labels(masked)
        for token in sorted(self._told, key=int):
            if (label := self._labels[token]) and not label & labels[token]:
                raise Misread(f"it says {self._values[int(token)]!r} without {min(label)!r} before it")

    def _refuse_other_acts(self, masked: str) -> None:
        said, asked = (Counter(self._acts(text)) for text in (masked, self._original))
        if more := said - asked:
            raise Misread(f"it asks for another act: {min(more)!r}")

    def _acts(self, text: str) -> Iterator[str]:
        for word in _words(_TOKEN.sub(" ", text)):
            verb = next((verb for verb in self._verbs if _is_form(word, verb)), None)
            if verb is not None:
                yield verb

    def _regions(self, masked: str) -> Sequence[_Span]:
        """Returns the part of a text that each request stands in."""
        sentences = list(_sentences(masked))
        found: list[tuple[int, _Span]] = []
        after = 0
        for wish in self._wishes:
            verb, tokens = _verb(wish.template), self._tokens(wish)
            for word in _WORD.finditer(masked, after):
                sentence = next(one for one in sentences if one.start <= word.start() < one.end)
                inside = set(_TOKEN.findall(masked[sentence.start : sentence.end]))
                is_request = _is_form(word[0].lower(), verb) and not _is_told(masked[: word.start()], word[0].lower())
                if is_request and tokens <= inside:
                    found.append((word.start(), sentence))
                    after = word.end()
                    break
            else:
                raise Misread(f"no sentence in its place says {verb!r} with the values of request {len(found) + 1}")
        regions = []
        for at, (place, sentence) in enumerate(found):
            start = sentence.start if at == 0 or found[at - 1][1] != sentence else place
            shared = at + 1 < len(found) and found[at + 1][1] == sentence
            regions.append(_Span(start, found[at + 1][0] if shared else sentence.end))
        return regions

    def _tokens(self, wish: Wish) -> set[str]:
        return set(_TOKEN.findall(self._mask(wish.text)))

    def _require_wish(self, wish: Wish, region: str) -> None:
        masked, verb = self._mask(wish.text), _verb(wish.template)
        if foreign := set(_TOKEN.findall(region)) & self._values_of_others(wish):
            raise Misread(f"it says {self._values[int(min(foreign))]!r} where it asks to {verb}")
        if missing := self._tokens(wish) - set(_TOKEN.findall(region)):
            raise Misread(f"it asks to {verb} without {self._values[int(min(missing))]!r}")
        if _turns(region) != _turns(masked):
            words = (_turns(region) - _turns(masked)) or (_turns(masked) - _turns(region))
            raise Misread(f"{min(words)!r} stands or is missing where it asks to {verb}")
        if verb in _WEAK and (lost := _content(wish.template) - set(_words(region))):
            raise Misread(f"it does not say {min(lost)!r} where it asks for request {wish.template!r}")
        for rival in self._rivals:
            if _verb(rival) != verb or _slots(rival) != _slots(wish.template) or rival == wish.template:
                continue
            own, other = _content(wish.template) - _content(rival), _content(rival) - _content(wish.template)
            said = set(_words(region))
            if (own and not own & said) or other & said:
                raise Misread(f"its request to {verb} may be another one: {rival!r}")
        self._require_places(wish, masked, region)

    def _values_of_others(self, wish: Wish) -> set[str]:
        """Returns the values that other requests name and this one does not."""
        others = {token for other in self._wishes if other != wish for token in self._tokens(other)}
        return others - self._tokens(wish)

    def _require_places(self, wish: Wish, masked: str, region: str) -> None:
        """Requires the preposition before each of several values of one kind, and the order of the values that name no
        record: title and description could change places unseen."""
        spoken = [self._mask(slot.spoken) for slot in wish.slots.values() if not slot.noun]
        loose = {token for text in spoken for token in _TOKEN.findall(text)}
        order, wanted = ([one for one in _TOKEN.findall(text) if one in loose] for text in (region, masked))
        if order != wanted:
            raise Misread(f"it says {self._values[int(wanted[0])]!r} in another place of the request than the plan")
        nouns = Counter(slot.noun for slot in wish.slots.values())
        alike = [slot for slot in wish.slots.values() if nouns[slot.noun] > 1]
        tokens = {token for slot in alike for token in _TOKEN.findall(self._mask(slot.spoken))}
        for token in tokens:
            here, there = (_before(text, token) for text in (region, masked))
            if there in _PREPOSITIONS and here != there:
                value = self._values[int(token)]
                raise Misread(f"it says {here or 'nothing'!r} before {value!r}, where the plan has {there!r}")


def _labels(masked: str) -> dict[str, set[str]]:
    """Returns the words, of those that say more than a frame, between each value and the one before, by value."""
    labels: dict[str, set[str]] = {}
    at = 0
    for found in _TOKEN.finditer(masked):
        labels.setdefault(found[1], set()).update(set(_words(masked[at : found.start()])) - _STOP - _FRAME)
        at = found.end()
    return labels


def _is_told(before: str, verb: str) -> bool:
    """Returns whether a verb says that somebody does or did something, as in `I have cancelled`."""
    subject = next((word for word in reversed(_words(before)) if word not in _BETWEEN), "")
    return subject in _TELLERS or (subject in _OTHERS and verb.endswith("ed"))


def _plain(text: str) -> str:
    return text.translate(_QUOTES)


def _forms(kind: str, value: str) -> Iterator[str]:
    """Yields how a person may have said a fact."""
    from .instruction import spoken_date

    yield value
    if kind == "date":
        yield spoken_date(value[:10]) + (f" at {value[11:]}" if "T" in value else "")


def _words(text: str) -> list[str]:
    return [found[0].lower() for found in _WORD.finditer(text)]


def _turns(text: str) -> Counter[str]:
    """Returns the words that turn a request round, restrict or widen it."""
    words = [re.sub(r".*n'?t$", "not", word) if word.endswith("n't") else word for word in _words(text)]
    return Counter(word for word in words if word in _TURNS)


def _literals(template: str) -> str:
    return " ".join(literal for literal, *_ in Formatter().parse(template))


def _slots(template: str) -> set[str]:
    return {name for _, name, *_ in Formatter().parse(template) if name}


def _content(template: str) -> set[str]:
    return set(_words(_literals(template))) - _STOP - {_verb(template)}


def _verb(template: str) -> str:
    return next(iter(_words(_literals(template))), "")


def _is_form(word: str, verb: str) -> bool:
    """Returns whether a word is a form of a regular verb: `cancel`, `cancels`, `cancelled`, `cancelling`."""
    stem = verb.removesuffix("e")
    forms = {verb, f"{verb}s", f"{verb}es", f"{stem}ed", f"{stem}ing", f"{verb}{verb[-1:]}ed", f"{verb}{verb[-1:]}ing"}
    return word in forms


def _sentences(text: str) -> Iterator[_Span]:
    start = 0
    for found in _SENTENCE.finditer(text):
        yield _Span(start, found.end())
        start = found.end()
    yield _Span(start, len(text) + 1)


def _before(text: str, token: str) -> str:
    """Returns the word before a value."""
    head, mark, _ = text.partition(_MARK.format(token))
    words: Iterable[str] = _words(_TOKEN.sub(" x ", head)) if mark else ()
    return next((word for word in reversed(list(words)) if word not in ("the", "a", "an")), "")
