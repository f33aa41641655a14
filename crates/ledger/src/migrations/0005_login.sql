-- Who the call was made as, as far as the client could tell. NULL of a call without a login, and of one of an earlier release.
ALTER TABLE calls ADD COLUMN login TEXT;
