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


CASES = {"I": 1, "III": 3, "IV": 4, "IX": 9, "XLII": 42, "XCIX": 99, "CD": 400, "DCCC": 800, "MCMXCIV": 1994, "MMXXIV": 2024}
found = results("roman", [["number", [text]] for text in CASES])
assert same(found, list(CASES.values())), found
