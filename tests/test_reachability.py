"""Everything public is reached by something that a user can name, or stands in the table below with its reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scripts.reachability import list_unreached

ROOT = Path(__file__).parent.parent
EXCEPTIONS = {
    "assay.learning.ablation": "for agents that improve: per-step effects for a later credit method",
    "assay.lazy_exports": "makes the `__getattr__` of packages, while they are imported",
    "assay.agents.cheats.payload.reports.forge_once": "called by name in a source that a cheat writes into the sandbox",
    "assay.environments.workspace.launcher.init.main": "started by file in a sandbox without the launcher",
    "assay.environments.workspace.launcher.loading": "called by name in the line that starts a template",
    "assay.environments.workspace.launcher.template.serve": "called by name in the line that starts a template",
    "assay.verify.payload.assay_supervisor.runner.preload": "called by name in a template",
    "assay.verify.payload.assay_supervisor.assay_judge": "the program `assay-judge`, mounted with its folder",
}
"""Public names that no user reaches, each with the reason why it stays."""


@pytest.mark.long
def test_everything_public_is_reached_by_a_command_a_plugin_a_page_or_the_api() -> None:
    started = time.process_time()
    found = set(list_unreached(ROOT))
    assert sorted(found - set(EXCEPTIONS)) == [], "unreachable: wire it into a journey, or delete it with its tests"
    assert sorted(set(EXCEPTIONS) - found) == [], "reached by now: take it out of the table"
    assert time.process_time() - started < 10


SOURCES = {
    "__init__.py": '_EXPORTS = {"run": "assay.a"}\ndef __getattr__(name): return _EXPORTS[name]\n',
    "a.py": "from . import b\nfrom .pack import passed\ndef run(): return b.used(passed)\ndef left(): pass\n",
    "b.py": "def used(x): return TABLE\ndef only_tested(): return used\nTABLE = {'x': 'assay.c:Named'}\n",
    "c.py": "class Named: pass\nclass Other: pass\n",
    "d.py": "def nothing_imports_this(): pass\n",
    "pack/__init__.py": "from .inner import passed, unpassed\n",
    "pack/inner.py": "def passed(): pass\ndef unpassed(): pass\n",
    "pack/plugin.py": "class Plugin: pass\n",
}
PROJECT = """[project]
scripts = { assay = "assay.a:run" }
[project.entry-points."assay.checks"]
p = "assay.pack.plugin:Plugin"
"""


@pytest.mark.quick
def test_a_name_that_only_an_unreached_name_uses_is_unreached(tmp_path: Path) -> None:
    (tmp_path / "docs_src").mkdir()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name, text in SOURCES.items():
        path = tmp_path / "src" / "assay" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert sorted(list_unreached(tmp_path)) == [
        "assay.a.left",
        "assay.b.only_tested",
        "assay.c.Other",
        "assay.d",
        "assay.pack.inner.unpassed",
    ]
