-- Queries that both databases understand. Every one is bound to a person, or to the key of a row that was found
-- under a person in the same transaction; one that serves the whole store says why (`-- system:`).

-- name: create_conversation
INSERT INTO conversations (person, name, title, tags, zone, created_at, words_version)
VALUES (:person, :conversation, :title, :tags, :zone, :now, :words_version)
ON CONFLICT (person, name) DO NOTHING;

-- name: get_conversation
SELECT key, zone, last_seq FROM conversations WHERE person = :person AND name = :conversation;

-- name: describe_conversations
-- A title nobody gave is taken from the first user message, so that it goes when that message goes.
SELECT c.key, c.name, c.title, c.tags, c.zone, c.messages, c.last_seq, c.first_at, c.last_at,
       CASE WHEN c.title IS NULL THEN (
           SELECT substr(m.content, 1, 200) FROM messages m
           WHERE m.conversation_key = c.key AND m.role = 'user' ORDER BY m.seq LIMIT 1
       ) END AS opening
FROM conversations c
WHERE c.person = :person AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation)
ORDER BY COALESCE(c.last_at, c.created_at) DESC, c.key DESC;

-- name: update_conversation
UPDATE conversations
SET title = CASE WHEN :set_title <> 0 THEN CAST(:title AS TEXT) ELSE title END,
    tags  = COALESCE(CAST(:tags AS TEXT), tags),
    zone  = COALESCE(CAST(:zone AS TEXT), zone)
WHERE person = :person AND name = :conversation;

-- name: advance_conversation
UPDATE conversations
SET last_seq = :last_seq, messages = messages + :added,
    first_at = CASE WHEN first_at IS NULL OR first_at > :first_at THEN :first_at ELSE first_at END,
    last_at  = CASE WHEN last_at IS NULL OR last_at < :last_at THEN :last_at ELSE last_at END
WHERE key = :key;

-- name: history
SELECT m.* FROM messages m JOIN conversations c ON c.key = m.conversation_key
WHERE c.person = :person AND c.name = :conversation AND m.seq < :before
ORDER BY m.seq DESC LIMIT :limit;

-- name: page
SELECT m.* FROM messages m JOIN conversations c ON c.key = m.conversation_key
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after
ORDER BY m.seq LIMIT :limit;

-- name: count_rows
SELECT (SELECT count(*) FROM conversations WHERE person = :person) AS conversations,
       (SELECT count(*) FROM conversations WHERE person = :person AND worked_seq < last_seq) AS due,
       count(*) AS messages,
       COALESCE(sum(m.replaced), 0) AS replaced,
       COALESCE(sum(octet_length(m.content)), 0) AS text_bytes,
       COALESCE(sum(t.tokens), 0) AS tokens,
       COALESCE(sum(CASE WHEN t.counter = 'estimate' THEN 1 ELSE 0 END), 0) AS estimated,
       count(t.message_key) AS counted,
       min(m.at) AS first_at, max(m.at) AS last_at
FROM conversations c JOIN messages m ON m.conversation_key = c.key
LEFT JOIN message_tokens t ON t.message_key = m.key
WHERE c.person = :person;

-- name: count_roles
SELECT m.role, count(*) AS messages
FROM conversations c JOIN messages m ON m.conversation_key = c.key
WHERE c.person = :person GROUP BY m.role ORDER BY m.role;

-- Erasing. The full text, token counts and whatever later issues derive go by cascade or trigger.

-- name: find_messages
SELECT m.key, m.conversation_key, m.content
FROM messages m JOIN conversations c ON c.key = m.conversation_key
WHERE c.person = :person AND m.id = :id AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation);

-- name: tokens_of
SELECT message_key FROM message_tokens WHERE message_key = :key;

-- name: lock_conversation_key
-- Makes an append to this conversation wait until the erase is over, on databases that lock rows.
UPDATE conversations SET last_seq = last_seq WHERE key = :key;

-- name: sample_content
SELECT content FROM messages WHERE conversation_key = :key AND at >= :start AND at < :stop
ORDER BY length(content) DESC LIMIT :limit;

-- name: delete_conversation
DELETE FROM conversations WHERE key = :key AND person = :person;

-- name: delete_message
DELETE FROM messages WHERE key = :key;

-- name: delete_between
DELETE FROM messages WHERE conversation_key = :key AND at >= :start AND at < :stop;

-- name: count_between
SELECT count(*) AS messages, count(t.message_key) AS tokens
FROM messages m LEFT JOIN message_tokens t ON t.message_key = m.key
WHERE m.conversation_key = :key AND m.at >= :start AND m.at < :stop;

-- name: recount_conversation
UPDATE conversations
SET messages = (SELECT count(*) FROM messages WHERE conversation_key = :key),
    first_at = (SELECT min(at) FROM messages WHERE conversation_key = :key),
    last_at  = (SELECT max(at) FROM messages WHERE conversation_key = :key)
WHERE key = :key;

-- name: delete_settings
DELETE FROM settings WHERE person = :person;

-- name: record_erasure
INSERT INTO erasures (id, owner, kind, counts, at, pending)
VALUES (:id, :owner, :kind, :counts, :now, 1);

-- name: pending_erasures
-- system: the worker finishes everyone's erasures; the rows say nothing about what was erased
SELECT id FROM erasures WHERE pending <> 0 ORDER BY id;

-- name: finish_erasure
-- system: see pending_erasures
UPDATE erasures SET pending = 0 WHERE id = :id;

-- name: any_content_holds
-- system: tells a piece of erased text from the same words in a message that stays; answers yes or no
SELECT 1 AS found FROM messages WHERE content LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM conversations WHERE title LIKE :pattern ESCAPE '\' LIMIT 1;

-- Settings.

-- name: get_settings
SELECT name, value FROM settings WHERE person = :person ORDER BY name;

-- name: put_setting
INSERT INTO settings (person, name, value, changed_at) VALUES (:person, :name, :value, :now)
ON CONFLICT (person, name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at;

-- name: drop_setting
DELETE FROM settings WHERE person = :person AND name = :name;

-- Derived work.

-- name: due_conversations
-- system: the worker serves everyone; each conversation is then worked on as its own person
SELECT key, person, name, last_seq, worked_seq, words_version FROM conversations
WHERE worked_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: outdate_words
-- system: a new analyser outdates everyone's words
UPDATE conversations SET worked_seq = 0 WHERE words_version <> :version AND worked_seq > 0;

-- name: mark_worked
-- system: only moves a cursor, and only if nobody moved it since
UPDATE conversations SET worked_seq = :through WHERE key = :key AND worked_seq = :after;

-- name: mark_words
-- system: only notes which analyser made the words
UPDATE conversations SET words_version = :version WHERE key = :key;

-- name: rewind_conversations
UPDATE conversations SET worked_seq = 0, words_version = 0
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_everything
-- system: rebuild for all people, on the operator's word
UPDATE conversations SET worked_seq = 0, words_version = 0;

-- name: delete_tokens
DELETE FROM message_tokens WHERE message_key IN (
    SELECT m.key FROM messages m JOIN conversations c ON c.key = m.conversation_key
    WHERE c.person = :person AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation)
);

-- name: delete_all_tokens
-- system: see rewind_everything
DELETE FROM message_tokens;

-- name: uncounted_messages
SELECT m.key, m.seq, m.role, m.content, m.name, m.tool_calls
FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN message_tokens t ON t.message_key = m.key
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after AND m.seq <= :through
  AND t.message_key IS NULL
ORDER BY m.seq;

-- Leases.

-- name: take_lease
-- system: a lease names a piece of work, not content
INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE leases.until <= :now OR leases.holder = excluded.holder;

-- name: release_lease
-- system: see take_lease
DELETE FROM leases WHERE name = :name AND holder = :holder;

-- Copies of the whole log, for backup and restore.

-- name: every_conversation
-- system: a backup holds everyone's log
SELECT key, person, name, title, tags, zone, created_at, last_seq FROM conversations
WHERE key > :after ORDER BY key LIMIT :limit;

-- name: every_setting
-- system: a backup holds everyone's settings
SELECT person, name, value, changed_at AS now FROM settings ORDER BY person, name;

-- name: delete_everything
-- system: a restore replaces the whole log
DELETE FROM conversations;

-- name: delete_every_setting
-- system: a restore replaces everyone's settings
DELETE FROM settings;

-- name: set_last_seq
UPDATE conversations SET last_seq = :last_seq WHERE key = :key;
