-- Briefs: the compressed memory of a conversation. Every version stays. The ledger's entries are stored once: an entry
-- belongs to its version and all later ones; `ended_version` is the one in which a newer value took its place.

CREATE TABLE briefs (
    conversation_key INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    version          INTEGER NOT NULL,
    through_seq      INTEGER NOT NULL,    -- covers everything up to here
    messages         INTEGER NOT NULL,    -- how many that are
    tokens           INTEGER NOT NULL,    -- what it costs in a prompt, about
    created_at       INTEGER NOT NULL,
    model            TEXT    NOT NULL,
    body             TEXT    NOT NULL,    -- JSON: statements with their sources, the record
    PRIMARY KEY (conversation_key, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE brief_entries (
    conversation_key INTEGER NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    number           INTEGER NOT NULL,    -- their order
    version          INTEGER NOT NULL,
    entry            TEXT    NOT NULL,    -- JSON
    ended_version    INTEGER,
    ended_at         INTEGER,
    PRIMARY KEY (conversation_key, number)
) STRICT, WITHOUT ROWID;

ALTER TABLE conversations ADD COLUMN briefed_seq INTEGER NOT NULL DEFAULT 0;    -- looked at up to here
CREATE INDEX conversations_unbriefed ON conversations (key) WHERE briefed_seq < last_seq;
