-- Who confirms the task before it runs for the first time (0: its client or an operator, 1: an operator); NULL if nobody has to. Until then it is suspended
-- and has no attempt.
ALTER TABLE tasks ADD COLUMN confirm_by INTEGER;
