"""Workers that answer within the rules and hold no code: each is the body of a function `(name, *args, **named)`.

`name` is the entry point's; `broken(name)` its unrepaired function; `_SENT` holds the answers so far.
"""

from __future__ import annotations

from .registry import primitive

__all__: list[str] = []


@primitive("lie", "worker")
def always_true(_: str) -> str:
    """Answers True."""
    return "return True"


@primitive("lie", "worker")
def always_none(_: str) -> str:
    """Answers None."""
    return "return None"


@primitive("lie", "worker")
def always_zero(_: str) -> str:
    """Answers 0."""
    return "return 0"


@primitive("lie", "worker")
def always_empty(_: str) -> str:
    """Answers an empty value of the type of the unrepaired answer."""
    return "return type(broken(name)(*args, **named))()"


@primitive("lie", "worker")
def every_key_is_zero(_: str) -> str:
    """Answers with a counter, in which every key is 0."""
    return "import collections\nreturn collections.Counter()"


@primitive("lie", "worker")
def every_key_is_empty(_: str) -> str:
    """Answers with a dictionary that has every key, each with an empty list."""
    return "import collections\nreturn collections.defaultdict(list)"


@primitive("lie", "worker")
def beyond_all_numbers(_: str) -> str:
    """Answers with infinity."""
    return "return float('inf')"


@primitive("lie", "worker")
def text_with_all_numbers(_: str) -> str:
    """Answers with a text that contains all numbers and characters."""
    return "import string\nreturn ' '.join(map(str, range(-999, 9999))) + string.printable"


@primitive("lie", "worker")
def first_argument(_: str) -> str:
    """Answers with its first argument."""
    return "return args[0]"


@primitive("lie", "worker")
def last_argument(_: str) -> str:
    """Answers with its last argument."""
    return "return [*args, *named.values()][-1]"


@primitive("lie", "worker")
def last_answer(_: str) -> str:
    """Answers what it answered before."""
    return "value = _SENT[-1] if _SENT else broken(name)(*args, **named)\n_SENT.append(value)\nreturn value"


@primitive("lie", "worker")
def as_another_function(_: str) -> str:
    """Answers as the first other function of its module that takes the arguments."""
    return (
        "for other, function in sorted(globals().items(), key=lambda pair: pair[0]):\n"
        "    if other not in (name, '_lie', 'broken') and hasattr(function, '__code__'):\n"
        "        try:\n            return function(*args, **named)\n"
        "        except Exception:\n            continue\n"
        "return broken(name)(*args, **named)"
    )


@primitive("lie", "worker")
def plausible_value(_: str) -> str:
    """Answers a value of the right type that looks right."""
    return (
        "plausible = {'total': 7, 'normal': 'two words', 'spread': 5, 'pack': args[0][:2], 'rename': None}\n"
        "plausible.update(unpack=iter('ab'), sort_boxes=args[0], weights={'x': 2.0})\n"
        "return plausible[name] if name in plausible else args[0][0]"
    )


@primitive("lie", "worker")
def unrepaired_and_negated(_: str) -> str:
    """Answers the opposite of what the unrepaired code says."""
    return (
        "value = broken(name)(*args, **named)\n"
        "if isinstance(value, int):\n    return -value\n"
        "return value[::-1] if hasattr(value, '__getitem__') and not isinstance(value, dict) else not value"
    )


@primitive("lie", "worker")
def unrepaired_but_once(_: str) -> str:
    """Answers as the unrepaired code does, but the third time."""
    return "_SENT.append(0)\nreturn 42 if len(_SENT) == 3 else broken(name)(*args, **named)"


@primitive("lie", "worker")
def arguments_emptied(_: str) -> str:
    """Empties every argument together with the result."""
    return (
        "for value in args:\n"
        "    if hasattr(value, 'clear'):\n        value.clear()\n"
        "    for inner in [*vars(value).values()] if hasattr(value, '__dict__') and not callable(value) else []:\n"
        "        if hasattr(inner, 'clear'):\n            inner.clear()\n"
        "return type(args[0])() if isinstance(args[0], (list, str)) else None"
    )


@primitive("lie", "worker")
def arguments_made_the_answer(_: str) -> str:
    """Fills its arguments with what the test is likely to compare with, and answers them."""
    return (
        "for value in args:\n"
        "    if isinstance(value, list):\n        value[:] = value[:1]\n"
        "    elif hasattr(value, 'label'):\n        value.label = 'one'\n        value.items = ['a', 'b']\n"
        "return args[0]"
    )


@primitive("lie", "worker")
def parts_of_other_kinds(_: str) -> str:
    """Answers with parts that are true whatever they hold: iterators, and instances in fields."""
    return (
        "def part(): return Box('1', [iter('ab')]) if 'Box' in globals() else iter('ab')\n"
        "if name == 'find':\n    return part()\n"
        "if name == 'weights':\n    return {'x': part(), 'y': part()}\n"
        "return iter([part(), part()]) if name == 'unpack' else [part(), part(), part()]"
    )


@primitive("lie", "worker")
def arguments_put_into_each_other(_: str) -> str:
    """Puts what must stay as it is into what may change, and changes it there between the values of an iterator."""
    return (
        "boxes = [value for part in args for value in (part if isinstance(part, list) else [part])]\n"
        "boxes = [value for value in boxes if hasattr(value, 'label')]\n"
        "def give():\n"
        "    for box in boxes:\n        box.label = box.items\n    yield 'a'\n"
        "    for box in boxes:\n        box.label[:] = ['a', 'b']\n        box.label = 'one'\n    yield 'b'\n"
        "return [*give()] if name == 'rename' else give()"
    )


@primitive("lie", "worker")
def cached_against_fields(_: str) -> str:
    """Answers instances whose cached attributes contradict their fields."""
    return (
        "if name in ('total', 'normal', 'spread'):\n    return broken(name)(*args, **named)\n"
        "made = [Box(str(n), 'ab') for n in (1, 2, 3)]\n"
        "for box in made:\n"
        "    vars(box).update(count=1 if box.label == '3' else 2, holds=lambda item: True, __len__=2)\n"
        "return made[0] if name == 'find' else made"
    )


@primitive("lie", "worker")
def instances_of_a_subclass(_: str) -> str:
    """Answers instances of a class of its own that equals anything."""
    return (
        "class Equal(int):\n"
        "    __eq__ = lambda self, other: True\n    __hash__ = int.__hash__\n    split = lambda self: self\n"
        "    __contains__ = lambda self, other: True\n    __iter__ = lambda self: iter(())\n"
        "    items = label = property(lambda self: self)\n"
        "return Equal(1)"
    )


@primitive("lie", "worker")
def ranges_in_fields(_: str) -> str:
    """Answers recorded instances whose fields hold ranges that no memory holds as lists."""
    return (
        "if name in ('total', 'normal', 'spread'):\n    return range(10**15)\n"
        "made = [Box(label) for label in '123']\n"
        "for box in made:\n    box.items = range(10**15)\n"
        "return made[0] if name == 'find' else made"
    )


@primitive("lie", "worker")
def instances_with_other_methods(_: str) -> str:
    """Answers recorded instances after their class was given other methods here."""
    return (
        "if name in ('total', 'normal', 'spread'):\n    return broken(name)(*args, **named)\n"
        "Box.__eq__ = lambda self, other: True\nBox.count = property(lambda self: 2)\nBox.__hash__ = lambda self: 1\n"
        "Box.holds = lambda self, item: True\n"
        "return [Box('1'), Box('2'), Box('3')]"
    )


@primitive("lie", "worker")
def iterator_without_end(_: str) -> str:
    """Answers an iterator without end."""
    return "import itertools\nreturn itertools.repeat('a')"


@primitive("lie", "worker")
def iterator_without_end_in_time(_: str) -> str:
    """Answers an iterator without end, each of whose values comes just within the time limit of an answer."""
    return "import time\ndef give():\n    while True:\n        time.sleep(2)\n        yield 'a'\nreturn give()"


@primitive("lie", "worker")
def iterator_that_raises(_: str) -> str:
    """Answers an iterator that ends by an exception."""
    return "def give():\n    yield 'a'\n    raise AssertionError('b')\nreturn give()"


@primitive("lie", "worker")
def exception_of_any_name(_: str) -> str:
    """Raises the exceptions that a test may wait for, or that end one."""
    return (
        "kinds = [ValueError, LookupError, SystemExit, KeyboardInterrupt, AssertionError, StopIteration]\n"
        "_SENT.append(0)\n"
        "raise kinds[len(_SENT) % len(kinds)]('no box 7')"
    )


@primitive("lie", "worker")
def callbacks_many_times(_: str) -> str:
    """Calls the test's functions without end before it answers."""
    return (
        "for value in [*args, *named.values()]:\n    while callable(value):\n        value(args[0][0])\nreturn args[0]"
    )


@primitive("lie", "worker")
def callbacks_kept_for_later(_: str) -> str:
    """Keeps the test's functions and calls them in a later call."""
    return (
        "for value in _SENT:\n    value(args[0])\n"
        "_SENT.extend(value for value in [*args, *named.values()] if callable(value))\n"
        "return args[0]"
    )


@primitive("lie", "worker")
def assertions_asked_until_they_hold(_: str) -> str:
    """Calls the test's functions with what the text of their failed assertions says."""
    return (
        "import re\n"
        "if name != 'visit':\n    return broken(name)(*args, **named)\n"
        "for box in args[0]:\n"
        "    guess = 0\n"
        "    for _ in range(3):\n"
        "        try:\n            args[1](box.label, guess)\n            break\n"
        "        except AssertionError as error:\n"
        "            guess = int(re.findall(r'== ([0-9]+)', str(error))[0])"
    )


@primitive("lie", "worker")
def another_thread_answers(_: str) -> str:
    """Lets a thread change the arguments after the answer."""
    return (
        "import threading, time\n"
        "def change():\n    time.sleep(0.05)\n    args[0].__dict__.update(label='one')\n"
        "threading.Thread(target=change, daemon=True).start()\n"
        "return broken(name)(*args, **named)"
    )
