import subprocess
import sys

CASES = [("a\nb\nc\n", "c\nb\na"), ("one\n", "one"), ("7\n\n8\n", "8\n\n7")]
for text, wanted in CASES:
    run = subprocess.run(
        [sys.executable, "-I", "/workspace/reverse.py"], input=text, capture_output=True, text=True, timeout=4
    )
    assert (run.stdout.removesuffix("\n"), run.returncode) == (wanted, 0), (text, run)
