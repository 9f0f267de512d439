# on: py
# Module and folders beside it have names that are no text, with a copy of the tests in them.
# cause: the attempt makes itself unjudgeable
cd /workspace && python3 - <<'PYTHON'
import os
os.mkdir(b"/workspace/\xff\xfe")
open(b"/workspace/\xff\xfe/conftest.py", "w").write("raise SystemExit(0)")
open(b"/workspace/\xff.py", "w").write("x = 1")
PYTHON
