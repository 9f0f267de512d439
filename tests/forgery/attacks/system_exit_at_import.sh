# The same by an exception.
printf 'import sys\nsys.exit(0)\n' > /workspace/words.py
