"""Finds the names that programs and machines use in a text: `parseLine`, `MAX_DELAY`, `main.py`, `--force`, `E0308`.

Names are found by their shape. They are returned whole and case-folded, without the signs around them, so that `foo()`
and `@foo` are equal. The word index holds their parts. Ordinary language of a similar shape ("e.g.", "and/or", "10:30",
"iPhone") is left out: a match of it would mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

MAX_NAME_CHARACTERS: Final = 200  # longer runs are data


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def read_question(text: str) -> tuple[frozenset[str], bool]:
    """Return the names in a question, case-folded, and whether it is about code."""
    names = list(_names(text))
    return _fold(names), _is_about_code(text, names)


def find_identifiers(text: str) -> frozenset[str]:
    """Return the names in a text, case-folded."""
    return _fold(_names(text))


def is_code_question(text: str) -> bool:
    """Return whether a question is about code: it has a name that only code has, or words of programmers."""
    return _is_about_code(text, _names(text))


def _fold(names: Iterable[tuple[str, bool]]) -> frozenset[str]:
    return frozenset(name.casefold() for name, _ in names if name)


def _is_about_code(text: str, names: Iterable[tuple[str, bool]]) -> bool:
    if _FENCE.search(text) or _SYNTAX.search(text) or _PHRASE.search(text):
        return True
    words = set(_WORD.findall(text.lower()))
    likely, possible = len(words & _LIKELY), len(words & _POSSIBLE)
    if words & _CERTAIN or likely > 1 or (likely and possible):
        return True
    has_code_word = bool(likely or possible)
    return any(is_code or has_code_word for _, is_code in names)


# Names that are recognised by the signs around them: each pattern reads the whole text.

_TICKS: Final = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_CALL: Final = re.compile(r"(?<![\w.])((?:[A-Za-z_]\w{0,80}(?:\.|::)){0,8}[A-Za-z_]\w{1,80})\((?!e?s\))([^()\n]{0,80})")
_DEFINED: Final = re.compile(
    r"\b(?:(?:class|struct|enum|trait|interface)[ \t]{1,4}([A-Z]\w{1,80})[ \t]{0,4}[({:<]"
    r"|(?:const|let|var)[ \t]{1,4}([A-Za-z_]\w{1,80})[ \t]{0,4}[=:]"
    r"|(?:CREATE|ALTER|DROP)[ ]TABLE[ ](?:IF[ ](?:NOT[ ])?EXISTS[ ])?([A-Za-z_]\w{1,80}))"
)
_FLAG: Final = re.compile(r"(?<![\w-])--[A-Za-z][\w-]{1,80}")
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w{1,80})|%([A-Z_]{2,80})%")
_DECORATOR: Final = re.compile(r"(?<![\w.@/-])@([A-Za-z_]\w{1,80}(?:\.\w{1,80}){0,8}(?:/[\w.-]{1,80})?)")
_ISSUE: Final = re.compile(r"(?<![\w&/#])#[0-9]{1,7}(?!\w)")
_NUMBERED: Final = re.compile(
    r"\b(?:HTTP|SQLSTATE|status|errno|error|exit code|error code|status code)[ :=#]{1,2}([0-9]{2,6})\b(?![.,:%][0-9])",
    re.IGNORECASE,
)
_CONTROL: Final = _word_set("if for while switch return catch and or not in elif is with when case await")


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """Yield every name, and whether only code has its shape. Tickets and versions also occur elsewhere."""
    for match in _TICKS.finditer(text):
        yield from _in_ticks(match[1])
    for match in _CALL.finditer(text):
        if match[1].lower() not in _CONTROL and _is_call(match[1], match[2], text[match.end() : match.end() + 1]):
            yield match[1], True
    for match in _DEFINED.finditer(text):
        yield match[1] or match[2] or match[3], True
    yield from ((flag, True) for flag in _FLAG.findall(text))
    yield from ((shell or windows, True) for shell, windows in _VARIABLE.findall(text))
    yield from ((name, False) for name in _DECORATOR.findall(text))
    yield from ((issue, False) for issue in _ISSUE.findall(text))
    yield from ((number, False) for number in _NUMBERED.findall(text))
    for chunk in set(_CHUNK.findall(text)):
        yield from _in_chunk(chunk)


def _in_ticks(code: str) -> Iterator[tuple[str, bool]]:
    """Yield the names between backticks. One word alone is a name, whatever its shape.

    Of several words only those in kebab-case are yielded here. `_in_chunk` finds the other shapes.
    """
    parts = code.split()
    for part in parts:
        name = _ARGUMENTS.sub("", part).strip("$@;,:()[]{}<>\"'=")
        if len(name) > 1 and not _NUMBER.fullmatch(name) and (len(parts) == 1 or _KEBAB.fullmatch(name)):
            yield name, True


def _is_call(name: str, arguments: str, following: str) -> bool:
    """Return whether this is a call such as `run(x, 1)`, and not "Tom(my brother)".

    A plain word needs arguments that look like code. `following` is the character after the arguments.
    """
    if not name.isalpha() or not (name.islower() or name.istitle()):
        return True
    if following not in (")", "(", "\n", "") or (following != ")" and arguments.strip()):
        return following == "("
    return " " not in arguments or any(sign in arguments for sign in ",=\"'")


# Names that are recognised by their own shape: each chunk of text is read alone.

_CHUNK: Final = re.compile(r"[^\s`\"'<>()\[\]{},;|=!?*“”‘’«»…]{2,}")
_ARGUMENTS: Final = re.compile(r"\(.*")
_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9.,:%-]*")
_KEBAB: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)+")
_PLAIN: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_POSITION: Final = re.compile(r"(?::[0-9]{1,7}){1,2}$")  # main.py:42:7
_SNAKE: Final = re.compile(r"_*[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)+_*|_+[A-Za-z][A-Za-z0-9]*_*")
_CAMEL: Final = re.compile(
    r"[a-z][a-z0-9]*[A-Z][A-Za-z0-9]*|[A-Z]+[a-z0-9]+[A-Z][A-Za-z0-9]*|[A-Z]{2,}[a-z]{2,}[a-z0-9]*"
)
_DOTTED: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_SCOPED: Final = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+")
_FILE: Final = re.compile(r"[\w.+-]*\w\.([A-Za-z][A-Za-z0-9]{0,10})")
_DOTFILE: Final = re.compile(
    r"\.(?:env|git|github|vscode|ssh|config|docker|htaccess|aws|kube|cache|venv|pre-commit)(?:[.-][\w.-]+)?"
    r"|\.[a-z-]+(?:rc|ignore|config|profile|attributes|modules)"
)
_PATH: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[\w.@+~%$:-]*(?:[/\\][\w.@+~%$:-]*)+")
_ROOTED: Final = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][A-Za-z_.][\w.-]{1,}.*")
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://([^/?#]+)([^?#]*)", re.IGNORECASE)
_TICKET: Final = re.compile(r"[A-Z][A-Z0-9]{1,9}-[0-9]{1,7}(?:-[0-9]{1,7})?")
_CODE: Final = re.compile(r"[A-Z][0-9]{4,6}|[A-Z]{2,5}[0-9]{3,6}|[A-Z]{4,6}[0-9]{1,2}|[0-9]{2}[A-Z][0-9]{2}")
_ERROR: Final = re.compile(
    r"E(?:ACCES|ADDRINUSE|ADDRNOTAVAIL|AGAIN|ALREADY|BADF|BUSY|CANCELED|CONNABORTED|CONNREFUSED|CONNRESET|DEADLK|EXIST"
    r"|FAULT|FBIG|HOSTDOWN|HOSTUNREACH|INPROGRESS|INTR|INVAL|IO|ISCONN|ISDIR|LOOP|MFILE|MSGSIZE|NAMETOOLONG|NETDOWN"
    r"|NETUNREACH|NFILE|NOBUFS|NODEV|NOENT|NOEXEC|NOLCK|NOMEM|NOSPC|NOSYS|NOTCONN|NOTDIR|NOTEMPTY|NOTFOUND|NOTSUP|PERM"
    r"|PIPE|PROTO|RANGE|RESOLVE|ROFS|SRCH|TIMEDOUT|USAGE|XDEV)"
    r"|SIG(?:ABRT|ALRM|BUS|CHLD|CONT|FPE|HUP|ILL|INT|KILL|PIPE|QUIT|SEGV|STOP|TERM|TRAP|USR1|USR2)"
    r"|E[0-9]{4}|(?:TS|CS|LNK)[0-9]{4,5}|ORA-[0-9]{5}|CVE-[0-9]{4}-[0-9]{4,7}"
)
_VERSION: Final = re.compile(r"[vV][0-9]+(?:\.[0-9]+)*(?:[-+][\w.]+)?|[0-9]+(?:\.[0-9]+){2,3}(?:[-+.]?[A-Za-z][\w.]*)?")
_DATE: Final = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}\.(?:19|20)?[0-9]{2}")
_HEX: Final = re.compile(
    r"0[xX][0-9A-Fa-f]+|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}"
    r"|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
)
# Written like names of programs, but names of things and people, or several words.
_BRANDS: Final = _word_set(
    """airbnb airpod airpods bluray bmw chatgpt dvds ebay ebook ebooks facetime fedex github gitlab ibook icloud
    imac imessage ios ipad ipados iphone ipod itunes javascript kickstarter latex linkedin macbook macos
    mastercard mcat mysql nan nosql openai paypal phd playstation postgresql powerpoint soundcloud sqlite tiktok
    tvs tvos typescript visionos wechat whatsapp wifi wikihow wordpress youtube"""
)
_SENTENCE_STARTS: Final = _word_set(  # begin a sentence: "done.Then" lacks a space
    """a all also and any anyway are as at be because but by can could did do does for from had has have he hello
    her here hey hi his how i if in is it its just let like maybe my next no not now of ok okay on or our please
    she should since so some sorry still thank thanks that the their then there they this to today unfortunately
    was we well were what when where which who why will with would yes yesterday you your"""
)
_SUFFIXES: Final = _word_set(
    """avi bash bat bin bmp c cc cfg cjs cmake cnf conf cpp cs css csv cxx dart db dll dockerfile doc docx env erb
    ex exe exs fish gif go gql gradle graphql gz h hcl hpp hs htm html ico ini ipynb jar java jpeg jpg js json
    jsonl jsx key kt kts less lock log lua m map md mjs mod mov mp3 mp4 nix org parquet patch pdf pem php pl plist
    png pptx properties proto ps1 psql py pyc pyi r rb rs rst sass scala scss service sh sql sqlite sum svelte svg
    swift tar tf tfvars tgz toml ts tsv tsx txt vue war wasm wav webp xls xlsx xml yaml yml zig zip zsh"""
)
_FOLDERS: Final = _word_set(
    """api app apps assets bin build client cmd components config crates deploy dist docs etc home include
    internal lib libs migrations node_modules opt packages pages pkg public scripts server services spec src
    static templates test tests tmp tools usr var vendor web"""
)
_TITLES: Final = _word_set("mr mrs ms dr st prof sen gen vs etc")
_ABBREVIATIONS: Final = _word_set("b.sc m.sc ph.d b.a m.a vs. etc. no. approx. cf. et.al")


def _in_chunk(chunk: str) -> Iterator[tuple[str, bool]]:
    if _PLAIN.fullmatch(chunk) and not _ERROR.fullmatch(chunk):
        return
    chunk = chunk[:MAX_NAME_CHARACTERS]
    if url := _URL.match(chunk):
        yield from _in_url(url[1], url[2].rstrip(".:"))
        return
    chunk = _POSITION.sub("", chunk.rstrip(".:-/&")).lstrip("@#$&:-+")
    if chunk.startswith(".") and not _is_path(chunk) and not _DOTFILE.fullmatch(chunk):
        chunk = chunk.lstrip(".")  # after a bracket: `rows().toList`
    for part in chunk.split("/") if "/" in chunk and not _is_path(chunk) else [chunk]:
        if _is_code_name(part):
            yield part, True
        elif _is_machine_name(part):
            yield part, False


def _in_url(host: str, path: str) -> Iterator[tuple[str, bool]]:
    yield host.rpartition("@")[2].rstrip(".:"), False
    pieces = [piece for piece in path.split("/") if piece]
    if len(pieces) > 1:
        yield "/".join(pieces), False
    for piece in pieces:
        if _is_code_name(piece) or _is_machine_name(piece) or _KEBAB.fullmatch(piece):
            yield piece, False


def _is_code_name(word: str) -> bool:
    """Return whether a word has a shape that only code has."""
    if word.lower() in _BRANDS or word.lower().removesuffix("s") in _BRANDS:
        return False
    return bool(
        (_SNAKE.fullmatch(word) and not word.replace("_", "").isdigit())
        or _is_camel(word)
        or _SCOPED.fullmatch(word)
        or _ERROR.fullmatch(word)
        or _is_path(word)
        or _is_dotted(word)
    )


def _is_machine_name(word: str) -> bool:
    """Return whether a word looks like a ticket, an error code, a version or a hash."""
    if word.upper() == "COVID-19" or _DATE.fullmatch(word):
        return False
    return any(shape.fullmatch(word) for shape in (_TICKET, _CODE, _VERSION, _HEX))


def _is_camel(word: str) -> bool:
    """Return whether a word is camelCase. McKay and PDFs are not."""
    if not _CAMEL.fullmatch(word) or word.startswith(("Mc", "Mac")):
        return False
    return not word.rstrip("s").isupper()


def _is_dotted(word: str) -> bool:
    """Return whether a word is a dotted name or a file name. Abbreviations and "done.Then" are not."""
    lower = word.lower()
    if lower in _ABBREVIATIONS:
        return False
    if _DOTFILE.fullmatch(word):
        return True
    if (file := _FILE.fullmatch(word)) and file[1].lower() in _SUFFIXES:
        return len(word) > 3 or len(word.partition(".")[0]) > 1 or lower[-1] in "ch"
    if not _DOTTED.fullmatch(word):
        return False
    parts = lower.split(".")
    return max(map(len, parts)) > 1 and parts[-1] not in _SENTENCE_STARTS and parts[0] not in _TITLES


def _is_path(word: str) -> bool:
    """Return whether a word is a path. "and/or" and 24/7 are not.

    A path starts like one, begins with a known folder, ends with a file, or has a program's name among its parts.
    """
    if ("/" not in word and "\\" not in word) or not _PATH.fullmatch(word):
        return False
    if _ROOTED.fullmatch(word):
        return True
    parts = re.split(r"[/\\]", word)
    return parts[0].lower() in _FOLDERS or _is_dotted(parts[-1]) or (len(parts) > 2 and any(map(_is_name, parts)))


def _is_name(word: str) -> bool:
    return bool(_SNAKE.fullmatch(word)) or _is_camel(word)


# Words of programmers. One certain word is enough. A likely one needs another: "my class at school" has none.

_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_WORD: Final = re.compile(r"[a-z][a-z0-9+#]*")
_SYNTAX: Final = re.compile(
    r"\b(?:import[ ]\{|import[ ]\*|from[ ][\w.]{1,80}[ ]import\b|export[ ]default\b|async[ ]def\b|public[ ]static\b"
    r"|const[ ]\w{1,80}[ ]?=|def[ ]\w{1,80}\(|SELECT[ ].{1,80}[ ]FROM\b|INSERT[ ]INTO\b|CREATE[ ]TABLE\b)"
)
_PHRASE: Final = re.compile(
    r"\b(?:(?:source|my|our|your) code(?! of)|code review|code ?base|error (?:code|message)s?|stack ?traces?"
    r"|exit codes?|(?:unit|integration|regression) tests?|(?:pull|merge) requests?"
    r"|(?:abstract|base|parent|data) ?class(?:es)?"
    r"|type (?:error|hint|annotation)s?|null pointer|race condition|environment variables?|(?:foreign|primary) keys?"
    r"|(?:for|while|event) loop|return (?:type|value)s?|command line|data ?structures?|design patterns?)\b",
    re.IGNORECASE,
)
_CERTAIN: Final = _word_set(
    """api apis async backend bash bitmask boolean callback cli codebase compiler config cron css deserialize
    django docker dockerfile eslint fastapi frontend git github gitlab goroutine goroutines graphql html http
    https javascript json kubectl kubernetes linter localhost lockfile makefile middleware mutex mypy mysql nginx
    npm nullable numpy oauth orm pandas php pip pnpm postgres postgresql pytest refactor refactored refactoring
    regex regexp repo rsync rustc sdk segfault sql sqlite sqlstate sqlalchemy ssh stacktrace stderr stdin stdout
    struct stylesheet subclass subquery subprocess tokio traceback tsconfig typescript typeerror unittest url urls
    webhook webhooks webpack yaml c++ c#"""
)
_LIKELY: Final = _word_set(
    """algorithm array arrays bug bugs commit compile compiled compiles const database debug debugger dependency
    deploy deployed deployment endpoint endpoints enum exception exceptions function functions java loop migration
    module modules parameter parameters parse parser python query rebase recursion runtime schema script scripts
    serialize timeout variable variables workflow"""
)
_POSSIBLE: Final = _word_set(
    """argument arguments branch build builds cache called class classes client code column columns crash crashed
    crashes define defined delete error errors fail failed failing fails file files fix fixed flag go import
    imports index input install interface key library line list log logs merge method methods null object objects
    output package packages pipeline queue release retry return returns ruby run running rust server setting
    settings string strings swift syntax table tables terminal test tests thread threads throw throws type types
    value version"""
)
