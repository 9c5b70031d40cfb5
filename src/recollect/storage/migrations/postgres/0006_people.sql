-- People and who may ask: profiles used by consent alone, keys and sessions, the log of who did what.

-- What a person chose to tell of themselves, and whether it may be used. No row: never asked, so it may not.
CREATE TABLE profiles (
    person     TEXT COLLATE "C" PRIMARY KEY,
    body       TEXT    NOT NULL,    -- JSON
    updated_at BIGINT NOT NULL
);
ALTER TABLE profiles ALTER COLUMN body SET STATISTICS 0;    -- they would keep samples

CREATE TABLE consents (
    person  TEXT COLLATE "C" PRIMARY KEY,
    granted BIGINT NOT NULL,
    at      BIGINT NOT NULL
);

-- Who did what: ids and counts, never content.
CREATE TABLE audit (
    key     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      BIGINT NOT NULL,
    person  TEXT COLLATE "C" NOT NULL,    -- whose memory it is about
    actor   TEXT    NOT NULL,    -- the key that was used, or how else
    action  TEXT    NOT NULL,
    details TEXT    NOT NULL,    -- JSON
    conversation_key BIGINT REFERENCES conversations (key) ON DELETE SET NULL    -- its name goes when it goes
);
CREATE INDEX audit_person ON audit (person, key);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_conversation ON audit (conversation_key) WHERE conversation_key IS NOT NULL;

-- Of a key only a keyed hash is kept. It names its principal; one that is revoked stays, so that its id is never given again.
CREATE TABLE api_keys (
    id         TEXT COLLATE "C" PRIMARY KEY,
    hash       BYTEA   NOT NULL,
    label      TEXT    NOT NULL,
    person     TEXT COLLATE "C" NOT NULL,
    department TEXT,
    ministry   TEXT,
    clearances TEXT    NOT NULL,    -- JSON
    scopes     TEXT    NOT NULL,    -- JSON
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);

-- A browser that showed a key. The cookie is kept as a keyed hash, too.
CREATE TABLE sessions (
    hash       BYTEA   PRIMARY KEY,
    key_id     TEXT COLLATE "C" NOT NULL REFERENCES api_keys (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_key ON sessions (key_id);

-- Which request an Idempotency-Key was first used for.
CREATE TABLE requests (
    person      TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA   NOT NULL,
    at          BIGINT NOT NULL,
    PRIMARY KEY (person, id)
);
CREATE INDEX requests_at ON requests (at);

-- Answers that somebody wants stopped, for whichever process is writing them.
CREATE TABLE stops (
    person       TEXT COLLATE "C" NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL,
    at           BIGINT NOT NULL,
    PRIMARY KEY (person, conversation)
);
