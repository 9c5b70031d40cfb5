-- Derived work: what is due, cursors, rebuilding, leases.

-- name: unindexed_conversations
-- system: the worker serves all people; it works on each conversation as its own person
SELECT key, person, name, last_seq, worked_seq AS cursor, words_version, generation FROM conversations
WHERE worked_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: unembedded_conversations
-- system: see unindexed_conversations
SELECT key, person, name, last_seq, embedded_seq AS cursor, words_version, generation FROM conversations
WHERE embedded_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: unbriefed_conversations
-- system: see unindexed_conversations
SELECT key, person, name, last_seq, briefed_seq AS cursor, words_version, generation FROM conversations
WHERE briefed_seq < last_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: slice_end
-- system: sizes of texts, no content: how much of a conversation is worked on in one turn
SELECT min(sized.seq) AS too_far FROM (
    SELECT m.seq, row_number() OVER (ORDER BY m.seq) AS number,
           sum(COALESCE(octet_length(x.content), 4 * t.tokens, 0)) OVER (ORDER BY m.seq) AS bytes
    FROM messages m LEFT JOIN texts x ON x.message_key = m.key LEFT JOIN message_tokens t ON t.message_key = m.key
    WHERE m.conversation_key = :key AND m.seq > :after AND m.seq <= :through
) sized WHERE sized.bytes > :bytes AND sized.number > 1;

-- name: outdate_words
-- system: a new analyser outdates the words of all people
UPDATE conversations SET worked_seq = 0, generation = generation + 1
WHERE words_version <> :version AND worked_seq > 0;

-- name: change_generations
-- system: after a restore, work in progress on replaced rows must notice it
UPDATE conversations SET generation = generation + :by;

-- name: mark_indexed
-- system: only moves a cursor, if no other process moved it
UPDATE conversations SET worked_seq = :through
WHERE key = :key AND worked_seq = :after AND generation = :generation;

-- name: mark_embedded
-- system: see mark_indexed
UPDATE conversations SET embedded_seq = :through
WHERE key = :key AND embedded_seq = :after AND generation = :generation;

-- name: mark_briefed
-- system: see mark_indexed
UPDATE conversations SET briefed_seq = :through
WHERE key = :key AND briefed_seq = :after AND generation = :generation;

-- name: mark_words
-- system: only notes which version of the analyser made the words
UPDATE conversations SET words_version = :version WHERE key = :key;

-- name: delete_entries
DELETE FROM entries WHERE conversation_key = :key AND seq > :after AND seq <= :through;

-- name: delete_all_entries
-- system: a rebuild for all people, asked for by the operator
DELETE FROM entries;

-- name: messages_without_entry
-- system: a check of the whole index; messages that the worker has not indexed yet do not count
SELECT count(*) AS n FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN entries e ON e.conversation_key = m.conversation_key AND e.seq = m.seq
WHERE e.seq IS NULL AND c.worked_seq >= m.seq;

-- name: begin_generation
UPDATE conversations SET generation = generation + 1
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: begin_generation_everywhere
-- system: a rebuild for everybody, on the word of the operator
UPDATE conversations SET generation = generation + 1;

-- name: rewind_index
UPDATE conversations SET worked_seq = 0, words_version = 0
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_all_index
-- system: a rebuild for everybody, on the word of the operator
UPDATE conversations SET worked_seq = 0, words_version = 0;

-- name: rewind_vectors
UPDATE conversations SET embedded_seq = 0, embedder_key = NULL
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_all_vectors
-- system: a rebuild for everybody, on the word of the operator
UPDATE conversations SET embedded_seq = 0, embedder_key = NULL;

-- name: rewind_briefs
UPDATE conversations SET briefed_seq = 0
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_all_briefs
-- system: a rebuild for everybody, on the word of the operator
UPDATE conversations SET briefed_seq = 0;

-- name: rewind_topics
UPDATE conversations
SET topiced_seq = CASE WHEN grouped_by_hand <> 0 THEN topiced_seq ELSE 0 END,
    active_topic = CASE WHEN grouped_by_hand <> 0 THEN active_topic END,
    topic_before = NULL, topic_rested = 0
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_all_topics
-- system: a rebuild for everybody, on the word of the operator
UPDATE conversations
SET topiced_seq = CASE WHEN grouped_by_hand <> 0 THEN topiced_seq ELSE 0 END,
    active_topic = CASE WHEN grouped_by_hand <> 0 THEN active_topic END,
    topic_before = NULL, topic_rested = 0;

-- name: rewind_folds
UPDATE conversations SET folded_seq = 0
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_all_folds
-- system: a rebuild for everybody, on the word of the operator
UPDATE conversations SET folded_seq = 0;

-- name: delete_tokens
DELETE FROM message_tokens WHERE message_key IN (
    SELECT m.key FROM messages m JOIN conversations c ON c.key = m.conversation_key
    WHERE c.person = :person AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation)
);

-- name: delete_all_tokens
-- system: see delete_all_entries
DELETE FROM message_tokens;

-- name: uncounted_messages
SELECT m.key, m.seq, m.role, x.content, m.name, m.tool_calls
FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
LEFT JOIN message_tokens t ON t.message_key = m.key
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after AND m.seq <= :through
  AND t.message_key IS NULL
ORDER BY m.seq;

-- name: take_lease
-- system: a lease names a piece of work, not content
INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE leases.until <= :now OR leases.holder = excluded.holder;

-- name: release_lease
-- system: see take_lease
DELETE FROM leases WHERE name = :name AND holder = :holder;

-- name: lease_end
-- system: see take_lease
SELECT until FROM leases WHERE name = :name;

-- name: lease_holders
-- system: see take_lease
SELECT DISTINCT holder FROM leases;

-- name: free_leases
-- system: see take_lease
DELETE FROM leases WHERE holder = :holder;
