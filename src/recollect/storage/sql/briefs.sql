-- Briefs and the entries of their ledger.

-- name: brief_state
SELECT c.key, c.zone, c.last_seq, c.last_seq - c.messages AS erased, c.generation,
       (SELECT value FROM settings WHERE person = '' AND name = 'epoch') AS epoch,
       b.version, b.through_seq, b.messages, b.tokens, b.created_at
FROM conversations c LEFT JOIN briefs b ON b.conversation_key = c.key
WHERE c.person = :person AND c.name = :conversation ORDER BY b.version DESC LIMIT 1;

-- name: get_brief
SELECT b.conversation_key AS key, b.version, b.through_seq, b.messages, b.tokens, b.created_at, b.model, b.body,
       c.last_seq
FROM conversations c JOIN briefs b ON b.conversation_key = c.key
WHERE c.person = :person AND c.name = :conversation AND b.version <= :version ORDER BY b.version DESC LIMIT 1;

-- name: brief_versions
SELECT b.version, b.through_seq, b.messages, b.tokens, b.created_at, b.model
FROM conversations c JOIN briefs b ON b.conversation_key = c.key
WHERE c.person = :person AND c.name = :conversation ORDER BY b.version;

-- name: brief_entries
SELECT number, entry, ended_version, ended_at FROM brief_entries
WHERE conversation_key = :key AND version <= :version ORDER BY number;

-- name: message_sizes
SELECT m.key, m.seq, m.role, m.at, t.tokens, CASE WHEN m.tool_calls IS NULL THEN 0 ELSE 1 END AS calls,
       CASE WHEN t.tokens IS NULL THEN x.content ELSE '' END AS content,
       CASE WHEN t.tokens IS NULL THEN m.name END AS name,
       CASE WHEN t.tokens IS NULL THEN m.tool_calls END AS tool_calls
FROM conversations c JOIN messages m ON m.conversation_key = c.key
LEFT JOIN message_tokens t ON t.message_key = m.key
LEFT JOIN texts x ON x.message_key = m.key
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after ORDER BY m.seq LIMIT :limit;

-- name: count_messages
SELECT count(*) AS n FROM messages WHERE conversation_key = :key AND seq > :after AND seq <= :through;

-- name: insert_brief
INSERT INTO briefs (conversation_key, version, through_seq, messages, tokens, created_at, model, body)
VALUES (:key, :version, :through, :messages, :tokens, :now, :model, :body);

-- name: insert_brief_entry
INSERT INTO brief_entries (conversation_key, number, version, entry, ended_version, ended_at)
VALUES (:key, :number, :version, :entry, :ended_version, :ended_at);

-- name: end_brief_entry
UPDATE brief_entries SET ended_version = :version, ended_at = :ended_at
WHERE conversation_key = :key AND number = :number;

-- name: delete_outdated_briefs
-- Every version that covers the first erased message.
DELETE FROM briefs WHERE conversation_key = :key AND through_seq >= :first_seq;

-- name: delete_outdated_brief_entries
-- Those of the versions that delete_outdated_briefs deletes.
DELETE FROM brief_entries WHERE conversation_key = :key AND version > COALESCE((
    SELECT max(version) FROM briefs WHERE conversation_key = :key AND through_seq < :first_seq), 0);

-- name: reopen_brief_entries
UPDATE brief_entries SET ended_version = NULL, ended_at = NULL
WHERE conversation_key = :key AND ended_version > COALESCE((
    SELECT max(version) FROM briefs WHERE conversation_key = :key AND through_seq < :first_seq), 0);

-- name: rewind_brief
-- system: only moves a cursor back, so that the worker looks at the conversation again
UPDATE conversations SET briefed_seq = 0 WHERE key = :key;

-- name: recheck_briefs
-- system: only moves cursors back, so that the worker looks again at conversations whose day may have ended
UPDATE conversations SET briefed_seq = 0 WHERE briefed_seq > 0 AND last_at >= :since AND last_seq > COALESCE(
    (SELECT max(b.through_seq) FROM briefs b WHERE b.conversation_key = conversations.key), 0);

-- name: delete_briefs_of
DELETE FROM briefs WHERE conversation_key IN (
    SELECT key FROM conversations
    WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
);

-- name: delete_entries_of_briefs
DELETE FROM brief_entries WHERE conversation_key IN (
    SELECT key FROM conversations
    WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
);

-- name: delete_all_briefs
-- system: see delete_all_entries
DELETE FROM briefs;

-- name: delete_all_brief_entries
-- system: see delete_all_entries
DELETE FROM brief_entries;

-- name: count_briefs_written
SELECT
    (SELECT count(*) FROM briefs b JOIN conversations c ON c.key = b.conversation_key
     WHERE c.person = :person AND b.created_at >= :since) AS written,
    (SELECT count(*) FROM messages m JOIN conversations c ON c.key = m.conversation_key
     WHERE c.person = :person AND m.role = 'assistant' AND m.at >= :since) AS answers;
