-- Set when another process wants an intent to be cancelled. The process that sends the call watches for it.
ALTER TABLE calls ADD COLUMN cancel_requested INTEGER;
