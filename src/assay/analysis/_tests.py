"""Detection of test commands."""

from __future__ import annotations

import re

from ._memo import cached_by_command
from .commands import SimpleCommand, simple_commands

_RUNNER_NAMES = """pytest py.test pytest-3 nosetests nose2 tox nox trial jest mocha vitest ava karma jasmine ctest
    phpunit pest rspec prove bats runtests runtests.py stestr green ward behave robot gotestsum cucumber minitest
    zope-testrunner"""
_RUNNERS = frozenset(_RUNNER_NAMES.split())
_MODULES = frozenset(
    {"pytest", "unittest", "nose", "nose2", "tox", "nox", "trial", "doctest", "behave", "stestr", "green"}
)
_WITH_VERB: dict[str, frozenset[str]] = {
    "go": frozenset({"test"}),
    "cargo": frozenset({"test", "nextest", "t"}),
    "npm": frozenset({"test", "t", "tst"}),
    "yarn": frozenset({"test", "jest", "vitest", "mocha"}),
    "pnpm": frozenset({"test", "t", "jest", "vitest", "mocha"}),
    "bun": frozenset({"test"}),
    "deno": frozenset({"test"}),
    "mvn": frozenset({"test", "verify", "integration-test", "surefire:test", "install"}),
    "mvnw": frozenset({"test", "verify", "integration-test", "surefire:test", "install"}),
    "gradle": frozenset({"test", "check"}),
    "gradlew": frozenset({"test", "check"}),
    "make": frozenset({"check"}),
    "rake": frozenset({"test", "spec"}),
    "rails": frozenset({"test", "spec"}),
    "dotnet": frozenset({"test"}),
    "swift": frozenset({"test"}),
    "mix": frozenset({"test"}),
    "lein": frozenset({"test"}),
    "sbt": frozenset({"test"}),
    "bazel": frozenset({"test"}),
    "buck": frozenset({"test"}),
    "stack": frozenset({"test"}),
    "cabal": frozenset({"test"}),
    "dune": frozenset({"test", "runtest"}),
    "zig": frozenset({"test"}),
    "composer": frozenset({"test"}),
    "xcodebuild": frozenset({"test"}),
    "flutter": frozenset({"test"}),
    "dart": frozenset({"test"}),
    "manage.py": frozenset({"test"}),
    "setup.py": frozenset({"test"}),
    "meson": frozenset({"test"}),
    "ninja": frozenset({"test"}),
}
_RUNS_SCRIPT = frozenset({"npm", "yarn", "pnpm", "bun"})
_ONE_OFF = frozenset({"npx", "bunx", "pnpx", "uvx", "pipx"})
_LANGUAGES = re.compile(r"^(?:python|pypy)[\d.]*$|^(?:node|ruby|perl|php|Rscript|julia|sh|bash|ts-node|tsx)$")
_ONLY_LISTS = frozenset(
    {
        "--collect-only",
        "--co",
        "--version",
        "-V",
        "--help",
        "-h",
        "--fixtures",
        "--markers",
        "--listTests",
        "--setup-plan",
    }
)
_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?_[^/]*|[^/]*_tests?|tests?|run_?tests?|conftest|[^/]*_spec|[^/]*\.(?:test|spec)|[A-Z]\w*Tests?)"
    r"\.(?:py|sh|js|mjs|cjs|ts|jsx|tsx|rb|go|rs|java|kt|php|pl|t|c|cc|cpp|cs|scala|ex|exs|R|jl|bats|feature)$"
)
_TEST_FOLDER = re.compile(r"(?:^|/)(?:tests?|testing|__tests__|specs?)/")
_IN_CODE = re.compile(r"\b(?:pytest|unittest|nose|doctest)\.(?:main|testmod|run)\(|(?<![\w.])\w+\.test\(")
_TARGET = re.compile(r"^(?:[\w-]*[-_:])?(?:tests?|check|spec)(?:[-_:][\w-]*)?$")


def is_test_file(path: str) -> bool:
    """Returns whether a path is named as tests are: `test_x.py`, `x_test.go`, anything in a folder `tests`."""
    return _TEST_FILE.search(path) is not None or _TEST_FOLDER.search(path) is not None


@cached_by_command
def test_commands(command: str) -> tuple[SimpleCommand, ...]:
    """Returns the simple commands of a shell text that run tests; listing, collecting and help are excluded."""
    return tuple(each for each in simple_commands(command) if _runs_tests(each))


test_commands.__test__ = False  # type: ignore[attr-defined]


def _runs_tests(simple: SimpleCommand) -> bool:
    words = simple.effective
    if not words or any(word in _ONLY_LISTS for word in words[1:]):
        return False
    name = words[0].rsplit("/", 1)[-1]
    if name in _RUNNERS or (name == "test" and words[0].endswith("bin/test")):
        return True
    if _LANGUAGES.match(name):
        return _interpreted(words[1:], simple.stdin)
    if name in _ONE_OFF:
        return any(word.split("@")[0] in _RUNNERS or word == "playwright" for word in words[1:4])
    verbs = _WITH_VERB.get(name)
    if verbs is not None and _by_verb(name, words[1:], verbs):
        return True
    return words[0] != name and _TEST_FILE.search(words[0]) is not None


def _by_verb(name: str, words: tuple[str, ...], verbs: frozenset[str]) -> bool:
    given = [word for word in words if not word.startswith(("-", "+"))]
    if name in ("mvn", "mvnw", "gradle", "gradlew", "make", "ninja", "sbt", "bazel"):
        if "install" in given and any("skipTests" in word or "maven.test.skip" in word for word in words):
            return False
        return any(word in verbs or _TARGET.match(word.rsplit(":", 1)[-1]) for word in given)
    if name in _RUNS_SCRIPT and given[:1] == ["run"]:
        return len(given) > 1 and _TARGET.match(given[1]) is not None
    return bool(given) and given[0] in verbs


def _interpreted(words: tuple[str, ...], stdin: str | None) -> bool:
    """Returns whether an interpreter runs tests: `python -m pytest`, `python tests/test_x.py`, code that starts a
    runner."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "-m":
            return words[at + 1 : at + 2] != () and words[at + 1].split(".")[0] in _MODULES
        if words[at] in ("-c", "-e"):
            return at + 1 < len(words) and _IN_CODE.search(words[at + 1]) is not None
        at += 2 if words[at] in ("-W", "-X") else 1
    if at == len(words):
        return stdin is not None and _IN_CODE.search(stdin) is not None
    script = words[at]
    name = script.rsplit("/", 1)[-1]
    if name in ("manage.py", "setup.py"):
        return words[at + 1 : at + 2] == ("test",)
    runner = name.removesuffix(".py").removesuffix(".js")
    return (
        name in _RUNNERS or runner in _RUNNERS or script.endswith("bin/test") or _TEST_FILE.search(script) is not None
    )
