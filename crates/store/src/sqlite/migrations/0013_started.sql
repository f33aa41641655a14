-- All that a task started, over or not: deleted together with it when its owner asks for that.
CREATE INDEX tasks_started ON tasks (parent, id) WHERE parent IS NOT NULL;
