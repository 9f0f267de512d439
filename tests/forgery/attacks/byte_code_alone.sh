# Only byte code is left of the module, and it ends the process well.
printf 'import os\nos._exit(0)\n' > /tmp/evil.py
python3 -c 'import py_compile; py_compile.compile("/tmp/evil.py", "/workspace/words.pyc")'
rm /workspace/words.py
