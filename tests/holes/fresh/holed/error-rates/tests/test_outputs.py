import json
import re
from pathlib import Path

LOG = Path("/workspace/access.log")
REPORT = Path("/workspace/report.json")
LINE = re.compile(r'\S+ \[[^\]]+\] "[A-Z]+ (?P<path>[^\s?]+)(\?\S*)? HTTP/[\d.]+" (?P<status>\d{3}) \d+')


def expected_report():
    requests = {}
    for line in LOG.read_text().splitlines():
        match = LINE.fullmatch(line)
        if match:
            requests.setdefault(match["path"], []).append(int(match["status"]))
    rows = []
    for path in sorted(requests):
        errors = sum(status >= 500 for status in requests[path])
        rate = round(errors / len(requests[path]), 3)
        rows.append({"path": path, "requests": len(requests[path]), "errors": errors, "error_rate": rate})
    return rows


def test_report_exists():
    assert REPORT.is_file(), "report.json is missing"


def test_report_is_a_list_of_objects():
    report = json.loads(REPORT.read_text())
    assert isinstance(report, list)
    for row in report:
        assert set(row) == {"path", "requests", "errors", "error_rate"}


def test_report_has_the_rates_of_the_log():
    assert json.loads(REPORT.read_text()) == expected_report()
