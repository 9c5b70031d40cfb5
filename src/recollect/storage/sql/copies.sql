-- Copies of everything, for backup to a file and restore.

-- name: every_conversation
-- system: a backup holds the log of all people
SELECT key, person, name, title, tags, zone, created_at, last_seq, embedder_key, embedded_seq FROM conversations
WHERE key > :after ORDER BY key LIMIT :limit;

-- name: copy_vector_state
UPDATE conversations SET embedder_key = :embedder, embedded_seq = :embedded WHERE key = :key;

-- name: work_left
-- system: how much of everybody's derived work is left after a restore
SELECT COALESCE(sum(CASE WHEN worked_seq < last_seq THEN messages ELSE 0 END), 0) AS tokens,
       COALESCE(sum(CASE WHEN embedded_seq < last_seq THEN messages ELSE 0 END), 0) AS vectors,
       COALESCE(sum(CASE WHEN briefed_seq < last_seq THEN messages ELSE 0 END), 0) AS briefs,
       COALESCE(sum(CASE WHEN folded_seq < last_seq OR topiced_seq < last_seq THEN messages ELSE 0 END), 0) AS topics
FROM conversations;

-- name: topics_of_conversation
SELECT key, id, opened_seq, created_at, active_at, active_seq, accesses, restored, cold, title, summary, summary_seq,
       by_hand, named, tags, pinned, importance, deletions, merged_into, merged_at
FROM topics WHERE conversation_key = :key ORDER BY key;

-- name: copy_topic
-- Without its centroid and its block: both are made again.
INSERT INTO topics (conversation_key, id, opened_seq, created_at, active_at, active_seq, accesses, restored, cold,
                    title, summary, summary_seq, by_hand, named, tags, pinned, importance, deletions)
VALUES (:key, :id, :opened_seq, :created_at, :active_at, :active_seq, :accesses, :restored, :cold,
        :title, :summary, :summary_seq, :by_hand, :named, :tags, :pinned, :importance, :deletions)
RETURNING key;

-- name: members_of_conversation
SELECT seq, topic_key AS topic FROM topic_messages WHERE conversation_key = :key ORDER BY seq;

-- name: copy_member
INSERT INTO topic_messages (conversation_key, seq, topic_key) VALUES (:key, :seq, :topic);

-- name: topics_state_of_conversation
SELECT topiced_seq, active_topic, grouped_by_hand, topics_version FROM conversations WHERE key = :key;

-- name: copy_topics_state
UPDATE conversations SET topiced_seq = :assigned, active_topic = :active, grouped_by_hand = :by_hand,
    topics_version = :version
WHERE key = :key;

-- name: every_audit
-- system: a backup holds the audit log of all people
SELECT a.key, a.at, a.person, a.actor, a.action, a.details, c.name AS conversation
FROM audit a LEFT JOIN conversations c ON c.key = a.conversation_key
WHERE a.key > :after ORDER BY a.key LIMIT :limit;

-- name: set_last_seq
UPDATE conversations SET last_seq = :last_seq WHERE key = :key;
