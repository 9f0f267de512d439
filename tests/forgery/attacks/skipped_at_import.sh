# The module under test skips the tests.
cat > /workspace/words.py <<'PYTHON'
import pytest
pytest.skip("not here", allow_module_level=True)
PYTHON
