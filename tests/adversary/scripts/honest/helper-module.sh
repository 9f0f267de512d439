# on: py direct
# The work is divided into two modules.
# cause: honest work
SOLVE
cd /workspace && python3 - <<'PYTHON'
text = open("ledger.py").read()
head, total, rest = text.partition("def total(items):")
body, normal, more = rest.partition("def normal(text):")
open("sums.py", "w").write('"""Sums."""\n\n\ndef total(items):' + body)
open("ledger.py", "w").write(head + "from sums import total\n\n\ndef normal(text):" + more)
PYTHON
