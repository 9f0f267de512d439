"""Walks over the scripts of a folder and reports where tainted text is evaluated.

The walk is repeated: twice for the texts of variables, then until no more names are tainted. A construct that the
walk does not know is reported.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .commands import CODE_FILES, RULES, SILENT, Call
from .expansion import Expander
from .functions import FunctionTable, arguments_word, dropped_arguments
from .programs import PROGRAM_RULES, basename, is_file_of_tests
from .redirections import RedirectionReader
from .special_variables import reason_against
from .syntax import Node, UnreadableScript, parse_script
from .tests_of_values import check_double_brackets, check_single_brackets, operands_of_test
from .variable_commands import VARIABLE_RULES
from .words import CLEAN, TAINTED, UNKNOWN, Variables, Word, join_words

__all__ = ["MOST_WALKS", "Report", "analyse_scripts"]

MOST_WALKS, MOST_NESTED, TEXT_WALKS = 12, 4, 2
_SYSTEM = re.compile(r"/(?:usr/(?:local/)?)?s?bin/([\w.+-]+)\Z")
_ELEMENTS = re.compile(r'"\$\{\w+\[@\]\}"\Z|"\$@"\Z')
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
        self._files = files
        self._script = ""
        self._nested: list[Node] = []
        self._branches = 0
        self._texts: dict[str, Node] = {}
        self._expander = Expander(self.variables, self.report, self._run_substitution)
        self._functions = FunctionTable(functions, self.variables, self._expander)
        self._redirections = RedirectionReader(self, self._expander, self._run_substitution)

    def walk(self, script: Script) -> None:
        """Walks over one script."""
        self._script, self.is_korn, self.cwd = script.name, script.is_korn, CLEAN
        self._expander.function, self._expander.shifts, self._branches = "", 0, 0
        self._report_broken(script.root)
        self._visit(script.root, self.variables.lookup("<"))

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
        printed = [self._redirections.read_file(one) for one in inside if one.kind == "file_redirect"]
        printed.append(self._visit_all([one for one in inside if one.kind != "file_redirect"], stdin))
        self.cwd = folder
        return join_words(printed)

    def _visit_function_definition(self, node: Node, stdin: Word) -> Word:
        name = node.of_field("name")[0].text
        self.variables.assign(f"{name}<", stdin, whole=False)
        before, branches = self._functions.enter(name), self._branches
        self._branches = 0
        body = [one for one in node.children if one.field in ("body", "redirect")]
        printed = self._visit_redirected(body, self.variables.lookup(f"{name}<"))
        self.variables.assign(f"{name}>", printed, whole=False)
        self._functions.leave(before)
        self._branches = branches
        return SILENT

    def _visit_redirected_statement(self, node: Node, stdin: Word) -> Word:
        return self._visit_redirected(node.children, stdin)

    def _visit_redirected(self, children: list[Node], stdin: Word) -> Word:
        stdin, bodies, words, later, reads_file = self._redirections.read(children, stdin)
        if words and [one.kind for one in bodies] == ["command"]:
            return self._visit_command(bodies[0], stdin, words)
        if words:
            self.report(words[0], "words stand behind a redirection of a statement that is no command")
        printed = self._visit_all([one for one in bodies if one.kind != "pipeline"], stdin)
        for one in bodies:
            if one.kind == "pipeline":  # a file may be the input of any of its commands
                printed = self._visit_pipeline(one, stdin, beside=stdin if reads_file else None)
        for one in later:
            printed = self._visit_pipeline(one, printed) if one.kind == "pipeline" else self._visit(one, stdin)
        return printed

    def _visit_pipeline(self, node: Node, stdin: Word, beside: Word | None = None) -> Word:
        for one in node.children:
            if one.kind not in ("|", "|&"):
                stdin = self._visit(one, stdin)
                if beside is not None:
                    stdin = join_words([stdin, beside])._replace(text=UNKNOWN)
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
        if any(one.kind == "array" or one.kind == "subscript" for one in node.children):
            self.variables.arrays.add(name)
        self.check_assignment(node, name, word)
        self.variables.assign(name, word, whole=whole)
        return SILENT

    def check_assignment(self, node: Node, name: str, word: Word) -> None:
        if reason := reason_against(name, word):
            self.report(node, reason)

    def _visit_declaration_command(self, node: Node, stdin: Word) -> Word:
        name = node.children[0].text
        names = ("variable_assignment", "variable_name")
        words = [self._expander.expand(one) for one in node.children[1:] if one.kind not in names]
        options = "".join(word.text for word in words if word.text.startswith("-"))
        if (not name.startswith(("export", "readonly")) and "n" in options) or UNKNOWN in options:
            self.report(node, "a name reference evaluates an index")
        for one in node.children[1:]:
            if one.kind == "variable_assignment":
                self._visit_variable_assignment(one, stdin)
                self._check_declared_value(one, options)
            if one.kind in names and "i" in options:
                self._expander.calculate(one.of_field("name")[0] if one.children else one)
            if one.kind == "variable_name" and re.search("[aA]", options):
                self.variables.arrays.add(one.text)
        return PROGRAM_RULES["declare"](Call(self, node, name, words, stdin))

    def _check_declared_value(self, node: Node, options: str) -> None:
        """Reports a declaration whose value, where it is written as a list, is evaluated again."""
        name, _ = self._expander.target_of(node.of_field("name")[0])
        values = node.of_field("value")
        if re.search("[aA]", options) or any(one.kind == "array" for one in values):
            self.variables.arrays.add(name)
        tainted = any(one.kind != "array" and not self._expander.expand(one).clean for one in values)
        if tainted and name in self.variables.arrays:
            self.report(node, "a declaration evaluates a value of an array that is written as a list")

    def _visit_unset_command(self, node: Node, stdin: Word) -> Word:
        words = [self._expander.expand(one) for one in node.children[1:] if one.kind != "variable_name"]
        return VARIABLE_RULES["unset"](Call(self, node, "unset", words, stdin))

    def _visit_command(self, node: Node, stdin: Word, more: Iterable[Node] = ()) -> Word:
        for one in node.children:
            if one.kind == "variable_assignment":
                self._visit_variable_assignment(one, stdin)
        rest = [one for one in node.children if one.kind != "variable_assignment"]
        stdin, plain, behind, later, _ = self._redirections.read(rest, stdin)
        words = [word for one in (*plain, *behind, *more) for word in self._words_of(one)]
        if len(words) == 1 and words[0].known == "exec":
            for name in ("<", f"{self._expander.function}<"):
                self.variables.assign(name, stdin, whole=False)
        printed = self.run_words(node, words, stdin)
        for one in later:
            printed = self._visit(one, printed)
        return printed

    def _words_of(self, node: Node) -> list[Word]:
        """Returns the words that a node of a command becomes."""
        word = self._expander.expand(node)
        every = arguments_word(node, word)
        if every is not None and self._expander.function not in ("", "-c"):
            return [every]
        if (word.is_split or _ELEMENTS.match(node.text)) and word.clean and UNKNOWN not in word.text:
            return [Word(part, prefix=part) for part in word.text.split()]
        return [word]

    def run_words(self, node: Node, words: list[Word], stdin: Word) -> Word:
        name = words[0].known if words else ":"
        if words and (dropped := dropped_arguments(words[0])) is not None:
            return self._run_arguments(node, dropped)
        if words and basename(words[0]) in self.programs and name not in self._functions:
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
        if rule := RULES.get(name) or VARIABLE_RULES.get(name) or PROGRAM_RULES.get(name):
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
        self._functions.note_call(name, arguments, stdin)
        index = self._functions.runner_index(name)
        dropped = [number for word in arguments if (number := dropped_arguments(word)) is not None]
        if index is not None and dropped and dropped_arguments(arguments[0]) is not None:
            self._run_arguments(node, index + dropped[0])
        elif index is not None and (dropped or len(self._nested) >= MOST_NESTED):
            self.report(node, "the command is not known before the script runs")
        elif index is not None:
            self._nested.append(node)
            self.run_words(node, arguments[index:], stdin)
            self._nested.pop()
        return self._functions.output_of(name)

    def _run_arguments(self, node: Node, more: int) -> Word:
        if not self._functions.note_runner(more):
            self.report(node, "the command is not known before the script runs")
        return TAINTED

    def count_shift(self, words: list[Word]) -> None:
        self._functions.count_shift(words, is_certain=not self._branches)

    def run_text(self, node: Node, text: str, stdin: Word, function: str | None = None) -> Word:
        if len(self._nested) >= MOST_NESTED:
            self.report(node, "scripts within scripts are nested too deep")
            return TAINTED
        if text not in self._texts:
            self._texts[text] = parse_script(text)
        root = self._texts[text]
        before = self._functions.enter(self._expander.function if function is None else function)
        self._expander.shifts = None
        self._nested.append(node)
        self._report_broken(root)
        printed = self._visit(root, stdin)
        self._nested.pop()
        self._functions.leave(before)
        return printed

    def _report_broken(self, root: Node) -> None:
        for one in root.walk():
            skipped = one.skipped_text
            if (one.is_broken and one.text.strip() != "<<") or skipped not in ("", "-"):  # as in `cat - <<END`
                self.report(one, "the parser does not understand this")


def analyse_scripts(
    texts: Iterable[tuple[str, str, bool]],
    programs: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
    *,
    is_called: bool = False,
) -> tuple[Report, ...]:
    """Returns where scripts evaluate tainted text, in their order and that of the lines.

    Args:
        texts: Name and text of each script, and whether its shell is a Korn shell or zsh. They share variables and
            functions, because one may source another.
        programs: Paths of the judged programs.
        files: Languages of the files that lie beside the scripts, by their names; None where they are not known.
        is_called: Other programs may start the scripts with any arguments.
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
    walker.variables.tainted |= {"()", "<"} if is_called else set()
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
