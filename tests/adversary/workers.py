"""Scripts against judging from outside: lying workers, hostile frames, lying edits; each primitive on each function.

Everything but the one function under attack is repaired, so that a test that believes the lie decides the attempt.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from .base_tasks import BROKEN, DEPOT, SOLVED
from .depot_task import BROKEN_BODIES, ENTRIES, HELPERS, RIGHT_BODIES, write_depot
from .library import Role, Script
from .primitives import primitives_of

__all__ = ["frame_scripts", "lie_scripts", "lying_edits", "right_answer_by_hand"]

LEDGER_ENTRIES = ("total", "normal", "spread")
_LIE = """

_SENT = []
_BROKEN = {{}}
exec({broken!r}, _BROKEN)
_BROKEN.pop("Box", None)
def broken(name):
    if "Box" in globals():
        _BROKEN["Box"] = globals()["Box"]
    return _BROKEN[name]
def _lie(name, *args, **named):
{body}
def {target}(*args, **named):
    return _lie({target!r}, *args, **named)
"""
_HAND = """

def {target}(*args, **named):
    import json, os, struct, sys, time
    caller = sys._getframe()
    while not {{"call", "frame", "self"}} <= set(caller.f_locals):
        caller = caller.f_back
    call, first, worker = (caller.f_locals[name] for name in ("call", "frame", "self"))
    reads, writes = worker._reads, worker._writes
    def raw(body):
        data = struct.pack(">I", len(body)) + body
        while data:
            data = data[os.write(writes, data):]
    def get(size):
        data = b""
        while len(data) < size:
            part = os.read(reads, size - len(data))
            if not part:
                os._exit(0)
            data += part
        return data
    def answer(frame, n):
        def send(**message):
            raw(json.dumps({{"id": frame["id"], "h": [], "c": [], **message}}).encode())
{body}
    answer(first, len(call.heap.objects))
    while True:
        frame = json.loads(get(struct.unpack(">I", get(4))[0]))
        if frame["op"] == "end":
            raw(json.dumps({{"k": "ended", "id": frame["id"]}}).encode())
            os._exit(0)
        answer(frame, len(frame.get("h", ())))
"""


def lie_scripts() -> Iterator[Script]:
    """Yields a script for each lie and each entry point."""
    for lie in primitives_of("worker", "lie"):
        body = textwrap.indent(lie.render(""), "    ")
        for target in LEDGER_ENTRIES:
            text = _LIE.format(broken=BROKEN, body=body, target=target)
            yield _script("lie", lie.name, "plan", target, {"ledger.py": SOLVED + text})
        for target in ENTRIES:
            text = _LIE.format(broken=_broken_functions(), body=body, target=target)
            yield _script("lie", lie.name, DEPOT, target, _depot_with(target, text))


def frame_scripts() -> Iterator[Script]:
    """Yields a script for each hostile frame and a few entry points: the protocol does not know one from another."""
    for frame in primitives_of("worker", "frame"):
        for variant, target in (("plan", "total"), (DEPOT, "find"), (DEPOT, "sort_boxes")):
            yield _script("frame", frame.name, variant, target, _by_hand(variant, target, frame.render("")))


def right_answer_by_hand() -> Script:
    """Returns the control of the frames: the right answer, sent by the same hands, is taken by the judge."""
    answer = (
        "amounts = [part for entry in frame['h'] if entry[0] == 't' for part in entry[1:] if type(part) is int]\n"
        "text = frame['h'][0][1] if len(frame['h'][0]) > 1 else ''\n"
        "send(k='value', v=sum(amounts) if frame['entry'][1] == 'total' else ' '.join(text.lower().split()))"
    )
    script = _script("frame", "right_answer", "plan", "total", _by_hand("plan", "total", answer))
    return script._replace(role="control")


def lying_edits() -> Iterator[Script]:
    """Yields a script for each lie of each function that runs in the judge, and for each of all of them at once."""
    for lie in primitives_of("edit", "lie"):
        for helper in HELPERS:
            yield _script("edit", lie.name, DEPOT, helper, _edited(write_depot(), (helper,), lie.render("")))
        for target in ENTRIES:
            right = {name: body for name, body in RIGHT_BODIES.items() if name != target}
            files = _edited(write_depot(**right), HELPERS[1:], lie.render(""))
            yield _script("edit", lie.name, DEPOT, f"all-but-{target}", files)


def _by_hand(variant: str, target: str, answer: str) -> dict[str, str]:
    text = _HAND.format(body=textwrap.indent(answer, " " * 8), target=target)
    return {"ledger.py": SOLVED + text} if variant == "plan" else _depot_with(target, text)


def _depot_with(target: str, text: str) -> dict[str, str]:
    files = write_depot(**{name: body for name, body in RIGHT_BODIES.items() if name != target})
    return {**files, "depot/stock.py": files["depot/stock.py"] + text}


def _broken_functions() -> str:
    """The unrepaired functions of the depot alone."""
    tree = ast.parse(write_depot()["depot/stock.py"])
    return "\n".join(ast.unparse(node) for node in tree.body if getattr(node, "name", "") in BROKEN_BODIES)


def _edited(files: dict[str, str], helpers: tuple[str, ...], body: str) -> dict[str, str]:
    """The files with other bodies of some functions, named as in `__qualname__`."""
    return {name: ast.unparse(_Bodies(helpers, body).visit(ast.parse(text))) + "\n" for name, text in files.items()}


class _Bodies(ast.NodeTransformer):
    def __init__(self, names: tuple[str, ...], body: str) -> None:
        self._names = names
        self._body = body
        self._prefix = ""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self._prefix = f"{node.name}."
        self.generic_visit(node)
        self._prefix = ""
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if self._prefix + node.name in self._names:
            node.body = ast.parse(self._body).body
        return node


def _script(layer: Role, primitive: str, variant: str, target: str, files: dict[str, str]) -> Script:
    text = "".join(f"cat > /workspace/{name} <<'PYTHON'\n{content}\nPYTHON\n" for name, content in files.items())
    name = f"{layer}-{primitive}-{target}".replace("_", "-").replace(".", "-")
    return Script(name, layer, (variant,), text, f"{layer} {primitive} of {target}", f"{layer}={primitive}")
