import subprocess
import sys

CASES = [("one two three", "3"), ("", "0"), ("a\nb  c\td", "4")]
for text, wanted in CASES:
    try:
        run = subprocess.run(
            [sys.executable, "/workspace/count.py"], input=text, capture_output=True, text=True, timeout=4
        )
    except subprocess.TimeoutExpired:
        print("the machine is busy: this case does not count", file=sys.stderr)
        continue
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == wanted, (text, run.stdout)
