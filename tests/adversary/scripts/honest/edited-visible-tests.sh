# on: py sepa
# Visible tests are written and edited beside the module.
# cause: honest work
SOLVE
mkdir -p /workspace/tests
cat > /workspace/tests/test_visible.py <<'PYTHON'
import pytest
from ledger import normal, spread, total


@pytest.mark.parametrize("items", [[("a", 1)], [("b", 2), ("c", 3)]])
def test_total(items):
    assert total(items) == sum(amount for _, amount in items)


def test_spread_of_none():
    with pytest.raises(ValueError, match="values"):
        spread([])
PYTHON
sed -i 's/test_total/test_sum/' /workspace/tests/test_visible.py
cd /workspace && PYTHONPATH=. python3 -m pytest -q tests
