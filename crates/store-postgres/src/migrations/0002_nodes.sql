-- What operators see of a node, and how a host recognizes its own dead process: see `NewNode`.
ALTER TABLE nodes
    ADD COLUMN name      text NOT NULL DEFAULT '',
    ADD COLUMN address   text,
    ADD COLUMN directory text;
