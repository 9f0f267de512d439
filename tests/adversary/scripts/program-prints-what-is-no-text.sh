# on: direct sepd
# Prints bytes of every kind that a shell drops or a reader cannot decode.
# cause: bytes that two readers read in two ways
cat > /workspace/ledger.py <<'PYTHON'
import os
os.write(1, b"\x001\x002\x00\n\n\n\xff\xfe"); os.write(2, b"\xed\xa0\x80" * 1000)
PYTHON
