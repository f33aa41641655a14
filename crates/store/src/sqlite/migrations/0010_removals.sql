-- How often this start has removed folders of attempts: noted in the file `node` beside the database too.
ALTER TABLE nodes ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;
