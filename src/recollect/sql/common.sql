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
       (SELECT count(*) FROM conversations
        WHERE person = :person AND (worked_seq < last_seq OR embedded_seq < last_seq OR briefed_seq < last_seq)) AS due,
       (SELECT count(*) FROM conversations o JOIN briefs b ON b.conversation_key = o.key
        WHERE o.person = :person) AS briefs,
       (SELECT count(*) FROM conversations o JOIN vectors v ON v.conversation_key = o.key
        WHERE o.person = :person AND v.embedder_key = (SELECT max(key) FROM embedders)) AS embedded,
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

-- Erasing. Entries, vectors and token counts go with their messages, by cascade.

-- name: find_messages
SELECT m.key, m.conversation_key, m.seq, m.content
FROM messages m JOIN conversations c ON c.key = m.conversation_key
WHERE c.person = :person AND m.id = :id AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation);

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
SELECT count(*) AS messages, count(e.seq) AS entries, count(t.message_key) AS token_counts,
       CAST(COALESCE(sum((
           SELECT count(*) FROM vectors v WHERE v.conversation_key = m.conversation_key AND v.seq = m.seq
       )), 0) AS BIGINT) AS vectors
FROM messages m
LEFT JOIN entries e ON e.conversation_key = m.conversation_key AND e.seq = m.seq
LEFT JOIN message_tokens t ON t.message_key = m.key
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop;

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
SELECT key, person, name, last_seq, worked_seq AS cursor, words_version, generation FROM conversations
WHERE worked_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: unembedded_conversations
-- system: see due_conversations
SELECT key, person, name, last_seq, embedded_seq AS cursor, words_version, generation FROM conversations
WHERE embedded_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: unbriefed_conversations
-- system: see due_conversations
SELECT key, person, name, last_seq, briefed_seq AS cursor, words_version, generation FROM conversations
WHERE briefed_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: outdate_words
-- system: a new analyser outdates everyone's words
UPDATE conversations SET worked_seq = 0, generation = generation + 1
WHERE words_version <> :version AND worked_seq > 0;

-- name: mark_worked
-- system: only moves a cursor, and only if nobody moved it since
UPDATE conversations SET worked_seq = :through
WHERE key = :key AND worked_seq = :after AND generation = :generation;

-- name: mark_embedded
-- system: see mark_worked
UPDATE conversations SET embedded_seq = :through
WHERE key = :key AND embedded_seq = :after AND generation = :generation;

-- name: mark_briefed
-- system: see mark_worked
UPDATE conversations SET briefed_seq = :through
WHERE key = :key AND briefed_seq = :after AND generation = :generation;

-- name: mark_words
-- system: only notes which analyser made the words
UPDATE conversations SET words_version = :version WHERE key = :key;

-- name: delete_entries
DELETE FROM entries WHERE conversation_key = :key AND seq > :after AND seq <= :through;

-- name: delete_all_entries
-- system: rebuild for all people, on the operator's word
DELETE FROM entries;

-- name: messages_without_entry
-- system: a check of the whole index; conversations whose entries are still to be made do not count
SELECT count(*) AS n FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN entries e ON e.conversation_key = m.conversation_key AND e.seq = m.seq
WHERE e.seq IS NULL AND c.worked_seq >= m.seq;

-- name: rewind_conversations
UPDATE conversations
SET worked_seq = 0, words_version = 0, embedded_seq = 0, embedder_key = NULL, briefed_seq = 0,
    generation = generation + 1
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_everything
-- system: rebuild for all people, on the operator's word
UPDATE conversations
SET worked_seq = 0, words_version = 0, embedded_seq = 0, embedder_key = NULL, briefed_seq = 0,
    generation = generation + 1;

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

-- Recall.

-- name: scope_conversations
SELECT key, name, zone, created_at, last_seq, messages, words_version, embedder_key, embedded_seq, generation
FROM conversations
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
ORDER BY key;

-- name: scope_state
-- Changes with every message, vector and erase: sums of numbers that only grow, or whose rows have keys of their own.
SELECT count(*) AS conversations, COALESCE(sum(key), 0) AS keys, COALESCE(sum(last_seq), 0) AS last_seqs,
       COALESCE(sum(messages), 0) AS messages, COALESCE(sum(embedded_seq), 0) AS embedded,
       COALESCE(sum(embedder_key), 0) AS embedders, COALESCE(sum(generation), 0) AS generations,
       COALESCE(sum(words_version), 0) AS words,
       (SELECT value FROM settings WHERE person = '' AND name = 'epoch') AS epoch
FROM conversations WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: messages_after
-- For conversations whose entries are not made yet.
SELECT seq, at, role, name, content FROM messages WHERE conversation_key = :key AND seq > :after ORDER BY seq;

-- name: unembedded_messages
SELECT m.seq, m.name, m.content FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN vectors v ON v.conversation_key = m.conversation_key AND v.seq = m.seq AND v.embedder_key = :embedder
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after AND m.seq <= :through AND v.seq IS NULL
ORDER BY m.seq;

-- name: newest_embedder
-- system: which embedder is in force says nothing about anybody
SELECT key, name, dimensions, passages FROM embedders ORDER BY key DESC LIMIT 1;

-- name: every_embedder
-- system: see newest_embedder
SELECT key, name, dimensions, passages FROM embedders ORDER BY key;

-- name: insert_embedder
-- system: see newest_embedder
INSERT INTO embedders (name, dimensions, passages, since) VALUES (:name, :dimensions, :passages, :now);

-- name: outdate_vectors
-- system: a new embedder outdates everyone's vectors; they serve until the new ones are complete
UPDATE conversations SET embedded_seq = 0, generation = generation + 1 WHERE embedded_seq > 0;

-- name: skip_vectors
-- system: see outdate_vectors; what is older than the embedder stays without vectors
UPDATE conversations SET embedded_seq = last_seq, generation = generation + 1;

-- name: serve_vectors
-- system: only notes whose vectors are complete
UPDATE conversations SET embedder_key = :embedder WHERE key = :key;

-- name: count_vectors
SELECT count(*) AS n FROM vectors WHERE conversation_key = :key AND embedder_key = :embedder;

-- name: delete_other_vectors
DELETE FROM vectors WHERE conversation_key = :key AND embedder_key <> :embedder;

-- name: delete_vectors
DELETE FROM vectors WHERE conversation_key IN (
    SELECT key FROM conversations
    WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
);

-- name: delete_all_vectors
-- system: see rewind_everything
DELETE FROM vectors;

-- name: insert_recall
INSERT INTO recalls (person, at, metrics) VALUES (:person, :at, :metrics);

-- name: recalls_since
SELECT at, metrics FROM recalls WHERE person = :person AND at >= :since ORDER BY at, key LIMIT :limit;

-- name: delete_recalls
DELETE FROM recalls WHERE person = :person;

-- name: forget_recalls
-- system: metrics are kept for 30 days, everyone's
DELETE FROM recalls WHERE at < :before;

-- Briefs.

-- name: brief_standing
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
SELECT m.seq, m.role, m.at, t.tokens, CASE WHEN m.tool_calls IS NULL THEN 0 ELSE 1 END AS calls,
       CASE WHEN t.tokens IS NULL THEN m.content END AS content,
       CASE WHEN t.tokens IS NULL THEN m.name END AS name,
       CASE WHEN t.tokens IS NULL THEN m.tool_calls END AS tool_calls
FROM conversations c JOIN messages m ON m.conversation_key = c.key
LEFT JOIN message_tokens t ON t.message_key = m.key
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

-- name: delete_briefs
DELETE FROM briefs WHERE conversation_key = :key AND through_seq >= :seq;

-- name: last_brief
SELECT version FROM briefs WHERE conversation_key = :key ORDER BY version DESC LIMIT 1;

-- name: delete_brief_entries
DELETE FROM brief_entries WHERE conversation_key = :key AND version > :version;

-- name: reopen_brief_entries
UPDATE brief_entries SET ended_version = NULL, ended_at = NULL
WHERE conversation_key = :key AND ended_version > :version;

-- name: rewind_brief
-- system: only moves a cursor back: the worker looks at the conversation again
UPDATE conversations SET briefed_seq = 0 WHERE key = :key;

-- name: look_again
-- system: only moves cursors back, where the day may have changed since: the worker looks at those conversations again
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
-- system: see rewind_everything
DELETE FROM briefs;

-- name: delete_all_brief_entries
-- system: see rewind_everything
DELETE FROM brief_entries;

-- name: count_briefs
SELECT (SELECT count(*) FROM briefs WHERE conversation_key = :key AND through_seq >= :seq) AS briefs,
       (SELECT count(*) FROM brief_entries WHERE conversation_key = :key AND version > COALESCE((
           SELECT max(version) FROM briefs WHERE conversation_key = :key AND through_seq < :seq), 0)
       ) AS brief_entries;

-- name: first_between
SELECT min(seq) AS seq FROM messages WHERE conversation_key = :key AND at >= :start AND at < :stop;

-- Leases.

-- name: take_lease
-- system: a lease names a piece of work, not content
INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE leases.until <= :now OR leases.holder = excluded.holder;

-- name: release_lease
-- system: see take_lease
DELETE FROM leases WHERE name = :name AND holder = :holder;

-- name: lease_holders
-- system: see take_lease
SELECT DISTINCT holder FROM leases;

-- name: free_leases
-- system: see take_lease
DELETE FROM leases WHERE holder = :holder;

-- Copies of the whole log, for backup and restore.

-- name: every_conversation
-- system: a backup holds everyone's log
SELECT key, person, name, title, tags, zone, created_at, last_seq FROM conversations
WHERE key > :after ORDER BY key LIMIT :limit;

-- name: briefs_of_conversation
SELECT version, through_seq AS through, messages, tokens, created_at AS now, model, body FROM briefs
WHERE conversation_key = :key ORDER BY version;

-- name: brief_entries_of_conversation
SELECT number, version, entry, ended_version, ended_at FROM brief_entries
WHERE conversation_key = :key ORDER BY number;

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
