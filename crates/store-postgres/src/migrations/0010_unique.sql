-- What no other live task of its tool may have: the digests of the value and of the arguments.
ALTER TABLE tasks ADD COLUMN unique_value bytea;
ALTER TABLE tasks ADD COLUMN unique_arguments bytea;
CREATE UNIQUE INDEX tasks_unique ON tasks (tool, unique_value) WHERE unique_value IS NOT NULL AND state < 3;
