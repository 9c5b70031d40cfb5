-- Queries that are written for SQLite alone. Those in postgres.sql have the same names.

-- name: lock_conversation
-- The whole transaction holds the write lock already.
SELECT key, zone, last_seq FROM conversations WHERE person = :person AND name = :conversation;

-- name: lock_conversations
-- The whole transaction holds the write lock already.
SELECT key FROM conversations WHERE person = :person LIMIT 1;

-- name: known_messages
SELECT m.*, x.content FROM messages m LEFT JOIN texts x ON x.message_key = m.key
WHERE m.conversation_key = :key AND m.id IN (SELECT value FROM json_each(:ids));

-- name: known_tombstones
-- system: :hashes is a JSON array of keyed hashes in hexadecimal digits, which name nobody
SELECT hash FROM tombstones WHERE hash IN (SELECT unhex(value) FROM json_each(:hashes));

-- name: insert_messages
-- :rows is a JSON array of objects with the :key of a locked conversation.
INSERT INTO messages (conversation_key, {message_columns})
SELECT value ->> 'key', {message_json_values} FROM jsonb_each(:rows) ORDER BY jsonb_each.key;

-- name: insert_texts
-- :rows is a JSON array of [:key of a locked conversation, seq, text].
INSERT INTO texts (message_key, content)
SELECT m.key, value ->> 2 FROM jsonb_each(:rows) r
CROSS JOIN messages m ON m.conversation_key = r.value ->> 0 AND m.seq = r.value ->> 1 ORDER BY m.key;

-- name: insert_entries
-- :rows is a JSON array of [:key of a locked conversation, seq, at, role, start of its words in :words, their length].
INSERT INTO entries (conversation_key, seq, at, role, words)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, coalesce(substr(:words, 1 + (value ->> 4), value ->> 5), x'')
FROM jsonb_each(:rows) ORDER BY jsonb_each.key;

-- name: lock_embedders
-- system: the whole transaction holds the write lock already
SELECT 1;

-- name: save_tokens
-- The message may have been erased since it was read.
INSERT INTO message_tokens (message_key, counter, tokens)
SELECT key, :counter, :tokens FROM messages WHERE key = :key
ON CONFLICT (message_key) DO NOTHING;

-- name: entries_between
-- :cursors is a JSON array of [:key of a conversation of the person, after, through].
SELECT e.conversation_key, e.seq, e.at, e.role, e.words
FROM json_each(:cursors) k JOIN entries e ON e.conversation_key = k.value ->> 0 AND e.seq > k.value ->> 1
 AND e.seq <= k.value ->> 2
ORDER BY e.conversation_key, e.seq;

-- name: vectors_between
-- :cursors is a JSON array of [:key of a conversation of the person, after, through, embedder].
SELECT v.conversation_key, v.seq, v.vectors
FROM json_each(:cursors) k JOIN vectors v ON v.conversation_key = k.value ->> 0 AND v.seq > k.value ->> 1
 AND v.seq <= k.value ->> 2 AND v.embedder_key = k.value ->> 3
ORDER BY v.conversation_key, v.seq;

-- name: segments_of
-- :cursors is a JSON array of [:key of a conversation of the person, embedder].
SELECT s.conversation_key, s.first_seq, s.last_seq, s.embedder_key, s.checksum, s.body
FROM json_each(:cursors) k CROSS JOIN segments s ON s.conversation_key = k.value ->> 0
WHERE s.embedder_key = k.value ->> 1 AND s.version = :version
ORDER BY s.conversation_key, s.first_seq;

-- name: messages_at
-- :cursors is a JSON array of [key of a conversation, seq].
SELECT m.*, x.content, c.name AS conversation
FROM json_each(:cursors) k
CROSS JOIN conversations c ON c.key = k.value ->> 0 AND c.person = :person
CROSS JOIN messages m ON m.conversation_key = c.key AND m.seq = k.value ->> 1
LEFT JOIN texts x ON x.message_key = m.key;

-- name: standing_messages
-- :cursors is a JSON array of [key of a conversation, seq, id] of messages that were found under a person.
SELECT m.conversation_key, m.seq, m.id FROM json_each(:cursors) k
CROSS JOIN messages m ON m.conversation_key = k.value ->> 0 AND m.seq = k.value ->> 1 AND m.id = k.value ->> 2;

-- name: blocks_of
-- :rows is a JSON array of keys of messages found under a person.
SELECT a.message_key, a.block_key FROM json_each(:rows) k CROSS JOIN archived a ON a.message_key = k.value;

-- name: get_blocks
-- :rows is a JSON array of keys of blocks that hold messages found under a person.
SELECT b.key, b.body FROM json_each(:rows) k CROSS JOIN blocks b ON b.key = k.value;

-- name: assign_block
-- :rows is a JSON array of keys of messages of a locked conversation, whose texts are in the block with this :key.
INSERT INTO archived (message_key, block_key) SELECT value, :key FROM json_each(:rows) WHERE true
ON CONFLICT (message_key) DO UPDATE SET block_key = excluded.block_key;

-- name: count_messages_among
-- :rows is a JSON array of keys of messages of a person.
SELECT count(*) AS n FROM json_each(:rows) k CROSS JOIN messages m ON m.key = k.value;

-- name: texts_of
-- :rows is a JSON array of keys of messages of a locked conversation.
SELECT message_key, content FROM texts WHERE message_key IN (SELECT value FROM json_each(:rows));

-- name: delete_texts
-- :rows is a JSON array of keys of messages of a locked conversation.
DELETE FROM texts WHERE message_key IN (SELECT value FROM json_each(:rows));

-- name: assign_messages
-- :rows is a JSON array of [seq, key of a topic] in the conversation with this :key. Erased messages are skipped.
INSERT INTO topic_messages (conversation_key, seq, topic_key)
SELECT m.conversation_key, m.seq, r.value ->> 1 FROM json_each(:rows) r
CROSS JOIN messages m ON m.conversation_key = :key AND m.seq = r.value ->> 0 WHERE true
ON CONFLICT (conversation_key, seq) DO NOTHING;

-- name: topics_among
-- :rows is a JSON array of keys of messages of a locked conversation.
SELECT o.topic_key, count(*) AS messages FROM json_each(:rows) k CROSS JOIN messages m ON m.key = k.value
CROSS JOIN topic_messages o ON o.conversation_key = m.conversation_key AND o.seq = m.seq GROUP BY o.topic_key;

-- name: members_of
-- :rows is a JSON array of keys of topics of the conversation with this :key.
SELECT m.*, x.content, o.topic_key FROM json_each(:rows) t
CROSS JOIN topic_messages o ON o.topic_key = t.value AND o.seq > :after
CROSS JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq AND m.conversation_key = :key
LEFT JOIN texts x ON x.message_key = m.key
ORDER BY m.seq;

-- name: unarchived_members
-- :rows is a JSON array of keys of topics of the conversation with this :key. Without archived messages.
SELECT m.*, x.content, o.topic_key FROM json_each(:rows) t
CROSS JOIN topic_messages o ON o.topic_key = t.value AND o.seq > :after
CROSS JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq AND m.conversation_key = :key
CROSS JOIN texts x ON x.message_key = m.key
ORDER BY m.seq;

-- name: topics_at
-- :cursors is a JSON array of [key of a conversation of the person, seq].
SELECT o.conversation_key, o.seq, o.topic_key FROM json_each(:cursors) k
CROSS JOIN topic_messages o ON o.conversation_key = k.value ->> 0 AND o.seq = k.value ->> 1;

-- name: save_vectors
-- The message may have been erased since it was read.
INSERT INTO vectors (conversation_key, seq, embedder_key, vectors)
SELECT conversation_key, seq, :embedder, :vectors FROM messages WHERE conversation_key = :key AND seq = :seq
ON CONFLICT (conversation_key, seq, embedder_key) DO UPDATE SET vectors = excluded.vectors;

-- name: store_bytes
-- system: the size of the file
SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size();

-- name: columns_of
-- system: names of columns, no content
SELECT name FROM pragma_table_info(:table);
