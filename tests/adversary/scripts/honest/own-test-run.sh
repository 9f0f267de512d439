# on: py direct sepa sepd
# The module is tried by unittest and by hand, with caches and coverage files left behind.
# cause: honest work
SOLVE
cd /workspace && python3 - <<'PYTHON'
import unittest
from ledger import total
class Try(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([("a", 2)]), 2)
unittest.main(argv=["try"], exit=False)
PYTHON
python3 -c 'import ledger; print(ledger.total([("a", 1)]))'
