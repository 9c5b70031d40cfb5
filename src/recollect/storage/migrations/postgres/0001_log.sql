-- The log: people's conversations and their messages. Everything else in this database is derived from them.

CREATE TABLE conversations (
    key        BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person     TEXT    COLLATE "C" NOT NULL,
    name       TEXT    COLLATE "C" NOT NULL,
    title      TEXT,
    tags       TEXT    NOT NULL DEFAULT '[]',
    zone       TEXT    NOT NULL DEFAULT 'UTC',
    created_at BIGINT  NOT NULL,                    -- times are microseconds since 1970, UTC
    last_seq   BIGINT  NOT NULL DEFAULT 0,
    messages   BIGINT  NOT NULL DEFAULT 0,
    first_at   BIGINT,
    last_at    BIGINT,
    UNIQUE (person, name)
);

CREATE TABLE messages (
    key              BIGINT  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_key BIGINT  NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    seq              BIGINT  NOT NULL CHECK (seq > 0),
    id               TEXT    COLLATE "C" NOT NULL,
    role             TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    content          TEXT    NOT NULL,
    at               BIGINT  NOT NULL,
    source           TEXT    NOT NULL CHECK (source IN ('typed', 'assistant', 'imported', 'tool')),
    name             TEXT,
    model_variant    TEXT,
    tool_calls       TEXT,
    tool_call_id     TEXT,
    metadata         TEXT,
    importance       DOUBLE PRECISION,
    replaced         BIGINT  NOT NULL DEFAULT 0,
    UNIQUE (conversation_key, seq),
    UNIQUE (conversation_key, id)
);

-- Full text, written in the message's own transaction: our analyser's words as they are, no dictionary in between.
-- A tsvector may hold 1 MB, so the words of one long message stand in several parts.
CREATE TABLE message_words (
    message_key BIGINT   NOT NULL REFERENCES messages (key) ON DELETE CASCADE,
    part        INTEGER  NOT NULL,
    body        TSVECTOR NOT NULL,
    PRIMARY KEY (message_key, part)
);
CREATE INDEX message_words_body ON message_words USING gin (body);
