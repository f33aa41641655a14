-- Runs over files of calls that are not over. What is known of their calls is kept until they are.
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    server_name TEXT,
    file TEXT NOT NULL,
    login TEXT,
    -- Random. The names of its lines, which may be idempotency keys, are derived from it.
    key TEXT NOT NULL,
    begun_at INTEGER NOT NULL,
    delete_at INTEGER NOT NULL
) STRICT;

CREATE INDEX batches_by_file ON batches (file);

-- The run that a call belongs to, and the name of its line there.
ALTER TABLE calls ADD COLUMN batch INTEGER;
ALTER TABLE calls ADD COLUMN batch_line TEXT;
CREATE INDEX calls_by_batch ON calls (batch, batch_line) WHERE batch IS NOT NULL;
