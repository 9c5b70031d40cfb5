-- Queries that are written for PostgreSQL alone. Those in sqlite.sql have the same names.

-- name: schema_version
-- system: read before every write, so that a process older than the schema stops
SELECT max(version) AS version FROM schema_migrations;

-- name: lock_conversation
SELECT key, zone, last_seq FROM conversations WHERE person = :person AND name = :conversation FOR UPDATE;

-- name: lock_conversations
-- Lock all of a person's conversations, so that no fold uses a dictionary that is deleted,
-- and no message is erased that a dictionary is learned from.
SELECT key FROM conversations WHERE person = :person ORDER BY name FOR UPDATE;

-- name: known_messages
SELECT m.*, x.content FROM messages m LEFT JOIN texts x ON x.message_key = m.key
WHERE m.conversation_key = :key AND m.id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: known_tombstones
-- system: :hashes is a JSON array of keyed hashes in hexadecimal digits, which name nobody
SELECT hash FROM tombstones WHERE hash IN (SELECT decode(jsonb_array_elements_text(CAST(:hashes AS jsonb)), 'hex'));

-- name: insert_messages
-- :rows is a JSON array of objects with the :key of a locked conversation.
INSERT INTO messages (conversation_key, {message_columns})
SELECT r.key, {message_record_values}
FROM json_to_recordset(CAST(:rows AS json)) AS r (key BIGINT, {message_record_columns});

-- name: insert_texts
-- :rows is a JSON array of [:key of a locked conversation, seq, text].
INSERT INTO texts (message_key, content)
SELECT m.key, p ->> 2 FROM json_array_elements(CAST(:rows AS json)) AS p
JOIN messages m ON m.conversation_key = CAST(p ->> 0 AS BIGINT) AND m.seq = CAST(p ->> 1 AS BIGINT);

-- name: insert_entries
-- :rows is a JSON array of [:key of a locked conversation, seq, at, role, start of its words in :words, their length].
INSERT INTO entries (conversation_key, seq, at, role, words)
SELECT CAST(p ->> 0 AS BIGINT), CAST(p ->> 1 AS BIGINT), CAST(p ->> 2 AS BIGINT), CAST(p ->> 3 AS SMALLINT),
       substring(CAST(:words AS BYTEA) FROM 1 + CAST(p ->> 4 AS INTEGER) FOR CAST(p ->> 5 AS INTEGER))
FROM json_array_elements(CAST(:rows AS json)) AS p;

-- name: lock_everything
-- system: a restore replaces the whole log; other writers wait
LOCK TABLE {restored_tables} IN EXCLUSIVE MODE;

-- name: lock_embedders
-- system: two processes that start with the same new embedder must not both insert it
LOCK TABLE embedders IN SHARE ROW EXCLUSIVE MODE;

-- name: save_tokens
-- The message may be erased at this moment: FOR KEY SHARE waits for the erase, or makes it wait.
INSERT INTO message_tokens (message_key, counter, tokens)
SELECT key, CAST(:counter AS TEXT), CAST(:tokens AS BIGINT) FROM messages WHERE key = :key FOR KEY SHARE
ON CONFLICT (message_key) DO NOTHING;

-- name: entries_between
-- :cursors is a JSON array of [:key of a conversation of the person, after, through]. OFFSET 0 keeps the planner from scanning all.
SELECT e.* FROM jsonb_array_elements(CAST(:cursors AS jsonb)) k (value)
CROSS JOIN LATERAL (
    SELECT conversation_key, seq, at, role, words FROM entries
    WHERE conversation_key = CAST(k.value ->> 0 AS BIGINT) AND seq > CAST(k.value ->> 1 AS BIGINT)
      AND seq <= CAST(k.value ->> 2 AS BIGINT)
    ORDER BY seq OFFSET 0
) e;

-- name: vectors_between
-- :cursors is a JSON array of [:key of a conversation of the person, after, through, embedder].
SELECT v.* FROM jsonb_array_elements(CAST(:cursors AS jsonb)) k (value)
CROSS JOIN LATERAL (
    SELECT conversation_key, seq, vectors FROM vectors
    WHERE conversation_key = CAST(k.value ->> 0 AS BIGINT) AND seq > CAST(k.value ->> 1 AS BIGINT)
      AND seq <= CAST(k.value ->> 2 AS BIGINT) AND embedder_key = CAST(k.value ->> 3 AS BIGINT)
    ORDER BY seq OFFSET 0
) v;

-- name: segments_of
-- :cursors is a JSON array of [:key of a conversation of the person, embedder].
SELECT s.* FROM jsonb_array_elements(CAST(:cursors AS jsonb)) k (value)
CROSS JOIN LATERAL (
    SELECT conversation_key, first_seq, last_seq, embedder_key, checksum, body FROM segments
    WHERE conversation_key = CAST(k.value ->> 0 AS BIGINT) AND embedder_key = CAST(k.value ->> 1 AS BIGINT)
      AND version = :version
    ORDER BY first_seq OFFSET 0
) s;

-- name: messages_at
-- :cursors is a JSON array of [key of a conversation, seq].
SELECT m.* FROM jsonb_array_elements(CAST(:cursors AS jsonb)) k (value)
CROSS JOIN LATERAL (
    SELECT messages.*, texts.content, conversations.name AS conversation
    FROM messages JOIN conversations ON conversations.key = messages.conversation_key
    LEFT JOIN texts ON texts.message_key = messages.key
    WHERE messages.conversation_key = CAST(k.value ->> 0 AS BIGINT) AND messages.seq = CAST(k.value ->> 1 AS BIGINT)
      AND conversations.person = :person
    OFFSET 0
) m;

-- name: standing_messages
-- :cursors is a JSON array of [key of a conversation, seq, id] of messages that were found under a person.
SELECT m.conversation_key, m.seq, m.id FROM jsonb_array_elements(CAST(:cursors AS jsonb)) k (value)
JOIN messages m ON m.conversation_key = CAST(k.value ->> 0 AS BIGINT) AND m.seq = CAST(k.value ->> 1 AS BIGINT)
 AND m.id = k.value ->> 2;

-- name: blocks_of
-- :rows is a JSON array of keys of messages found under a person.
SELECT message_key, block_key FROM archived
WHERE message_key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)));

-- name: get_blocks
-- :rows is a JSON array of keys of blocks that hold messages found under a person.
SELECT key, body FROM blocks
WHERE key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)));

-- name: assign_block
-- :rows is a JSON array of keys of messages of a locked conversation, whose texts are in the block with this :key.
INSERT INTO archived (message_key, block_key)
SELECT CAST(p AS BIGINT), :key FROM jsonb_array_elements_text(CAST(:rows AS jsonb)) AS p
ON CONFLICT (message_key) DO UPDATE SET block_key = excluded.block_key;

-- name: count_messages_among
-- :rows is a JSON array of keys of messages of a person.
SELECT count(*) AS n FROM messages
WHERE key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)));

-- name: texts_of
-- :rows is a JSON array of keys of messages of a locked conversation.
SELECT message_key, content FROM texts
WHERE message_key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)));

-- name: delete_texts
-- :rows is a JSON array of keys of messages of a locked conversation.
DELETE FROM texts
WHERE message_key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)));

-- name: assign_messages
-- :rows is a JSON array of [seq, key of a topic] in the conversation with this :key. Erased messages are skipped.
INSERT INTO topic_messages (conversation_key, seq, topic_key)
SELECT m.conversation_key, m.seq, CAST(p ->> 1 AS BIGINT) FROM json_array_elements(CAST(:rows AS json)) AS p
JOIN messages m ON m.conversation_key = :key AND m.seq = CAST(p ->> 0 AS BIGINT)
ON CONFLICT (conversation_key, seq) DO NOTHING;

-- name: topics_among
-- :rows is a JSON array of keys of messages of a locked conversation.
SELECT o.topic_key, count(*) AS messages FROM messages m
JOIN topic_messages o ON o.conversation_key = m.conversation_key AND o.seq = m.seq
WHERE m.key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)))
GROUP BY o.topic_key;

-- name: members_of
-- :rows is a JSON array of keys of topics of the conversation with this :key.
SELECT m.*, x.content, o.topic_key FROM topic_messages o
JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
LEFT JOIN texts x ON x.message_key = m.key
WHERE o.conversation_key = :key AND m.seq > :after
  AND o.topic_key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)))
ORDER BY m.seq;

-- name: unarchived_members
-- :rows is a JSON array of keys of topics of the conversation with this :key. Without archived messages.
SELECT m.*, x.content, o.topic_key FROM topic_messages o
JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
JOIN texts x ON x.message_key = m.key
WHERE o.conversation_key = :key AND o.seq > :after
  AND o.topic_key = ANY (ARRAY(SELECT CAST(jsonb_array_elements_text(CAST(:rows AS jsonb)) AS BIGINT)))
ORDER BY m.seq;

-- name: topics_at
-- :cursors is a JSON array of [key of a conversation of the person, seq].
SELECT o.conversation_key, o.seq, o.topic_key FROM jsonb_array_elements(CAST(:cursors AS jsonb)) k (value)
JOIN topic_messages o ON o.conversation_key = CAST(k.value ->> 0 AS BIGINT) AND o.seq = CAST(k.value ->> 1 AS BIGINT);

-- name: save_vectors
-- The message may have been erased since it was read.
INSERT INTO vectors (conversation_key, seq, embedder_key, vectors)
SELECT conversation_key, seq, CAST(:embedder AS BIGINT), CAST(:vectors AS BYTEA) FROM messages WHERE conversation_key = :key AND seq = :seq FOR KEY SHARE
ON CONFLICT (conversation_key, seq, embedder_key) DO UPDATE SET vectors = excluded.vectors;

-- name: store_bytes
-- system: the size of our tables
SELECT CAST(COALESCE(sum(pg_total_relation_size(CAST(name AS regclass))), 0) AS BIGINT) AS bytes
FROM unnest(ARRAY[{all_tables}]) AS name;

-- name: columns_of
-- system: names of columns, no content
SELECT column_name AS name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name = :table;
