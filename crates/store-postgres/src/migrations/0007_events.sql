-- How a node's events reach the others: see `traffic.rs`. NULL and 0 of a node of an earlier release.
ALTER TABLE nodes
    ADD COLUMN sender   bigint,                     -- whose notifications are its
    ADD COLUMN sent     bigint NOT NULL DEFAULT 0,  -- the number of the last one
    ADD COLUMN delivery bigint NOT NULL DEFAULT 0;  -- 0 by its own connection, 1 by another one, 2 it hears none of its own

-- Counts changes of `paused_tools`, so that a claim notices one that it has not heard of. One row.
CREATE TABLE pause_version (
    version bigint NOT NULL
);
INSERT INTO pause_version (version) VALUES (0);
