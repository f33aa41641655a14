-- What is left of the rows of nodes that were removed: how many of them had lost their leases, and the greatest number. One row.
CREATE TABLE forgotten_nodes (
    lost     bigint NOT NULL,
    greatest bigint NOT NULL
);
INSERT INTO forgotten_nodes (lost, greatest) VALUES (0, 0);
