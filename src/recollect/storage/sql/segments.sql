-- Segments: packed copies of words and vectors.

-- name: unpacked_conversations
-- system: the worker serves all people; it works on each conversation as its own person
-- A segment begins after a multiple of 4096. The last one, of n messages, is packed again when n / 8 + 32 are added.
-- While vectors of many messages are missing, only full segments are packed: the others would grow with every turn.
SELECT key, person, name, embedded_seq AS last_seq, packed_seq AS cursor, words_version, generation FROM conversations
WHERE embedded_seq >= packed_seq + 32 + (packed_seq % 4096) / 8 AND embedder_key IS NOT NULL
  AND (embedded_seq = last_seq OR embedded_seq >= packed_seq - packed_seq % 4096 + 4096)
  AND words_version = :words_version AND key > :after ORDER BY key LIMIT :limit;

-- name: outdate_segments
-- system: only moves cursors; words of a new version, or a new form, outdate the segments of all people
UPDATE conversations SET packed_seq = 0
WHERE packed_seq > 0 AND key IN (SELECT conversation_key FROM segments WHERE version <> :version);

-- name: segment_borders
SELECT first_seq, last_seq FROM segments
WHERE conversation_key = :key AND version = :version AND embedder_key = :embedder ORDER BY first_seq;

-- name: save_segment
INSERT INTO segments (conversation_key, first_seq, last_seq, version, embedder_key, checksum, body)
VALUES (:key, :first_seq, :last_seq, :version, :embedder, :checksum, :body);

-- name: mark_packed
-- system: only moves a cursor, if no other process moved it
UPDATE conversations SET packed_seq = :through
WHERE key = :key AND packed_seq = :after AND generation = :generation;

-- name: delete_segments_between
-- Those that may hold a message from :first_seq to :last_seq. Their own last_seq may be damaged and does not count.
DELETE FROM segments
WHERE conversation_key = :key AND first_seq > (:first_seq - 1) / 4096 * 4096 AND first_seq <= :last_seq;

-- name: reopen_segments
-- The worker looks again from the segment on that may hold the message :first_seq.
UPDATE conversations SET packed_seq = (:first_seq - 1) / 4096 * 4096
WHERE key = :key AND packed_seq > (:first_seq - 1) / 4096 * 4096;

-- name: delete_segments
DELETE FROM segments WHERE conversation_key IN (
    SELECT key FROM conversations
    WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation)
);

-- name: delete_all_segments
-- system: a rebuild for everybody, on the word of the operator; a restore makes them again
DELETE FROM segments;

-- name: rewind_segments
UPDATE conversations SET packed_seq = 0
WHERE person = :person AND (CAST(:conversation AS TEXT) IS NULL OR name = :conversation);

-- name: rewind_all_segments
-- system: see delete_all_segments
UPDATE conversations SET packed_seq = 0;
