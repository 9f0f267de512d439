# on: direct sepd
# Changes the flags and the size of the pipes that it was given, and floods them.
# cause: the judged program changes what it shares with the host
cat > /workspace/ledger.py <<'PYTHON'
import fcntl, os, signal
for fd in (0, 1, 2):
    for call in (lambda: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC), lambda: fcntl.fcntl(fd, 1031, 4096), lambda: fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())):
        try: call()
        except OSError: pass
try:
    for _ in range(200): os.write(1, b"12\n" * 9000)
except OSError: pass
raise SystemExit(127)
PYTHON
