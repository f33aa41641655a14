-- What a tool's code has come to, what suspends it, and which task started which.

ALTER TABLE tasks ADD COLUMN journaled INTEGER NOT NULL DEFAULT 0; -- places in its journal
ALTER TABLE tasks ADD COLUMN woken INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN resume_at INTEGER;
-- Ids and no `seq`s: a task is read without a look at its parent, and keeps the name of one that was deleted.
ALTER TABLE tasks ADD COLUMN parent TEXT;
ALTER TABLE tasks ADD COLUMN parent_entry INTEGER;
ALTER TABLE tasks ADD COLUMN root TEXT;
ALTER TABLE tasks ADD COLUMN depth INTEGER;

-- With a rowid, so that the steps of many tasks that share a commit lie one after the other, and only the index knows which is whose. Without one each
-- falls into a page of its own: measured with 64 tasks, 0.35 pages of log a step become 2.6 (values of 500 bytes), and reading is hardly faster.
-- The value is last: the length of a long one is then known without reading it.
CREATE TABLE journal (
    task   INTEGER NOT NULL,
    seq    INTEGER NOT NULL, -- from 1, without gaps
    kind   INTEGER NOT NULL, -- 0 step, 1 timer, 2 input, 3 child, 4 poll, 5 emit, 6 now, 7 random, 8 select, 9 version, 10 failure
    nth    INTEGER NOT NULL,
    beside INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    path   TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT;

-- Those whom someone has to cancel when their parent is over or asked to stop.
CREATE INDEX tasks_children ON tasks (parent, id) WHERE parent IS NOT NULL AND state < 3 AND stop_at IS NULL;

-- For counting: most of those that wait have no attempt.
CREATE INDEX tasks_parked ON tasks (state) WHERE state = 2;
