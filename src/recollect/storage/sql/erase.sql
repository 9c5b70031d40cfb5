-- Erasing. Word index rows, vectors and token counts are deleted with their messages, by cascade.

-- name: find_messages
SELECT m.key, m.conversation_key, m.seq, x.content
FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
WHERE c.person = :person AND m.id = :id AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation);

-- name: lock_conversation_key
-- On PostgreSQL this makes an append to the conversation wait until the transaction ends.
UPDATE conversations SET last_seq = last_seq WHERE key = :key;

-- name: sample_content
SELECT m.key, x.content FROM messages m JOIN texts x ON x.message_key = m.key
WHERE m.conversation_key = :key AND m.at >= :start AND m.at < :stop ORDER BY length(x.content) DESC LIMIT :limit;

-- name: sample_archived
SELECT m.key, CAST(NULL AS TEXT) AS content FROM messages m JOIN archived a ON a.message_key = m.key
WHERE m.conversation_key = :key AND m.at >= :start AND m.at < :stop ORDER BY m.seq LIMIT :limit;

-- name: delete_conversation
DELETE FROM conversations WHERE key = :key AND person = :person;

-- name: delete_message
DELETE FROM messages WHERE key = :key;

-- name: delete_between
DELETE FROM messages WHERE conversation_key = :key AND at >= :start AND at < :stop;

-- name: describe_doomed
-- The messages that are about to be erased: from seq :first to :last, from :start to before :stop, of a topic if named.
SELECT count(*) AS messages, min(seq) AS first_seq, max(seq) AS last_seq, min(at) AS first_at, max(at) AS last_at
FROM messages m
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop
AND (CAST(:topic AS BIGINT) IS NULL OR m.seq IN (SELECT seq FROM topic_messages WHERE topic_key = :topic));

-- name: doomed_ids
-- As describe_doomed.
SELECT c.name, m.id FROM messages m JOIN conversations c ON c.key = m.conversation_key
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop
AND (CAST(:topic AS BIGINT) IS NULL OR m.seq IN (SELECT seq FROM topic_messages WHERE topic_key = :topic));

-- name: empty_keys_of_person
-- The row stays, so that its id is never given again and the server never opens; nothing in it names anybody.
UPDATE api_keys SET person = '', label = '', department = NULL, ministry = NULL, clearances = '[]', scopes = '[]',
    hash = :no_hash, revoked_at = COALESCE(revoked_at, :now)
WHERE person = :person;

-- name: end_sessions_of_person
DELETE FROM sessions WHERE key_id IN (SELECT id FROM api_keys WHERE person = :person);

-- name: delete_topic_messages
DELETE FROM messages WHERE key IN (
    SELECT m.key FROM topic_messages o JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
    WHERE o.topic_key = :key
);

-- name: recount_conversation
UPDATE conversations
SET messages = (SELECT count(*) FROM messages WHERE conversation_key = :key),
    first_at = (SELECT min(at) FROM messages WHERE conversation_key = :key),
    last_at  = (SELECT max(at) FROM messages WHERE conversation_key = :key)
WHERE key = :key;

-- name: record_erasure
INSERT INTO erasures (id, owner, kind, counts, at, pending)
VALUES (:id, :owner, :kind, :counts, :now, 1);

-- name: pending_erasures
-- system: the worker finishes the erasures of all people; the rows do not say what was erased
SELECT id FROM erasures WHERE pending <> 0 ORDER BY id;

-- name: finish_erasure
-- system: see pending_erasures
UPDATE erasures SET pending = 0 WHERE id = :id;

-- name: any_content_holds
-- system: says only whether any text that was not erased contains the same piece
SELECT 1 AS found FROM texts WHERE content LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM conversations WHERE title LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM profiles WHERE body LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM topics WHERE named <> 0 AND title LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM topics WHERE tags LIKE :pattern ESCAPE '\' LIMIT 1;
