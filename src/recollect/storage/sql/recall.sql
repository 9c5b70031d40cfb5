-- What recall reads: word index rows, vectors, and the metrics of questions.

-- name: scope_conversations
SELECT key, name, zone, created_at, last_seq, messages, words_version, embedder_key, embedded_seq, generation
FROM conversations
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
ORDER BY key;

-- name: scope_state
-- Differs after every new message, vector and erase: sums of numbers that only grow, and of unique keys.
SELECT count(*) AS conversations, COALESCE(sum(key), 0) AS keys, COALESCE(sum(last_seq), 0) AS last_seqs,
       COALESCE(sum(messages), 0) AS messages, COALESCE(sum(embedded_seq), 0) AS embedded,
       COALESCE(sum(embedder_key), 0) AS embedders, COALESCE(sum(generation), 0) AS generations,
       COALESCE(sum(words_version), 0) AS words,
       (SELECT value FROM settings WHERE person = '' AND name = 'epoch') AS epoch
FROM conversations WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: messages_after
-- For conversations whose words are of an older version.
SELECT m.key, m.seq, m.at, m.role, m.name, m.model_variant, x.content FROM messages m LEFT JOIN texts x ON x.message_key = m.key
WHERE m.conversation_key = :key AND m.seq > :after ORDER BY m.seq;

-- name: messages_to_embed
-- A message has vectors already if its turn ended before its last passage, or if a process was killed.
-- `earlier` are those of the embedder that this one extends.
SELECT m.key, m.seq, m.role, m.name, m.model_variant, x.content, v.vectors, e.vectors AS earlier
FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
LEFT JOIN vectors v ON v.conversation_key = m.conversation_key AND v.seq = m.seq AND v.embedder_key = :embedder
LEFT JOIN vectors e ON e.conversation_key = m.conversation_key AND e.seq = m.seq
    AND e.embedder_key = CAST(:earlier AS BIGINT)
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after AND m.seq <= :through
ORDER BY m.seq;

-- name: newest_embedder
-- system: which embedder is current says nothing about people
SELECT key, name, dimensions, passages FROM embedders ORDER BY key DESC LIMIT 1;

-- name: every_embedder
-- system: see newest_embedder
SELECT key, name, dimensions, passages FROM embedders ORDER BY key;

-- name: insert_embedder
-- system: see newest_embedder
INSERT INTO embedders (name, dimensions, passages, since) VALUES (:name, :dimensions, :passages, :now);

-- name: outdate_vectors
-- system: a new embedder outdates the vectors of all people; they are used until the new ones are complete
UPDATE conversations SET embedded_seq = 0, generation = generation + 1 WHERE embedded_seq > 0;

-- name: skip_vectors
-- system: see outdate_vectors; messages older than the embedder get no vectors of it
UPDATE conversations SET embedded_seq = last_seq, generation = generation + 1;

-- name: serve_vectors
-- system: only notes which embedder's vectors recall uses
UPDATE conversations SET embedder_key = :embedder WHERE key = :key;

-- name: count_vectors
SELECT count(*) AS n FROM vectors WHERE conversation_key = :key AND embedder_key = :embedder;

-- name: delete_other_vectors
DELETE FROM vectors WHERE conversation_key = :key AND embedder_key <> :embedder;

-- name: empty_system_vectors
-- The rows stay: they say that the messages need no vectors.
UPDATE vectors SET vectors = :empty WHERE conversation_key = :key AND seq > :after AND seq <= :through
AND seq IN (SELECT m.seq FROM messages m WHERE m.conversation_key = :key AND m.role = 'system');

-- name: delete_vectors
DELETE FROM vectors WHERE conversation_key IN (
    SELECT key FROM conversations
    WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
);

-- name: delete_all_vectors
-- system: see delete_all_entries
DELETE FROM vectors;

-- name: insert_recall
-- Rows are written later than they are noted: those of a person who was erased meanwhile are dropped.
INSERT INTO recalls (person, at, metrics) SELECT CAST(:person AS TEXT), CAST(:at AS BIGINT), CAST(:metrics AS TEXT)
WHERE NOT EXISTS (SELECT 1 FROM erasures WHERE owner = :owner AND kind = 'person' AND at > :at);

-- name: recalls_since
SELECT at, metrics FROM recalls WHERE person = :person AND at >= :since ORDER BY at, key LIMIT :limit;

-- name: forget_recalls
-- system: the metrics of all people are kept for 30 days
DELETE FROM recalls WHERE at < :before;
