-- Templates. Each one is made for every table of storage/tables.py that has an owner named in its line "for tables of".
-- Templates of one name are for different owners.

-- name: erase_rows_in_{table}
-- for tables of: person
DELETE FROM {table} WHERE person = :person;

-- name: count_rows_in_{table}
-- for tables of: conversation
SELECT count(*) AS n FROM {table} WHERE conversation_key = :key;

-- name: count_rows_in_{table}
-- for tables of: message
SELECT count(*) AS n FROM {table} t JOIN messages m ON m.key = t.message_key
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop
AND (CAST(:topic AS BIGINT) IS NULL OR m.seq IN (SELECT seq FROM topic_messages WHERE topic_key = :topic));

-- name: count_rows_in_{table}
-- for tables of: position
SELECT count(*) AS n FROM {table} t JOIN messages m ON m.conversation_key = t.conversation_key AND m.seq = t.seq
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop
AND (CAST(:topic AS BIGINT) IS NULL OR m.seq IN (SELECT seq FROM topic_messages WHERE topic_key = :topic));

-- name: conversation_rows_in_{table}
-- for tables of: conversation, position
SELECT * FROM {table} WHERE conversation_key = :key;

-- name: all_rows_in_{table}
-- for tables of: person, store
-- system: a backup holds the rows of all people
SELECT * FROM {table};

-- name: empty_{table}
-- for tables of: person, store
-- system: a restore replaces the rows of all people
DELETE FROM {table};
