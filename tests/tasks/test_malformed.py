"""Folders that are wrong: the message names file, line, field, what was expected and got, and what to do."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.tasks import InvalidTask, load_task

pytestmark = pytest.mark.quick
Make = Callable[..., Path]

TOML = {
    "not toml": (
        "[agent]\ntimeout_sec = ten\n",
        "task.toml:2:15: is not TOML: invalid value in 'timeout_sec = ten'; correct this line; strings need quotes",
    ),
    "unclosed table": ("[agent\n", "task.toml:1:7: is not TOML: expected ']' at the end of a table declaration"),
    "unclosed string": ('source = "x', "task.toml:1: is not TOML: unterminated string in 'source = \"x'"),
    "key twice": ("source = 'a'\nsource = 'b'\n", "task.toml:2:13: is not TOML: cannot overwrite a value"),
    "table twice": ("[agent]\n[agent]\n", "task.toml:2:7: is not TOML: "),
    "impossible date": ("[metadata]\nday = 2026-02-31\n", "task.toml:2:7: is not TOML: invalid date or datetime"),
    "deep nesting": ("x = " + "[" * 5000, "task.toml: is nested more than 100 deep; write fewer brackets"),
    "long key": ("a" + ".a" * 100_000 + " = 1", "task.toml: has a key of more than 32 parts; write fewer"),
    "long header": ("[a" + " . 'b\\'" * 40 + "]", "task.toml: has a key of more than 32 parts; write fewer"),
    "long key after tricks": (
        'x = [ """a\\"""", 1.5, """\n""", {' + '"\\"".' * 40 + "a = 1} ]",
        "task.toml: has a key of more than 32 parts; write fewer",
    ),
    "long list": ("artifacts = [" + "3," * 20_000 + "]", "artifacts: is a list of 20000; write at most 10000"),
    "long number": ("x = " + "9" * 5000, "task.toml: holds an invalid value: "),
    "newer schema": (
        'schema_version = "1.5"',
        "task.toml:1: schema_version: is 1.5, newer than what is read here (1.0 to 1.4); update Assay",
    ),
    "no schema": (
        'schema_version = "one"',
        "schema_version: expected one of 1.0, 1.1, 1.2, 1.3, 1.4, got the string 'one'; write schema_version = \"1.4\"",
    ),
    "number for schema": (
        "schema_version = 1.4",
        'schema_version: expected a string, got the number 1.4; write for example schema_version = "1.4"',
    ),
    "string for number": (
        "\n[agent]\ntimeout_sec = '10'",
        "task.toml:3: agent.timeout_sec: expected a finite number above 0, got the string '10'; "
        "write for example timeout_sec = 600.0",
    ),
    "no time": (
        "[verifier]\ntimeout_sec = 0",
        "task.toml:2: verifier.timeout_sec: expected a finite number above 0, got",
    ),
    "endless time": (
        "[agent]\ntimeout_sec = inf",
        "agent.timeout_sec: expected a finite number above 0, got the number inf",
    ),
    "true for number": ("[environment]\ncpus = true", "environment.cpus: expected a finite number above 0, got true"),
    "fraction of a megabyte": (
        "[environment]\nmemory_mb = 0.5",
        "environment.memory_mb: expected a whole number above 0, got the number 0.5; write for example",
    ),
    "huge number": (
        "[environment]\nmemory_mb = 99999999999999999999999",
        "environment.memory_mb: is the number of 77 bits, too large to be kept; write for example memory_mb = 2048",
    ),
    "table for string": ("source = { a = 1 }", "task.toml:1: source: expected a string, got a table"),
    "string for table": ("agent = 'me'", "task.toml:1: agent: expected a table, got the string 'me'"),
    "env not text": (
        "[environment.env]\nPORT = 80",
        'task.toml:2: environment.env.PORT: expected a string, got the number 80; write for example PORT = "text"',
    ),
    "env name": (
        "[solution.env]\n'a-b' = 'x'",
        "task.toml:1: solution.env: the string 'a-b' is not a valid environment variable name; use letters",
    ),
    "misspelt mode": (
        "[environment]\nnetwork_mode = 'no_network'",
        "environment.network_mode: expected one of 'allowlist', 'no-network', 'public', got the string 'no_network'; "
        "did you mean 'no-network'?",
    ),
    "hosts without mode": (
        "[environment]\nallowed_hosts = ['a.org']",
        "environment.allowed_hosts: is given although network_mode is not 'allowlist'; write network_mode",
    ),
    "host with scheme": (
        "[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['a.org', 'https://a.org/x']",
        "task.toml:3: agent.allowed_hosts[1]: expected a host name, *.name, an address or a network such as "
        "192.0.2.0/24, got the string 'https://a.org/x'; leave out scheme, port and path",
    ),
    "windows": (
        "[environment]\nos = 'windows'",
        "environment.os: is 'windows': only Linux tasks run here; run this task",
    ),
    "task name": (
        "[task]\nname = 'mine'",
        "task.toml:2: task.name: expected org/name of letters, digits, dots, hyphens and underscores, got the string "
        "'mine'; write for example name = \"local/my-task\"",
    ),
    "task without name": (
        "[task]\nversion = '1'",
        'task.toml:1: task.name: is required and missing; add name = "org/name"',
    ),
    "shared with environment": (
        "[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\n",
        "task.toml:2: verifier.environment_mode: is 'shared' although [verifier.environment] is given; write",
    ),
    "artifact climbs": (
        "artifacts = ['/workspace/../etc/shadow']",
        "artifacts[0]: expected a path inside without '..', got the string '/workspace/../etc/shadow'; write",
    ),
    "artifact lands outside": (
        "[[artifacts]]\nsource = '/a'\ndestination = '../../b'",
        "task.toml:3: artifacts[0].destination: expected a relative path without '..' or backslash, got the string "
        "'../../b'; write for example destination = \"out/result.json\"",
    ),
    "artifact lands on root": (
        "artifacts = [{ source = '/a', destination = '/b' }]",
        "destination: expected a relative path",
    ),
    "artifact shadows": (
        "artifacts = [{ source = '/a', destination = 'manifest.json' }]",
        "artifacts[0].destination: is 'manifest.json', which the collection itself writes; choose another name",
    ),
    "artifact is a number": (
        "artifacts = ['/a', 3]",
        'artifacts[1]: expected a string or a table, got the number 3; for example "text"',
    ),
    "other service": (
        "[[verifier.collect]]\ncommand = 'x'\nservice = 'db'",
        "task.toml:3: verifier.collect[0].service: is 'db': there is one service here, 'main'; collect from 'main'",
    ),
    "collect without command": (
        "[[verifier.collect]]\ntimeout_sec = 5",
        "task.toml:1: verifier.collect[0].command: is required and missing; add command = ",
    ),
    "health without command": (
        "[environment.healthcheck]\nretries = 1",
        "environment.healthcheck.command: is required and",
    ),
    "health retries": (
        "[environment.healthcheck]\ncommand = 'x'\nretries = -1",
        "task.toml:3: environment.healthcheck.retries: expected a whole number of at least 0, got the number -1",
    ),
    "server without url": (
        "[[environment.mcp_servers]]\nname = 'a'",
        "environment.mcp_servers[0].url: is required for transport 'sse' and missing; add url = \"...\"",
    ),
    "server without command": (
        "[[environment.mcp_servers]]\nname = 'a'\ntransport = 'stdio'",
        "environment.mcp_servers[0].command: is required for transport 'stdio' and missing; add command",
    ),
    "server twice": (
        "[[environment.mcp_servers]]\nname = 'a'\nurl = 'http://x'\n[[environment.mcp_servers]]\nname = 'a'\nurl = 'http://y'",
        "task.toml:5: environment.mcp_servers[1].name: 'a' is used twice; give each its own name",
    ),
    "open credential": (
        "[[environment.mcp_servers]]\nname = 'a'\nurl = 'http://x'\nheaders = { Authorization = 'Bearer abc' }",
        "environment.mcp_servers[0].headers.Authorization: holds a credential in the open; refer to a variable",
    ),
    "topology": (
        "[environment.tpu]\ntype = 'v6e'\ntopology = '2by2'",
        "task.toml:3: environment.tpu.topology: expected dimensions joined by x, got the string '2by2'; write for",
    ),
    "relative workdir": (
        "[environment]\nworkdir = 'src/../..'",
        "environment.workdir: expected an absolute path without '..', got the string 'src/../..'; write for",
    ),
    "climbing skills": (
        "[environment]\nskills_dir = '/workspace/../root'",
        "environment.skills_dir: expected an absolute path without '..', got the string '/workspace/../root'",
    ),
    "strange user": (
        "[agent]\nuser = 'a b; rm'",
        "agent.user: expected a user name or number, got the string 'a b; rm'",
    ),
    "strategy alone": (
        "multi_step_reward_strategy = 'mean'",
        "multi_step_reward_strategy: is set in a task without steps; remove it, or add [[steps]]",
    ),
    "step climbs": (
        "[[steps]]\nname = '../solution'",
        "task.toml:2: steps[0].name: expected a plain folder name, got the string '../solution'; use letters, digits",
    ),
    "step twice": (
        "[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'",
        "task.toml:4: steps[1].name: is 'A', the name of another step ('a'); give every step its own name",
    ),
    "step without folder": (
        "[[steps]]\nname = 'first'",
        "steps/first: is missing although task.toml names it; add the folder with its instruction.md",
    ),
    "step reward": (
        "[[steps]]\nname = 'a'\nmin_reward = 'high'",
        "steps[0].min_reward: expected a finite number or a table of numbers, got the string 'high'",
    ),
    "old size": (
        "[environment]\nmemory = 'lots'",
        "environment.memory: expected a size such as '2G' or '512M', got the string 'lots'; write memory_mb = 2048",
    ),
    "two sizes": (
        "[environment]\nmemory = '1G'\nmemory_mb = 512",
        "environment.memory: says 1024 MB where memory_mb says the number 512; keep memory_mb and remove memory",
    ),
    "metadata not a number": (
        "[metadata]\nx = { y = [1, nan] }",
        "metadata.x.y[1]: is the number nan, which a record cannot hold; write it as a string",
    ),
    "our key misspelt": (
        "[metadata.assay.limits]\nturn = 5",
        "task.toml:2: metadata.assay.limits.turn: is not a known key; did you mean turns?",
    ),
    "our key unknown": (
        "[metadata.assay]\nzzz = 5",
        "metadata.assay.zzz: is not a known key; remove it; known here: split, tags, source, harbor_literal",
    ),
    "our limit": (
        "[metadata.assay.limits]\ntokens = -1",
        "metadata.assay.limits.tokens: expected a whole number above 0, got the number -1; write for example",
    ),
    "our literal": (
        "[metadata.assay]\nharbor_literal = ['networks']",
        "metadata.assay.harbor_literal[0]: expected one of 'network', 'verifier', got the string 'networks'; "
        "did you mean 'network'?",
    ),
    "our mask": (
        "[metadata.assay.environment]\nmasks = ['../x']",
        "metadata.assay.environment.masks[0]: expected an absolute path without '..', got the string '../x'",
    ),
    "our requirement": (
        "[metadata.assay.environment]\nrequirements = ['pytest>=8']",
        "metadata.assay.environment.requirements[0]: expected a pinned package, got the string 'pytest>=8'; write for",
    ),
    "our package": (
        "[metadata.assay.environment]\nmasked_packages = ['a b']",
        "metadata.assay.environment.masked_packages[0]: expected a package's name, got the string 'a b'; write for",
    ),
    "our check twice": (
        "[[metadata.assay.checks]]\nname = 'a'\nkind = 'x'\n[[metadata.assay.checks]]\nname = 'a'\nkind = 'y'",
        "task.toml:5: metadata.assay.checks[1].name: 'a' is used twice; give each check its own name",
    ),
    "our table": ("[metadata]\nassay = 'x'", "metadata.assay: expected a table, got the string 'x'"),
}


@pytest.mark.parametrize("name", TOML)
def test_wrong_toml_is_explained(name: str, make: Make) -> None:
    text, expected = TOML[name]
    with pytest.raises(InvalidTask) as caught:
        load_task(make(text))
    assert expected in str(caught.value)
    for finding in caught.value.findings:
        assert finding.path
        assert finding.message
        assert finding.fix


def symlink(at: str, target: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / at).unlink(missing_ok=True)
        (folder / at).symlink_to(target)

    return change


def bind_socket(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder / "tests")
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s")
    finally:
        os.chdir(here)


FOLDER: dict[str, tuple[Callable[[Path], object], str]] = {
    "no task.toml": (
        lambda f: (f / "task.toml").unlink(),
        "task.toml: is missing; add it, or name a folder that has one",
    ),
    "no instruction": (lambda f: (f / "instruction.md").unlink(), "instruction.md: is missing; write what the agent"),
    "empty instruction": (
        lambda f: (f / "instruction.md").write_text("<!-- canary 1 -->\n\n \n"),
        "instruction.md: says nothing; write what the agent shall do",
    ),
    "long instruction": (
        lambda f: (f / "instruction.md").write_bytes(b"x" * (1 << 20) + b"x"),
        "instruction.md: is larger than 1024 KiB; move long material into environment/",
    ),
    "long toml": (lambda f: (f / "task.toml").write_bytes(b"#" * (2 << 20)), "task.toml: is larger than 1024 KiB;"),
    "binary instruction": (
        lambda f: (f / "instruction.md").write_bytes(b"abc\xff\xfe"),
        "instruction.md: is not UTF-8 at byte 3; save it as UTF-8",
    ),
    "binary toml": (lambda f: (f / "task.toml").write_bytes(b"\x00\xff"), "task.toml: is not UTF-8 at byte 1; save it"),
    "no tests": (
        lambda f: (f / "tests/test.sh").unlink(),
        "tests/test.sh: is missing; write a script that judges and writes /logs/verifier/reward.txt",
    ),
    "tests for windows": (
        lambda f: (f / "tests/test.sh").rename(f / "tests/test.bat"),
        "tests/test.sh: is missing; test.bat is for Windows: write a test.sh",
    ),
    "services": (
        lambda f: (f / "environment/docker-compose.yaml").write_text("services: {}\n"),
        "environment/docker-compose.yaml: asks for several services, and there is one sandbox here; write environment/",
    ),
    "absolute link": (
        symlink("tests/data", "/etc/passwd"),
        "tests/data: is a link to '/etc/passwd', an absolute path; copy what it means into the task",
    ),
    "climbing link": (
        symlink("instruction.md", "../../../../etc/hostname"),
        "instruction.md: is a link to '../../../../etc/hostname', which leads",
    ),
    "circular link": (
        symlink("tests/loop", "loop"),
        "tests/loop: is a link to 'loop', which leads nowhere or in a circle",
    ),
    "link to a folder around": (symlink("tests/up", ".."), "tests/up: is a link to '..', a folder around it; copy"),
    "linked toml": (symlink("task.toml", "/dev/zero"), "task.toml: is a link to '/dev/zero', an absolute path; copy"),
    "pipe": (lambda f: os.mkfifo(f / "tests/pipe"), "tests/pipe: is a device, pipe or socket; remove it"),
    "socket": (bind_socket, "tests/s: is a device, pipe or socket; remove it"),
    "pipe for toml": (
        lambda f: ((f / "task.toml").unlink(), os.mkfifo(f / "task.toml")),
        "task.toml: is a device, pipe or socket; remove it",
    ),
    "folder for toml": (
        lambda f: ((f / "task.toml").unlink(), (f / "task.toml").mkdir()),
        "task.toml: is missing; add it",
    ),
    "name that is no text": (
        lambda f: Path(os.fsdecode(os.fsencode(f / "tests") + b"/\xff")).write_text("x"),
        "has a name that is not UTF-8; rename it",
    ),
    "too deep": (
        lambda f: (f / "tests" / "/".join(["d"] * 70)).mkdir(parents=True),
        "lies more than 64 folders deep; flatten the task",
    ),
}


@pytest.mark.parametrize("name", FOLDER)
def test_wrong_folder_is_explained(name: str, make: Make) -> None:
    change, expected = FOLDER[name]
    folder = make()
    change(folder)
    with pytest.raises(InvalidTask) as caught:
        load_task(folder)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("nothing", "does not exist; a task is a folder with a task.toml"),
        ("file", "is a file, not a task folder"),
        ("x" * 5000, "cannot be read: File name too long; check the path"),
        ("a\0b", "does not exist"),
    ],
)
def test_no_folder_is_explained(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=expected):
        load_task(tmp_path / path)


def test_all_problems_come_at_once(make: Make) -> None:
    toml = "[agent]\ntimeout_sec = -1\n[environment]\ncpus = 'x'\n[[steps]]\nname = 'a/b'\n[metadata.assay]\nx = 1\n"
    with pytest.raises(InvalidTask) as caught:
        load_task(make(toml))
    fields = {finding.field for finding in caught.value.findings}
    assert fields >= {"agent.timeout_sec", "environment.cpus", "steps[0].name", "metadata.assay.x"}
    assert "(4 problems)" in str(caught.value)
