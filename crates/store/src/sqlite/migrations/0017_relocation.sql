-- That the tasks are being moved into a database that servers share, or have been. One row at most.
CREATE TABLE relocation (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT NOT NULL,    -- which the shared database has too, once the copy is committed
    target      TEXT NOT NULL,    -- in words, without a password
    finished_at INTEGER           -- NULL: it is not known yet whether the copy was committed
) STRICT;
