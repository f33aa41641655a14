-- Tasks and all that belongs to them.
--
-- Moments are unix milliseconds. Lengths of time and versions are 64 bits, unsigned, kept in SQLite's signed integers bit for bit.
-- `seq` is ours alone: payloads hang on it, so that their keys are small and new rows are always the last ones.

-- Tools' definitions, as they were when a task was created.
CREATE TABLE specs (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    definition TEXT NOT NULL
) STRICT;

CREATE TABLE tasks (
    seq             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    principal       TEXT NOT NULL,
    session         TEXT,
    tool            TEXT NOT NULL,
    spec            INTEGER NOT NULL, -- specs.seq
    origin          INTEGER NOT NULL, -- 0 legacy, 1 modern
    front           INTEGER NOT NULL,
    announced       INTEGER NOT NULL,
    state           INTEGER NOT NULL, -- 0 queued, 1 running, 2 parked; done: 3 succeeded, 4 tool error, 5 RPC error, 6 cancelled
    stop_reason     INTEGER,          -- 0 cancel, 1 deadline
    stop_at         INTEGER,
    attempt_epoch   INTEGER,
    attempt_node    INTEGER,
    attempt_host    TEXT,
    attempt_state   INTEGER,          -- 0 starting, 1 live, 2 stopping, 3 ended
    attempts_used   INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ready_at        INTEGER NOT NULL,
    queue_timeout   INTEGER,
    deadline        INTEGER,
    retention       INTEGER NOT NULL,
    announced_until INTEGER NOT NULL,
    ended_at        INTEGER,
    status          TEXT,
    progress        REAL,
    progress_total  REAL,
    open_inputs     TEXT NOT NULL,    -- keys, oldest first, separated by spaces
    inputs_asked    INTEGER NOT NULL,
    version         INTEGER NOT NULL,
    wake_at         INTEGER,          -- Task::wake_at and Task::delete_at, kept for their indices
    delete_at       INTEGER
) STRICT;

-- Every index but the lists' covers only what is live or due, so what is merely kept costs them nothing.
CREATE INDEX tasks_queued   ON tasks (tool, ready_at, id) WHERE state = 0;
CREATE INDEX tasks_wake     ON tasks (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX tasks_delete   ON tasks (delete_at) WHERE delete_at IS NOT NULL;
CREATE INDEX tasks_working  ON tasks (attempt_node, id, state, attempt_state) WHERE attempt_state < 3;
CREATE INDEX tasks_unheard  ON tasks (front, id) WHERE announced = 0 AND state < 3;
CREATE INDEX tasks_owned    ON tasks (principal, id) WHERE announced = 1;
CREATE INDEX tasks_session  ON tasks (session, id) WHERE announced = 1 AND session IS NOT NULL;

-- Payloads: apart from the tasks, so that reading a task costs the same however much it carries.
CREATE TABLE arguments (
    task INTEGER PRIMARY KEY, -- tasks.seq, here and below
    json TEXT NOT NULL
) STRICT;

CREATE TABLE outcomes (
    task    INTEGER PRIMARY KEY,
    json    TEXT,    -- the result, or the error's data
    code    INTEGER, -- of an error
    message TEXT     -- of an error
) STRICT;

CREATE TABLE inputs (
    seq      INTEGER PRIMARY KEY, -- the order in which they were asked
    task     INTEGER NOT NULL,
    key      TEXT NOT NULL,
    request  TEXT NOT NULL,
    state    INTEGER NOT NULL, -- 0 open, 1 answered, 2 withdrawn
    answer   TEXT,
    asked_at INTEGER NOT NULL,
    UNIQUE (task, key)
) STRICT;

CREATE INDEX inputs_open ON inputs (task) WHERE state = 0;

-- Incarnations of the server on this directory. AUTOINCREMENT: a number is never used twice.
CREATE TABLE nodes (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    host      TEXT NOT NULL,
    opened_at INTEGER NOT NULL
) STRICT;

CREATE TABLE signing_keys (
    purpose TEXT NOT NULL,
    id      INTEGER NOT NULL,
    secret  BLOB NOT NULL,
    PRIMARY KEY (purpose, id)
) STRICT, WITHOUT ROWID;

-- Legacy sessions ended by their clients, until their signatures expire.
CREATE TABLE ended_sessions (
    session TEXT PRIMARY KEY,
    until   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ended_sessions_until ON ended_sessions (until);
