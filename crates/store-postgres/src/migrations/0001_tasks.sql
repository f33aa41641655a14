-- Tasks and all that belongs to them, as the SQLite store has them, with these differences:
--
-- - Payloads hang on the task's id, which is known before its row is written: all statements of a batch can be sent together.
-- - A text that its author chose freely is encoded, since PostgreSQL has no text with the character zero (see `text.rs`). JSON has no such character.
-- - Payloads are text and never jsonb: their bytes stay as they came.
-- - `COLLATE "C"`: ids and names are in the order of their bytes, whatever the database's locale is.
--
-- Timestamps are unix milliseconds. Lengths of time and versions are 64 bits, unsigned, kept in signed integers bit for bit.

-- Tools' definitions, as they were when a task was created.
CREATE TABLE specs (
    id         text COLLATE "C" PRIMARY KEY,
    kind       text NOT NULL,
    definition text NOT NULL
);

-- A task's row is updated with each change, most of which touch no index. Room in its page lets PostgreSQL keep the new version there (HOT), and
-- vacuuming that begins early keeps the table and its indices small.
CREATE TABLE tasks (
    id                 text COLLATE "C" PRIMARY KEY,
    principal          text COLLATE "C" NOT NULL,
    session            text COLLATE "C",
    tool               text COLLATE "C" NOT NULL,
    spec               text COLLATE "C" NOT NULL, -- specs.id
    origin             smallint NOT NULL,         -- 0 legacy, 1 modern
    front              bigint NOT NULL,
    announced          smallint NOT NULL,
    state              smallint NOT NULL,         -- -1 blocked, 0 queued, 1 running, 2 suspended; done: 3 succeeded, 4 tool error, 5 RPC error, 6 cancelled
    stop_reason        smallint,                  -- 0 cancel, 1 deadline
    stop_at            bigint,
    attempt_epoch      bigint,
    attempt_node       bigint,
    attempt_host       text COLLATE "C",
    attempt_state      smallint,                  -- 0 starting, 1 live, 2 stopping, 3 ended
    attempt_changes    bigint,
    attempts_used      bigint NOT NULL,
    created_at         bigint NOT NULL,
    updated_at         bigint NOT NULL,
    ready_at           bigint NOT NULL,
    queue_timeout      bigint,
    deadline           bigint,
    retention          bigint NOT NULL,
    announced_until    bigint NOT NULL,
    retry_until        bigint,
    ended_at           bigint,
    status             text,
    progress           double precision,
    progress_total     double precision,
    open_inputs        text NOT NULL,             -- keys, oldest first, separated by spaces
    inputs_asked       bigint NOT NULL,
    journaled          bigint NOT NULL,
    woken              bigint NOT NULL,
    resume_at          bigint,
    blocked            text,                      -- why it is, as JSON
    version            bigint NOT NULL,
    wake_at            bigint,                    -- Task::wake_at and Task::delete_at, kept for their indices
    delete_at          bigint,
    idempotency_key    text COLLATE "C",
    idempotency_digest bytea,
    parent             text COLLATE "C",
    parent_entry       bigint,
    root               text COLLATE "C",
    depth              bigint,
    bytes              bigint NOT NULL            -- of all its payloads
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- Every index but those of principals and parents covers only what is live or due, so what is merely kept costs them nothing.
CREATE INDEX tasks_queued              ON tasks (tool, ready_at, id) WHERE state = 0;
CREATE INDEX tasks_queued_of_principal ON tasks (tool, principal, ready_at, id) WHERE state = 0;
CREATE INDEX tasks_wake                ON tasks (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX tasks_delete              ON tasks (delete_at) WHERE delete_at IS NOT NULL;
CREATE INDEX tasks_working             ON tasks (attempt_node, id) WHERE attempt_state < 3;
CREATE INDEX tasks_unheard             ON tasks (front, id) WHERE announced = 0 AND state < 3 AND idempotency_key IS NULL;
CREATE INDEX tasks_session             ON tasks (session, id) WHERE announced = 1 AND session IS NOT NULL;
CREATE INDEX tasks_live                ON tasks (session, id) WHERE announced = 1 AND state < 3 AND session IS NOT NULL;
CREATE INDEX tasks_children            ON tasks (parent, id) WHERE parent IS NOT NULL AND state < 3 AND stop_at IS NULL;
CREATE INDEX tasks_started             ON tasks (parent, id) WHERE parent IS NOT NULL;
CREATE INDEX tasks_blocked             ON tasks (id) WHERE state = -1;
CREATE INDEX tasks_open                ON tasks (id) WHERE ended_at IS NULL;
CREATE INDEX tasks_unsuccessful        ON tasks (id) WHERE state > 3;
CREATE INDEX tasks_of_principal        ON tasks (principal, id);
CREATE UNIQUE INDEX tasks_keyed        ON tasks (principal, tool, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Payloads: apart from the tasks, so that reading a task costs the same however much it carries, and a change of a task does not copy them.
CREATE TABLE arguments (
    task      text COLLATE "C" PRIMARY KEY, -- tasks.id, here and below
    json      text NOT NULL,
    requestor text NOT NULL
);

CREATE TABLE outcomes (
    task    text COLLATE "C" PRIMARY KEY,
    json    text,   -- the result, or the error's data
    code    bigint, -- of an error
    message text    -- of an error
);

CREATE TABLE inputs (
    task       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    name       text,              -- what its author calls it
    request    text NOT NULL,
    state      smallint NOT NULL, -- 0 open, 1 answered, 2 withdrawn
    answer     text,
    asked_at   bigint NOT NULL,
    settled_at bigint,
    PRIMARY KEY (task, key)
) WITH (fillfactor = 80);

CREATE TABLE journal (
    task   text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,   -- from 1, without gaps
    kind   smallint NOT NULL, -- 0 step, 1 timer, 2 input, 3 child, 4 poll, 5 emit, 6 now, 7 random, 8 select, 9 version, 10 failure, 11 checkpoint
    nth    bigint NOT NULL,
    beside smallint NOT NULL,
    at     bigint NOT NULL,
    epoch  bigint NOT NULL,
    path   text NOT NULL,
    name   text NOT NULL,
    value  text NOT NULL,
    PRIMARY KEY (task, seq)
) WITH (fillfactor = 90);

-- Output: found without a look at the steps in between.
CREATE INDEX journal_emitted ON journal (task, seq) WHERE kind = 5;

-- The hosts to which attempts were bound: they may have files.
CREATE TABLE task_hosts (
    task text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, host)
);

-- What is left of deleted tasks for those hosts.
CREATE TABLE tombstones (
    host text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    at   bigint NOT NULL,
    PRIMARY KEY (host, task)
);
CREATE INDEX tombstones_at ON tombstones (at);

-- How much there is, changed in the transaction that changes it: live tasks, and the bytes of all payloads. Every transaction changes the sum of all, and
-- holds its row until it has committed, so there are several rows, of which each store uses one: the usage is their sum.
CREATE TABLE usage (
    principal text COLLATE "C" NOT NULL,
    part      smallint NOT NULL,
    live      bigint NOT NULL,
    bytes     bigint NOT NULL,
    PRIMARY KEY (principal, part)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE usage_in_all (
    part  smallint PRIMARY KEY,
    live  bigint NOT NULL,
    bytes bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);

-- Incarnations of servers, and their leases by the clock of the database. The row with the greatest number is never deleted, so no number is used twice.
CREATE TABLE nodes (
    id          bigint PRIMARY KEY,
    host        text COLLATE "C" NOT NULL,
    opened_at   bigint NOT NULL, -- by the node's clock
    since       bigint NOT NULL, -- since when it has held its lease without a gap
    ends_at     bigint NOT NULL,
    lost_at     bigint,          -- when it was noted that the lease is lost
    losses_seen bigint NOT NULL, -- how many leases were lost when it was last renewed
    report      bigint NOT NULL DEFAULT 0 -- the number of its last report of permits
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);
CREATE INDEX nodes_alive ON nodes (id) WHERE lost_at IS NULL;
CREATE INDEX nodes_of_host ON nodes (host);

CREATE TABLE permits (
    tool        text COLLATE "C" NOT NULL,
    node        bigint NOT NULL,
    held        bigint NOT NULL,
    wanted      bigint NOT NULL,
    share       bigint NOT NULL,
    short_since bigint,
    got_at      bigint NOT NULL,
    PRIMARY KEY (tool, node)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 100);

CREATE TABLE tool_limits (
    tool        text COLLATE "C" PRIMARY KEY,
    concurrency bigint -- NULL: no limit
);

CREATE TABLE paused_tools (
    tool text COLLATE "C" PRIMARY KEY
);

CREATE TABLE signing_keys (
    purpose text COLLATE "C" NOT NULL,
    id      bigint NOT NULL,
    secret  bytea NOT NULL,
    PRIMARY KEY (purpose, id)
);

-- Legacy sessions ended by their clients, until their signatures expire. `written_by` is the transaction that wrote the row: other nodes read what is new.
CREATE TABLE ended_sessions (
    session    text COLLATE "C" PRIMARY KEY,
    until      bigint NOT NULL,
    written_by bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
);
CREATE INDEX ended_sessions_until ON ended_sessions (until);
CREATE INDEX ended_sessions_written_by ON ended_sessions (written_by);

-- What is done by one transaction at a time locks its row first.
CREATE TABLE turns (
    name text PRIMARY KEY
);
INSERT INTO turns (name) VALUES ('nodes'), ('permits'), ('signing_keys');
