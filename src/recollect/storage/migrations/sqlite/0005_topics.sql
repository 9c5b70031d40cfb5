-- Topics: what a conversation is about, who belongs to what, and the archive where older text rests.

-- Text lies apart from the rest of a message, so that a page whose text went into the archive becomes free.
CREATE TABLE texts (
    message_key INTEGER PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
    content     TEXT    NOT NULL
) STRICT;
INSERT INTO texts (message_key, content) SELECT key, content FROM messages ORDER BY key;
ALTER TABLE messages DROP COLUMN content;

-- The archive: many texts packed together, with the keys of their messages. A block never changes: what is packed anew
-- has a new key.
CREATE TABLE blocks (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_key INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    dictionary_key   INTEGER NOT NULL,    -- which one unpacks it; below 1,000: shipped
    messages         INTEGER NOT NULL,
    text_bytes       INTEGER NOT NULL,    -- unpacked
    body             BLOB    NOT NULL
) STRICT;
CREATE INDEX blocks_conversation ON blocks (conversation_key, dictionary_key, text_bytes);

CREATE TABLE archived (
    message_key INTEGER PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
    block_key   INTEGER NOT NULL
) STRICT;

-- Dictionaries learned from a person's own messages hold pieces of them, so they belong to the person; from which
-- messages each one was learned is noted, because it goes when one of them is erased.
CREATE TABLE dictionaries (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    person     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    text_bytes INTEGER NOT NULL,    -- in the person's archive when it was learned
    learned_from TEXT NOT NULL,     -- keys of messages, each as its distance from the one before
    body       BLOB    NOT NULL
) STRICT;
CREATE INDEX dictionaries_person ON dictionaries (person, key);
INSERT INTO sqlite_sequence (name, seq) VALUES ('dictionaries', 999);

CREATE TABLE topics (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_key INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    id               TEXT    NOT NULL UNIQUE,
    opened_seq       INTEGER NOT NULL,               -- the message that opened it
    created_at       INTEGER NOT NULL,
    active_at        INTEGER NOT NULL,               -- when it was last spoken of
    active_seq       INTEGER NOT NULL,
    accesses         INTEGER NOT NULL DEFAULT 0,
    messages         INTEGER NOT NULL DEFAULT 0,     -- how many belong to it,
    archived         INTEGER NOT NULL DEFAULT 0,     -- and how many of them rest in the archive
    restored         INTEGER NOT NULL DEFAULT 0,     -- its archive is back for as long as it is the active topic
    cold             INTEGER NOT NULL DEFAULT 0,     -- it left the topics that count
    block_key        INTEGER,                        -- the block that the next fold extends
    folded_seq       INTEGER NOT NULL DEFAULT 0,     -- archived up to here, but for the conversation's first message
    embedder_key     INTEGER,                        -- whose vectors the sums are made of
    sums             BLOB,                           -- float16: the running centroid
    title            TEXT    NOT NULL,
    summary          BLOB,                           -- packed JSON: statements with their sources
    summary_seq      INTEGER NOT NULL DEFAULT 0,     -- told up to here
    -- What people said of it; a rebuild keeps this.
    by_hand          INTEGER NOT NULL DEFAULT 0,     -- split off by somebody
    named            INTEGER NOT NULL DEFAULT 0,     -- the title was given
    tags             TEXT    NOT NULL DEFAULT '[]',
    pinned           INTEGER NOT NULL DEFAULT 0,
    importance       REAL,                           -- given
    deletions        INTEGER NOT NULL DEFAULT 0,     -- messages of it that were erased one by one
    merged_into      INTEGER REFERENCES topics (key) ON DELETE SET NULL,
    merged_at        INTEGER
) STRICT;
CREATE INDEX topics_conversation ON topics (conversation_key, opened_seq);
CREATE INDEX topics_merged ON topics (merged_into) WHERE merged_into IS NOT NULL;

CREATE TABLE topic_messages (
    conversation_key INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    topic_key        INTEGER NOT NULL REFERENCES topics (key) ON DELETE CASCADE,
    PRIMARY KEY (conversation_key, seq),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX topic_messages_topic ON topic_messages (topic_key, seq);

CREATE TABLE feedback (
    conversation_key INTEGER NOT NULL,
    seq              INTEGER NOT NULL,
    kind             TEXT    NOT NULL,
    value            REAL    NOT NULL,
    at               INTEGER NOT NULL,
    PRIMARY KEY (conversation_key, seq, kind),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

ALTER TABLE conversations ADD COLUMN topiced_seq INTEGER NOT NULL DEFAULT 0;    -- belongs to topics up to here
ALTER TABLE conversations ADD COLUMN folded_seq INTEGER NOT NULL DEFAULT 0;     -- topics were looked at up to here
ALTER TABLE conversations ADD COLUMN active_topic INTEGER;
ALTER TABLE conversations ADD COLUMN topic_before INTEGER;     -- the active one before, while a new one has no reply yet
ALTER TABLE conversations ADD COLUMN topic_rested INTEGER NOT NULL DEFAULT 0;    -- whether the talk had rested then
ALTER TABLE conversations ADD COLUMN grouped_by_hand INTEGER NOT NULL DEFAULT 0;  -- people merged or split topics here
ALTER TABLE conversations ADD COLUMN topics_version INTEGER NOT NULL DEFAULT 0;  -- grows when topics change otherwise
CREATE INDEX conversations_untopiced ON conversations (key) WHERE topiced_seq < embedded_seq;
CREATE INDEX conversations_unfolded ON conversations (key) WHERE folded_seq < topiced_seq;
