-- The digest of the value that a task has of its tool's concurrency key. One that waits for other tasks with this value is not in the index of the queue.
ALTER TABLE tasks ADD COLUMN concurrency_group BLOB;
ALTER TABLE tasks ADD COLUMN waits_for_group INTEGER NOT NULL DEFAULT 0;

DROP INDEX tasks_queued;
CREATE INDEX tasks_queued            ON tasks (tool, priority, ready_at, id) WHERE state = 0 AND waits_for_group = 0;
CREATE INDEX tasks_in_group          ON tasks (tool, concurrency_group)
    WHERE concurrency_group IS NOT NULL AND waits_for_group = 0 AND (state < 3 OR attempt_state < 3);
CREATE INDEX tasks_waiting_for_group ON tasks (tool, concurrency_group, priority DESC, ready_at, id) WHERE state = 0 AND waits_for_group = 1;

-- How many tasks of each group may be in progress; NULL: no limit.
ALTER TABLE tool_limits ADD COLUMN per_group INTEGER;
