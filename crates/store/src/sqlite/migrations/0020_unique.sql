-- What no other live task of its tool may have: the digests of the value and of the arguments. The value is NULL of a task that another one has replaced.
ALTER TABLE tasks ADD COLUMN unique_value BLOB;
ALTER TABLE tasks ADD COLUMN unique_arguments BLOB;
CREATE UNIQUE INDEX tasks_unique ON tasks (tool, unique_value) WHERE unique_value IS NOT NULL AND state < 3;
