-- What a task has given out, for those who read it while it runs: found without a look at the steps in between, which cost this index nothing.
CREATE INDEX journal_emitted ON journal (task, seq) WHERE kind = 5;
