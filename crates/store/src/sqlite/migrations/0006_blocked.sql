-- Tasks that are blocked, and which attempt wrote an entry of a journal.

-- `tasks.state` −1 is blocked: below 3, as everything that is live. Why it is, as JSON; also while it is tried again.
ALTER TABLE tasks ADD COLUMN blocked TEXT;
CREATE INDEX tasks_blocked ON tasks (id) WHERE state = -1;

-- 0: written before this was kept.
ALTER TABLE journal ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
