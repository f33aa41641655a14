-- What a call asks before it is a task, so that another process can show and answer it. NULL for the questions of tasks.
ALTER TABLE questions ADD COLUMN input_key TEXT;
ALTER TABLE questions ADD COLUMN method TEXT;
-- JSON.
ALTER TABLE questions ADD COLUMN params TEXT;
