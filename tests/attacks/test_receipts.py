"""The receipt of an erase tells a person nothing about what others said."""

from __future__ import annotations

from typing import Any

from support.serving import RunningServer, make_server

SECRETS = {
    "metadata": "patient-file-77-oncology",
    "name": "Doctor Zanzibarcanary",
    "conversation": "visit to the ward of Kilimanjaro",
    "text": "My password is zebra-4711!",
}


def _erase_guess(server: RunningServer, token: str, guess: str) -> dict[str, Any]:
    """Store a guess, erase it, and return what the receipt says beyond its id and moment."""
    client = server.new_client(token)
    client.post("/api/v1/conversations/guess/messages", json={"role": "user", "content": guess})
    receipt: dict[str, Any] = client.delete("/api/v1/conversations/guess").json()
    return {name: value for name, value in receipt.items() if name not in ("id", "at")}


def test_a_guess_that_others_said_is_erased_like_any_other(db: str) -> None:
    with make_server(db) as server:
        message = {"content": SECRETS["text"], "name": SECRETS["name"], "metadata": {"file": SECRETS["metadata"]}}
        server.run(server.memory.of("sara").add_many(SECRETS["conversation"], [{"role": "user", **message}]))
        mallory = server.new_key("mallory")
        expected = _erase_guess(server, mallory, "nobody ever said this sentence here")
        assert (expected["remaining"], expected["pending"], expected["files"]) == (0, False, [])
        # What stands before a text in the file may be a byte of no text, so no text explains a guess that has it.
        for guess in (*SECRETS.values(), *(chr(byte) + SECRETS["text"] for byte in range(33, 127, 4))):
            assert _erase_guess(server, mallory, guess) == expected
