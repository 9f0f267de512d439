"""`python scripts/reachability.py [ROOT]`: lists the public names of `src/assay` that no user can reach.

A static walk over definitions: a name is reached where a reached definition mentions it. The walk starts from the
console command, the entry points of `pyproject.toml`, the names that `import assay` offers, the programs of `docs_src`,
and what the how-to pages import or name in full. Nothing is imported. It follows

- imports (also inside functions, of packages that pass a name on, and of modules used by attribute),
- strings that name a definition (`package.module:Name`), and `from assay.x import y` inside templates,
- tables that name modules: `name:attribute`, or `name` in a module that calls `import_module`, names a neighbour,
- programs of sandboxes: a module in a folder `payload` or `launcher` is reached where a reached string names its file.

Tests are no starting point: a name that only its own tests mention is listed. Methods belong to their class.
"""

from __future__ import annotations

import argparse
import ast
import gc
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Name = tuple[str, str]
"""Module, and a name of its top level; `""` is what the module executes when it is imported."""
_TARGET = re.compile(r"(assay(?:\.\w+)+):(\w+)")
_TEMPLATE_IMPORT = re.compile(r"^from (assay[\w.]*) import \(?([\w, ]+)", re.MULTILINE)
_DOCUMENTED = re.compile(r"`(assay(?:\.\w+)+)")
_PROGRAM_IMPORT = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
_NEIGHBOUR = re.compile(r"([a-z_]\w*)(?::(\w+))?")
_FILE_NAME = re.compile(r"(\w+)(?:\.py)?")


@dataclass
class _Uses:
    """What one top-level statement mentions."""

    names: set[str] = field(default_factory=set)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    """`module.attribute`, by the local name of the module."""
    imports: dict[str, Name] = field(default_factory=dict)
    strings: set[str] = field(default_factory=set)


@dataclass
class _Module:
    name: str
    path: Path
    definitions: dict[str, list[_Uses]] = field(default_factory=dict)
    public: dict[str, int] = field(default_factory=dict)
    """Classes and functions without a leading underscore, with their lines."""
    imports: dict[str, Name] = field(default_factory=dict)

    @property
    def executed(self) -> list[_Uses]:
        return self.definitions.setdefault("", [])

    @property
    def is_program(self) -> bool:
        """True for code that runs in a sandbox, where modules import each other by file name."""
        return bool({"payload", "launcher"} & set(self.path.parts))

    @property
    def loads_neighbours(self) -> bool:
        return any("import_module" in u.names or ("importlib", "import_module") in u.attributes
                   for found in self.definitions.values() for u in found)  # fmt: skip


class Package:
    """The definitions of a package, and what each mentions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = root / "src"
        self.modules: dict[str, _Module] = {}
        for path in sorted((source / "assay").rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = _read_module(name, path)
        self._programs: dict[str, list[str]] = {}
        for module in self.modules.values():
            if module.is_program:
                self._programs.setdefault(module.path.stem, []).append(module.name)
        self._loaders = {m.name for m in self.modules.values() if m.loads_neighbours}

    def unreached(self) -> list[str]:
        """Returns `module` for each unreached public module, else `module.name` for each unreached name of it."""
        reached = self._walk(list(self._roots()))
        modules = {module for module, _ in reached}
        found = []
        for module in self.modules.values():
            if module.path.stem.startswith("_") or module.path.name == "__init__.py":
                continue
            if module.name not in modules:
                found.append(module.name)
                continue
            found += [f"{module.name}.{name}" for name in module.public if (module.name, name) not in reached]
        return found

    def _roots(self) -> Iterator[Name]:
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        targets = [*project["scripts"].values()]
        for group in project["entry-points"].values():
            targets += group.values()
        for target in targets:
            module, _, name = target.partition(":")
            yield module, name
        for module in self.modules:
            if module.endswith(".__main__"):
                yield module, "main"
        for name in ("_EXPORTS", "__getattr__", *self.modules["assay"].imports):
            yield "assay", name
        for path in sorted((self.root / "docs_src").rglob("*.py")):
            program = _read_module(path.stem, path)
            for uses in [u for found in program.definitions.values() for u in found]:
                yield from self._mentioned(program, uses)
        for page in sorted((self.root / "docs" / "how-to").glob("*.md")):
            yield from self._documented(page.read_text(encoding="utf-8"))

    def _documented(self, page: str) -> Iterator[Name]:
        """Yields the names that a how-to page imports or names in full, and the programs that it imports."""
        for target in _DOCUMENTED.finditer(page):
            module, _, name = target[1].rpartition(".")
            yield from self._imported((module, name), whole=True)
        for found in _TEMPLATE_IMPORT.finditer(page):
            for name in found[2].split(","):
                yield found[1], name.strip()
        for found in _PROGRAM_IMPORT.finditer(page):
            for program in self._programs.get(found[1], ()):
                yield from self._imported((program, ""), whole=True)

    def _walk(self, pending: list[Name]) -> set[Name]:
        reached: set[Name] = set()
        while pending:
            name = pending.pop()
            if name in reached or name[0] not in self.modules:
                continue
            reached.add(name)
            module = self.modules[name[0]]
            if name[1] not in module.definitions and name[1] in module.imports:
                pending.append(module.imports[name[1]])
            elif name[1] not in module.definitions and f"{module.name}.{name[1]}" in self.modules:
                pending.append((f"{module.name}.{name[1]}", ""))
            pending.append((module.name, ""))
            for uses in module.definitions.get(name[1], ()):
                pending += self._mentioned(module, uses)
        return reached

    def _mentioned(self, module: _Module, uses: _Uses) -> Iterator[Name]:
        imports = module.imports | uses.imports
        if module.is_program:
            imports = {name: (self._programs.get(at[0], [at[0]])[0], at[1]) for name, at in imports.items()}
        for name in uses.names:
            if name in uses.imports or (name not in module.definitions and name in imports):
                yield from self._imported(imports[name], whole=True)
            else:
                yield module.name, name
        for owner, attribute in uses.attributes:
            if owner in imports:
                found = ".".join(part for part in imports[owner] if part)
                if found in self.modules:
                    yield found, attribute
                else:
                    yield from self._imported(imports[owner], whole=False)
            else:
                yield module.name, owner
        for text in uses.strings:
            yield from self._named_by_text(module, text)

    def _imported(self, target: Name, *, whole: bool) -> Iterator[Name]:
        """Yields an imported name; for a module that is passed as a value, all of its public names."""
        found = self.modules.get(".".join(part for part in target if part))
        yield target
        if found is not None and whole:
            yield found.name, ""
            for name in found.public:
                yield found.name, name

    def _named_by_text(self, module: _Module, text: str) -> Iterator[Name]:
        for found in _TARGET.finditer(text):
            yield found[1], found[2]
        for found in _TEMPLATE_IMPORT.finditer(text):
            for name in found[2].split(","):
                yield found[1], name.strip()
        if text in self.modules:
            yield text, ""
        neighbour = _NEIGHBOUR.fullmatch(text)
        if neighbour is not None and (neighbour[2] or module.name in self._loaders):
            package = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
            yield f"{package}.{neighbour[1]}", neighbour[2] or "RECIPE"
        program = _FILE_NAME.fullmatch(text.rpartition("/")[2])
        if program is not None and program[1] in self._programs:
            for name in self._programs[program[1]]:
                yield name, ""


def _read_module(name: str, path: Path) -> _Module:
    module = _Module(name, path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        uses = _collect_uses(statement, package, is_program=module.is_program)
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            module.definitions.setdefault(statement.name, []).append(uses)
            if not statement.name.startswith("_"):
                module.public[statement.name] = statement.lineno
            for decorator in statement.decorator_list:
                if _registers(decorator, module):
                    module.executed.append(_Uses(names={statement.name}))
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for assigned in _assigned(statement):
                if assigned != "__all__":
                    module.definitions.setdefault(assigned, []).append(uses)
        elif isinstance(statement, ast.Import | ast.ImportFrom) or _is_typing_block(statement):
            module.imports.update(uses.imports)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            module.imports.update(uses.imports)
            module.executed.append(uses)
    return module


def _is_typing_block(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"


def _registers(decorator: ast.expr, module: _Module) -> bool:
    """True for decorators that may register what they decorate: calls, and methods of an object of the module."""
    if isinstance(decorator, ast.Call):
        return not _is_plain_decorator(decorator)
    owner = decorator.value if isinstance(decorator, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in module.definitions


def _is_plain_decorator(decorator: ast.Call) -> bool:
    """True for decorators that register nothing: those of the standard library, such as `dataclass(frozen=True)`."""
    return ast.unparse(decorator.func).rpartition(".")[2] in (
        "dataclass",
        "lru_cache",
        "cache",
        "wraps",
        "total_ordering",
    )


def _assigned(statement: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                yield node.id


def _collect_uses(statement: ast.stmt, package: str, *, is_program: bool) -> _Uses:
    uses = _Uses()
    pending: list[object] = [statement]
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is ast.Name:
            uses.names.add(node.id)
        elif kind is ast.Attribute and type(node.value) is ast.Name:
            uses.attributes.add((node.value.id, node.attr))
        elif kind is ast.Constant:
            if type(node.value) is str:
                uses.strings.add(node.value)
        elif kind is ast.ImportFrom:
            origin = _origin(node, package)
            if origin.startswith("assay") or is_program:
                uses.imports.update({a.asname or a.name: (origin, a.name) for a in node.names})
        elif kind is ast.Import:
            for alias in node.names:
                uses.imports[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
        elif kind is list:
            pending += node
        elif isinstance(node, ast.AST):
            pending += [value for value in node.__dict__.values() if isinstance(value, ast.AST | list)]
    return uses


def _origin(node: ast.ImportFrom, package: str) -> str:
    """Returns the absolute name of the module that a statement imports from."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path())
    for name in list_unreached(parser.parse_args().root):
        sys.stdout.write(f"{name}\n")
    return 0


def list_unreached(root: Path) -> list[str]:
    """Returns the public modules, classes and functions that no user can reach, by full name."""
    gc.disable()  # a million nodes without a cycle
    try:
        return Package(root).unreached()
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
