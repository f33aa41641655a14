-- Who calls, under which name of their own, and how much each has.

ALTER TABLE arguments ADD COLUMN requestor TEXT NOT NULL DEFAULT '{}';

-- What its author calls a question.
ALTER TABLE inputs ADD COLUMN name TEXT;

-- A call that arrives twice is one call: the caller's name for it, and a digest of its arguments.
ALTER TABLE tasks ADD COLUMN idempotency_key TEXT;
ALTER TABLE tasks ADD COLUMN idempotency_digest BLOB;
CREATE UNIQUE INDEX tasks_keyed ON tasks (principal, tool, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- A caller with a key can come back, so nobody has forsaken its call.
DROP INDEX tasks_unheard;
CREATE INDEX tasks_unheard ON tasks (front, id) WHERE announced = 0 AND state < 3 AND idempotency_key IS NULL;

-- How much there is, changed in the transaction that changes it: live tasks, and the bytes of all payloads.
CREATE TABLE usage (
    principal TEXT PRIMARY KEY,
    live      INTEGER NOT NULL,
    bytes     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_in_all (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    live  INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;

INSERT INTO usage (principal, live, bytes)
    SELECT principal, sum(state < 3), sum(
        (SELECT octet_length(json) + octet_length(requestor) FROM arguments WHERE task = tasks.seq)
        + coalesce((SELECT coalesce(octet_length(json), 0) + coalesce(octet_length(message), 0) FROM outcomes WHERE task = tasks.seq), 0)
        + coalesce((SELECT sum(octet_length(request) + coalesce(octet_length(answer), 0)) FROM inputs WHERE task = tasks.seq), 0))
    FROM tasks GROUP BY principal;

INSERT INTO usage_in_all (one, live, bytes) SELECT 1, coalesce(sum(live), 0), coalesce(sum(bytes), 0) FROM usage;

-- What a session is told of when it opens a stream.
CREATE INDEX tasks_live ON tasks (session, id) WHERE announced = 1 AND state < 3 AND session IS NOT NULL;
