-- Parked work has no attempt any more: it was let go. What an earlier version parked beside its attempt, which waited in memory, is running.

UPDATE tasks SET state = 1 WHERE state = 2 AND attempt_state < 3;
