-- A task's priority orders the queue of its tool before the time at which the task is ready.
ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

DROP INDEX tasks_queued;
DROP INDEX tasks_queued_of_principal;
CREATE INDEX tasks_queued              ON tasks (tool, priority, ready_at, id) WHERE state = 0;
CREATE INDEX tasks_queued_of_principal ON tasks (tool, principal, priority, ready_at, id) WHERE state = 0;

-- When the last attempt began of each tool that has had a `start_rate`.
CREATE TABLE start_times (
    tool       TEXT PRIMARY KEY,
    last_start INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
