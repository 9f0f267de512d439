"""Places where a Python program evaluates text."""

from __future__ import annotations

import pytest

from assay.code.python_evaluation import find_python_evaluations


@pytest.mark.parametrize(
    "line",
    [
        "eval(x)",
        "exec(open('/tmp/out').read())",
        "compile(x, 'x', 'exec')",
        "import os; os.system(x)",
        "from os import popen as run; run(x)",
        "import subprocess as sp; sp.run(x, shell=True)",
        "import subprocess; subprocess.run(['bash', '-c', f'echo {x}'])",
        "import subprocess; subprocess.getoutput(x)",
        "import subprocess; subprocess.run(['bash', '-c', '[[ $1 -eq 7 ]]', '_', x])",
        "import subprocess; subprocess.run('prog | bash', shell=True)",
        "import asyncio; asyncio.create_subprocess_shell(x)",
        "import pickle; pickle.loads(x)",
        "import yaml; yaml.load(x)",
        "import importlib; importlib.import_module(x)",
        "__import__(x)",
        "import runpy; runpy.run_path(x)",
        "from os import *",
        "import numpy as np; np.load(x, allow_pickle=True)",
        "print('",
    ],
)
def test_evaluated_text_is_reported(line: str):
    assert [one.line for one in find_python_evaluations(f"\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "import ast; ast.literal_eval(x)",
        "import re; re.compile(x)",
        "import json; json.loads(x)",
        "model.eval()",
        "import yaml; yaml.safe_load(x); yaml.load(x, Loader=yaml.SafeLoader)",
        "import subprocess; subprocess.run(['python3', '/workspace/prog.py', x], shell=False)",
        "import importlib; importlib.import_module('json'); __import__('os')",
        "import subprocess; subprocess.run(['python3', '-c', 'print(1)', x])",
    ],
)
def test_text_that_stays_data_is_not_reported(line: str):
    assert not find_python_evaluations(line)


def test_a_program_that_cannot_be_read_is_reported():
    assert find_python_evaluations("x" * (1 << 21))
    assert find_python_evaluations("(" * 5000)


@pytest.mark.parametrize("command", ["'{}', shell=True", "['/bin/sh', '-c', '{}'], shell=False"])
def test_a_command_that_is_written_out_is_looked_at_as_a_script(command: str):
    line = f"import subprocess; subprocess.run({command})"
    assert not find_python_evaluations(line.format("prog < in"), lambda text: text == "prog < in")
    assert find_python_evaluations(line.format("prog | sh"), lambda text: text == "prog < in")
