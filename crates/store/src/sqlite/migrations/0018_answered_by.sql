-- Who answered a question: see `ANSWERED_BY` in `code.rs`. NULL while nobody has, and of what was answered before this step.
ALTER TABLE inputs ADD COLUMN answered_by INTEGER;
