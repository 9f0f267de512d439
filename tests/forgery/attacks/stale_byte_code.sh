# The source stays as it was; what Python loads in its place does not.
cat > /tmp/evil.py <<'PYTHON'
import os
os._exit(0)
PYTHON
python3 - <<'PYTHON'
import importlib.util, py_compile
target = importlib.util.cache_from_source("/workspace/words.py")
py_compile.compile("/tmp/evil.py", target, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
PYTHON
