-- What operators find tasks by, as JSON; NULL of most tasks. It never changes.
ALTER TABLE tasks ADD COLUMN labels TEXT;

-- The same, once for each label, as `name=value`. A task without labels is not in it.
CREATE TABLE task_labels (
    label TEXT NOT NULL,
    task  TEXT NOT NULL, -- tasks.id
    PRIMARY KEY (label, task)
) WITHOUT ROWID;
CREATE INDEX task_labels_of_task ON task_labels (task);
