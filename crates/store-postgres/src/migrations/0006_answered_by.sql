-- Who answered a question: see `ANSWERED_BY` in `longhaul-store`. NULL while nobody has, and of what a node of an earlier release has written.
ALTER TABLE inputs ADD COLUMN answered_by bigint;
