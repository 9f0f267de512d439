# on: direct sepd
# The program sleeps for ever.
# cause: the attempt makes itself unjudgeable
cat > /workspace/ledger.py <<'PYTHON'
import time
time.sleep(10**6)
PYTHON
