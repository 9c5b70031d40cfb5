-- Segments: the words and vectors of many messages of one conversation, packed, so that a scope is read quickly.

-- Copies of what `entries` and `vectors` hold from `first_seq` to `last_seq`; an erase of a message in between deletes it.
CREATE TABLE segments (
    conversation_key BIGINT NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    first_seq        BIGINT NOT NULL,
    last_seq         BIGINT NOT NULL,
    version          BIGINT NOT NULL,    -- of the words, and of the form of the body
    embedder_key     BIGINT NOT NULL,    -- whose vectors it holds
    checksum         BIGINT NOT NULL,    -- of all of this row
    body             BYTEA  NOT NULL,
    PRIMARY KEY (conversation_key, first_seq)
);
CREATE INDEX segments_version ON segments (version, conversation_key);

ALTER TABLE conversations ADD COLUMN packed_seq BIGINT NOT NULL DEFAULT 0;    -- segments exist up to here
CREATE INDEX conversations_unpacked ON conversations (key)
    WHERE embedded_seq >= packed_seq + 32 + (packed_seq % 4096) / 8 AND embedder_key IS NOT NULL;

-- Bodies are hashes and vectors: trying to compress them only costs time.
ALTER TABLE segments ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE segments ALTER COLUMN body SET STATISTICS 0;
