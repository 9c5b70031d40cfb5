"""The store, on two small drivers: SQLite and PostgreSQL. All SQL is in the files of `storage/sql`."""
