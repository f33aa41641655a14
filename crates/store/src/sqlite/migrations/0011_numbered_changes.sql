-- The number of the latest change that the attempt has made, so that a change whose answer was lost is not made twice. NULL before the first, and of
-- attempts that began before this step.
ALTER TABLE tasks ADD COLUMN attempt_changes INTEGER;
