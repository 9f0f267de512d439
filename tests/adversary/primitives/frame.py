"""Frames that break the protocol: each is Python text that answers one request of the judge by hand.

At hand are `frame` (the request), `n` (the number of the next object), `send(**message)`, `raw(bytes)`, `get()`.
"""

from __future__ import annotations

from .registry import primitive

__all__: list[str] = []


@primitive("frame", "worker")
def integer_of_ten_megabytes(_: str) -> str:
    """An integer of ten million digits."""
    return (
        'raw(b\'{"id":"\' + frame[\'id\'].encode() + b\'","h":[],"c":[],"k":"value","v":\' + b\'9\' * 10**7 + b\'}\')'
    )


@primitive("frame", "worker")
def hexadecimal_of_ten_megabytes(_: str) -> str:
    """Ten million hexadecimal digits."""
    return "send(k='value', v={'i': 'f' * 10**7})"


@primitive("frame", "worker")
def lists_in_lists(_: str) -> str:
    """JSON a hundred thousand levels deep."""
    return "raw(b'[' * 10**5 + b']' * 10**5)"


@primitive("frame", "worker")
def tuples_in_tuples(_: str) -> str:
    """Tuples a hundred thousand levels deep."""
    return "send(k='value', v=[n], h=[['t', [n + i + 1]] for i in range(10**5)] + [['t']])"


@primitive("frame", "worker")
def objects_in_cycle(_: str) -> str:
    """Lists and tuples that hold each other."""
    return "send(k='value', v=[n], h=[['l', [n + 1]], ['t', [n]]])"


@primitive("frame", "worker")
def tuple_in_itself(_: str) -> str:
    """A tuple that holds itself."""
    return "send(k='value', v=[n], h=[['t', [n]]])"


@primitive("frame", "worker")
def not_a_number(_: str) -> str:
    """NaN, which JSON does not have."""
    return "send(k='value', v=float('nan'))"


@primitive("frame", "worker")
def infinite_number(_: str) -> str:
    """Infinity."""
    return "send(k='value', v=float('inf'))"


@primitive("frame", "worker")
def negative_zero(_: str) -> str:
    """-0.0 for 0."""
    return "send(k='value', v=-0.0)"


@primitive("frame", "worker")
def lone_surrogate(_: str) -> str:
    """A text that is no text."""
    return "send(k='value', v='\\udc80\\ud800')"


@primitive("frame", "worker")
def colliding_keys(_: str) -> str:
    """A dictionary whose keys have one hash."""
    return "send(k='value', v=[n], h=[['d', *[p for i in range(30000) for p in ({'i': '%x' % (i * (2**61 - 1))}, i)]]])"


@primitive("frame", "worker")
def keys_slow_to_compare(_: str) -> str:
    """A set whose keys have one hash and differ only after two hundred thousand equal parts."""
    return (
        "base = n\n"
        "inner = [['t', *range(1000, 2000)] for _ in range(200)]\n"
        "keys = [['t', *[[base + k]] * 200, *[-1 if k >> b & 1 else -2 for b in range(8)]] for k in range(200)]\n"
        "entries = [*inner, *keys, ['s', *[[base + 200 + k] for k in range(200)]]]\n"
        "send(k='value', v=[base + 400], h=entries)"
    )


@primitive("frame", "worker")
def one_change_a_million_times(_: str) -> str:
    """A message that changes one object a million times."""
    return "send(k='value', v=7, c=[[0, ['l']]] * 1_000_000)"


@primitive("frame", "worker")
def names_that_are_no_text(_: str) -> str:
    """An exception whose class has no name that can be written."""
    return "send(k='raise', e=[['depot.\\ud800', '\\x00\\ud801'], ['builtins', 'ValueError\\ud800']], a=[], f={})"


@primitive("frame", "worker")
def many_objects(_: str) -> str:
    """A million objects."""
    return "send(k='value', v=[n], h=[['l']] * 10**6)"


@primitive("frame", "worker")
def range_beyond_memory(_: str) -> str:
    """A range that no memory holds as a list."""
    return "send(k='value', v={'range': [0, {'i': 'f' * 30}, 1]})"


@primitive("frame", "worker")
def unknown_object(_: str) -> str:
    """The number of an object that does not exist."""
    return "send(k='value', v=[10**9])"


@primitive("frame", "worker")
def object_by_negative_number(_: str) -> str:
    """A negative number of an object."""
    return "send(k='value', v=[-1])"


@primitive("frame", "worker")
def object_by_truth(_: str) -> str:
    """True for the number of an object."""
    return "send(k='value', v=[True])"


@primitive("frame", "worker")
def callback_out_of_turn(_: str) -> str:
    """A call of a function that the test did not pass."""
    return "send(k='callback', n=0, a=[], w={})"


@primitive("frame", "worker")
def callback_of_class(_: str) -> str:
    """A call of a class of the judge's."""
    return "send(k='callback', n=n, a=[], w={}, h=[['C', 'builtins', 'eval']])"


@primitive("frame", "worker")
def pull_out_of_turn(_: str) -> str:
    """A pull of what is no iterator."""
    return "send(k='pull', n=0)"


@primitive("frame", "worker")
def tuples_of_the_same_tuple(_: str) -> str:
    """Tuples in tuples, few objects, that a hash of the outermost visits 2^60 times."""
    return "send(k='value', v=[n], h=[['s', [n + 1]], *[['t', [n + i + 2], [n + i + 2]] for i in range(60)], ['t', 1]])"


@primitive("frame", "worker")
def end_without_iterator(_: str) -> str:
    """The end of an iterator, in answer to a call."""
    return "send(k='stop')"


@primitive("frame", "worker")
def late_answer(_: str) -> str:
    """An answer after the time limit."""
    return "time.sleep(6)\nsend(k='value', v=7)"


@primitive("frame", "worker")
def slow_answer(_: str) -> str:
    """An answer byte by byte, without end."""
    return "os.write(writes, struct.pack('>I', 10**6))\nwhile True:\n    os.write(writes, b' ')\n    time.sleep(0.2)"


@primitive("frame", "worker")
def two_answers(_: str) -> str:
    """Two answers to one question."""
    return "send(k='value', v=7)\nsend(k='value', v=7)"


@primitive("frame", "worker")
def answer_beforehand(_: str) -> str:
    """Answers to questions that have not been asked."""
    return "send(k='value', v=0)\nfor _ in range(50):\n    send(k='value', v=7)"


@primitive("frame", "worker")
def answer_with_other_number(_: str) -> str:
    """An answer to another question."""
    return "send(k='value', v=7, id='0' * 16)"


@primitive("frame", "worker")
def exception_not_raised(_: str) -> str:
    """The exception of a callback that raised none."""
    return "send(k='again', n=0)"


def _raising(name: str) -> str:
    return f"send(k='raise', e=[{name}], a=['no box 7'], f={{}})"


@primitive("frame", "worker")
def exception_of_exit(_: str) -> str:
    """SystemExit."""
    return _raising("['builtins', 'SystemExit']")


@primitive("frame", "worker")
def exception_of_keyboard(_: str) -> str:
    """KeyboardInterrupt."""
    return _raising("['builtins', 'KeyboardInterrupt']")


@primitive("frame", "worker")
def exception_of_assertion(_: str) -> str:
    """AssertionError."""
    return _raising("['builtins', 'AssertionError']")


@primitive("frame", "worker")
def exception_of_skipping(_: str) -> str:
    """The exception by which pytest skips a test."""
    return _raising("['_pytest.outcomes', 'Skipped']")


@primitive("frame", "worker")
def exception_of_expected_failure(_: str) -> str:
    """The exception by which pytest expects a failure."""
    return _raising("['_pytest.outcomes', 'XFailed']")


@primitive("frame", "worker")
def exception_of_session_end(_: str) -> str:
    """The exception by which pytest ends a session."""
    return _raising("['_pytest.outcomes', 'Exit']")


@primitive("frame", "worker")
def exception_that_is_no_class(_: str) -> str:
    """A function of the package for an exception."""
    return _raising("['depot.stock', 'pack']")


@primitive("frame", "worker")
def exception_of_exit_behind_a_class(_: str) -> str:
    """A class that the judge has not, and SystemExit for its base."""
    return _raising("['depot.stock', 'Unheard'], ['builtins', 'SystemExit']")


@primitive("frame", "worker")
def exception_with_bases_without_end(_: str) -> str:
    """An exception with very many bases."""
    return "send(k='raise', e=[['depot.stock', 'Unheard']] * 10**5, a=['no box 7'], f={})"


@primitive("frame", "worker")
def exception_with_hostile_arguments(_: str) -> str:
    """An exception whose arguments are a million texts."""
    return "send(k='raise', e=[['builtins', 'ValueError']], a=['x' * 100] * 10**5, f={'__class__': 1})"


@primitive("frame", "worker")
def class_of_judge(_: str) -> str:
    """A class of the judge's own."""
    return "send(k='value', v=[n], h=[['C', 'subprocess', 'Popen']])"


@primitive("frame", "worker")
def function_of_judge(_: str) -> str:
    """A function of the judge's own."""
    return "send(k='value', v=[n], h=[['F', 'os', 'system']])"


@primitive("frame", "worker")
def instance_of_unrecorded_class(_: str) -> str:
    """An instance of a class that the reference does not give."""
    return "send(k='value', v=[n], h=[['o', ['unittest.mock', 'Mock'], {}]])"


@primitive("frame", "worker")
def instance_with_computed_fields(_: str) -> str:
    """An instance with fields named like methods and cached attributes."""
    fields = "{'count': 2, 'holds': 1, '__len__': 2, '__class__': 1, '__eq__': 1, '__dict__': 1}"
    return f"send(k='value', v=[n], h=[['o', ['depot.stock', 'Box'], {fields}]])"


@primitive("frame", "worker")
def change_of_everything(_: str) -> str:
    """Changes of all objects, functions and classes among them."""
    return (
        "send(k='value', v=None, c=[[i, ['l']] for i in range(-5, n + 5)] + [[0, ['o', ['depot.stock', 'Box'], {}]]])"
    )


@primitive("frame", "worker")
def change_of_foreign_fields(_: str) -> str:
    """Changes of fields that the reference leaves as they are."""
    return (
        "fields = {'label': 'one', 'items': None, 'count': 2}\n"
        "send(k='value', v=None, c=[[i, ['o', ['depot.stock', 'Box'], fields]] for i in range(n)])"
    )


@primitive("frame", "worker")
def decimal_with_huge_exponent(_: str) -> str:
    """A decimal whose exponent is a thousand million."""
    return "send(k='value', v={'v': ['Decimal', '1E1000000000']})"


@primitive("frame", "worker")
def decimal_of_many_digits(_: str) -> str:
    """A decimal of ten million digits."""
    return "send(k='value', v={'v': ['Decimal', '9' * 10**7 + 'E0']})"


@primitive("frame", "worker")
def signalling_decimal(_: str) -> str:
    """A decimal that raises when it is compared."""
    return "send(k='value', v={'v': ['Decimal', 'sNaN']})"


@primitive("frame", "worker")
def decimal_without_value(_: str) -> str:
    """A decimal that equals nothing, in a list with infinite ones."""
    return "send(k='value', v=[n], h=[['l', *({'v': ['Decimal', text]} for text in ('NaN', 'Infinity', '-Infinity'))]])"


@primitive("frame", "worker")
def fraction_of_huge_integers(_: str) -> str:
    """A fraction whose parts have a million digits."""
    return "send(k='value', v={'v': ['Fraction', '0x' + 'f' * 10**6 + '/0x' + 'e' * 10**6]})"


@primitive("frame", "worker")
def fraction_by_zero(_: str) -> str:
    """A fraction whose denominator is zero."""
    return "send(k='value', v={'v': ['Fraction', '0x1/0x0']})"


@primitive("frame", "worker")
def date_that_is_none(_: str) -> str:
    """Dates, times and spans out of range."""
    values = "[['date', '0000-00-00'], ['datetime', '9999-12-31T24:00:00.000000'], ['timedelta', '9999999999 0 0']]"
    return f"send(k='value', v=[n], h=[['l', *({{'v': part}} for part in {values})]])"


@primitive("frame", "worker")
def plain_value_of_another_type(_: str) -> str:
    """A path and a class of the judge as plain values."""
    return "send(k='value', v=[n], h=[['l', {'v': ['PosixPath', '/']}, {'v': ['subprocess.Popen', 'id']}]])"


@primitive("frame", "worker")
def message_without_kind(_: str) -> str:
    """An answer without a kind."""
    return "send()"


@primitive("frame", "worker")
def message_that_is_no_object(_: str) -> str:
    """A list for a message."""
    return "raw(b'[1, 2, 3]')"


@primitive("frame", "worker")
def message_of_other_types(_: str) -> str:
    """Every field of another type than it has."""
    return "send(k=['value'], v={}, h={'a': 1}, c='x', n=None)"


@primitive("frame", "worker")
def message_with_other_header(_: str) -> str:
    """A header that promises four gigabytes."""
    return "os.write(writes, b'\\xff\\xff\\xff\\xff')"


@primitive("frame", "worker")
def empty_message(_: str) -> str:
    """A message of no bytes."""
    return "raw(b'')"


@primitive("frame", "worker")
def flood_of_bytes(_: str) -> str:
    """Frames without end."""
    return "while True:\n    raw(b'[' + b' ' * 10**6 + b']')"


@primitive("frame", "worker")
def announced_death(_: str) -> str:
    """The message that the worker died, by a worker that lives on."""
    return "send(k='died', why='x' * 10**6)\nsend(k='value', v=7)"


@primitive("frame", "worker")
def silent_death(_: str) -> str:
    """Ends without an answer."""
    return "os._exit(0)"


@primitive("frame", "worker")
def killed_parent(_: str) -> str:
    """Ends the process that forks workers."""
    return "os.kill(os.getppid(), 9)\nos._exit(0)"


@primitive("frame", "worker")
def closed_pipe(_: str) -> str:
    """Closes the pipe and lives on."""
    return "os.close(writes)\ntime.sleep(30)"


@primitive("frame", "worker")
def questions_of_its_own(_: str) -> str:
    """Sends requests as the judge does."""
    return "send(op='call', entry=['os', 'system'], heap=1, a=[[], {}])\nsend(op='end')"
