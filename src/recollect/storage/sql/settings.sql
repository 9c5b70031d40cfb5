-- Settings that were changed at run time.

-- name: get_settings
-- The person's own settings, and those of the operator, whose name is empty.
SELECT person, name, value FROM settings WHERE person = :person OR person = '' ORDER BY name;

-- name: setting_values
-- system: whether any person turned on something that the worker does for all
SELECT DISTINCT value FROM settings WHERE name = :name;

-- name: put_setting
INSERT INTO settings (person, name, value, changed_at) VALUES (:person, :name, :value, :now)
ON CONFLICT (person, name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at;

-- name: drop_setting
DELETE FROM settings WHERE person = :person AND name = :name;
