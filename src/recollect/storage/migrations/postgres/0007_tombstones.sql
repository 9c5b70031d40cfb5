-- What was erased stays erased: a restore of an older backup leaves it out.

-- A tombstone names nothing: `hash` is a keyed hash of the names of what was erased, `salt` is its key. All tombstones
-- of one database have the same salt; those that came with a backup of another one keep theirs. `erasure` is the id of
-- the receipt: a backup that has the tombstone was made after the erase and holds nothing of what was erased then.
CREATE TABLE tombstones (
    hash    BYTEA  NOT NULL,
    erasure TEXT   NOT NULL,
    salt    BYTEA  NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (hash, erasure)
);

-- Rows that are noted and written later look here whether their person was erased meanwhile.
CREATE INDEX erasures_owner ON erasures (owner, kind, at);

-- An erase finds the keys of its person.
CREATE INDEX api_keys_person ON api_keys (person);
