# on: py sepa
# A conftest with a fixture for the engineer's own tests.
# cause: honest work
SOLVE
mkdir -p /workspace/tests
cat > /workspace/tests/conftest.py <<'PYTHON'
import pytest


@pytest.fixture
def items():
    return [("a", 1), ("b", 2)]
PYTHON
cat > /workspace/tests/test_items.py <<'PYTHON'
from ledger import total


def test_items(items):
    assert total(items) == 3
PYTHON
cd /workspace && PYTHONPATH=. python3 -m pytest -q tests
