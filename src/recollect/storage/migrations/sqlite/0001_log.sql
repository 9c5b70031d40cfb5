-- The log: people's conversations and their messages. Everything else in this database is derived from them.

CREATE TABLE conversations (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used twice, so a stale reference finds nothing
    person     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    title      TEXT,
    tags       TEXT    NOT NULL DEFAULT '[]',
    zone       TEXT    NOT NULL DEFAULT 'UTC',
    created_at INTEGER NOT NULL,                    -- times are microseconds since 1970, UTC
    last_seq   INTEGER NOT NULL DEFAULT 0,
    messages   INTEGER NOT NULL DEFAULT 0,
    first_at   INTEGER,
    last_at    INTEGER,
    UNIQUE (person, name)
) STRICT;

CREATE TABLE messages (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_key INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    seq              INTEGER NOT NULL CHECK (seq > 0),
    id               TEXT    NOT NULL,
    role             TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    content          TEXT    NOT NULL,
    at               INTEGER NOT NULL,
    source           TEXT    NOT NULL CHECK (source IN ('typed', 'assistant', 'imported', 'tool')),
    name             TEXT,
    model_variant    TEXT,
    tool_calls       TEXT,
    tool_call_id     TEXT,
    metadata         TEXT,
    importance       REAL,
    replaced         INTEGER NOT NULL DEFAULT 0,
    UNIQUE (conversation_key, seq),
    UNIQUE (conversation_key, id)
) STRICT;

-- Full text, written in the message's own transaction. It holds no copy of the text, only our analyser's words
-- (the ascii tokenizer splits at spaces and does no more), with a word for the person and one for the conversation.
CREATE VIRTUAL TABLE message_words USING fts5 (
    scope, body, content = '', contentless_delete = 1, tokenize = 'ascii'
);

CREATE TRIGGER message_words_follow AFTER DELETE ON messages BEGIN
    DELETE FROM message_words WHERE rowid = old.key;
END;
