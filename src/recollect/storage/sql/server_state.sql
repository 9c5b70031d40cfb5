-- State that server processes share: keys, sessions, idempotency keys, stop marks, sizes of system prompts.

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

-- name: every_key
-- system: the operator sees all keys, without their hashes
SELECT id, label, person, department, ministry, clearances, scopes, created_at, expires_at, revoked_at
FROM api_keys ORDER BY created_at, id;

-- name: get_key
-- system: the key says who asks
SELECT id, hash, label, person, department, ministry, clearances, scopes, created_at, expires_at, revoked_at
FROM api_keys WHERE id = :id;

-- name: keys_required
-- system: whether requests need a key. A note says so from the first key on; without one, any key does, revoked or not
SELECT COALESCE((SELECT value FROM settings WHERE person = '' AND name = 'keys_required'),
                (SELECT 'true' FROM api_keys LIMIT 1), 'false') AS value;

-- name: note_keys
-- system: older versions wrote no note that requests need a key
INSERT INTO settings (person, name, value, changed_at)
SELECT '', 'keys_required', 'true', :now WHERE EXISTS (SELECT 1 FROM api_keys)
ON CONFLICT (person, name) DO NOTHING;

-- name: count_valid_keys
-- system: whether the operator may do without keys, or take another secret
SELECT COUNT(*) AS n FROM api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now);

-- name: revoke_key
-- system: an act of the operator
UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: end_sessions_of
-- system: an act of the operator
DELETE FROM sessions WHERE key_id = :id;

-- name: insert_session
-- system: the key says who asks
INSERT INTO sessions (hash, key_id, created_at, expires_at) VALUES (:hash, :id, :now, :until);

-- name: get_session
-- system: the session says who asks
SELECT s.expires_at AS session_expires_at, k.id, k.label, k.person, k.department, k.ministry, k.clearances, k.scopes,
       k.created_at, k.expires_at, k.revoked_at
FROM sessions s JOIN api_keys k ON k.id = s.key_id WHERE s.hash = :hash;

-- name: end_session
-- system: the holder of the cookie may end the session
DELETE FROM sessions WHERE hash = :hash;

-- name: forget_sessions
-- system: expired sessions of all people
DELETE FROM sessions WHERE expires_at < :now;

-- name: insert_request
INSERT INTO requests (person, id, fingerprint, at) VALUES (:person, :id, :fingerprint, :now)
ON CONFLICT (person, id) DO NOTHING;

-- name: get_request
SELECT fingerprint FROM requests WHERE person = :person AND id = :id;

-- name: put_prompt_size
INSERT INTO requests (person, id, fingerprint, at) VALUES (:person, :id, :tokens, :now)
ON CONFLICT (person, id) DO UPDATE SET fingerprint = excluded.fingerprint, at = excluded.at;

-- name: delete_prompt_size
DELETE FROM requests WHERE person = :person AND id = :id;

-- name: forget_requests
-- system: idempotency keys and prompt sizes of all people that are too old to be used again
DELETE FROM requests WHERE at < :before;

-- name: delete_stop
DELETE FROM stops WHERE person = :person AND conversation = :conversation;

-- name: put_stop
INSERT INTO stops (person, conversation, at) VALUES (:person, :conversation, :now)
ON CONFLICT (person, conversation) DO UPDATE SET at = excluded.at;

-- name: stops_since
-- system: each process looks for the answers that it is writing, for all people
SELECT person, conversation, at FROM stops WHERE at >= :since;

-- name: forget_stops
-- system: stop marks of all people that are older than any answer in progress
DELETE FROM stops WHERE at < :before;
