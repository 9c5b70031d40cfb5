-- The audit log.

-- name: insert_audit
INSERT INTO audit (at, person, actor, action, details, conversation_key)
VALUES (:at, :person, :actor, :action, :details,
        (SELECT key FROM conversations WHERE person = :person AND name = CAST(:conversation AS TEXT)));

-- name: insert_noted_audit
-- Written later than noted: acts on a person who was erased meanwhile are dropped.
INSERT INTO audit (at, person, actor, action, details, conversation_key)
SELECT CAST(:at AS BIGINT), CAST(:person AS TEXT), CAST(:actor AS TEXT), CAST(:action AS TEXT), CAST(:details AS TEXT),
       (SELECT key FROM conversations WHERE person = :person AND name = CAST(:conversation AS TEXT))
WHERE NOT EXISTS (SELECT 1 FROM erasures WHERE owner = :owner AND kind = 'person' AND at > :at);

-- name: audit_before
SELECT a.key, a.at, a.person, a.actor, a.action, a.details, c.name AS conversation
FROM audit a LEFT JOIN conversations c ON c.key = a.conversation_key
WHERE a.person = :person AND a.key < :before ORDER BY a.key DESC LIMIT :limit;

-- name: forget_audit
-- system: the audit log of all people is kept for 400 days
DELETE FROM audit WHERE at < :before;
