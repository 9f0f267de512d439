# The same by the module under test.
cat >> /workspace/words.py <<'PYTHON'

import os, time
for _ in range(2000):
    try:
        if os.fork() == 0:
            os.setsid()
            time.sleep(1000)
    except OSError:
        break
os._exit(0)
PYTHON
