import json
import subprocess
import sys

DRIVER = """
import json, sys
sys.path.insert(0, "/workspace")
import %s as module
told = []
for name, given in json.load(sys.stdin):
    told.append(getattr(module, name)(*given))
sys.stdout.write(json.dumps(told))
"""


def results(module: str, calls: list) -> list:
    """What the functions give, as plain JSON data, from a process of its own."""
    run = subprocess.run(
        [sys.executable, "-I", "-c", DRIVER % module], input=json.dumps(calls), capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-500:]
    return json.loads(run.stdout)


def same(found: object, wanted: object) -> bool:
    """Equal in type and value, all the way down."""
    if isinstance(wanted, list):
        return type(found) is list and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, dict):
        return type(found) is dict and found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in wanted)
    return type(found) is type(wanted) and found == wanted


CASES = [
    ([[5, 8], [1, 3], [2, 4]], [[1, 4], [5, 8]]),
    ([[1, 2], [2, 3]], [[1, 3]]),
    ([[1, 9], [2, 3]], [[1, 9]]),
    ([[4, 5], [1, 2]], [[1, 2], [4, 5]]),
    ([[1, 2], [5, 6], [6, 9], [12, 13]], [[1, 2], [5, 9], [12, 13]]),
    ([[1, 2], [4, 9], [5, 6], [8, 11]], [[1, 2], [4, 11]]),
    ([[1, 3], [6, 9], [7, 8]], [[1, 3], [6, 9]]),
    ([], []),
]
found = results("spans", [["merged", [given]] for given, _ in CASES])
assert same(found, [wanted for _, wanted in CASES]), found
