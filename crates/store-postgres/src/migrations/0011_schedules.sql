-- One row decides about the starts of a schedule.
CREATE TABLE schedules (
    name       text COLLATE "C" PRIMARY KEY,
    plan       text NOT NULL,    -- what decides its times, in words
    next_at    bigint,           -- NULL: it has no time any more
    paused     bigint NOT NULL,
    last_task  text,             -- which it started last; it may be deleted by now
    last_start bigint,
    started    bigint NOT NULL,
    skipped    bigint NOT NULL,
    missed     bigint NOT NULL
);
