-- Topics: which messages belong to them, how they are summarised, what people changed by hand.

-- name: unassigned_conversations
-- system: see unindexed_conversations; messages are assigned by their vectors
SELECT key, person, name, embedded_seq AS last_seq, topiced_seq AS cursor, words_version, generation
FROM conversations WHERE topiced_seq < embedded_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: unfolded_conversations
-- system: see unindexed_conversations
SELECT key, person, name, topiced_seq AS last_seq, folded_seq AS cursor, words_version, generation
FROM conversations WHERE folded_seq < topiced_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: mark_assigned
-- system: see mark_indexed
UPDATE conversations SET topiced_seq = :through, active_topic = :active, topic_before = :previous, topic_rested = :paused
WHERE key = :key AND topiced_seq = :after AND generation = :generation;

-- name: mark_folded
-- system: see mark_indexed
UPDATE conversations SET folded_seq = :through
WHERE key = :key AND folded_seq = :after AND generation = :generation;

-- name: topics_changed
-- After a change by hand or by an erase: what was read before is outdated, and the worker looks at them again.
UPDATE conversations SET topics_version = topics_version + 1,
    folded_seq = CASE WHEN folded_seq > 0 THEN -1 ELSE folded_seq - 1 END  -- never where a fold in progress began
WHERE key = :key;

-- name: recheck_crowded
-- system: only moves cursors back, where some of many topics may have faded
UPDATE conversations SET folded_seq = 0 WHERE folded_seq > 0 AND key IN (
    SELECT conversation_key FROM topics WHERE merged_into IS NULL AND cold = 0
    GROUP BY conversation_key HAVING count(*) > :max_topics
);

-- name: topics_state
SELECT c.key, c.zone, c.topiced_seq, c.active_topic, c.topic_before, c.topic_rested, c.generation, c.topics_version,
       (SELECT key FROM embedders ORDER BY key DESC LIMIT 1) AS embedder,
       (SELECT name FROM embedders ORDER BY key DESC LIMIT 1) AS embedder_name,
       (SELECT dimensions FROM embedders ORDER BY key DESC LIMIT 1) AS dimensions
FROM conversations c WHERE c.person = :person AND c.name = :conversation;

-- name: topics_of
SELECT t.key, t.id, t.opened_seq, t.created_at, t.active_at, t.active_seq, t.accesses, t.messages, t.archived,
       t.restored, t.cold, t.block_key, t.folded_seq, t.embedder_key, t.title, t.summary, t.summary_seq, t.by_hand, t.named, t.tags,
       t.pinned, t.importance, t.deletions, t.merged_into, t.merged_at,
       COALESCE(f.score, 0.0) AS score, COALESCE(f.praise, 0) AS praise,
       CASE WHEN t.messages = 0 AND t.opened_seq > c.topiced_seq THEN 1 ELSE 0 END AS waits
FROM conversations c JOIN topics t ON t.conversation_key = c.key LEFT JOIN (
    SELECT o.topic_key, sum(b.value) AS score, sum(CASE WHEN b.value > 0 THEN 1 ELSE 0 END) AS praise
    FROM feedback b JOIN topic_messages o ON o.conversation_key = b.conversation_key AND o.seq = b.seq
    WHERE b.conversation_key = :key GROUP BY o.topic_key
) f ON f.topic_key = t.key
WHERE c.key = :key ORDER BY t.opened_seq, t.key;

-- name: topic_sums
SELECT key, sums FROM topics WHERE conversation_key = :key AND sums IS NOT NULL;

-- name: active_topic
SELECT c.key AS conversation, t.key, t.id, t.title, t.summary, t.summary_seq, t.merged_into
FROM conversations c JOIN topics t ON t.key = c.active_topic WHERE c.person = :person AND c.name = :conversation;

-- name: topic_above
-- The topic that one was merged into.
SELECT conversation_key AS conversation, key, id, title, summary, summary_seq, merged_into FROM topics WHERE key = :key;

-- name: newest_members
SELECT seq FROM topic_messages WHERE topic_key = :key ORDER BY seq DESC LIMIT :limit;

-- name: conversation_of_topic
SELECT c.key, c.name, t.key AS topic FROM topics t JOIN conversations c ON c.key = t.conversation_key
WHERE c.person = :person AND t.id = :id;

-- name: topic_slice
SELECT m.key, m.seq, m.id, m.role, m.at, m.importance, x.content, v.vectors,
       CASE WHEN x.message_key IS NULL THEN 1 ELSE 0 END AS archived
FROM messages m LEFT JOIN texts x ON x.message_key = m.key
LEFT JOIN vectors v ON v.conversation_key = m.conversation_key AND v.seq = m.seq AND v.embedder_key = :embedder
WHERE m.conversation_key = :key AND m.seq > :after AND m.seq <= :through ORDER BY m.seq;

-- name: system_message_in_topic
SELECT o.seq FROM topic_messages o JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
WHERE o.conversation_key = :key AND m.role = 'system' LIMIT 1;

-- name: last_moment
SELECT at FROM messages WHERE conversation_key = :key AND seq <= :through ORDER BY seq DESC LIMIT 1;

-- name: move_members
UPDATE topic_messages SET topic_key = :into WHERE topic_key = :key;

-- name: delete_topic
DELETE FROM topics WHERE key = :key;

-- name: topic_vectors
-- The vectors that a topic's centroid is made of.
SELECT o.topic_key, m.seq, m.role, m.at, v.vectors, x.content, m.key
FROM topic_messages o JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
LEFT JOIN texts x ON x.message_key = m.key
JOIN vectors v ON v.conversation_key = o.conversation_key AND v.seq = o.seq AND v.embedder_key = :embedder
WHERE o.topic_key = :key ORDER BY o.seq;

-- name: insert_topic
INSERT INTO topics (conversation_key, id, opened_seq, created_at, active_at, active_seq, title, by_hand)
VALUES (:key, :id, :opened, :at, :at, :opened, :title, :by_hand) RETURNING key;

-- name: save_topic
UPDATE topics SET accesses = :accesses, active_at = :active_at, active_seq = :active_seq, restored = :restored,
    cold = :cold, importance = :importance, embedder_key = :embedder, sums = :sums, archived = archived + :archived,
    messages = (SELECT count(*) FROM topic_messages o WHERE o.topic_key = topics.key)
WHERE key = :key;

-- name: retitle_topic
UPDATE topics SET title = :title, named = :named WHERE key = :key;

-- name: tag_topic
UPDATE topics SET tags = :tags WHERE key = :key;

-- name: pin_topic
UPDATE topics SET pinned = :pinned WHERE key = :key;

-- name: set_accesses
UPDATE topics SET accesses = :accesses WHERE key = :key;

-- name: weigh_topic
UPDATE topics SET importance = :importance WHERE key = :key;

-- name: merge_topic
UPDATE topics SET merged_into = :into, merged_at = :now WHERE key = :key;

-- name: clear_summary
-- The centroid and the summary are made again from the topic's messages.
UPDATE topics SET sums = NULL, embedder_key = NULL, summary = NULL, summary_seq = 0, folded_seq = 0 WHERE key = :key;

-- name: set_topic_state
UPDATE topics SET cold = :cold, restored = :restored WHERE key = :key;

-- name: make_cold
UPDATE topics SET cold = 1, restored = 0 WHERE key = :key;

-- name: activate_topic
-- A topic becomes the active one, if the newest assigned message belongs to it.
UPDATE conversations SET active_topic = :topic, topic_before = NULL WHERE key = :key AND topiced_seq > 0
AND (SELECT o.topic_key FROM topic_messages o WHERE o.conversation_key = :key ORDER BY o.seq DESC LIMIT 1) = :topic;

-- name: update_last_active
-- A topic was last active when its newest message was said.
UPDATE topics SET
    active_seq = COALESCE((SELECT max(o.seq) FROM topic_messages o WHERE o.topic_key = topics.key), active_seq),
    active_at = COALESCE((
        SELECT max(CASE WHEN m.at < :now THEN m.at ELSE :now END) FROM topic_messages o
        JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq WHERE o.topic_key = topics.key
    ), active_at)
WHERE key = :key;

-- name: restore_topic
UPDATE topics SET cold = 0, restored = 1, accesses = accesses + 1, active_at = :now WHERE key = :key;

-- name: save_summary
-- A negative :through says that messages after that seq are still to be summarised.
UPDATE topics SET summary = :summary, summary_seq = :through WHERE key = :key;

-- name: extend_topic
UPDATE topics SET block_key = :block, folded_seq = :through WHERE key = :key;

-- name: recount_topics
UPDATE topics SET
    messages = (SELECT count(*) FROM topic_messages o WHERE o.topic_key = topics.key),
    archived = (SELECT count(*) FROM topic_messages o
                JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
                JOIN archived a ON a.message_key = m.key WHERE o.topic_key = topics.key)
WHERE conversation_key = :key;

-- name: count_archived
UPDATE topics SET archived = archived + :messages WHERE key = :key;

-- name: recount_topic
UPDATE topics SET
    messages = (SELECT count(*) FROM topic_messages o WHERE o.topic_key = topics.key),
    archived = (SELECT count(*) FROM topic_messages o
                JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
                JOIN archived a ON a.message_key = m.key WHERE o.topic_key = topics.key)
WHERE key = :key;

-- name: thinned_topics
-- Topics that have fewer messages than they were counted to have.
SELECT t.key, t.opened_seq, t.named,
       (SELECT count(*) FROM topic_messages o WHERE o.topic_key = t.key AND o.seq = t.opened_seq) AS has_opening
FROM topics t WHERE t.conversation_key = :key
AND t.messages <> (SELECT count(*) FROM topic_messages o WHERE o.topic_key = t.key);

-- name: count_deletions
UPDATE topics SET deletions = deletions + :deletions WHERE key = :key;

-- name: reopen_topic
UPDATE topics SET opened_seq = :opened WHERE key = :key;

-- name: opening_of_topic
SELECT m.key, m.seq, x.content FROM topic_messages o
JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq
LEFT JOIN texts x ON x.message_key = m.key
WHERE o.topic_key = :key ORDER BY CASE WHEN m.role = 'user' THEN 0 ELSE 1 END, o.seq LIMIT 1;

-- name: empty_topics
-- Without topics that await their first message, which a rebuild assigns again.
SELECT t.key FROM topics t JOIN conversations c ON c.key = t.conversation_key
WHERE t.conversation_key = :key AND t.messages = 0 AND NOT EXISTS (
    SELECT 1 FROM messages m WHERE m.conversation_key = c.key AND m.seq = t.opened_seq AND m.seq > c.topiced_seq
);

-- name: reattach_merged
-- Attach topics that were merged into a deleted one to the topic above it.
UPDATE topics SET merged_into = (SELECT above.merged_into FROM topics above WHERE above.key = :key)
WHERE merged_into = :key;

-- name: take_over
UPDATE topics SET accesses = accesses + :accesses, deletions = deletions + :deletions, opened_seq = :opened,
    created_at = CASE WHEN created_at < :created_at THEN created_at ELSE :created_at END,
    active_at = CASE WHEN active_at > :active_at THEN active_at ELSE :active_at END,
    active_seq = CASE WHEN active_seq > :active_seq THEN active_seq ELSE :active_seq END
WHERE key = :key;

-- name: move_active
UPDATE conversations SET active_topic = :into WHERE key = :key AND active_topic = :topic;

-- name: forget_active_topic
UPDATE conversations SET active_topic = NULL, topic_before = NULL
WHERE key = :key AND active_topic NOT IN (SELECT key FROM topics WHERE conversation_key = :key);

-- name: topic_of_message
SELECT m.conversation_key, m.seq, o.topic_key, c.name FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN topic_messages o ON o.conversation_key = m.conversation_key AND o.seq = m.seq
WHERE c.person = :person AND m.id = :id AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation);

-- name: put_feedback
INSERT INTO feedback (conversation_key, seq, kind, value, at) VALUES (:key, :seq, :kind, :value, :now)
ON CONFLICT (conversation_key, seq, kind) DO UPDATE SET value = excluded.value, at = excluded.at;

-- name: drop_feedback
DELETE FROM feedback WHERE conversation_key = :key AND seq = :seq AND kind = :kind;

-- name: mark_grouped_by_hand
-- A rebuild keeps a grouping that people made.
UPDATE conversations SET grouped_by_hand = 1 WHERE key = :key;

-- name: move_message
UPDATE topic_messages SET topic_key = :topic WHERE conversation_key = :key AND seq = :seq;

-- name: opening_message
SELECT seq FROM messages WHERE conversation_key = :key AND role = 'user' ORDER BY seq LIMIT 1;

-- name: topics_to_rewind
-- Conversations after a rewind. `is_regrouped`: their messages are assigned again.
SELECT key, CASE WHEN topiced_seq = 0 THEN 1 ELSE 0 END AS is_regrouped FROM conversations
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: all_topics_to_rewind
-- system: a rebuild for everybody, on the word of the operator
SELECT key, CASE WHEN topiced_seq = 0 THEN 1 ELSE 0 END AS is_regrouped FROM conversations;

-- name: unassign_messages
DELETE FROM topic_messages WHERE conversation_key = :key;

-- name: delete_plain_topics
-- Topics that people named, tagged, pinned or weighed stay, and await their first message.
DELETE FROM topics WHERE named = 0 AND tags = '[]' AND pinned = 0 AND importance IS NULL AND deletions = 0
AND conversation_key = :key;

-- name: reset_topics
UPDATE topics SET accesses = 0, active_at = created_at, active_seq = opened_seq, restored = 0, cold = 0, messages = 0,
    archived = 0
WHERE conversation_key = :key;

-- name: clear_summaries
UPDATE topics SET sums = NULL, embedder_key = NULL, summary = NULL, summary_seq = 0, folded_seq = 0
WHERE conversation_key = :key;
