ALTER TABLE nodes
    ADD COLUMN role bigint NOT NULL DEFAULT 0; -- 0 both, 1 front, 2 worker

-- What nodes send each other and is too long for a notification, until it is read. Its loss costs nothing that is promised, so it is not in the write-ahead log.
CREATE UNLOGGED TABLE messages (
    id   bigint PRIMARY KEY, -- drawn by its sender
    text text NOT NULL,
    at   timestamptz NOT NULL DEFAULT now()
);
