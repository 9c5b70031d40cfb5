"""Finds every regular expression of the package, and makes texts on which a careless one takes quadratic time.

A pattern is found where it is: in a module, a class, a table, a closure, or compiled inside a function. The texts come
from the pattern itself: for each repetition in it, what may stand before it, then what it repeats, many times, then
something that fits nowhere.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from types import FunctionType, ModuleType
from typing import Any, Final

import recollect

METHODS: Final = ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
MAX_SAMPLES: Final = 3  # strings that stand for one repetition
MAX_COMMON: Final = 2  # signs that both of two neighbours take
# Signs from which a class of signs is tried, the likeliest to be shared by several classes first.
ALPHABET: Final = (
    " a1\n\tA-.,:;'\"/\\<>[](){}*_#&=+|`~!?@%$^\r\x0b\x85\xa0\u2028éÀاو١،؟۔一。のк🤷\u0301\u200bZ09bemorystunildhxfgc"
)
END: Final = "\x00"  # fits no class but negated ones
_UNKNOWN: Final = object()


@dataclass(frozen=True)
class FoundPattern:
    """A pattern, and the first place where it was found."""

    pattern: re.Pattern[Any]
    place: str

    def search_all(self, text: str) -> None:
        """Search a text from its beginning to its end, as `sub` and `finditer` do."""
        for _ in self.pattern.finditer(self._subject(text)):
            pass

    def match_start(self, text: str) -> None:
        """Match a text at its beginning."""
        self.pattern.match(self._subject(text))

    def match_whole(self, text: str) -> None:
        """Match a text from its beginning to its end."""
        self.pattern.fullmatch(self._subject(text))

    def _subject(self, text: str) -> Any:
        return text.encode("utf-8", "replace") if isinstance(self.pattern.pattern, bytes) else text


def load_modules() -> list[ModuleType]:
    """Import and return every module of the package."""
    names = [found.name for found in pkgutil.walk_packages(recollect.__path__, "recollect.")]
    return [recollect, *(importlib.import_module(name) for name in names if not name.endswith("__main__"))]


def find_patterns(modules: Iterable[ModuleType]) -> list[FoundPattern]:
    """Return the patterns that modules hold, each once, with the names that lead to it."""
    found: dict[tuple[Any, int], FoundPattern] = {}
    seen: set[int] = set()
    kept: list[object] = []  # so that no id is given twice

    def visit(value: object, place: str) -> None:
        if isinstance(value, re.Pattern):
            found.setdefault((value.pattern, value.flags), FoundPattern(value, place))
            return
        if isinstance(value, (str, bytes, int, float, ModuleType)) or value is None or id(value) in seen:
            return
        seen.add(id(value))
        kept.append(value)
        for name, part in _parts(value):
            visit(part, f"{place}.{name}" if name else place)

    for module in modules:
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                visit(value, f"{module.__name__}.{name}")
    return list(found.values())


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    """Yield what a value holds. Objects of other packages are not entered."""
    if isinstance(value, Mapping):
        yield from (("", part) for pair in list(value.items()) for part in pair)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from (("", part) for part in value)
    elif isinstance(value, functools.partial):
        yield from (("", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, FunctionType):
        yield from (("", cell.cell_contents) for cell in value.__closure__ or () if _is_full(cell))
        yield from (("", part) for part in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()))
        yield from (("", part) for part in vars(value).values())  # `__wrapped__` of a cached function
    elif inspect.isbuiltin(value):
        yield "", value.__self__  # the method of a pattern
    elif hasattr(value, "__wrapped__"):
        yield "", value.__wrapped__
    elif getattr(type(value) if not isinstance(value, type) else value, "__module__", "").startswith("recollect"):
        yield from list(getattr(value, "__dict__", {}).items())
        slots = getattr(type(value), "__slots__", ())
        yield from ((name, getattr(value, name, None)) for name in ([slots] if isinstance(slots, str) else slots))


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def find_calls(modules: Iterable[ModuleType], made: Mapping[str, Sequence[str]]) -> tuple[list[FoundPattern], set[str]]:
    """Return the patterns of calls like `re.sub("…", …)` anywhere in the code, and the places that must be declared.

    The pattern of a call is worked out with the names of its module. Where it needs names of its function, `made` must
    say which patterns the place (module and function) makes.
    """
    patterns: list[FoundPattern] = []
    undeclared: set[str] = set()
    for module in modules:
        for place, call in _calls_of_re(module):
            if place in made:
                patterns += [FoundPattern(re.compile(source, re.IGNORECASE), place) for source in made[place]]
                continue
            text, flags = _evaluate(call.args[0], module), [_evaluate(node, module) for node in _flag_nodes(call)]
            if isinstance(text, (str, bytes)) and _UNKNOWN not in flags:
                patterns.append(FoundPattern(re.compile(text, sum(flags)), place))
            else:
                undeclared.add(place)
    return patterns, undeclared


def _calls_of_re(module: ModuleType) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of functions of `re` within functions; those at the top of a module have left their pattern."""

    def walk(node: ast.AST, place: str, inside: bool) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                name = getattr(child, "name", "<lambda>")
                yield from walk(child, f"{place}.{name}", inside or not isinstance(child, ast.ClassDef))
                continue
            is_call = isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute)
            if is_call and inside and _is_re(child.func) and child.args:  # type: ignore[attr-defined]
                yield place, child  # type: ignore[misc]
            yield from walk(child, place, inside)

    yield from walk(_tree(module), module.__name__, False)


@functools.cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _is_re(function: ast.Attribute) -> bool:
    return _names_re(function) and function.attr in METHODS


def _evaluate(node: ast.expr, module: ModuleType) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(vars(module)))  # noqa: S307 - our own code
    except NameError:
        return _UNKNOWN


def _flag_nodes(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call of `re` that are flags."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    if call.func.attr == "compile":  # type: ignore[attr-defined]
        return given + call.args[1:]
    return given + [node for node in call.args[2:] if isinstance(node, ast.Attribute) and _names_re(node)]


def _names_re(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "re"


def find_uses(modules: Iterable[ModuleType]) -> dict[str, set[str]]:
    """Return with which methods patterns are used, by module and name: `NAME.match(…)`, `NAME[0].sub(…)`.

    The uses of an attribute (`rule.NAME.search(…)`) stand under its name alone: its module is not known.
    """
    uses: dict[str, set[str]] = {}
    for module in modules:
        for node in ast.walk(_tree(module)):
            if not isinstance(node, ast.Attribute) or node.attr not in METHODS[1:]:
                continue
            owner = node.value.value if isinstance(node.value, ast.Subscript) else node.value
            if isinstance(owner, ast.Name):
                uses.setdefault(f"{module.__name__}.{owner.id}", set()).add(node.attr)
            elif isinstance(owner, ast.Attribute):
                uses.setdefault(owner.attr, set()).add(node.attr)
    return uses


# Texts


@dataclass(frozen=True)
class Pump:
    """A text of any length: a beginning, something repeated, and an end."""

    before: str
    repeated: str
    after: str

    def text(self, n: int) -> str:
        """Return the text with about `n` repeated characters."""
        return self.before + self.repeated * max(1, n // len(self.repeated)) + self.after


def make_pumps(pattern: re.Pattern[Any]) -> list[Pump]:
    """Return the texts that a pattern itself suggests, each once."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    tree = _parser.parse(text, pattern.flags & ~re.LOCALE & ~(0 if isinstance(source, str) else re.UNICODE))
    pumps: dict[Pump, None] = {}
    for before, bodies in _repetitions(list(tree), ""):
        for body in bodies:
            pumps[Pump(before, body, END)] = None
            pumps[Pump("", body, END)] = None
            if before:
                pumps[Pump("", before + body, END)] = None
                pumps[Pump("", before, END)] = None
    return list(pumps)


def _repetitions(nodes: Sequence[Any], before: str) -> Iterator[tuple[str, list[str]]]:
    """Yield for each repetition what stands before it, and strings that it repeats."""
    for index, (op, argument) in enumerate(nodes):
        following = nodes[index + 1 :]
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)):
            low, high, body = argument
            if high is sre.MAXREPEAT or high > 20:
                yield before, _samples(list(body), following)
            yield from _repetitions(list(body), before)
            before += _sample(list(body)) * low
            continue
        for inner in _inner(op, argument):
            yield from _repetitions(inner, before)
        before += _sample([(op, argument)])


def _inner(op: Any, argument: Any) -> Iterator[list[Any]]:
    if op is sre.SUBPATTERN:
        yield list(argument[3])
    elif op is sre.BRANCH:
        yield from map(list, argument[1])
    elif op in (sre.ASSERT, sre.ASSERT_NOT):
        yield list(argument[1])
    elif op is getattr(sre, "ATOMIC_GROUP", None):
        yield list(argument)
    elif op is sre.GROUPREF_EXISTS:
        yield from (list(one) for one in argument[1:] if one is not None)


def _samples(body: Sequence[Any], following: Sequence[Any]) -> list[str]:
    """Return strings that a repeated part takes: first those that the repetition after it takes too."""
    if len(body) == 1 and body[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.LITERAL, sre.CATEGORY):
        signs = _accepted(*body[0])
        others = {sign for one in _single_signs(following) for sign in _accepted(*one)}
        common = [sign for sign in signs if sign in others][:MAX_COMMON]
        chosen = dict.fromkeys([*common, *signs[:MAX_SAMPLES]]) or {_sample(body): None}
        return [sign for sign in chosen if sign]
    texts = [_sample(body)]
    for op, argument in body:
        if op is sre.BRANCH:
            texts += [_sample(list(one)) for one in argument[1][:MAX_SAMPLES]]
        elif op is sre.SUBPATTERN:
            texts += _samples(list(argument[3]), ())
    return [text for text in dict.fromkeys(texts) if text][: 2 * MAX_SAMPLES]


def _single_signs(nodes: Sequence[Any]) -> Iterator[Any]:
    """Yield the single signs that may come next."""
    for op, argument in nodes:
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            yield from _single_signs(list(argument[2])[:1])
            if argument[0] == 0:
                continue
        elif op in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.LITERAL):
            yield op, argument
        elif op in (sre.SUBPATTERN, sre.BRANCH):
            for inner in _inner(op, argument):
                yield from _single_signs(inner[:1])
        elif op in (sre.ASSERT, sre.ASSERT_NOT, sre.AT):
            continue
        return


def _accepted(op: Any, argument: Any) -> str:
    """Return the signs of the alphabet that a class of single signs takes."""
    return _accepted_by(_to_class(op, argument))


@functools.cache
def _accepted_by(source: str) -> str:
    accepts = _accepts(source)
    return "".join(sign for sign in ALPHABET if accepts(sign))


@functools.cache
def _accepts(source: str) -> Callable[[str], object]:
    return re.compile(source, re.DOTALL).fullmatch


def _to_class(op: Any, argument: Any) -> str:
    """Return the source of a class of single signs."""
    if op is sre.ANY:
        return "."
    if op is sre.LITERAL:
        return re.escape(chr(argument))
    if op is sre.NOT_LITERAL:
        return f"[^{re.escape(chr(argument))}]"
    parts, negated = [], ""
    for kind, value in argument if op is sre.IN else [(op, argument)]:
        if kind is sre.NEGATE:
            negated = "^"
        elif kind is sre.LITERAL:
            parts.append(re.escape(chr(value)))
        elif kind is sre.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        else:
            parts.append(_CATEGORIES[value])
    return f"[{negated}{''.join(parts)}]"


_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _sample(nodes: Sequence[Any]) -> str:
    """Return a short string that a part of a pattern takes, as well as that can be told without its surroundings."""
    out = ""
    for op, argument in nodes:
        if op is sre.LITERAL:
            out += chr(argument)
        elif op in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.CATEGORY):
            out += _sample_sign(op, argument)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)):
            out += _sample(list(argument[2])) * argument[0]
        elif op is sre.SUBPATTERN:
            out += _sample(list(argument[3]))
        elif op is sre.BRANCH:
            out += _sample(list(argument[1][0]))
        elif op is getattr(sre, "ATOMIC_GROUP", None):
            out += _sample(list(argument))
    return out


def _sample_sign(op: Any, argument: Any) -> str:
    """Return a sign that a class of signs takes: a letter or a digit if possible."""
    if signs := _accepted(op, argument):
        return next(filter(str.isalnum, signs), signs[0])
    first = [chr(low) for kind, low in argument if kind is sre.LITERAL] if op is sre.IN else []
    ranges = [chr(one[0]) for kind, one in argument if kind is sre.RANGE] if op is sre.IN else []
    accepts = _accepts(_to_class(op, argument))
    return next((sign for sign in (*first, *ranges) if accepts(sign)), "")
