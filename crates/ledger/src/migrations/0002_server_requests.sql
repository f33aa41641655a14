-- Requests of legacy servers that belong to a task and have no response yet. Some servers send a request once, so it must outlive the process that got it.
CREATE TABLE server_requests (
    -- The order of arrival. AUTOINCREMENT: users name questions by it.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    call INTEGER NOT NULL REFERENCES calls (seq) ON DELETE CASCADE,
    -- The id of the legacy session that it came in, if it has one.
    session TEXT,
    -- JSON.
    id TEXT NOT NULL,
    -- What it asks: a key of `questions`.
    question TEXT NOT NULL,
    method TEXT NOT NULL,
    -- JSON.
    params TEXT NOT NULL,
    -- When the task had changed last, as the server wrote it, when the user answered.
    task_updated_at TEXT
) STRICT;

CREATE INDEX server_requests_by_call ON server_requests (call);

-- Open requests for the result of a legacy task. A server may send a question on the stream of one that nobody reads any more, so the next process cancels it.
CREATE TABLE result_requests (
    call INTEGER NOT NULL REFERENCES calls (seq) ON DELETE CASCADE,
    session TEXT,
    id INTEGER NOT NULL,
    -- The process that reads its stream, by the name of its lock.
    process TEXT NOT NULL,
    PRIMARY KEY (call, id)
) STRICT, WITHOUT ROWID;
