-- What a restore keeps of the database that it replaces: tombstones, keys, refused consents, the proof of erasures.

-- name: tombstone_salts
-- system: the keys of hashes that name nobody. Rows that note a salt have no hash, so they come first in the index
SELECT salt FROM tombstones ORDER BY hash, erasure LIMIT :limit;

-- name: insert_tombstone
-- system: a keyed hash, which names nobody
INSERT INTO tombstones (hash, erasure, salt, at) VALUES (:hash, :erasure, :salt, :at)
ON CONFLICT (hash, erasure) DO NOTHING;

-- name: every_person
-- system: a restore looks for people who were erased since the backup was made
SELECT person FROM conversations UNION SELECT person FROM settings UNION SELECT person FROM profiles
UNION SELECT person FROM consents UNION SELECT person FROM audit UNION SELECT person FROM recalls
UNION SELECT person FROM api_keys UNION SELECT person FROM dictionaries;

-- name: message_ids
SELECT id, seq, key FROM messages WHERE conversation_key = :key ORDER BY seq;

-- name: every_session
-- system: a restore keeps the sessions of the keys that it keeps
SELECT hash, key_id, created_at, expires_at FROM sessions;

-- name: refused_consents
-- system: a restore brings back no consent that was refused since
SELECT person, at FROM consents WHERE granted = 0 ORDER BY person;

-- name: refuse_consent
UPDATE consents SET granted = 0, at = :at WHERE person = :person AND granted <> 0 AND at <= :at;

-- name: facts_of_keys
-- system: the secret of keys, and whether requests need one
SELECT name, value, changed_at FROM settings WHERE person = '' AND name IN ('key_secret', 'key_secret_digest', 'keys_required')
ORDER BY name;

-- name: keep_erasure
-- system: that something was erased, without saying what
INSERT INTO erasures (id, owner, kind, counts, at, pending) VALUES (:id, :owner, :kind, :counts, :at, :pending)
ON CONFLICT (id) DO NOTHING;
