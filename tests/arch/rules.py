"""The rules of the house, as functions from a source tree to a list of violations.

`test_architecture.py` runs them on our own tree and expects nothing; `test_planted.py` plants a violation of each in a
copy and expects it to be found.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# A part may import those of the lines above its own, and itself. Parts of one line do not know each other. The places
# of parts that are not there yet are kept: banks, days, mcp, adapters.
LAYERS = [
    {"core"},
    {"runtime", "settings", "testing"},
    {"providers", "formats", "storage"},
    {"jobs"},
    {"recall"},
    {"brief"},
    {"topics", "banks", "days"},
    {"admin"},
    {"memory"},
    {"chat", "sync"},
    {"server", "mcp", "adapters"},
    {"cli"},
    {"__main__"},
]
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
STORE_USERS = {"storage", "jobs", "recall", "brief", "topics", "banks", "days", "admin", "memory"}
ROOT_MODULES = {"__init__", "__main__", "settings", "testing", "sync"}
IMPURE_MODULES = {
    "time", "random", "os", "io", "socket", "pathlib", "asyncio", "threading", "subprocess", "secrets", "logging",
    "uuid", "shutil", "tempfile", "sqlite3", "importlib.resources", "importlib", "urllib.request", "http",
}  # fmt: skip
IMPURE_CALLS = {"open", "input", "print", "exec", "eval"}
IMPURE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}
SQL_VERBS = {"SELECT", "INSERT", "UPDATE", "DELETE", "PRAGMA"}
SQL_WRITERS = {
    "storage/sqlite.py",
    "storage/sqlite_file.py",
    "storage/sqlite_schema.py",
    "storage/postgres.py",
    "storage/postgres_connection.py",
    "storage/postgres_purge.py",
    "storage/queries.py",
}  # where the schema is not there yet
DRIVERS = re.compile(r"recollect\.storage\.(sqlite|postgres)")  # what knows which database runs
DATABASE_LIBRARIES = {"apsw", "sqlite3", "psycopg"}
DRIVER_CHOOSER = "admin/compose.py"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
TABLE_FILES = re.compile(r"(_words|_rules|tables|characters|schemas)\.py$")  # long because they are tables
GERUND = re.compile(r"\w+ing(_\w+)?")
NOUNS_IN_ING = {"testing", "string", "scoring", "embedding", "setting", "vector_job"}


@dataclass(frozen=True)
class Module:
    """One file of the package, parsed."""

    name: str  # dotted, from `recollect` on
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return every node of its tree."""
        return list(ast.walk(self.tree))

    @property
    def part(self) -> str:
        """Return the part of the package that it belongs to."""
        return self.name.removeprefix("recollect.").split(".")[0]

    @property
    def place(self) -> str:
        """Return its path below the package."""
        return self.name.removeprefix("recollect.").replace(".", "/") + ".py"

    @property
    def stem(self) -> str:
        """Return the last part of its name."""
        return self.name.rsplit(".", 1)[1]


class Tree:
    """The modules of a package. `with_module` gives a tree that differs in one of them."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = list(modules)
        self._names = {module.name for module in self.modules} | {"recollect"}

    @classmethod
    def read(cls, package: Path) -> Tree:
        """Read the package at a path."""
        files = [file for file in sorted(package.rglob("*.py")) if file != package / "__init__.py"]
        return cls(Module(_name(file.relative_to(package)), file.read_text("utf-8")) for file in files)

    def with_module(self, place: str, text: str, *, append: bool = False) -> Tree:
        """Return the tree with a module written anew, or with lines appended to one that exists."""
        name = _name(Path(place))
        before = next((module.text for module in self.modules if module.name == name), "")
        planted = Module(name, before + text if append else text)
        return Tree([*(module for module in self.modules if module.name != name), planted])

    def imports(self, module: Module) -> set[str]:
        """Return the names of the modules that a module imports, anywhere in it."""
        names: set[str] = set()
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                modules = members & self._names
                names |= modules if modules == members else modules | {node.module}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        return names


def _name(path: Path) -> str:
    return ".".join(("recollect", *path.with_suffix("").parts)).removesuffix(".__init__")


def wrong_arrows(tree: Tree) -> list[str]:
    """Find imports of a part that is not below one's own."""
    violations = []
    for module in tree.modules:
        if module.part not in RANK:
            violations.append(f"{module.part} has no place in the order of layers yet")
            continue
        parts = {name.split(".")[1] for name in tree.imports(module) if name.startswith("recollect.")} - {module.part}
        wrong = [part for part in sorted(parts) if part not in RANK or RANK[part] >= RANK[module.part]]
        violations += [f"{module.place} imports {part}" for part in wrong]
    return violations


def cycles(tree: Tree) -> list[str]:
    """Find modules that import themselves in a circle."""
    names = {module.name for module in tree.modules}
    return list(_circles({module.name: (tree.imports(module) & names) - {module.name} for module in tree.modules}))


def _circles(graph: Mapping[str, set[str]]) -> Iterator[str]:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> Iterator[str]:
        if name in path:
            yield " → ".join((*path[path.index(name) :], name))
        elif name not in done:
            for used in graph[name]:
                yield from visit(used, (*path, name))
            done.add(name)

    for name in graph:
        yield from visit(name, ())


def impure_core(tree: Tree) -> list[str]:
    """Find what in core, at any depth, touches clock, chance, files or anything outside."""
    violations = []
    for module in tree.modules:
        if module.part != "core":
            continue
        for name in sorted(tree.imports(module)):
            if name in IMPURE_MODULES or name.split(".")[0] in IMPURE_MODULES:
                violations.append(f"{module.place} imports {name}")
        if "datetime.now" in module.text or "date.today" in module.text:
            violations.append(f"{module.place} asks for the time")
        for node in module.nodes:
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                    violations.append(f"{module.place} calls {node.func.id}")
                if isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS:
                    violations.append(f"{module.place} calls {node.func.attr}")
    return violations


def foreign_store_users(tree: Tree) -> list[str]:
    """Find parts that touch the store although it is not theirs, by import or by attribute."""
    violations = []
    for module in tree.modules:
        if module.part in STORE_USERS:
            continue
        violations += [
            f"{module.place} imports {name}" for name in tree.imports(module) if name.startswith("recollect.storage")
        ]
        for node in module.nodes:
            owner = node.value if isinstance(node, ast.Attribute) else None
            if isinstance(owner, ast.Attribute) and owner.attr in ("store", "_store"):
                violations.append(f"{module.place}:{node.lineno} reaches for the store")
    return violations


def foreign_driver_users(tree: Tree) -> list[str]:
    """Find modules outside of storage that know a database. Only the one that opens it may choose a driver."""
    return [
        f"{module.place} imports {name}"
        for module in tree.modules
        if module.part != "storage" and module.place != DRIVER_CHOOSER
        for name in sorted(tree.imports(module))
        if DRIVERS.match(name) or name.split(".")[0] in DATABASE_LIBRARIES
    ]


def classes_defined_twice(tree: Tree) -> list[str]:
    """Find exported class names that stand for two things."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in tree.modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.place)
    return [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]


def loose_modules(tree: Tree) -> list[str]:
    """Find modules at the root of the package that belong into a part."""
    parts = {module.part for module in tree.modules if "." in module.name.removeprefix("recollect.")}
    roots = [module for module in tree.modules if module.name.count(".") == 1 and module.part not in parts]
    return [module.place for module in roots if module.stem not in ROOT_MODULES]


def gerund_modules(tree: Tree) -> list[str]:
    """Find modules that are named by what they do."""
    return [
        module.place for module in tree.modules if GERUND.fullmatch(module.stem) and module.stem not in NOUNS_IN_ING
    ]


def long_files_and_functions(tree: Tree) -> list[str]:
    """Find files and functions that do not fit into a reader's head."""
    violations = []
    for module in tree.modules:
        lines = module.text.count("\n")
        if lines > MAX_FILE_LINES and not TABLE_FILES.search(module.place):
            violations.append(f"{module.place} has {lines} lines")
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    violations.append(f"{module.place}: {node.name} has {length} lines")
    return violations


def sql_in_python(tree: Tree) -> list[str]:
    """Find SQL that does not stand in a .sql file."""
    violations = []
    for module in tree.modules:
        if module.place in SQL_WRITERS:
            continue
        for node in module.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = node.value.split()
                if words and words[0] in SQL_VERBS:
                    violations.append(f"{module.place}:{node.lineno}: {node.value[:40]}")
    return violations


def unanswered_scopes(
    answered: Mapping[str, frozenset[type]], supported: Mapping[str, frozenset[type]], kinds: Iterable[type]
) -> list[str]:
    """Find operations and kinds of scopes that do not know each other.

    `answered` has the kinds in the table of each operation, `supported` those that it must have.
    """
    violations = []
    for operation in sorted(answered.keys() | supported.keys()):
        has, must = answered.get(operation, frozenset()), supported.get(operation, frozenset())
        violations += [f"{operation} has no answer to {kind.__name__}" for kind in must - has]
        violations += [f"{operation} answers {kind.__name__}, which is not declared" for kind in has - must]
    used = frozenset().union(*supported.values())
    violations += [f"{kind.__name__} is not in KINDS" for kind in used - frozenset(kinds)]
    return violations + [f"no operation supports {kind.__name__}" for kind in kinds if kind not in used]


def unregistered_caches(tree: Tree, registered: frozenset[str], without_words: Mapping[str, str]) -> list[str]:
    """Find functions whose results are kept in memory by a module that the registry of caches does not know.

    `registered` are names of modules with `forget()`; `without_words` gives reasons for those that hold no one's words.
    """
    violations = []
    for module in tree.modules:
        keeps = any(
            isinstance(node, ast.ImportFrom)
            and node.module == "functools"
            and any(alias.name in ("cache", "lru_cache") for alias in node.names)
            for node in module.nodes
        )
        if keeps and module.name not in registered and module.name not in without_words:
            violations.append(f"{module.place} keeps results that nothing forgets")
        functions = {node.name for node in module.tree.body if isinstance(node, ast.FunctionDef)}
        if module.name in registered and "forget" not in functions:
            violations.append(f"{module.place} has no function forget()")
    return violations
