-- Tools of which nothing begins until an operator ends the pause.
CREATE TABLE paused_tools (
    tool TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
