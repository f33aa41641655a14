-- A principal's part of each tool's queue: what a queued task shows of its position counts no task of anybody else.
CREATE INDEX tasks_queued_of_principal ON tasks (tool, principal, ready_at, id) WHERE state = 0;
