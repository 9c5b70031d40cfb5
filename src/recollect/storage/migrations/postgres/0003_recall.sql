-- Recall. What it reads of each message lies together per conversation, so that one range scan loads a scope.
-- The words are numbers (hashes) in the order of the text, with a mark where a passage begins; no text is copied.
-- The tsvectors go: the database cannot rank by BM25, and one ranking in core serves both databases.

DROP TABLE message_words;

CREATE TABLE entries (
    conversation_key BIGINT NOT NULL,
    seq              BIGINT NOT NULL,
    at               BIGINT NOT NULL,
    role             SMALLINT NOT NULL,   -- 0 user, 1 assistant, 2 system, 3 tool
    words            BYTEA   NOT NULL,
    PRIMARY KEY (conversation_key, seq),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
);

-- Who made vectors. The one with the highest key is in force. A conversation is served by the vectors of one embedder
-- alone; those of the next take over when they are complete.
CREATE TABLE embedders (
    key        BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       TEXT    NOT NULL,
    dimensions BIGINT NOT NULL,
    passages   BIGINT NOT NULL,    -- the version of the rules that cut messages into passages
    since      BIGINT NOT NULL
);

-- One row for a message: for each passage a scale (float32) and the vector as signed bytes.
CREATE TABLE vectors (
    conversation_key BIGINT NOT NULL,
    seq              BIGINT NOT NULL,
    embedder_key     BIGINT NOT NULL REFERENCES embedders (key),
    vectors          BYTEA   NOT NULL,
    PRIMARY KEY (conversation_key, seq, embedder_key),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
);

ALTER TABLE conversations ADD COLUMN embedder_key BIGINT;                        -- whose vectors serve
ALTER TABLE conversations ADD COLUMN embedded_seq BIGINT NOT NULL DEFAULT 0;     -- vectors exist up to here
ALTER TABLE conversations ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;       -- of derived rows: grows when they are made anew
CREATE INDEX conversations_unembedded ON conversations (key) WHERE embedded_seq < last_seq;
UPDATE conversations SET words_version = 0, worked_seq = 0;

-- How recall fared: one row per query, without its words, kept for 30 days.
CREATE TABLE recalls (
    key     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person  TEXT COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    metrics TEXT    NOT NULL
);
CREATE INDEX recalls_person ON recalls (person, at);
CREATE INDEX recalls_at ON recalls (at);

-- Large values are hashes and vectors: trying to compress them only costs time.
ALTER TABLE entries ALTER COLUMN words SET STORAGE EXTERNAL;
ALTER TABLE vectors ALTER COLUMN vectors SET STORAGE EXTERNAL;
ALTER TABLE entries ALTER COLUMN words SET STATISTICS 0;
ALTER TABLE vectors ALTER COLUMN vectors SET STATISTICS 0;
