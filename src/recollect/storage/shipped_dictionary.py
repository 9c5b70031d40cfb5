"""Loads the zstd dictionary that ships with the package, on which the store's learned dictionaries build."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from recollect.core.archive import SHIPPED_ID, Dictionary
from recollect.core.errors import StoreUnavailable

FOLDER: Final = "dictionary"
FILE_NAME: Final = "chat-1.zdict"
SHA256: Final = "573ab2c24d11256f17db61ec739c6467858bb27a814cef9187f5bf7b2cc44d2f"


@lru_cache(maxsize=1)
def shipped_dictionary() -> Dictionary:
    """Return the dictionary of the package, read once. Raise StoreUnavailable if it is not the published file."""
    body = files("recollect.storage").joinpath(FOLDER, FILE_NAME).read_bytes()
    if sha256(body).hexdigest() != SHA256:
        message = f"{FILE_NAME} is not the file that was published; install the package again."
        raise StoreUnavailable("package_damaged", message, retryable=False)
    return Dictionary(SHIPPED_ID, body)


def learned_dictionary(id: int, body: bytes) -> Dictionary:
    """Return a dictionary that was learned from a person's texts, on the base of the shipped one."""
    return Dictionary(id, body, base=shipped_dictionary().body)
