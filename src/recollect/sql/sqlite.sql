-- Queries in SQLite's own words.

-- name: lock_conversation
-- The whole transaction holds the write lock already.
SELECT key, zone, last_seq FROM conversations WHERE person = :person AND name = :conversation;

-- name: known_messages
SELECT * FROM messages WHERE conversation_key = :key AND id IN (SELECT value FROM json_each(:ids));

-- name: insert_messages
-- :rows is a JSON array of objects with the :key of a locked conversation.
INSERT INTO messages (conversation_key, seq, id, role, content, at, source, name, model_variant,
                      tool_calls, tool_call_id, metadata, importance, replaced)
SELECT value ->> 'key', value ->> 'seq', value ->> 'id', value ->> 'role', value ->> 'content', value ->> 'at',
       value ->> 'source', value ->> 'name', value ->> 'model_variant', value ->> 'tool_calls',
       value ->> 'tool_call_id', value ->> 'metadata', value ->> 'importance', value ->> 'replaced'
FROM jsonb_each(:rows) ORDER BY jsonb_each.key;

-- name: insert_words
-- :rows is a JSON array of objects with the :key of a locked conversation.
INSERT INTO message_words (rowid, scope, body)
SELECT m.key, r.value ->> 'scope', r.value ->> 'body'
FROM jsonb_each(:rows) r
JOIN messages m ON m.conversation_key = r.value ->> 'key' AND m.seq = r.value ->> 'seq';

-- name: delete_words
DELETE FROM message_words WHERE rowid IN (
    SELECT key FROM messages WHERE conversation_key = :key AND seq > :after AND seq <= :through
);

-- name: delete_all_words
-- system: rebuild for all people, on the operator's word
INSERT INTO message_words (message_words) VALUES ('delete-all');

-- name: save_tokens
-- The message may have been erased since it was read.
INSERT INTO message_tokens (message_key, counter, tokens)
SELECT key, :counter, :tokens FROM messages WHERE key = :key
ON CONFLICT (message_key) DO NOTHING;

-- name: search_words
-- :match holds the person's own scope word, so only their rows can match.
SELECT m.*, c.name AS conversation
FROM (SELECT rowid AS key FROM message_words WHERE message_words MATCH :match ORDER BY rowid DESC LIMIT :limit) hit
JOIN messages m ON m.key = hit.key JOIN conversations c ON c.key = m.conversation_key
WHERE c.person = :person ORDER BY m.key DESC;

-- name: words_without_message
-- system: a check of the whole index
SELECT count(*) AS n FROM message_words_docsize d LEFT JOIN messages m ON m.key = d.id WHERE m.key IS NULL;

-- name: messages_without_words
-- system: a check of the whole index
SELECT count(*) AS n FROM messages m LEFT JOIN message_words_docsize d ON d.id = m.key WHERE d.id IS NULL;

-- name: store_bytes
-- system: the size of the file
SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size();
