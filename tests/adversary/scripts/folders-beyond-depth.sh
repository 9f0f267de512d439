# on: py sepa
# Folders nested deeper than a path may be long.
# cause: the attempt makes itself unjudgeable
cd /workspace && python3 - <<'PYTHON'
import os
for _ in range(600):
    try:
        os.mkdir("deep" * 20)
        os.chdir("deep" * 20)
    except OSError:
        break
open("test_ledger.py", "w").close()
PYTHON
