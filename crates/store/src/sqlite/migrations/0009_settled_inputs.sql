-- When a question was answered or withdrawn. NULL while it is open, and of those that were settled before this step.
ALTER TABLE inputs ADD COLUMN settled_at INTEGER;
