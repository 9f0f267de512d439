"""Unified diffs: what git makes is applied exactly, and what does not fit or leaves the folder is refused."""

from __future__ import annotations

import contextlib
import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.code.patches import FilePatch, PatchError, apply_patch, read_patch

pytestmark = pytest.mark.quick
LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "--- x\n", "+++ y\n", "@@\n", "\n", " \n"]), max_size=25)
TWO = """some words before
diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
--- a/old.py
+++ b/new.py
@@ -1,2 +1,2 @@ def f():
 one
-two
\\ No newline at end of file
+three
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1 @@
+echo
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
"""


@given(LINES, LINES)
def test_a_diff_leads_from_one_text_to_the_other(before: list[str], after: list[str]) -> None:
    text = "".join(difflib.unified_diff(before, after, "a/f", "b/f"))
    patches = read_patch(text)
    assert len(patches) == (before != after)
    for patch in patches:
        assert apply_patch(patch, "".join(before)) == "".join(after)


def test_files_are_renamed_removed_and_added() -> None:
    renamed, gone, script, empty = read_patch(TWO)
    assert (renamed.old, renamed.new, apply_patch(renamed, "one\ntwo")) == ("old.py", "new.py", "one\nthree\n")
    assert (gone.old, gone.new, apply_patch(gone, "x\n")) == ("gone.txt", None, None)
    assert (script.new, script.executable, apply_patch(script, None)) == ("run.sh", True, "echo\n")
    assert (empty.old, empty.new, apply_patch(empty, None)) == (None, "empty", "")


def test_a_hunk_that_moved_is_found_where_it_stands_alone() -> None:
    (patch,) = read_patch("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n")
    assert apply_patch(patch, "0\n1\nx\ny\n") == "0\n1\nx\nz\n"
    with pytest.raises(PatchError, match="hunk 1 does not fit"):
        apply_patch(patch, "0\nx\ny\nx\ny\n")


@pytest.mark.parametrize("path", ["../f", "/etc/f", "b/../../f", "f\\g"])
def test_a_path_that_leaves_the_folder_is_refused(path: str) -> None:
    with pytest.raises(PatchError, match="not a plain path"):
        read_patch(f"--- a/x\n+++ {path}\n@@ -1 +1 @@\n-a\n+b\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("--- a/f\n+++ b/f\n@@ -1,9 +1 @@\n-a\n", "ends within a hunk"),
        ("--- a/f\nfoo\n", "comes '[+][+][+]'"),
        ("--- a/f\n+++ b/f\n@@ what @@\n", "begins no hunk"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n?a\n", "is not a hunk line"),
        ("diff --git a/f b/f\nBinary files a/f and b/f differ\n", "is binary"),
    ],
)
def test_a_broken_patch_is_explained(text: str, says: str) -> None:
    with pytest.raises(PatchError, match=says):
        read_patch(text)


@pytest.mark.parametrize(("old", "before"), [("f", None), (None, "x")])
def test_a_file_that_is_not_as_the_patch_says_is_an_error(old: str | None, before: str | None) -> None:
    with pytest.raises(PatchError, match="f is to be"):
        apply_patch(FilePatch(old, "f", ()), before)


@given(st.text(alphabet="-+@ ,12ab/\n\\", max_size=200))
def test_any_text_is_a_patch_or_refused(text: str) -> None:
    with contextlib.suppress(PatchError):
        assert isinstance(read_patch(f"--- a/f\n+++ b/f\n{text}"), tuple)
