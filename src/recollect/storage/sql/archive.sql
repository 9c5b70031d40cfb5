-- The archive: the text of a message is in the table `texts`, or archived in a block.

-- name: get_dictionary
SELECT body FROM dictionaries WHERE key = :key;

-- name: insert_block
INSERT INTO blocks (conversation_key, dictionary_key, messages, text_bytes, body)
VALUES (:key, :dictionary, :messages, :text_bytes, :body) RETURNING key;

-- name: delete_block
DELETE FROM blocks WHERE key = :key;

-- name: thinned_blocks
-- Blocks that still hold texts of erased messages.
SELECT b.key FROM blocks b LEFT JOIN (
    SELECT a.block_key, count(*) AS n FROM messages m JOIN archived a ON a.message_key = m.key
    WHERE m.conversation_key = :key GROUP BY a.block_key
) k ON k.block_key = b.key
WHERE b.conversation_key = :key AND b.messages <> COALESCE(k.n, 0);

-- name: every_block
-- system: the search for damage, or for a piece of text, goes through the blocks of all people
SELECT key, body FROM blocks WHERE key > :after ORDER BY key LIMIT :limit;

-- name: count_lost_texts
-- system: a check of the whole log
SELECT count(*) AS n FROM messages m LEFT JOIN texts x ON x.message_key = m.key
LEFT JOIN archived a ON a.message_key = m.key WHERE x.message_key IS NULL AND a.message_key IS NULL;

-- name: every_archived_message
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
-- Blocks of a person that are packed with another dictionary than this one.
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
