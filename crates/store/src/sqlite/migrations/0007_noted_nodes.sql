-- Whether a start is noted in the file `node` beside the database too. 0: of a release that had no such file.
ALTER TABLE nodes ADD COLUMN noted INTEGER NOT NULL DEFAULT 0;
