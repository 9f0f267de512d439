"""Walks over the scripts of a folder and reports where tainted text is evaluated.

The walk is repeated: twice for the texts of variables, then until no more names are tainted. A construct that the
walk does not know is reported.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .commands import CODE_FILES, RULES, SILENT, Call, require_data_file
from .expansion import Expander
from .programs import PROGRAM_RULES, basename, is_file_of_tests
from .syntax import Node, UnreadableScript, parse_script
from .tests_of_values import check_double_brackets, check_single_brackets, operands_of_test
from .words import CLEAN, TAINTED, UNKNOWN, Variables, Word, is_file_of_the_task, join_words

__all__ = ["MOST_WALKS", "Report", "analyse_scripts"]

MOST_WALKS, MOST_NESTED, TEXT_WALKS = 12, 4, 2
_FORBIDDEN = re.compile(r"(?:BASH_ENV|ENV|PROMPT_COMMAND|PS[0-4]|SHELLOPTS|BASHOPTS|BASH_FUNC.*)\Z")
_TRUSTED = re.compile(
    r"(?:PATH|CDPATH|FPATH|IFS|HOME|SHELL|TMPDIR|EDITOR|PAGER|EXECIGNORE|GLOBIGNORE|POSIXLY_CORRECT|OPTIND|SECONDS|RANDOM"
    r"|LINENO|FUNCNEST|TMOUT|COLUMNS|E?UID|(?:LD_|PYTHON|PERL|RUBY|NODE_|GIT_|AWK|PYTEST|BASH|HIST)\w*)\Z"
)
_SYSTEM = re.compile(r"/(?:usr/(?:local/)?)?s?bin/([\w.+-]+)\Z")
_ELEMENTS = re.compile(r'"\$\{\w+\[@\]\}"\Z|"\$@"\Z')
_DEVICES = ("/dev/null", "/dev/std", "/dev/fd/", "/dev/tty")
_ALL = "\0@"
"""Begins the text of the word `"$@"` in a function; the number of arguments that are left out follows."""
_ARGUMENTS = re.compile(r'"\$(?:@|\{@(?::([1-9]))?\})"\Z')
_PUNCTUATION = frozenset({
    ";", "&", "&&", "||", ";;", ";&", ";;&", "!", "if", "then", "elif", "else", "fi", "while", "until", "do", "done",
    "{", "}", "(", ")", "|", "|&", "in", "esac", "case", "\n",
})  # fmt: skip
_BRANCHES = frozenset({"if_statement", "while_statement", "for_statement", "c_style_for_statement", "case_statement"})
_BLOCKS = frozenset({
    "program", "list", "compound_statement", "subshell", "if_statement", "elif_clause", "else_clause", "do_group",
    "negated_command", "while_statement", "case_item", "variable_assignments",
})  # fmt: skip


class Report(NamedTuple):
    """A place where a script evaluates tainted text."""

    script: str
    line: int
    reason: str


class Script(NamedTuple):
    """A parsed script."""

    name: str
    root: Node
    is_korn: bool


class _Walker:
    """One walk over all scripts; see `commands.Host`."""

    def __init__(self, programs: Iterable[str], files: Mapping[str, str] | None, functions: frozenset[str]) -> None:
        self.variables = Variables()
        self.programs = frozenset(path.rpartition("/")[2] for path in programs)
        self.is_korn, self.cwd = False, CLEAN
        self.reports: dict[Report, None] = {}
        self._files, self._functions = files, functions
        self._script = ""
        self._nested: list[Node] = []
        self._shifts: int | None = 0
        self._branches = 0
        self._texts: dict[str, Node] = {}
        self._expander = Expander(self.variables, self.report, self._run_substitution)
        self._runners: dict[str, int] = {}
        self.steps = 0

    def walk(self, script: Script) -> None:
        """Walks over one script."""
        self._script, self.is_korn, self.cwd = script.name, script.is_korn, CLEAN
        self._expander.function, self._shifts, self._branches = "", 0, 0
        self._report_broken(script.root)
        self._visit(script.root, CLEAN)

    def report(self, node: Node, reason: str) -> None:
        line = (self._nested[0] if self._nested else node).line
        self.reports[Report(self._script, line, reason)] = None

    def positional(self) -> str:
        return f"{self._expander.function}()"

    def has_file(self, name: str) -> bool:
        return name in self._files if self._files is not None else name.endswith(CODE_FILES)

    def require_number(self, node: Node, word: Word) -> None:
        self._expander.require_number(node, word)

    def _visit(self, node: Node, stdin: Word) -> Word:
        """Walks over a statement; returns what it prints."""
        self.steps += 1
        visit = getattr(self, f"_visit_{node.kind}", None)
        if node.kind in _BRANCHES:
            return self._visit_branch(node, stdin)
        if visit is not None:
            return visit(node, stdin)  # type: ignore[no-any-return]
        if node.kind in _BLOCKS:
            return self._visit_all(node.children, stdin)
        if not node.children and node.kind in (*_PUNCTUATION, "comment"):
            return SILENT
        self.report(node, f"the analysis does not know this syntax ({node.kind})")
        return TAINTED

    def _visit_branch(self, node: Node, stdin: Word) -> Word:
        self._branches += 1
        visit = getattr(self, f"_visit_{node.kind}", self._visit_block)
        printed: Word = visit(node, stdin)
        self._branches -= 1
        return printed

    def _visit_block(self, node: Node, stdin: Word) -> Word:
        return self._visit_all(node.children, stdin)

    def _visit_all(self, nodes: Iterable[Node], stdin: Word) -> Word:
        printed = [self._visit(one, stdin) for one in nodes]
        some = [word for word in printed if word != SILENT]
        return some[0] if len(some) == 1 else join_words(some)._replace(text=UNKNOWN) if some else SILENT

    def _run_substitution(self, node: Node, stdin: Word) -> Word:
        folder, self.cwd = self.cwd, CLEAN
        inside = [one for one in node.children if one.kind not in ("$(", ")", "`", "<(", ">(")]
        if node.text.startswith(">("):
            stdin = TAINTED
        printed = [self._read_file(one) for one in inside if one.kind == "file_redirect"]
        printed.append(self._visit_all([one for one in inside if one.kind != "file_redirect"], stdin))
        self.cwd = folder
        return join_words(printed)

    def _read_file(self, redirect: Node) -> Word:
        targets = redirect.of_field("destination")
        if [one.kind for one in targets] == ["process_substitution"]:
            return self._run_substitution(targets[0], CLEAN)
        words = [self._expander.expand(one) for one in targets]
        if not all(word.clean for word in words):
            self.report(redirect, "tainted text names a file that is read")
        return Word(UNKNOWN, bool(words) and all(map(is_file_of_the_task, words)))

    def _visit_function_definition(self, node: Node, stdin: Word) -> Word:
        name = node.of_field("name")[0].text
        before, self._expander.function = self._expander.function, name
        shifts, self._shifts, branches, self._branches = self._shifts, 0, self._branches, 0
        body = [one for one in node.children if one.field in ("body", "redirect")]
        printed = self._visit_redirected(body, self.variables.lookup(f"{name}<"))
        self.variables.assign(f"{name}>", printed, whole=False)
        self._expander.function, self._shifts, self._branches = before, shifts, branches
        return SILENT

    def _visit_redirected_statement(self, node: Node, stdin: Word) -> Word:
        return self._visit_redirected(node.children, stdin)

    def _visit_redirected(self, children: list[Node], stdin: Word) -> Word:
        """Walks over a statement with redirections; further statements may stand within a here-document's head."""
        bodies: list[Node] = []
        stdin, later = self._redirect(children, bodies, stdin)
        printed = self._visit_all(bodies, stdin)
        for one in later:
            printed = self._visit_pipeline(one, printed) if one.kind == "pipeline" else self._visit(one, stdin)
        return printed

    def _redirect(self, children: list[Node], bodies: list[Node], stdin: Word) -> tuple[Word, list[Node]]:
        """Returns the input that redirections give; collects what they belong to, and what stands in their lines."""
        later: list[Node] = []
        before = ""
        for one in children:
            if one.kind == "file_redirect":
                stdin = self._redirect_file(one, stdin, is_text=before == "<<")
            elif one.kind == "herestring_redirect":
                stdin = join_words([self._expander.expand(word) for word in one.children if word.kind != "<<<"])
            elif one.kind == "heredoc_redirect":
                stdin, more = self._here_document(one, stdin)
                later += more
            elif one.kind == "ERROR" and one.text.strip() == "<<":
                pass  # the grammar's reading of `2>&1 <<<`
            else:
                bodies.append(one)
            before = one.text.strip() if one.kind == "ERROR" else ""
        return stdin, later

    def _redirect_file(self, node: Node, stdin: Word, *, is_text: bool) -> Word:
        operator = next((one.text for one in node.children if not one.field), "")
        if is_text and operator == "<":
            return join_words([self._expander.expand(one) for one in node.of_field("destination")])
        if operator == "<":
            return self._read_file(node)
        if operator in ("<&", "<&-"):
            return TAINTED
        for one in node.of_field("destination"):
            word = self._expander.expand(one)
            is_stream = one.kind == "process_substitution" or (operator in (">&", ">&-") and one.kind == "number")
            if not is_stream and not (word.clean and word.text.startswith(_DEVICES)):
                require_data_file(self, one, word)
        return stdin if operator != "<>" else TAINTED

    def _here_document(self, node: Node, stdin: Word) -> tuple[Word, list[Node]]:
        start, body = node.child("heredoc_start"), node.child("heredoc_body")
        is_literal = start is not None and re.search(r"['\"\\]", start.text) is not None
        text = CLEAN
        if body is not None:
            text = Word(body.text) if is_literal else self._expander.expand(body)
        rest = [one for one in node.children if not one.kind.startswith("heredoc") and one.kind not in ("<<", "<<-")]
        if any(one.kind == "file_descriptor" for one in rest):
            text = stdin
        later: list[Node] = []
        _, more = self._redirect([one for one in rest if one.kind != "file_descriptor"], later, stdin)
        return text, [one for one in [*later, *more] if one.children or one.kind not in _PUNCTUATION]

    def _visit_pipeline(self, node: Node, stdin: Word) -> Word:
        for one in node.children:
            if one.kind not in ("|", "|&"):
                stdin = self._visit(one, stdin)
        return stdin

    def _visit_for_statement(self, node: Node, stdin: Word) -> Word:
        words = [self._expander.expand(one) for one in node.of_field("value")]
        if not words:
            words = [self.variables.lookup(self.positional())]
        for one in node.of_field("variable"):
            for word in words:
                self.check_assignment(one, one.text, word)
                self.variables.assign(one.text, word)
        return self._visit_all(node.of_field("body"), stdin)

    def _visit_c_style_for_statement(self, node: Node, stdin: Word) -> Word:
        for one in node.children:
            if one.field in ("initializer", "condition", "update"):
                self._expander.calculate(one)
        return self._visit_all(node.of_field("body"), stdin)

    def _visit_case_statement(self, node: Node, stdin: Word) -> Word:
        for one in node.of_field("value"):
            self._expander.expand(one)
        return self._visit_all([one for one in node.children if one.kind == "case_item"], stdin)

    def _visit_case_item(self, node: Node, stdin: Word) -> Word:
        for one in node.of_field("value"):
            if self._expander.expand(one).is_open:
                self.report(one, "tainted text is a pattern: quote it")
        return self._visit_all([one for one in node.children if one.field not in ("value", "termination")], stdin)

    def _visit_compound_statement(self, node: Node, stdin: Word) -> Word:
        if node.children and node.children[0].kind == "((":
            for one in node.children[1:-1]:
                self._expander.calculate(one)
            return SILENT
        return self._visit_all(node.children, stdin)

    def _visit_test_command(self, node: Node, stdin: Word) -> Word:
        opening = node.children[0].text
        if opening in ("((", "("):
            return self._visit_compound_statement(node, stdin)
        tokens = operands_of_test(self._expander, node.children[1:-1])
        (check_double_brackets if opening == "[[" else check_single_brackets)(self, node, tokens)
        return SILENT

    def _visit_variable_assignment(self, node: Node, stdin: Word) -> Word:
        name, whole = self._expander.target_of(node.of_field("name")[0])
        word = join_words([self._expander.expand(one) for one in node.of_field("value")])
        if any(one.kind == "+=" for one in node.children):
            whole = False
        self.check_assignment(node, name, word)
        self.variables.assign(name, word, whole=whole)
        return SILENT

    def check_assignment(self, node: Node, name: str, word: Word) -> None:
        if _FORBIDDEN.match(name) and not (word.known is not None and not re.search(r"[$`/]", word.known)):
            self.report(node, f"a shell evaluates the text of {name}")
        elif not word.clean and _TRUSTED.match(name):
            self.report(node, f"{name} decides which programs run, or how")

    def _visit_declaration_command(self, node: Node, stdin: Word) -> Word:
        options = "".join(one.text for one in node.children if one.kind == "word" and one.text.startswith("-"))
        if "n" in options and node.children[0].text not in ("export", "readonly"):
            self.report(node, "a name reference evaluates an index")
        words = []
        for one in node.children[1:]:
            if one.kind == "variable_assignment":
                self._visit_variable_assignment(one, stdin)
                if "i" in options:
                    self._expander.calculate(one.of_field("name")[0])
            elif one.kind == "variable_name" and "i" in options:
                self._expander.calculate(one)
            elif one.kind not in ("variable_name",):
                words.append(self._expander.expand(one))
        PROGRAM_RULES["declare"](Call(self, node, node.children[0].text, words, stdin))
        return SILENT

    def _visit_unset_command(self, node: Node, stdin: Word) -> Word:
        words = [self._expander.expand(one) for one in node.children[1:] if one.kind != "variable_name"]
        return RULES["unset"](Call(self, node, "unset", words, stdin))

    def _visit_command(self, node: Node, stdin: Word) -> Word:
        for one in node.children:
            if one.kind == "variable_assignment":
                self._visit_variable_assignment(one, stdin)
        rest = [one for one in node.children if one.kind != "variable_assignment"]
        plain: list[Node] = []
        stdin, later = self._redirect(rest, plain, stdin)
        printed = self.run_words(node, [word for one in plain for word in self._words_of(one)], stdin)
        for one in later:
            printed = self._visit(one, printed)
        return printed

    def _words_of(self, node: Node) -> list[Word]:
        """Returns the words that a node of a command becomes."""
        word = self._expander.expand(node)
        if (found := _ARGUMENTS.match(node.text)) and self._expander.function not in ("", "-c"):
            return [word._replace(text=f"{_ALL}{int(found[1] or 1) - 1}", prefix="")]
        if (word.is_split or _ELEMENTS.match(node.text)) and word.clean and UNKNOWN not in word.text:
            return [Word(part, prefix=part) for part in word.text.split()]
        return [word]

    def run_words(self, node: Node, words: list[Word], stdin: Word) -> Word:
        self.steps += 1
        name = words[0].known if words else ":"
        if words and words[0].text.startswith(_ALL):
            return self._run_arguments(node, int(words[0].text[len(_ALL) :]))
        if words and words[0].clean and (basename(words[0]) in self.programs):
            return TAINTED
        if name is None:
            if words[0].clean and words[0].text.startswith("/tests/") and ".." not in words[0].text:
                return self.start_file(node, words[0], words[1:], "shell")
            self.report(node, "the command is not known before the script runs")
            return TAINTED
        if name in self._functions:
            return self._run_function(node, name, words[1:], stdin)
        return self._run_named(node, name, words, stdin)

    def _run_named(self, node: Node, name: str, words: list[Word], stdin: Word) -> Word:
        if found := _SYSTEM.match(name):
            name = found[1]
        if name.startswith("/tests/") and ".." not in name:
            return self.start_file(node, words[0], words[1:], "shell")
        call = Call(self, node, name, words[1:], stdin)
        if name in ("[", "test"):
            check_single_brackets(self, node, words[1:-1] if name == "[" else words[1:])
            return SILENT
        if rule := RULES.get(name) or PROGRAM_RULES.get(name):
            return rule(call)
        if "/" in name and is_file_of_tests(call, words[0]):
            return self.start_file(node, words[0], words[1:], "shell")
        self.report(node, f"the analysis does not know the command {name[:60]}")
        return TAINTED

    def start_file(self, node: Node, file: Word, arguments: list[Word], language: str) -> Word:
        self.variables.assign("()", join_words(arguments), whole=False)
        pattern = file.text.rpartition("/")[2].replace("[", "[[]").replace(UNKNOWN, "*")
        for name, known in (self._files or {}).items():
            if language != "other" and known not in (language, "program") and fnmatch.fnmatchcase(name, pattern):
                self.report(node, f"{name} is not looked at: its name and its first line name no {language}")
        return TAINTED

    def _run_function(self, node: Node, name: str, arguments: list[Word], stdin: Word) -> Word:
        if any(word.text.startswith(_ALL) for word in arguments):
            if name in self._runners and not arguments[0].text.startswith(_ALL):
                self.report(node, "the command is not known before the script runs")
            elif name in self._runners:
                self._run_arguments(node, self._runners[name] + int(arguments[0].text[len(_ALL) :]))
            self._note_call(name, arguments, stdin)
            return self._output_of(name)
        self._note_call(name, arguments, stdin)
        if name in self._runners and len(self._nested) < MOST_NESTED:
            self._nested.append(node)
            self.run_words(node, arguments[self._runners[name] :], stdin)
            self._nested.pop()
        return self._output_of(name)

    def _note_call(self, name: str, arguments: list[Word], stdin: Word) -> None:
        self.variables.assign(f"{name}()", join_words(arguments, " "), whole=False)
        self.variables.assign(f"{name}<", stdin, whole=False)

    def _output_of(self, name: str) -> Word:
        return self.variables.lookup(f"{name}>")._replace(text=UNKNOWN)

    def _run_arguments(self, node: Node, more: int = 0) -> Word:
        """Notes that a function runs its arguments as a command: its calls are looked at."""
        function = self._expander.function
        index = None if self._shifts is None else self._shifts + more
        if not function or index is None or self._runners.setdefault(function, index) != index:
            self.report(node, "the command is not known before the script runs")
        return TAINTED

    def count_shift(self, words: list[Word]) -> None:
        """Notes that `shift` drops arguments of the function."""
        count = (words[0].known or "") if words else "1"
        self._shifts = self._shifts + int(count) if self._shifts is not None and count.isdigit() else None
        if self._branches:
            self._shifts = None

    def run_text(self, node: Node, text: str, stdin: Word) -> Word:
        if len(self._nested) >= MOST_NESTED:
            self.report(node, "scripts within scripts are nested too deep")
            return TAINTED
        if text not in self._texts:
            self._texts[text] = parse_script(text)
        root = self._texts[text]
        before, self._expander.function = (
            self._expander.function,
            "-c" if node.text.find("-c") >= 0 else self._expander.function,
        )
        self._nested.append(node)
        self._report_broken(root)
        printed = self._visit(root, stdin)
        self._nested.pop()
        self._expander.function = before
        return printed

    def _report_broken(self, root: Node) -> None:
        for one in root.walk():
            if one.is_broken and one.text.strip() != "<<":
                self.report(one, "the parser does not understand this")


def analyse_scripts(
    texts: Iterable[tuple[str, str, bool]], programs: Iterable[str] = (), files: Mapping[str, str] | None = None
) -> tuple[Report, ...]:
    """Returns where scripts evaluate tainted text, in their order and that of the lines.

    Args:
        texts: Name and text of each script, and whether its shell is a Korn shell or zsh. They share variables and
            functions, because one may source another.
        programs: Paths of the judged programs.
        files: Languages of the files that lie beside the scripts, by their names; None where they are not known.
    """
    scripts, unreadable = [], []
    for name, text, is_korn in texts:
        try:
            scripts.append(Script(name, parse_script(text), is_korn))
        except UnreadableScript as exc:
            unreadable.append(Report(name, 1, str(exc)))
    functions = frozenset(
        one.of_field("name")[0].text
        for script in scripts
        for one in script.root.walk()
        if one.kind == "function_definition"
    )
    walker = _Walker(programs, files, functions)
    try:
        reports = _walk_until_stable(walker, scripts)
    except (UnreadableScript, RecursionError) as exc:
        return (*unreadable, *(Report(script.name, 1, str(exc)[:100]) for script in scripts))
    return (*unreadable, *reports)


def _walk_until_stable(walker: _Walker, scripts: list[Script]) -> list[Report]:
    for round_number in range(MOST_WALKS):
        if round_number < TEXT_WALKS:
            walker.variables.begin_texts()
        else:
            walker.variables.begin_taint()
        walker.reports.clear()
        for script in scripts:
            walker.walk(script)
        if round_number >= TEXT_WALKS and not walker.variables.has_grown:
            break
    else:
        return [Report(script.name, 1, "its variables depend on each other too deeply") for script in scripts]
    return sorted(walker.reports, key=lambda report: ([s.name for s in scripts].index(report.script), report.line))
