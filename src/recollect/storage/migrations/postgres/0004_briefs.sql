-- Briefs: the compressed memory of a conversation. Every version stays. The ledger's entries are stored once: an entry
-- belongs to its version and all later ones; `ended_version` is the one in which a newer value took its place.

CREATE TABLE briefs (
    conversation_key BIGINT NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    version          BIGINT NOT NULL,
    through_seq      BIGINT NOT NULL,    -- covers everything up to here
    messages         BIGINT NOT NULL,    -- how many that are
    tokens           BIGINT NOT NULL,    -- what it costs in a prompt, about
    created_at       BIGINT NOT NULL,
    model            TEXT   NOT NULL,
    body             TEXT   NOT NULL,    -- JSON: statements with their sources, the record
    PRIMARY KEY (conversation_key, version)
);

CREATE TABLE brief_entries (
    conversation_key BIGINT NOT NULL REFERENCES conversations (key) ON DELETE CASCADE,
    number           BIGINT NOT NULL,    -- their order
    version          BIGINT NOT NULL,
    entry            TEXT   NOT NULL,    -- JSON
    ended_version    BIGINT,
    ended_at         BIGINT,
    PRIMARY KEY (conversation_key, number)
);

ALTER TABLE conversations ADD COLUMN briefed_seq BIGINT NOT NULL DEFAULT 0;    -- looked at up to here
CREATE INDEX conversations_unbriefed ON conversations (key) WHERE briefed_seq < last_seq;

-- Statistics would keep samples of the text.
ALTER TABLE briefs ALTER COLUMN body SET STATISTICS 0;
ALTER TABLE brief_entries ALTER COLUMN entry SET STATISTICS 0;
