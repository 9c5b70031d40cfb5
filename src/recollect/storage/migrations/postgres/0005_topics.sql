-- Topics: what a conversation is about, who belongs to what, and the archive where older text rests.

-- Text lies apart from the rest of a message, so that a page whose text went into the archive becomes free.
CREATE TABLE texts (
    message_key BIGINT PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
    content     TEXT    NOT NULL
);
INSERT INTO texts (message_key, content) SELECT key, content FROM messages ORDER BY key;
ALTER TABLE messages DROP COLUMN content;

-- The archive: many texts packed together, with the keys of their messages. A block never changes: what is packed anew
-- has a new key.
CREATE TABLE blocks (
    key              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_key BIGINT NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    dictionary_key   BIGINT NOT NULL,    -- which one unpacks it; below 1,000: shipped
    messages         BIGINT NOT NULL,
    text_bytes       BIGINT NOT NULL,    -- unpacked
    body             BYTEA  NOT NULL
);
CREATE INDEX blocks_conversation ON blocks (conversation_key, dictionary_key, text_bytes);

CREATE TABLE archived (
    message_key BIGINT PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
    block_key   BIGINT NOT NULL
);

-- Dictionaries learned from a person's own messages hold pieces of them, so they belong to the person; from which
-- messages each one was learned is noted, because it goes when one of them is erased.
CREATE TABLE dictionaries (
    key        BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1000) PRIMARY KEY,
    person     TEXT    COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    text_bytes BIGINT NOT NULL,    -- in the person's archive when it was learned
    learned_from TEXT NOT NULL,     -- keys of messages, each as its distance from the one before
    body       BYTEA  NOT NULL
);
CREATE INDEX dictionaries_person ON dictionaries (person, key);

CREATE TABLE topics (
    key              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_key BIGINT NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    id               TEXT    COLLATE "C" NOT NULL UNIQUE,
    opened_seq       BIGINT NOT NULL,               -- the message that opened it
    created_at       BIGINT NOT NULL,
    active_at        BIGINT NOT NULL,               -- when it was last spoken of
    active_seq       BIGINT NOT NULL,
    accesses         BIGINT NOT NULL DEFAULT 0,
    messages         BIGINT NOT NULL DEFAULT 0,     -- how many belong to it,
    archived         BIGINT NOT NULL DEFAULT 0,     -- and how many of them rest in the archive
    restored         BIGINT NOT NULL DEFAULT 0,     -- its archive is back for as long as it is the active topic
    cold             BIGINT NOT NULL DEFAULT 0,     -- it left the topics that count
    block_key        BIGINT,                        -- the block that the next fold extends
    folded_seq       BIGINT NOT NULL DEFAULT 0,     -- archived up to here, but for the conversation's first message
    embedder_key     BIGINT,                        -- whose vectors the sums are made of
    sums             BYTEA,                          -- float16: the running centroid
    title            TEXT    NOT NULL,
    summary          BYTEA,                           -- packed JSON: statements with their sources
    summary_seq      BIGINT NOT NULL DEFAULT 0,     -- told up to here
    -- What people said of it; a rebuild keeps this.
    by_hand          BIGINT NOT NULL DEFAULT 0,     -- split off by somebody
    named            BIGINT NOT NULL DEFAULT 0,     -- the title was given
    tags             TEXT    NOT NULL DEFAULT '[]',
    pinned           BIGINT NOT NULL DEFAULT 0,
    importance       DOUBLE PRECISION,               -- given
    deletions        BIGINT NOT NULL DEFAULT 0,     -- messages of it that were erased one by one
    merged_into      BIGINT REFERENCES topics (key) ON DELETE SET NULL,
    merged_at        BIGINT
);
CREATE INDEX topics_conversation ON topics (conversation_key, opened_seq);
CREATE INDEX topics_merged ON topics (merged_into) WHERE merged_into IS NOT NULL;

CREATE TABLE topic_messages (
    conversation_key BIGINT NOT NULL,
    seq              BIGINT NOT NULL,
    topic_key        BIGINT NOT NULL REFERENCES topics (key) ON DELETE CASCADE,
    PRIMARY KEY (conversation_key, seq),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
);
CREATE INDEX topic_messages_topic ON topic_messages (topic_key, seq);

CREATE TABLE feedback (
    conversation_key BIGINT NOT NULL,
    seq              BIGINT NOT NULL,
    kind             TEXT    NOT NULL,
    value            DOUBLE PRECISION NOT NULL,
    at               BIGINT NOT NULL,
    PRIMARY KEY (conversation_key, seq, kind),
    FOREIGN KEY (conversation_key, seq) REFERENCES messages (conversation_key, seq) ON DELETE CASCADE
);

ALTER TABLE conversations ADD COLUMN topiced_seq BIGINT NOT NULL DEFAULT 0;    -- belongs to topics up to here
ALTER TABLE conversations ADD COLUMN folded_seq BIGINT NOT NULL DEFAULT 0;     -- topics were looked at up to here
ALTER TABLE conversations ADD COLUMN active_topic BIGINT;
ALTER TABLE conversations ADD COLUMN topic_before BIGINT;     -- the active one before, while a new one has no reply yet
ALTER TABLE conversations ADD COLUMN topic_rested BIGINT NOT NULL DEFAULT 0;    -- whether the talk had rested then
ALTER TABLE conversations ADD COLUMN grouped_by_hand BIGINT NOT NULL DEFAULT 0;  -- people merged or split topics here
ALTER TABLE conversations ADD COLUMN topics_version BIGINT NOT NULL DEFAULT 0;  -- grows when topics change otherwise
CREATE INDEX conversations_untopiced ON conversations (key) WHERE topiced_seq < embedded_seq;
CREATE INDEX conversations_unfolded ON conversations (key) WHERE folded_seq < topiced_seq;

-- Statistics would keep samples of the text, and what is packed is not worth another try.
ALTER TABLE texts ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE topics ALTER COLUMN title SET STATISTICS 0;
ALTER TABLE topics ALTER COLUMN tags SET STATISTICS 0;
ALTER TABLE topics ALTER COLUMN summary SET STATISTICS 0;
ALTER TABLE topics ALTER COLUMN summary SET STORAGE EXTERNAL;
ALTER TABLE blocks ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE blocks ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE dictionaries ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE dictionaries ALTER COLUMN body SET STORAGE EXTERNAL;
