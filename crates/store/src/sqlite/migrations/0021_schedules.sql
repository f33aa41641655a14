-- One row decides about the starts of a schedule.
CREATE TABLE schedules (
    name       TEXT PRIMARY KEY,
    plan       TEXT NOT NULL,    -- what decides its times, in words
    next_at    INTEGER,          -- NULL: it has no time any more
    paused     INTEGER NOT NULL,
    last_task  TEXT,             -- which it started last; it may be deleted by now
    last_start INTEGER,
    started    INTEGER NOT NULL,
    skipped    INTEGER NOT NULL,
    missed     INTEGER NOT NULL
) STRICT;
