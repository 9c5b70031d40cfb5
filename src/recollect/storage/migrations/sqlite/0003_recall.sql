-- Recall. What it reads of each message lies together per conversation, so that one range scan loads a scope.
-- The words are numbers (hashes) in the order of the text, with a mark where a passage begins; no text is copied.
-- FTS5 goes: its statistics were everyone's, its erased words had to be merged away, and PostgreSQL has no BM25.

DROP TRIGGER message_words_follow;
DROP TABLE message_words;

CREATE TABLE entries (
    conversation_key INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    at               INTEGER NOT NULL,
    role             INTEGER NOT NULL,    -- 0 user, 1 assistant, 2 system, 3 tool
    words            BLOB    NOT NULL,
    PRIMARY KEY (conversation_key, seq),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Who made vectors. The one with the highest key is in force. A conversation is served by the vectors of one embedder
-- alone; those of the next take over when they are complete.
CREATE TABLE embedders (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    dimensions INTEGER NOT NULL,
    passages   INTEGER NOT NULL,    -- the version of the rules that cut messages into passages
    since      INTEGER NOT NULL
) STRICT;

-- One row for a message: for each passage a scale (float32) and the vector as signed bytes.
CREATE TABLE vectors (
    conversation_key INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    embedder_key     INTEGER NOT NULL REFERENCES embedders (key),
    vectors          BLOB    NOT NULL,
    PRIMARY KEY (conversation_key, seq, embedder_key),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

ALTER TABLE conversations ADD COLUMN embedder_key INTEGER;                        -- whose vectors serve
ALTER TABLE conversations ADD COLUMN embedded_seq INTEGER NOT NULL DEFAULT 0;     -- vectors exist up to here
ALTER TABLE conversations ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;       -- of derived rows: grows when they are made anew
CREATE INDEX conversations_unembedded ON conversations (key) WHERE embedded_seq < last_seq;
UPDATE conversations SET words_version = 0, worked_seq = 0;

-- How recall fared: one row per query, without its words, kept for 30 days.
CREATE TABLE recalls (
    key     INTEGER PRIMARY KEY AUTOINCREMENT,
    person  TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    metrics TEXT    NOT NULL
) STRICT;
CREATE INDEX recalls_person ON recalls (person, at);
CREATE INDEX recalls_at ON recalls (at);
