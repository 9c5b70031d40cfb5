-- Queries that are made for each table of storage/tables.py whose rows have one of the named owners.

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
AND (CAST(:topic AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM topic_messages o
     WHERE o.conversation_key = m.conversation_key AND o.seq = m.seq AND o.topic_key = :topic));

-- name: count_rows_in_{table}
-- for tables of: position
SELECT count(*) AS n FROM {table} t JOIN messages m ON m.conversation_key = t.conversation_key AND m.seq = t.seq
WHERE m.conversation_key = :key AND m.seq >= :first AND m.seq <= :last AND m.at >= :start AND m.at < :stop
AND (CAST(:topic AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM topic_messages o
     WHERE o.conversation_key = m.conversation_key AND o.seq = m.seq AND o.topic_key = :topic));

-- name: people_in_{table}
-- for tables of: person
-- system: a backup holds the rows of all people
SELECT DISTINCT person FROM {table};

-- name: person_rows_in_{table}
-- for tables of: person
SELECT * FROM {table} WHERE person = :person;

-- name: conversation_rows_in_{table}
-- for tables of: conversation, position
SELECT * FROM {table} WHERE conversation_key = :key;

-- name: all_rows_in_{table}
-- for tables of: store
-- system: a backup holds what belongs to the database
SELECT * FROM {table};

-- name: empty_{table}
-- for tables of: person, store
-- system: a restore replaces the rows of all people
DELETE FROM {table};

-- name: insert_into_{table}
-- for tables of: person, conversation, position, store
-- system: a copy brings the owner of each row along
INSERT INTO {table} ({columns}) VALUES ({values});
