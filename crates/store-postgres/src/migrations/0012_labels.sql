-- What operators find tasks by, as JSON; NULL of most tasks. It never changes.
ALTER TABLE tasks ADD COLUMN labels text;

-- The same, once for each label, as `name=value`. A task without labels is not in it.
CREATE TABLE task_labels (
    label text COLLATE "C" NOT NULL,
    task  text COLLATE "C" NOT NULL, -- tasks.id
    PRIMARY KEY (label, task)
);
CREATE INDEX task_labels_of_task ON task_labels (task);
