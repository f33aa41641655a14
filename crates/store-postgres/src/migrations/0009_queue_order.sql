-- A task's priority orders the queue of its tool before the time at which the task is ready. 0 of what a node of an earlier release writes; it claims
-- without regard to priorities.
ALTER TABLE tasks ADD COLUMN priority bigint NOT NULL DEFAULT 0;

DROP INDEX tasks_queued;
DROP INDEX tasks_queued_of_principal;
CREATE INDEX tasks_queued              ON tasks (tool, priority, ready_at, id) WHERE state = 0;
CREATE INDEX tasks_queued_of_principal ON tasks (tool, principal, priority, ready_at, id) WHERE state = 0;

-- When the last attempt began of each tool that has had a `start_rate`; NULL before its first. A claim locks the row.
CREATE TABLE start_times (
    tool       text COLLATE "C" PRIMARY KEY,
    last_start bigint
);
