-- Segments: the words and vectors of many messages of one conversation, packed, so that a scope is read quickly.

-- Copies of what `entries` and `vectors` hold from `first_seq` to `last_seq`; an erase of a message in between deletes it.
CREATE TABLE segments (
    conversation_key INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    first_seq        INTEGER NOT NULL,
    last_seq         INTEGER NOT NULL,
    version          INTEGER NOT NULL,    -- of the words, and of the form of the body
    embedder_key     INTEGER NOT NULL,    -- whose vectors it holds
    checksum         INTEGER NOT NULL,    -- of all of this row
    body             BLOB    NOT NULL,
    PRIMARY KEY (conversation_key, first_seq)
) STRICT;
CREATE INDEX segments_version ON segments (version, conversation_key);

ALTER TABLE conversations ADD COLUMN packed_seq INTEGER NOT NULL DEFAULT 0;    -- segments exist up to here
CREATE INDEX conversations_unpacked ON conversations (key)
    WHERE embedded_seq >= packed_seq + 32 + (packed_seq % 4096) / 8 AND embedder_key IS NOT NULL;
