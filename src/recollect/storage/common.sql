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
SELECT c.key, c.name, c.title, c.tags, c.zone, c.messages, c.last_seq, c.first_at, c.last_at, m.key AS opened_by,
       substr(x.content, 1, 200) AS opening
FROM conversations c LEFT JOIN messages m ON c.title IS NULL AND m.key = (
    SELECT f.key FROM messages f WHERE f.conversation_key = c.key AND f.role = 'user' ORDER BY f.seq LIMIT 1
) LEFT JOIN texts x ON x.message_key = m.key
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
SELECT m.*, x.content FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
WHERE c.person = :person AND c.name = :conversation AND m.seq < :before
ORDER BY m.seq DESC LIMIT :limit;

-- name: page
SELECT m.*, x.content FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
WHERE c.person = :person AND c.name = :conversation AND m.seq > :after
ORDER BY m.seq LIMIT :limit;

-- name: count_rows
SELECT (SELECT count(*) FROM conversations WHERE person = :person) AS conversations,
       (SELECT count(*) FROM conversations
        WHERE person = :person AND (worked_seq < last_seq OR embedded_seq < last_seq OR briefed_seq < last_seq
                                    OR topiced_seq < embedded_seq OR folded_seq < topiced_seq)) AS due,
       (SELECT count(*) FROM conversations o JOIN briefs b ON b.conversation_key = o.key
        WHERE o.person = :person) AS briefs,
       (SELECT count(*) FROM conversations o JOIN vectors v ON v.conversation_key = o.key
        WHERE o.person = :person AND v.embedder_key = (SELECT max(key) FROM embedders)) AS embedded,
       COALESCE((SELECT sum(octet_length(v.vectors)) FROM conversations o JOIN vectors v ON v.conversation_key = o.key
        WHERE o.person = :person), 0) AS vector_bytes,
       COALESCE((SELECT sum(octet_length(v.vectors) / (e.dimensions + 4)) FROM conversations o
        JOIN vectors v ON v.conversation_key = o.key JOIN embedders e ON e.key = v.embedder_key
        WHERE o.person = :person AND e.key = (SELECT max(key) FROM embedders)), 0) AS passages,
       COALESCE((SELECT sum(octet_length(n.words)) FROM conversations o JOIN entries n ON n.conversation_key = o.key
        WHERE o.person = :person), 0) AS entry_bytes,
       count(*) AS messages,
       COALESCE(sum(m.replaced), 0) AS replaced,
       COALESCE(sum(octet_length(x.content)), 0) + COALESCE((
           SELECT sum(k.text_bytes) FROM conversations o JOIN blocks k ON k.conversation_key = o.key
           WHERE o.person = :person), 0) AS text_bytes,
       count(a.message_key) AS archived,
       COALESCE((SELECT sum(octet_length(k.body)) FROM conversations o JOIN blocks k ON k.conversation_key = o.key
        WHERE o.person = :person), 0) AS archive_bytes,
       (SELECT count(*) FROM conversations o JOIN topics t ON t.conversation_key = o.key
        WHERE o.person = :person AND t.merged_into IS NULL) AS topics,
       COALESCE(sum(t.tokens), 0) AS tokens,
       COALESCE(sum(CASE WHEN t.counter = 'estimate' THEN 1 ELSE 0 END), 0) AS estimated,
       count(t.message_key) AS counted,
       min(m.at) AS first_at, max(m.at) AS last_at
FROM conversations c JOIN messages m ON m.conversation_key = c.key
LEFT JOIN message_tokens t ON t.message_key = m.key
LEFT JOIN texts x ON x.message_key = m.key
LEFT JOIN archived a ON a.message_key = m.key
WHERE c.person = :person;

-- name: count_roles
SELECT m.role, count(*) AS messages
FROM conversations c JOIN messages m ON m.conversation_key = c.key
WHERE c.person = :person GROUP BY m.role ORDER BY m.role;

-- Erasing. Entries, vectors and token counts go with their messages, by cascade.

-- name: find_messages
SELECT m.key, m.conversation_key, m.seq, x.content
FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
WHERE c.person = :person AND m.id = :id AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation);

-- name: lock_conversation_key
-- Makes an append to this conversation wait until the erase is over, on databases that lock rows.
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

-- name: count_between
SELECT count(*) AS messages, count(e.seq) AS entries, count(t.message_key) AS token_counts,
       count(a.message_key) AS archived, count(o.seq) AS topic_messages,
       CAST(COALESCE(sum((
           SELECT count(*) FROM feedback f WHERE f.conversation_key = m.conversation_key AND f.seq = m.seq
       )), 0) AS BIGINT) AS feedback,
       CAST(COALESCE(sum((
           SELECT count(*) FROM vectors v WHERE v.conversation_key = m.conversation_key AND v.seq = m.seq
       )), 0) AS BIGINT) AS vectors
FROM messages m
LEFT JOIN entries e ON e.conversation_key = m.conversation_key AND e.seq = m.seq
LEFT JOIN message_tokens t ON t.message_key = m.key
LEFT JOIN archived a ON a.message_key = m.key
LEFT JOIN topic_messages o ON o.conversation_key = m.conversation_key AND o.seq = m.seq
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop
AND (CAST(:topic AS BIGINT) IS NULL OR o.topic_key = :topic);

-- name: delete_said
-- All messages of a topic.
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
SELECT 1 AS found FROM texts WHERE content LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM conversations WHERE title LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM profiles WHERE body LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM topics WHERE named <> 0 AND title LIKE :pattern ESCAPE '\'
UNION ALL SELECT 1 FROM topics WHERE tags LIKE :pattern ESCAPE '\' LIMIT 1;

-- The archive: text that is not among the texts lies in a block.

-- name: get_dictionary
SELECT body FROM dictionaries WHERE key = :key;

-- name: insert_block
INSERT INTO blocks (conversation_key, dictionary_key, messages, text_bytes, body)
VALUES (:key, :dictionary, :messages, :text_bytes, :body) RETURNING key;

-- name: delete_block
DELETE FROM blocks WHERE key = :key;

-- name: thinned_blocks
-- Those that still hold text of messages which are gone.
SELECT b.key FROM blocks b LEFT JOIN (
    SELECT a.block_key, count(*) AS n FROM messages m JOIN archived a ON a.message_key = m.key
    WHERE m.conversation_key = :key GROUP BY a.block_key
) k ON k.block_key = b.key
WHERE b.conversation_key = :key AND b.messages <> COALESCE(k.n, 0);

-- name: every_block
-- system: a look for damage, or for a piece of text, among everyone's; says nothing of what is in them
SELECT key, body FROM blocks WHERE key > :after ORDER BY key LIMIT :limit;

-- name: count_lost_texts
-- system: a check of the whole log
SELECT count(*) AS n FROM messages m LEFT JOIN texts x ON x.message_key = m.key
LEFT JOIN archived a ON a.message_key = m.key WHERE x.message_key IS NULL AND a.message_key IS NULL;

-- name: every_place
-- system: a check of the whole archive
SELECT message_key, block_key FROM archived WHERE message_key > :after ORDER BY message_key LIMIT :limit;

-- name: newest_dictionary
SELECT max(key) AS key FROM dictionaries WHERE person = :person;

-- name: archive_size
SELECT CAST(COALESCE(sum(b.text_bytes), 0) AS BIGINT) AS text_bytes,
       (SELECT text_bytes FROM dictionaries WHERE person = :person ORDER BY key DESC LIMIT 1) AS learned_at
FROM conversations c JOIN blocks b ON b.conversation_key = c.key WHERE c.person = :person;

-- name: archived_keys
SELECT a.message_key FROM conversations c JOIN messages m ON m.conversation_key = c.key
JOIN archived a ON a.message_key = m.key WHERE c.person = :person ORDER BY a.message_key;

-- name: insert_dictionary
INSERT INTO dictionaries (person, created_at, text_bytes, learned_from, body)
VALUES (:person, :now, :text_bytes, :learned_from, :body) RETURNING key;

-- name: blocks_of_others
-- Packed with another dictionary than this.
SELECT b.key, b.conversation_key, b.body FROM conversations c JOIN blocks b ON b.conversation_key = c.key
WHERE c.person = :person AND b.dictionary_key <> :dictionary AND b.key > :after ORDER BY b.key LIMIT :limit;

-- name: blocks_by
SELECT b.key, b.conversation_key FROM conversations c JOIN blocks b ON b.conversation_key = c.key
WHERE c.person = :person AND b.dictionary_key = :dictionary ORDER BY b.key;

-- name: dictionaries_of
SELECT key, learned_from FROM dictionaries WHERE person = :person ORDER BY key;

-- name: unused_dictionaries
SELECT d.key FROM dictionaries d WHERE d.person = :person
AND d.key < (SELECT max(key) FROM dictionaries WHERE person = :person)
AND NOT EXISTS (SELECT 1 FROM conversations c JOIN blocks b ON b.conversation_key = c.key
                WHERE c.person = :person AND b.dictionary_key = d.key);

-- name: delete_dictionary
DELETE FROM dictionaries WHERE key = :key AND person = :person;

-- name: delete_dictionaries
DELETE FROM dictionaries WHERE person = :person;

-- Topics.

-- name: untopiced_conversations
-- system: see due_conversations; messages are placed by their vectors
SELECT key, person, name, embedded_seq AS last_seq, topiced_seq AS cursor, words_version, generation
FROM conversations WHERE topiced_seq < embedded_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: unfolded_conversations
-- system: see due_conversations
SELECT key, person, name, topiced_seq AS last_seq, folded_seq AS cursor, words_version, generation
FROM conversations WHERE folded_seq < topiced_seq AND key > :after ORDER BY key LIMIT :limit;

-- name: mark_topiced
-- system: see mark_worked
UPDATE conversations SET topiced_seq = :through, active_topic = :active, topic_before = :before, topic_rested = :rested
WHERE key = :key AND topiced_seq = :after AND generation = :generation;

-- name: mark_folded
-- system: see mark_worked
UPDATE conversations SET folded_seq = :through
WHERE key = :key AND folded_seq = :after AND generation = :generation;

-- name: topics_changed
-- By hand or by an erase: what was read of them before is outdated, and the worker looks at them again.
UPDATE conversations SET topics_version = topics_version + 1,
    folded_seq = CASE WHEN folded_seq > 0 THEN -1 ELSE folded_seq - 1 END  -- never where a look that goes on began
WHERE key = :key;

-- name: refold_crowded
-- system: only moves cursors back, where some of many topics may have faded since
UPDATE conversations SET folded_seq = 0 WHERE folded_seq > 0 AND key IN (
    SELECT conversation_key FROM topics WHERE merged_into IS NULL AND cold = 0
    GROUP BY conversation_key HAVING count(*) > :most
);

-- name: topic_standing
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

-- name: last_moment
SELECT at FROM messages WHERE conversation_key = :key AND seq <= :through ORDER BY seq DESC LIMIT 1;

-- name: move_members
UPDATE topic_messages SET topic_key = :into WHERE topic_key = :key;

-- name: delete_topic
DELETE FROM topics WHERE key = :key;

-- name: topic_vectors
-- What a topic's centroid is made of.
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

-- name: untell_topic
-- Its centroid and summary are made anew, from its messages.
UPDATE topics SET sums = NULL, embedder_key = NULL, summary = NULL, summary_seq = 0, folded_seq = 0 WHERE key = :key;

-- name: set_topic_state
UPDATE topics SET cold = :cold, restored = :restored WHERE key = :key;

-- name: cool_topic
UPDATE topics SET cold = 1, restored = 0 WHERE key = :key;

-- name: enter_topic
-- It is spoken of, if the newest message that was placed belongs to it.
UPDATE conversations SET active_topic = :topic, topic_before = NULL WHERE key = :key AND topiced_seq > 0
AND (SELECT o.topic_key FROM topic_messages o WHERE o.conversation_key = :key ORDER BY o.seq DESC LIMIT 1) = :topic;

-- name: freshen_topic
-- It was last spoken of when its newest message was said.
UPDATE topics SET
    active_seq = COALESCE((SELECT max(o.seq) FROM topic_messages o WHERE o.topic_key = topics.key), active_seq),
    active_at = COALESCE((
        SELECT max(CASE WHEN m.at < :now THEN m.at ELSE :now END) FROM topic_messages o
        JOIN messages m ON m.conversation_key = o.conversation_key AND m.seq = o.seq WHERE o.topic_key = topics.key
    ), active_at)
WHERE key = :key;

-- name: warm_topic
UPDATE topics SET cold = 0, restored = 1, accesses = accesses + 1, active_at = :now WHERE key = :key;

-- name: tell_topic
-- Told through a seq; below 0: there is more to be told, after that one.
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
-- Those that lost messages.
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
-- Without those that wait for their first message, which is to be placed anew.
SELECT t.key FROM topics t JOIN conversations c ON c.key = t.conversation_key
WHERE t.conversation_key = :key AND t.messages = 0 AND NOT EXISTS (
    SELECT 1 FROM messages m WHERE m.conversation_key = c.key AND m.seq = t.opened_seq AND m.seq > c.topiced_seq
);

-- name: hang_higher
-- What was merged into a topic that goes belongs to what that one was merged into.
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

-- name: grouped_by_hand
-- A rebuild does not group anew what people grouped.
UPDATE conversations SET grouped_by_hand = 1 WHERE key = :key;

-- name: move_message
UPDATE topic_messages SET topic_key = :topic WHERE conversation_key = :key AND seq = :seq;

-- name: opening_message
SELECT seq FROM messages WHERE conversation_key = :key AND role = 'user' ORDER BY seq LIMIT 1;

-- name: topics_to_rewind
-- Conversations of a person (of everyone, for none) after a rewind; `anew` are those whose messages are placed anew.
SELECT key, CASE WHEN topiced_seq = 0 THEN 1 ELSE 0 END AS anew FROM conversations
WHERE (CAST(:person AS TEXT) IS NULL OR person = :person)
AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: unplace_messages
DELETE FROM topic_messages WHERE conversation_key = :key;

-- name: delete_plain_topics
-- What people named, tagged, pinned or weighed waits for its first message.
DELETE FROM topics WHERE named = 0 AND tags = '[]' AND pinned = 0 AND importance IS NULL AND deletions = 0
AND conversation_key = :key;

-- name: reset_topics
UPDATE topics SET accesses = 0, active_at = created_at, active_seq = opened_seq, restored = 0, cold = 0, messages = 0,
    archived = 0
WHERE conversation_key = :key;

-- name: untell_topics
UPDATE topics SET sums = NULL, embedder_key = NULL, summary = NULL, summary_seq = 0, folded_seq = 0
WHERE conversation_key = :key;

-- Profiles and consent.

-- name: get_profile
-- What is in it only with consent: whoever shows or uses a profile reads it here.
SELECT c.granted, CASE WHEN p.person IS NULL THEN 0 ELSE 1 END AS stored,
       CASE WHEN c.granted <> 0 THEN p.body END AS body, p.updated_at
FROM (SELECT COALESCE((SELECT granted FROM consents WHERE person = :person), 0) AS granted) c
LEFT JOIN profiles p ON p.person = :person;

-- name: stored_profile
-- To be changed or erased, whatever the consent; not to be shown.
SELECT body FROM profiles WHERE person = :person;

-- name: lock_profile
-- Two changes at once come one after the other, on databases that lock rows; also where there is no row yet.
INSERT INTO profiles (person, body, updated_at) VALUES (:person, '{}', :now)
ON CONFLICT (person) DO UPDATE SET updated_at = profiles.updated_at;

-- name: put_profile
INSERT INTO profiles (person, body, updated_at) VALUES (:person, :body, :now)
ON CONFLICT (person) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at;

-- name: keep_profile
INSERT INTO profiles (person, body, updated_at) VALUES (:person, :body, :now) ON CONFLICT (person) DO NOTHING;

-- name: delete_profile
DELETE FROM profiles WHERE person = :person;

-- name: put_consent
INSERT INTO consents (person, granted, at) VALUES (:person, :granted, :now)
ON CONFLICT (person) DO UPDATE SET granted = excluded.granted, at = excluded.at
WHERE consents.granted <> excluded.granted;

-- name: delete_consent
DELETE FROM consents WHERE person = :person;

-- The audit log.

-- name: insert_audit
INSERT INTO audit (at, person, actor, action, details, conversation_key)
VALUES (:at, :person, :actor, :action, :details,
        (SELECT key FROM conversations WHERE person = :person AND name = CAST(:conversation AS TEXT)));

-- name: audit_before
SELECT a.key, a.at, a.person, a.actor, a.action, a.details, c.name AS conversation
FROM audit a LEFT JOIN conversations c ON c.key = a.conversation_key
WHERE a.person = :person AND a.key < :before ORDER BY a.key DESC LIMIT :limit;

-- name: delete_audit
DELETE FROM audit WHERE person = :person;

-- name: forget_audit
-- system: the audit log is kept for 400 days, everyone's
DELETE FROM audit WHERE at < :before;

-- Settings.

-- name: get_settings
-- The person's own and, under no name, the operator's.
SELECT person, name, value FROM settings WHERE person = :person OR person = '' ORDER BY name;

-- name: given_settings
-- system: whether anybody wants something that the worker does for all
SELECT DISTINCT value FROM settings WHERE name = :name;

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

-- name: change_generations
-- system: a restore; whoever was at work on what it replaced finds out
UPDATE conversations SET generation = generation + :by;

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
SET worked_seq = 0, words_version = 0, embedded_seq = 0, embedder_key = NULL, briefed_seq = 0, folded_seq = 0,
    topiced_seq = CASE WHEN grouped_by_hand <> 0 THEN topiced_seq ELSE 0 END,
    active_topic = CASE WHEN grouped_by_hand <> 0 THEN active_topic END,
    topic_before = NULL, topic_rested = 0, generation = generation + 1
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_everything
-- system: rebuild for all people, on the operator's word
UPDATE conversations
SET worked_seq = 0, words_version = 0, embedded_seq = 0, embedder_key = NULL, briefed_seq = 0, folded_seq = 0,
    topiced_seq = CASE WHEN grouped_by_hand <> 0 THEN topiced_seq ELSE 0 END,
    active_topic = CASE WHEN grouped_by_hand <> 0 THEN active_topic END,
    topic_before = NULL, topic_rested = 0, generation = generation + 1;

-- name: delete_tokens
DELETE FROM message_tokens WHERE message_key IN (
    SELECT m.key FROM messages m JOIN conversations c ON c.key = m.conversation_key
    WHERE c.person = :person AND (CAST(:conversation AS TEXT) IS NULL OR c.name = :conversation)
);

-- name: delete_all_tokens
-- system: see rewind_everything
DELETE FROM message_tokens;

-- name: uncounted_messages
SELECT m.key, m.seq, m.role, x.content, m.name, m.tool_calls
FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
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
SELECT m.key, m.seq, m.at, m.role, m.name, m.model_variant, x.content FROM messages m LEFT JOIN texts x ON x.message_key = m.key
WHERE m.conversation_key = :key AND m.seq > :after ORDER BY m.seq;

-- name: unembedded_messages
SELECT m.key, m.seq, m.name, m.model_variant, x.content FROM messages m JOIN conversations c ON c.key = m.conversation_key
LEFT JOIN texts x ON x.message_key = m.key
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

-- name: topics_of_conversation
SELECT key, id, opened_seq, created_at, active_at, active_seq, accesses, restored, cold, title, summary, summary_seq,
       by_hand, named, tags, pinned, importance, deletions, merged_into, merged_at
FROM topics WHERE conversation_key = :key ORDER BY key;

-- name: copy_topic
-- Its centroid is made anew, and so is its place in the archive.
INSERT INTO topics (conversation_key, id, opened_seq, created_at, active_at, active_seq, accesses, restored, cold,
                    title, summary, summary_seq, by_hand, named, tags, pinned, importance, deletions)
VALUES (:key, :id, :opened_seq, :created_at, :active_at, :active_seq, :accesses, :restored, :cold,
        :title, :summary, :summary_seq, :by_hand, :named, :tags, :pinned, :importance, :deletions)
RETURNING key;

-- name: members_of_conversation
SELECT seq, topic_key AS topic FROM topic_messages WHERE conversation_key = :key ORDER BY seq;

-- name: copy_member
INSERT INTO topic_messages (conversation_key, seq, topic_key) VALUES (:key, :seq, :topic);

-- name: feedback_of_conversation
SELECT seq, kind, value, at AS now FROM feedback WHERE conversation_key = :key ORDER BY seq, kind;

-- name: topics_standing
SELECT topiced_seq, active_topic, grouped_by_hand, topics_version FROM conversations WHERE key = :key;

-- name: copy_standing
UPDATE conversations SET topiced_seq = :placed, active_topic = :active, grouped_by_hand = :by_hand,
    topics_version = :version
WHERE key = :key;

-- name: every_setting
-- system: a backup holds everyone's settings
SELECT person, name, value, changed_at AS now FROM settings ORDER BY person, name;

-- name: every_profile
-- system: a backup holds everyone's profiles
SELECT person, body, updated_at AS now FROM profiles ORDER BY person;

-- name: every_consent
-- system: a backup holds everyone's consents
SELECT person, granted, at AS now FROM consents ORDER BY person;

-- name: every_audit
-- system: a backup holds everyone's audit log
SELECT a.key, a.at, a.person, a.actor, a.action, a.details, c.name AS conversation
FROM audit a LEFT JOIN conversations c ON c.key = a.conversation_key
WHERE a.key > :after ORDER BY a.key LIMIT :limit;

-- name: delete_every_profile
-- system: a restore replaces everyone's profiles
DELETE FROM profiles;

-- name: delete_every_consent
-- system: a restore replaces everyone's consents
DELETE FROM consents;

-- name: delete_every_audit
-- system: a restore replaces everyone's audit log
DELETE FROM audit;

-- name: delete_everything
-- system: a restore replaces the whole log
DELETE FROM conversations;

-- name: delete_every_dictionary
-- system: a restore replaces the whole log
DELETE FROM dictionaries;

-- name: delete_every_setting
-- system: a restore replaces everyone's settings
DELETE FROM settings;

-- name: set_last_seq
UPDATE conversations SET last_seq = :last_seq WHERE key = :key;

-- What servers share: keys, sessions, idempotency keys, stops.

-- name: get_secret
-- system: belongs to the database
SELECT value FROM settings WHERE person = '' AND name = :name;

-- name: keep_secret
-- system: belongs to the database
INSERT INTO settings (person, name, value, changed_at) VALUES ('', :name, :value, :now)
ON CONFLICT (person, name) DO NOTHING;

-- name: insert_key
INSERT INTO api_keys
    (id, hash, label, person, department, ministry, clearances, scopes, created_at, expires_at, revoked_at)
VALUES (:id, :hash, :label, :person, :department, :ministry, :clearances, :scopes, :created_at, :expires_at, :revoked_at);

-- name: every_whole_key
-- system: a backup holds all keys, by their hashes
SELECT id, hash, label, person, department, ministry, clearances, scopes, created_at, expires_at, revoked_at
FROM api_keys ORDER BY id;

-- name: delete_every_key
-- system: a restore replaces all keys, and ends all sessions
DELETE FROM api_keys;

-- name: every_key
-- system: the operator sees all keys, without what they are
SELECT id, label, person, department, ministry, clearances, scopes, created_at, expires_at, revoked_at
FROM api_keys ORDER BY created_at, id;

-- name: get_key
-- system: who asks is not known before the key is
SELECT id, hash, label, person, department, ministry, clearances, scopes, created_at, expires_at, revoked_at
FROM api_keys WHERE id = :id;

-- name: any_key
-- system: whether keys are asked for at all; one that was revoked counts too, so that nothing opens by revoking the last
SELECT 1 AS one FROM api_keys LIMIT 1;

-- name: revoke_key
-- system: an act of the operator
UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: end_sessions_of
-- system: an act of the operator
DELETE FROM sessions WHERE key_id = :id;

-- name: insert_session
-- system: who asks is known by the key
INSERT INTO sessions (hash, key_id, created_at, expires_at) VALUES (:hash, :id, :now, :until);

-- name: get_session
-- system: who asks is not known before the session is
SELECT s.expires_at AS session_expires_at, k.id, k.label, k.person, k.department, k.ministry, k.clearances, k.scopes,
       k.created_at, k.expires_at, k.revoked_at
FROM sessions s JOIN api_keys k ON k.id = s.key_id WHERE s.hash = :hash;

-- name: end_session
-- system: whoever has the cookie may end it
DELETE FROM sessions WHERE hash = :hash;

-- name: forget_sessions
-- system: those that are over
DELETE FROM sessions WHERE expires_at < :now;

-- name: insert_request
INSERT INTO requests (person, id, fingerprint, at) VALUES (:person, :id, :fingerprint, :now)
ON CONFLICT (person, id) DO NOTHING;

-- name: get_request
SELECT fingerprint FROM requests WHERE person = :person AND id = :id;

-- name: forget_requests
-- system: those that are too old to come again
DELETE FROM requests WHERE at < :before;

-- name: delete_requests
DELETE FROM requests WHERE person = :person;

-- name: delete_stops
DELETE FROM stops WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR conversation = :conversation);

-- name: put_stop
INSERT INTO stops (person, conversation, at) VALUES (:person, :conversation, :now)
ON CONFLICT (person, conversation) DO UPDATE SET at = excluded.at;

-- name: stops_since
-- system: each process looks for the answers that it is writing, whoever they are for
SELECT person, conversation, at FROM stops WHERE at >= :since;

-- name: forget_stops
-- system: those that nobody can be writing any more
DELETE FROM stops WHERE at < :before;
