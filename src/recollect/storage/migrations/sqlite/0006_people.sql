-- People and who may ask: profiles used by consent alone, keys and sessions, the log of who did what.

-- What a person chose to tell of themselves, and whether it may be used. No row: never asked, so it may not.
CREATE TABLE profiles (
    person     TEXT    PRIMARY KEY,
    body       TEXT    NOT NULL,    -- JSON
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE consents (
    person  TEXT    PRIMARY KEY,
    granted INTEGER NOT NULL,
    at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who did what: ids and counts, never content.
CREATE TABLE audit (
    key     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    person  TEXT    NOT NULL,    -- whose memory it is about
    actor   TEXT    NOT NULL,    -- the key that was used, or how else
    action  TEXT    NOT NULL,
    details TEXT    NOT NULL,    -- JSON
    conversation_key INTEGER REFERENCES conversations (key) ON DELETE SET NULL    -- its name goes when it goes
) STRICT;
CREATE INDEX audit_person ON audit (person, key);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_conversation ON audit (conversation_key) WHERE conversation_key IS NOT NULL;

-- Of a key only a keyed hash is kept. It names its principal; one that is revoked stays, so that its id is never given again.
CREATE TABLE api_keys (
    id         TEXT    PRIMARY KEY,
    hash       BLOB    NOT NULL,
    label      TEXT    NOT NULL,
    person     TEXT    NOT NULL,
    department TEXT,
    ministry   TEXT,
    clearances TEXT    NOT NULL,    -- JSON
    scopes     TEXT    NOT NULL,    -- JSON
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- A browser that showed a key. The cookie is kept as a keyed hash, too.
CREATE TABLE sessions (
    hash       BLOB    PRIMARY KEY,
    key_id     TEXT    NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_key ON sessions (key_id);

-- Which request an Idempotency-Key was first used for.
CREATE TABLE requests (
    person      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (person, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_at ON requests (at);

-- Answers that somebody wants stopped, for whichever process is writing them.
CREATE TABLE stops (
    person       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    PRIMARY KEY (person, conversation)
) STRICT, WITHOUT ROWID;
