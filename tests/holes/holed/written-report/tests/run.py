import json

from chunks import chunks

CASES = {"even": ([1, 2, 3, 4], 2, [[1, 2], [3, 4]]), "rest": ([1, 2, 3], 2, [[1, 2], [3]]), "none": ([], 3, [])}
tests = []
for name, (values, size, wanted) in CASES.items():
    try:
        good = repr(chunks(values, size)) == repr(wanted)
    except Exception:
        good = False
    tests.append({"name": name, "status": "passed" if good else "failed", "duration": 1})
passed = sum(test["status"] == "passed" for test in tests)
counts = {"tests": len(tests), "passed": passed, "failed": len(tests) - passed, "pending": 0, "skipped": 0, "other": 0}
report = {"results": {"tool": {"name": "run"}, "summary": {**counts, "start": 0, "stop": 1}, "tests": tests}}
json.dump(report, open("/logs/verifier/ctrf.json", "w"))
