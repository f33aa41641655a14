-- Legacy sessions that calls were sent in, or whose tasks the server keeps by session.
CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY,
    server TEXT NOT NULL,
    id TEXT NOT NULL,
    revision TEXT NOT NULL,
    -- What the client declared when it opened the session. JSON.
    capabilities TEXT NOT NULL,
    -- Not used any more. A server that restarts may give the same id to another session.
    ended_at INTEGER,
    UNIQUE (server, id)
) STRICT;

-- AUTOINCREMENT: a process may hold the number of a call that was deleted since.
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    server_name TEXT,
    tool TEXT NOT NULL,
    arguments_digest BLOB NOT NULL CHECK (length(arguments_digest) = 32),
    idempotency_key TEXT,
    -- 1 intent, 2 task, 3 outcome unknown, 4 lost, 5 finished
    state INTEGER NOT NULL,
    -- Of an intent: the process that sends the call, by the name of its lock. Of a task: the process that it ends with, if it ends with one.
    process TEXT,
    session INTEGER REFERENCES sessions (seq),
    task_id TEXT,
    -- 1 legacy, 2 modern
    generation INTEGER,
    task_created_at TEXT,
    ttl INTEGER,
    -- The task's latest known status, as the server names it.
    status TEXT,
    -- How it finished: 1 answered, 2 completed, 3 failed, 4 cancelled, 5 refused
    finished INTEGER,
    -- Why the outcome is unknown or the task lost, for people.
    reason TEXT,
    begun_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    delete_at INTEGER
) STRICT;

CREATE INDEX calls_by_state ON calls (state);
CREATE INDEX calls_by_deletion ON calls (delete_at) WHERE delete_at IS NOT NULL;
CREATE INDEX calls_by_task_id ON calls (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX calls_by_session ON calls (session, state) WHERE session IS NOT NULL;

CREATE TABLE questions (
    call INTEGER NOT NULL REFERENCES calls (seq) ON DELETE CASCADE,
    key TEXT NOT NULL,
    -- 1 asked, 2 answered, 3 accepted
    state INTEGER NOT NULL,
    -- The process that asks the user or sends the answer, by the name of its lock.
    process TEXT,
    -- Kept until the server has accepted it. JSON.
    answer TEXT,
    -- SHA-256 of the answer.
    digest BLOB,
    PRIMARY KEY (call, key)
) STRICT, WITHOUT ROWID;
