-- What an operator looks for first: what is live, and what has gone wrong. What has succeeded is in no index but that of its principal.
CREATE INDEX tasks_open ON tasks (id) WHERE ended_at IS NULL;
CREATE INDEX tasks_unsuccessful ON tasks (id) WHERE state > 3;

-- Serves lists, too. What is not announced is kept for a minute after its end, so a list skips little.
CREATE INDEX tasks_of_principal ON tasks (principal, id);
DROP INDEX tasks_owned;
