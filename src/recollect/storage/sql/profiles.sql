-- Profiles and consent.

-- name: get_profile
-- The body only with consent. A profile that is shown or used is always read by this query.
SELECT c.granted, CASE WHEN p.person IS NULL THEN 0 ELSE 1 END AS stored,
       CASE WHEN c.granted <> 0 THEN p.body END AS body, p.updated_at
FROM (SELECT COALESCE((SELECT granted FROM consents WHERE person = :person), 0) AS granted) c
LEFT JOIN profiles p ON p.person = :person;

-- name: stored_profile
-- The body without regard to consent, to change or erase it. It must not be shown.
SELECT body FROM profiles WHERE person = :person;

-- name: lock_profile
-- Makes a second change wait for the first one on PostgreSQL, even if there is no row yet.
INSERT INTO profiles (person, body, updated_at) VALUES (:person, '{}', :now)
ON CONFLICT (person) DO UPDATE SET updated_at = profiles.updated_at;

-- name: put_profile
INSERT INTO profiles (person, body, updated_at) VALUES (:person, :body, :now)
ON CONFLICT (person) DO UPDATE SET body = excluded.body, updated_at = excluded.updated_at;

-- name: insert_profile
INSERT INTO profiles (person, body, updated_at) VALUES (:person, :body, :now) ON CONFLICT (person) DO NOTHING;

-- name: put_consent
INSERT INTO consents (person, granted, at) VALUES (:person, :granted, :now)
ON CONFLICT (person) DO UPDATE SET granted = excluded.granted, at = excluded.at
WHERE consents.granted <> excluded.granted;
