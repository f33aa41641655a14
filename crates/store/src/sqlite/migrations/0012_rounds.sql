-- Until when the client of a plain call may come back with its answers. NULL while it has been asked nothing.
ALTER TABLE tasks ADD COLUMN retry_until INTEGER;
