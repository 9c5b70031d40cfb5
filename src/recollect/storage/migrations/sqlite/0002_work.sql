-- Derived work: how far it has come, who does it, and what it made. All of this can be deleted and made anew.

ALTER TABLE conversations ADD COLUMN worked_seq INTEGER NOT NULL DEFAULT 0;    -- derived rows exist up to here
ALTER TABLE conversations ADD COLUMN words_version INTEGER NOT NULL DEFAULT 1; -- the analyser that made its words
CREATE INDEX conversations_due ON conversations (key) WHERE worked_seq < last_seq;

CREATE TABLE message_tokens (
    message_key INTEGER PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
    counter     TEXT    NOT NULL,
    tokens      INTEGER NOT NULL
) STRICT;

CREATE TABLE leases (
    name   TEXT    PRIMARY KEY,
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT;

-- What people changed at run time. (Not derived.)
CREATE TABLE settings (
    person     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (person, name)
) STRICT;

-- That something was erased, and whether its bytes are gone. It must not say what: `owner` is a hash of the person.
CREATE TABLE erasures (
    id      TEXT    PRIMARY KEY,
    owner   TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    counts  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    pending INTEGER NOT NULL
) STRICT;
CREATE INDEX erasures_pending ON erasures (id) WHERE pending <> 0;
