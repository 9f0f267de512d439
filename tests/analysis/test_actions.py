"""Acts in one form, whatever harness they were taken in."""

from __future__ import annotations

from typing import Any

import pytest

from assay.analysis.actions import actions_of, is_test_run, read_paths, removed_paths, written_paths
from assay.analysis.interface import Action
from assay.records import Observation, Step, ToolCall
from tests.analysis.made import call, step, trajectory


def one(name: str, arguments: dict[str, Any] | str) -> Action:
    (action,) = actions_of(trajectory(step(call(name, arguments))))
    return action


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "shown"),
    [
        ("shell", {"command": "ls"}, "shell", "ls"),
        ("execute_bash", {"command": "ls"}, "shell", "ls"),
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "shell", "ls | wc"),
        ("container.exec", {"cmd": ["ls", "a b"]}, "shell", "ls 'a b'"),
        ("exec_command", {"cmd": "ls", "workdir": "/"}, "shell", "ls"),
        ("local_shell", {"action": {"command": ["ls"]}}, "shell", "ls"),
        ("Bash", {"command": "ls", "description": "x"}, "shell", "ls"),
        ("run_shell_command", {"command": "ls"}, "shell", "ls"),
        ("mcp__box__bash", {"command": "ls"}, "shell", "ls"),
        ("str_replace_editor", {"command": "view", "path": "/a"}, "read", ("/a",)),
        ("str_replace_editor", {"command": "create", "path": "/a", "file_text": "t"}, "edit", ("/a",)),
        ("read_file", {"absolute_path": "/a"}, "read", ("/a",)),
        ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"}, "edit", ("/a",)),
        ("replace", {"file_path": "/a", "new_string": "y"}, "edit", ("/a",)),
        ("apply_patch", "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n*** End Patch", "edit", ("a.py",)),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Add File: b\n+y"]}, "edit", ("b",)),
        ("bash", {"command": "apply_patch <<'E'\n*** Delete File: c\nE"}, "edit", ("c",)),
        ("Grep", {"pattern": "x", "path": "src"}, "search", ("src",)),
        ("glob", {"pattern": "*.py"}, "search", ()),
        ("WebFetch", {"url": "http://example.org"}, "browse", ()),
        ("browser_click", {"ref": "1"}, "browse", ()),
        ("TodoWrite", {"todos": []}, "think", ()),
        ("submit", {}, "finish", ()),
        ("update_reservation", {"path": "x"}, "tool", ("x",)),
    ],
)
def test_known_tools_have_a_kind(name: str, arguments: dict[str, Any] | str, kind: str, shown: object) -> None:
    action = one(name, arguments)
    assert action.kind == kind
    assert (action.command if kind == "shell" else action.paths) == shown


def test_tools_of_swe_agent_typed_at_its_prompt_are_known() -> None:
    typed = ["open src/a.py 10", "edit 1:2\nx = 1\nend_of_edit", "find_file a.py src", "submit", "openssl version"]
    actions = actions_of(trajectory(*(step(call("bash", {"command": text})) for text in typed)))
    assert [each.kind for each in actions] == ["read", "edit", "search", "finish", "shell"]
    assert [each.paths for each in actions] == [("src/a.py",), ("src/a.py",), ("src",), (), ()]


def test_tools_of_swe_agent_keep_their_paths_where_a_record_names_the_tool_beside_the_text() -> None:
    typed = ["open src/a.py 10", "edit 1:2\nx = 1\nend_of_edit", "create b.py", "submit"]
    actions = actions_of(trajectory(*(step(call(text.split()[0], {"command": text + "\n"})) for text in typed)))
    assert [(each.kind, each.paths) for each in actions] == [
        ("read", ("src/a.py",)),
        ("edit", ("src/a.py",)),
        ("edit", ("b.py",)),
        ("finish", ()),
    ]


def test_mini_swe_agents_last_command_is_the_end_and_stays_a_command() -> None:
    action = one("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt"})
    assert (action.kind, read_paths(action)) == ("finish", ("patch.txt",))


def test_observations_go_to_the_call_that_they_name_and_else_by_order() -> None:
    calls = call("bash", {"command": "a"}, "1"), call("bash", {"command": "b"}, "2"), call("bash", {"command": "c"}, "")
    seen = [Observation("third"), Observation("second", "2", exit_code=3), Observation("late")]
    actions = actions_of(trajectory(step(*calls, seen=seen)))
    assert [(each.observation, each.exit_code) for each in actions] == [("third", None), ("second", 3), ("late", None)]


def test_calls_that_share_an_id_are_answered_in_turn() -> None:
    calls = [call("bash", {"command": text}, "same") for text in "ab"]
    seen = [Observation(text, "same") for text in ("first", "second", "more")]
    actions = actions_of(trajectory(step(*calls, seen=seen)))
    assert [each.observation for each in actions] == ["first", "second\nmore"]


def test_words_without_a_call_and_thoughts_are_actions_and_other_actors_are_not() -> None:
    steps = [step(message="hello"), Step(1, "agent", reasoning="hm"), Step(2, "user", message="no"), Step(3, "agent")]
    actions = actions_of(trajectory(*steps))
    assert [(each.kind, each.text, each.step, each.index) for each in actions] == [
        ("say", "hello", 0, 0),
        ("think", "hm", 1, 1),
    ]


def test_an_exit_code_that_only_the_text_holds_is_read_where_the_harness_puts_it() -> None:
    texts = ["x\n[The command completed with exit code 2.]", "<returncode>1</returncode>\nx", "exit code 2\nx", "x"]
    steps = [step(call("bash", {"command": "x"}), seen=[Observation(text)]) for text in texts]
    assert [each.exit_code for each in actions_of(trajectory(*steps))] == [2, 1, None, None]


def test_a_call_that_did_not_parse_is_an_error_and_has_no_command() -> None:
    (action,) = actions_of(trajectory(step(ToolCall("c", "bash", '{"command": ', None, "not JSON"))))
    assert (action.error, action.command) == (True, None)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q", "cd a && timeout 60 python -m pytest x 2>&1 | tail", "python tests/test_a.py", "./bin/test x",
        "python manage.py test app", "npm run test:unit", "npx jest a", "go test ./...", "mvn -q verify",
        "make -j4 check", "cargo +nightly test", "bash -lc 'tox -e py311'", "python -c 'import sympy; sympy.test()'",
        "python - <<E\nimport pytest\npytest.main([])\nE", "bash /tests/test.sh", "./gradlew :app:test",
    ],
)  # fmt: skip
def test_runs_of_tests_are_known(command: str) -> None:
    assert is_test_run(one("bash", {"command": command}))


@pytest.mark.parametrize(
    "command",
    ["grep pytest a", "pip install pytest", "pytest --collect-only", "cat tests/test_a.py", "echo 'pytest'", "go build",
     "test -f a", "pytest --version", "python setup.py build", "mvn install -DskipTests", "which pytest"],
)  # fmt: skip
def test_other_commands_are_no_runs_of_tests(command: str) -> None:
    assert not is_test_run(one("bash", {"command": command}))


@pytest.mark.parametrize(
    ("command", "written", "read", "removed"),
    [
        ("cat a b > c 2>/dev/null", ("c",), ("a", "b"), ()),
        ("sed -i 's/a/b/' x y; sed -n 1,5p z", ("x", "y"), ("z",), ()),
        ("grep -rn -A 3 foo src t.py", (), ("src", "t.py"), ()),
        ("tee -a log < in", ("log",), ("in",), ()),
        ("cp a b c/ && mv d e; rm -rf f", ("c/", "e"), ("a", "b"), ("d", "f")),
        ("python - <<E\nopen('a','w').write(open('b').read())\nPath('c').write_text('')\nos.remove('d')\nE",
         ("a", "c"), ("b",), ("d",)),
        ("git show HEAD:src/a.py; git checkout -- b", ("b",), ("src/a.py",), ()),
        ("patch -p1 <<E\n--- a/x\n+++ b/x\nE", ("x",), (), ()),
        ("curl -s -o out http://example.org; wget -O o2 u", ("out", "o2"), (), ()),
        ("perl -pi -e 's/a/b/' x", ("x",), (), ()),
        ("ls -la /tests", (), (), ()),
    ],
)  # fmt: skip
def test_files_of_a_command(command: str, written: tuple[str], read: tuple[str], removed: tuple[str]) -> None:
    action = one("bash", {"command": command})
    assert (written_paths(action), read_paths(action), removed_paths(action)) == (written, read, removed)


def test_files_of_tools() -> None:
    assert written_paths(one("Write", {"file_path": "/a", "content": ""})) == ("/a",)
    assert read_paths(one("Read", {"file_path": "/a"})) == ("/a",)
    assert removed_paths(one("delete_file", {"path": "/a"})) == ("/a",)
    assert written_paths(one("python", {"code": "open('a', 'w')"})) == ("a",)
