-- The log: conversations and messages.

-- name: create_conversation
INSERT INTO conversations (person, name, title, tags, zone, created_at, words_version)
VALUES (:person, :conversation, :title, :tags, :zone, :now, :words_version)
ON CONFLICT (person, name) DO NOTHING;

-- name: get_conversation
SELECT key, zone, last_seq FROM conversations WHERE person = :person AND name = :conversation;

-- name: describe_conversations
-- Without a title of its own, a conversation shows the start of its first user message. The title is
-- derived when it is read, so that it is gone when that message is erased.
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

-- name: find_paths
-- An id that was made of a message and all before it stands for the whole path. Names are searched as a range.
SELECT c.name, c.last_seq, m.seq, m.model_variant, m.at
FROM conversations c JOIN messages m ON m.conversation_key = c.key AND m.id = :id
WHERE c.person = :person AND c.name >= :first_name AND c.name < :after_name
ORDER BY CASE WHEN m.seq = c.last_seq THEN 0 ELSE 1 END, c.last_at DESC, c.key DESC LIMIT 2;

-- name: latest_names
SELECT c.name FROM conversations c
WHERE c.person = :person AND c.name >= :first_name AND c.name < :after_name
ORDER BY c.last_at DESC, c.key DESC LIMIT :limit;

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
