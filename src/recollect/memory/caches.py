"""One registry of everything that is kept in memory of people's words, with one `forget`.

Erasing, revoking consent, restoring a backup and changing a zone all call it, so none of them can miss a cache. A new
cache is registered here: caches of an object by `register`, caches of a module in `MODULE_CACHES`. `tests/arch` looks
for caches that are in neither.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from recollect.core.models import Principal
from recollect.core.scope import (
    ConversationScope,
    DayScope,
    MessageScope,
    PersonScope,
    ProfileScope,
    Scope,
    StoreScope,
    TopicScope,
)

Forget = Callable[[str | None], None]  # drops what is kept of a person, or of everybody for None

# Modules with a function `forget()`. They keep words without noting whose they are, so all of them go.
MODULE_CACHES: Final = (
    "recollect.core.archive",
    "recollect.core.compression.ledger",
    "recollect.core.dates.periods",
    "recollect.core.language.analyser",
    "recollect.core.language.passages",
    "recollect.core.word_index",
    "recollect.providers.minilm.embedder",
    "recollect.recall.prompt.ledger",
)


def _person(principal: Principal, scope: Scope) -> str | None:
    return principal.person


def _everybody(principal: Principal, scope: Scope) -> str | None:
    return None


# Whose caches go, for each kind of scope. What is kept is not sorted by conversation, so all of the person's goes.
FORGOTTEN: Final[Mapping[type[Scope], Callable[[Principal, Scope], str | None]]] = {
    PersonScope: _person,
    ConversationScope: _person,
    MessageScope: _person,
    DayScope: _person,
    TopicScope: _person,
    ProfileScope: _person,
    StoreScope: _everybody,
}


class Caches:
    """The caches of the memories on one database."""

    def __init__(self) -> None:
        self._forgets: dict[str, tuple[Forget, frozenset[type[Scope]]]] = {}

    def register(self, name: str, forget: Forget, *, kinds: Iterable[type[Scope]] = FORGOTTEN) -> None:
        """Add a cache that forgets for these kinds of scopes. The same name again replaces the earlier cache."""
        self._forgets[name] = (forget, frozenset(kinds))

    @property
    def names(self) -> list[str]:
        """Return the names of the registered caches."""
        return list(self._forgets)

    def forget(self, principal: Principal, scope: Scope) -> None:
        """Drop everything that may hold words of the scope."""
        person = FORGOTTEN[type(scope)](principal, scope)
        for forget, kinds in self._forgets.values():
            if type(scope) in kinds:
                forget(person)
        for name in MODULE_CACHES:
            module = sys.modules.get(name)  # one that was never imported keeps nothing
            if module is not None:
                module.forget()
        re.purge()  # excerpts compile patterns from words of the question
