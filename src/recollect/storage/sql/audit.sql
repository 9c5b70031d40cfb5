-- The audit log.

-- name: insert_audit
INSERT INTO audit (at, person, actor, action, details, conversation_key)
VALUES (:at, :person, :actor, :action, :details,
        (SELECT key FROM conversations WHERE person = :person AND name = CAST(:conversation AS TEXT)));

-- name: audit_before
SELECT a.key, a.at, a.person, a.actor, a.action, a.details, c.name AS conversation
FROM audit a LEFT JOIN conversations c ON c.key = a.conversation_key
WHERE a.person = :person AND a.key < :before ORDER BY a.key DESC LIMIT :limit;

-- name: forget_audit
-- system: the audit log of all people is kept for 400 days
DELETE FROM audit WHERE at < :before;
