-- How many tasks of a tool may run at once, as it was offered last: a tool that is offered no longer keeps its limit.
CREATE TABLE tool_limits (
    tool        TEXT PRIMARY KEY,
    concurrency INTEGER -- NULL: no limit
) STRICT, WITHOUT ROWID;
