-- Derived work: how far it has come, who does it, and what it made. All of this can be deleted and made anew.

ALTER TABLE conversations ADD COLUMN worked_seq BIGINT NOT NULL DEFAULT 0;     -- derived rows exist up to here
ALTER TABLE conversations ADD COLUMN words_version BIGINT NOT NULL DEFAULT 1;  -- the analyser that made its words
CREATE INDEX conversations_due ON conversations (key) WHERE worked_seq < last_seq;

CREATE TABLE message_tokens (
    message_key BIGINT PRIMARY KEY REFERENCES messages (key) ON DELETE CASCADE,
    counter     TEXT   NOT NULL,
    tokens      BIGINT NOT NULL
);

CREATE TABLE leases (
    name   TEXT   COLLATE "C" PRIMARY KEY,
    holder TEXT   NOT NULL,
    until  BIGINT NOT NULL
);

-- What people changed at run time. (Not derived.)
CREATE TABLE settings (
    person     TEXT   COLLATE "C" NOT NULL,
    name       TEXT   COLLATE "C" NOT NULL,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (person, name)
);

-- That something was erased, and whether its bytes are gone. It must not say what: `owner` is a hash of the person.
CREATE TABLE erasures (
    id      TEXT   COLLATE "C" PRIMARY KEY,
    owner   TEXT   NOT NULL,
    kind    TEXT   NOT NULL,
    counts  TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    pending BIGINT NOT NULL
);
CREATE INDEX erasures_pending ON erasures (id) WHERE pending <> 0;

-- The planner's statistics hold samples of values; people's text must not be among them.
ALTER TABLE messages ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE messages ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE messages ALTER COLUMN tool_calls SET STATISTICS 0;
ALTER TABLE conversations ALTER COLUMN title SET STATISTICS 0;
ALTER TABLE message_words ALTER COLUMN body SET STATISTICS 0;
