-- Queries in PostgreSQL's own words.

-- name: schema_version
-- system: read before every write, so that a process older than the schema stops
SELECT max(version) AS version FROM schema_migrations;

-- name: lock_conversation
SELECT key, zone, last_seq FROM conversations WHERE person = :person AND name = :conversation FOR UPDATE;

-- name: known_messages
SELECT * FROM messages
WHERE conversation_key = :key AND id IN (SELECT jsonb_array_elements_text(CAST(:ids AS jsonb)));

-- name: insert_messages
-- :rows is a JSON array of objects with the :key of a locked conversation.
INSERT INTO messages (conversation_key, seq, id, role, content, at, source, name, model_variant,
                      tool_calls, tool_call_id, metadata, importance, replaced)
SELECT r.key, r.seq, r.id, r.role, r.content, r.at, r.source, r.name, r.model_variant,
       r.tool_calls, r.tool_call_id, r.metadata, r.importance, r.replaced
FROM json_to_recordset(CAST(:rows AS json)) AS r (
    key BIGINT, seq BIGINT, id TEXT, role TEXT, content TEXT, at BIGINT, source TEXT, name TEXT, model_variant TEXT,
    tool_calls TEXT, tool_call_id TEXT, metadata TEXT, importance DOUBLE PRECISION, replaced BIGINT
);

-- name: insert_words
-- :rows is a JSON array of objects with the :key of a locked conversation.
INSERT INTO message_words (message_key, part, body)
SELECT m.key, r.part, array_to_tsvector(string_to_array(r.scope, ' ') || string_to_array(r.body, ' '))
FROM json_to_recordset(CAST(:rows AS json)) AS r (key BIGINT, seq BIGINT, part INTEGER, scope TEXT, body TEXT)
JOIN messages m ON m.conversation_key = r.key AND m.seq = r.seq;

-- name: delete_words
DELETE FROM message_words WHERE message_key IN (
    SELECT key FROM messages WHERE conversation_key = :key AND seq > :after AND seq <= :through
);

-- name: delete_all_words
-- system: rebuild for all people, on the operator's word
TRUNCATE message_words;

-- name: lock_everything
-- system: a restore replaces the whole log; nobody may write meanwhile
LOCK TABLE conversations, messages, settings IN EXCLUSIVE MODE;

-- name: save_tokens
-- The message may be erased at this very moment: wait for that, or keep it until we are through.
INSERT INTO message_tokens (message_key, counter, tokens)
SELECT key, CAST(:counter AS TEXT), CAST(:tokens AS BIGINT) FROM messages WHERE key = :key FOR KEY SHARE
ON CONFLICT (message_key) DO NOTHING;

-- name: search_words
SELECT m.*, c.name AS conversation
FROM (SELECT DISTINCT message_key AS key FROM message_words
      WHERE body @@ CAST(:match AS tsquery) ORDER BY message_key DESC LIMIT :limit) hit
JOIN messages m ON m.key = hit.key JOIN conversations c ON c.key = m.conversation_key
WHERE c.person = :person ORDER BY m.key DESC;

-- name: words_without_message
-- system: a check of the whole index
SELECT count(*) AS n FROM message_words w LEFT JOIN messages m ON m.key = w.message_key WHERE m.key IS NULL;

-- name: messages_without_words
-- system: a check of the whole index
SELECT count(*) AS n FROM messages m WHERE NOT EXISTS (SELECT 1 FROM message_words w WHERE w.message_key = m.key);

-- name: store_bytes
-- system: the size of our tables
SELECT CAST(COALESCE(sum(pg_total_relation_size(CAST(name AS regclass))), 0) AS BIGINT) AS bytes
FROM unnest(ARRAY['conversations', 'messages', 'message_words', 'message_tokens']) AS name;
