//! Group commit: one thread runs all waiting changes in one transaction, syncs once, then answers all callers. Changes that can wait, such as the
//! reports of running work, are deferred for a little, and commit with the next change that cannot.
//!
//! A change has no savepoint of its own. It writes nothing when it is refused, and when SQLite fails in the middle of one the whole
//! transaction is rolled back and each change tried alone, which it must be anyway when the disk is full (SQLite then rolls back by
//! itself). A savepoint for each change was measured to cost a fifth of the writer's time.

use super::{
    Tx,
    commit_effects::{CommitEffects, PublishedState},
    operation::Operation,
    refused_writes::RefusedWrites,
};
use crate::sqlite::{
    Fault, InjectedFault, connection,
    connection::fault,
    directory::{Reserve, database_file_check::DatabaseFileCheck, reserve::LEAST_ROOM},
    options::{OnFatal, SqliteOptions},
};
use longhaul_core::store::StoreError;
use rusqlite::{Connection, Error, ffi, hooks::Wal};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

/// Limits of one commit, so that no caller waits long for the changes of others.
const MOST_CHANGES: usize = 1024;
const MOST_BYTES: usize = 4 << 20;
/// How long a transaction stays open for callers that were just answered and are likely to send their next change. Far shorter than
/// the fsync that it saves them.
const BATCH_WAIT: Duration = Duration::from_micros(150);
/// The log is checkpointed when it has grown by this many pages (16 MiB).
const CHECKPOINT_PAGES: i32 = 4096;
/// Readers that come and go can keep the log from starting over; at this many pages (128 MiB) the writer waits a
/// little for them.
const LOG_LIMIT_PAGES: i32 = 32_768;
const LOG_LIMIT_TIMEOUT: Duration = Duration::from_millis(100);
/// While the reserve is in use, an idle writer looks so often whether there is room for it.
const RESERVE_RETRY: Duration = Duration::from_secs(2);

/// A message in the writer's queue.
pub(crate) enum Message {
    Execute(Box<dyn Operation>),
    /// Commit what is queued, then stop.
    Close,
}

/// How long a transaction waits for more changes.
///
/// Callers in a loop send their next change as soon as they are answered. If each commit took only the changes that are there, the callers
/// would split into two halves that wait for each other's fsync. A short wait keeps them together.
struct BatchWait {
    waiting_callers: usize,
    timeout: Timeout,
}

impl BatchWait {
    fn new(waiting_callers: usize) -> Self {
        Self {
            waiting_callers,
            timeout: Timeout::of(BATCH_WAIT),
        }
    }

    /// The next change, when `here` are in the transaction already; `None` when it is time to commit.
    fn next(&mut self, queue: &Receiver<Message>, here: usize) -> Option<Message> {
        match queue.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Empty) if here < self.waiting_callers => {
                queue.recv_timeout(self.timeout.remaining()?).ok()
            }
            Err(_) => None,
        }
    }
}

/// A length of time that begins when it is first asked for.
struct Timeout {
    length: Duration,
    since: Option<Instant>,
}

impl Timeout {
    fn of(length: Duration) -> Self {
        Self { length, since: None }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the writer's thread waits for its queue, and nothing but speed depends on how long"
    )]
    fn remaining(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.length.checked_sub(since.elapsed())
    }
}

/// Why a batch was not committed.
enum Failure {
    /// It was rolled back; each change may be tried alone.
    RolledBack(Fault),
    /// Another process held a transaction until our wait timed out.
    Locked,
    /// The state of the disk is unknown.
    Fatal(UnknownDiskState),
}

/// The state of the disk is unknown, and [`SqliteOptions::on_fatal`] was called. It is called before any caller is answered, so a process
/// that ends there has acknowledged nothing.
struct UnknownDiskState;

/// Calls `on_fatal` if the writer panics: a server without a writer would stay up and store nothing.
struct PanicGuard(OnFatal);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)("the writer panicked");
        }
    }
}

/// The state of the writer thread.
pub(crate) struct Writer {
    connection: Connection,
    queue: Receiver<Message>,
    /// Changes to run before those still in the queue.
    next: Vec<Box<dyn Operation>>,
    /// Whether another process holds a transaction, and this was logged.
    locked: bool,
    refused_writes: RefusedWrites,
    published: Arc<PublishedState>,
    reserve: Arc<Reserve>,
    /// The reserve was in use when that was last looked at.
    reserve_was_in_use: bool,
    database_file_check: DatabaseFileCheck,
    options: SqliteOptions,
    log_pages: Arc<AtomicI32>,
    checkpointed: i32,
    /// The log has values that were deleted at their owner's wish.
    truncation_due: bool,
    commits: u64,
    /// How many changes were sent and not answered yet.
    in_flight: Arc<AtomicUsize>,
    /// `in_flight` at the end of the latest commit, before its acknowledgements.
    waiting_callers: usize,
    closing: bool,
}

impl Writer {
    pub(crate) fn new(
        mut connection: Connection,
        queue: Receiver<Message>,
        in_flight: Arc<AtomicUsize>,
        published: Arc<PublishedState>,
        reserve: Arc<Reserve>,
        database_file_check: DatabaseFileCheck,
        options: SqliteOptions,
    ) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let seen = log_pages.clone();
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            seen.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            connection,
            queue,
            next: Vec::new(),
            locked: false,
            refused_writes: RefusedWrites::default(),
            published,
            reserve,
            reserve_was_in_use: false,
            database_file_check,
            options,
            log_pages,
            checkpointed: 0,
            truncation_due: false,
            commits: 0,
            in_flight,
            waiting_callers: 0,
            closing: false,
        })
    }

    /// Runs until [`Message::Close`], until all senders are dropped, or until the state of the disk is unknown.
    pub(crate) fn run(mut self) {
        let _watch = PanicGuard(self.options.on_fatal.clone());
        while !self.closing {
            self.look_at_reserve();
            if self.truncation_due && self.in_flight.load(Ordering::Relaxed) == 0 {
                let Ok(()) = self.truncate_log() else { return };
            }
            let batch = self.gather();
            if batch.is_empty() {
                continue;
            }
            if let Err(UnknownDiskState) = self.commit_all(batch) {
                // Dropping the queue answers all waiting callers: it is unknown whether their change was stored.
                return;
            }
        }
        for operation in std::mem::take(&mut self.next) {
            self.refuse(operation, StoreError::Closed);
        }
    }

    /// The changes to commit next. Those that can wait are deferred until one arrives that cannot, or until their time is over.
    fn gather(&mut self) -> Vec<Box<dyn Operation>> {
        let mut batch = std::mem::take(&mut self.next);
        let mut deferral = Timeout::of(self.options.longest_deferral());
        let mut can_wait = batch.iter().all(|operation| operation.can_be_deferred());
        while can_wait && batch.len() < MOST_CHANGES {
            let message = match batch.is_empty() {
                true if self.reserve.is_in_use() => self.queue.recv_timeout(RESERVE_RETRY),
                true => self.queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.queue.recv_timeout(deferral.remaining().unwrap_or_default()),
            };
            match message {
                Ok(Message::Execute(operation)) => {
                    can_wait = operation.can_be_deferred();
                    batch.push(operation);
                }
                Err(RecvTimeoutError::Timeout) => break,
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => {
                    self.closing = true;
                    break;
                }
            }
        }
        batch
    }

    /// Commits `batch` and the changes queued meanwhile, together if possible.
    fn commit_all(&mut self, mut batch: Vec<Box<dyn Operation>>) -> Result<(), UnknownDiskState> {
        match self.commit(&mut batch, true) {
            Ok(()) => {}
            Err(Failure::Fatal(unknown)) => return Err(unknown),
            Err(Failure::Locked) => self.refuse_while_locked(batch),
            Err(Failure::RolledBack(error)) => self.commit_each(batch, &error)?,
        }
        self.checkpoint()
    }

    /// Tries each change alone: one that is bad, or too big for the disk, must not fail the others.
    fn commit_each(&mut self, batch: Vec<Box<dyn Operation>>, error: &Fault) -> Result<(), UnknownDiskState> {
        if batch.len() == 1 {
            return self.refuse_or_retry(batch, error);
        }
        let mut batch = batch.into_iter();
        while let Some(operation) = batch.next() {
            let mut alone = vec![operation];
            match self.commit(&mut alone, false) {
                Ok(()) => {}
                Err(Failure::Fatal(unknown)) => return Err(unknown),
                Err(Failure::RolledBack(error)) => self.refuse_or_retry(alone, &error)?,
                Err(Failure::Locked) => {
                    self.refuse_while_locked(alone.into_iter().chain(batch).collect());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Refuses a change that has failed alone; or tries it again, if it may use the reserve and finds the disk full.
    fn refuse_or_retry(&mut self, mut alone: Vec<Box<dyn Operation>>, error: &Fault) -> Result<(), UnknownDiskState> {
        let may_use_reserve = alone.iter().all(|operation| operation.may_use_reserve());
        let mut why = error.to_store_error();
        while why == StoreError::Full && may_use_reserve && self.reserve.release() {
            self.truncate_log()?;
            match self.commit(&mut alone, false) {
                Ok(()) => return Ok(()),
                Err(Failure::Fatal(unknown)) => return Err(unknown),
                Err(Failure::RolledBack(error)) => why = error.to_store_error(),
                Err(Failure::Locked) => why = StoreError::Locked,
            }
        }
        alone.into_iter().for_each(|alone| self.refuse(alone, why.clone()));
        Ok(())
    }

    /// Makes the reserve whole once there is room, and until then finds out whether the database has free pages for payloads.
    fn look_at_reserve(&mut self) {
        if !self.reserve.is_in_use() {
            self.reserve_was_in_use = false;
            return;
        }
        if !std::mem::replace(&mut self.reserve_was_in_use, true) {
            // The released room is for the log: first it is to be as short as it can be.
            self.truncation_due = true;
        }
        self.reserve.take();
        if self.reserve.is_in_use() {
            self.reserve.note_free_pages(self.free_pages_bytes());
        }
    }

    /// The pages of the database's file that are free.
    fn free_pages_bytes(&self) -> u64 {
        let number = |pragma| self.connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
        match (number("PRAGMA freelist_count"), number("PRAGMA page_size")) {
            (Ok(pages), Ok(size)) => pages.saturating_mul(size).cast_unsigned(),
            _ => 0,
        }
    }

    /// Refuses all changes that have waited for SQLite's busy timeout. Those queued meanwhile wait once more, together.
    fn refuse_while_locked(&mut self, batch: Vec<Box<dyn Operation>>) {
        if !self.locked {
            self.locked = true;
            tracing::warn!(
                "another process, such as a `sqlite3` shell, holds a write transaction on the database; until it ends, changes are refused and \
                 reading goes on"
            );
        }
        batch
            .into_iter()
            .for_each(|operation| self.refuse(operation, StoreError::Locked));
        while let Ok(message) = self.queue.try_recv() {
            match message {
                Message::Execute(operation) => self.next.push(operation),
                Message::Close => {
                    self.closing = true;
                    return;
                }
            }
        }
    }

    fn refuse(&self, mut operation: Box<dyn Operation>, why: StoreError) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        operation.refuse(why);
    }

    /// One transaction: runs the batch, adds queued changes if `take_more`, commits, and only then answers.
    fn commit(&mut self, batch: &mut Vec<Box<dyn Operation>>, take_more: bool) -> Result<(), Failure> {
        let mut effects = match self.fill(batch, take_more) {
            Ok(effects) => effects,
            Err(error) => {
                let locked = fault::is_locked(&error);
                return Err(match self.roll_back(error) {
                    Failure::RolledBack(_) if locked => Failure::Locked,
                    failure => failure,
                });
            }
        };
        if std::mem::take(&mut self.locked) {
            tracing::info!("the database is free again");
        }
        if InjectedFault::acknowledges_early(self.options.injected_fault) {
            batch.iter_mut().for_each(|operation| operation.acknowledge());
            InjectedFault::delay_commit();
        }
        self.commit_transaction()?;
        if !self.reserve.refuses_payloads() {
            self.refused_writes.done();
        }
        if let Err(gone) = self.database_file_check.check() {
            return Err(Failure::Fatal(self.report_unknown_disk_state(&gone)));
        }
        #[cfg(test)]
        self.options
            .on_commit
            .iter()
            .for_each(|on_commit| on_commit(&self.connection));
        self.published.commits.committed(batch.len());
        self.published.publish_ends(&mut effects);
        self.waiting_callers = self.in_flight.fetch_sub(batch.len(), Ordering::Relaxed);
        batch.iter_mut().for_each(|operation| operation.acknowledge());
        self.published.publish_events(&effects);
        self.truncation_due |= effects.truncates_log;
        Ok(())
    }

    /// Runs queued changes in order.
    fn fill(&mut self, batch: &mut Vec<Box<dyn Operation>>, take_more: bool) -> Result<CommitEffects, Error> {
        let mut tx = Tx::begin(&self.connection)?;
        let mut batch_wait = BatchWait::new(self.waiting_callers);
        let room = self.reserve.is_in_use().then(|| self.free_pages_bytes());
        let (mut done, mut bytes) = (0, 0);
        loop {
            for operation in &mut batch[done..] {
                let size = operation.size_hint_bytes();
                if let Some(room) = room
                    && size > 0
                    && !operation.may_use_reserve()
                    && room < LEAST_ROOM + (bytes + size) as u64
                {
                    operation.decline(StoreError::Full);
                    self.refused_writes.refused(&StoreError::Full);
                    continue;
                }
                operation.run(&mut tx)?;
                bytes += size;
            }
            done = batch.len();
            if !take_more || done >= MOST_CHANGES || bytes >= MOST_BYTES {
                return tx.end();
            }
            match batch_wait.next(&self.queue, done) {
                Some(Message::Execute(operation)) => batch.push(operation),
                Some(Message::Close) => {
                    self.closing = true;
                    return tx.end();
                }
                None => return tx.end(),
            }
        }
    }

    fn commit_transaction(&mut self) -> Result<(), Failure> {
        let nth = self.commits;
        self.commits += 1;
        let committed = if InjectedFault::commit_fails(self.options.injected_fault, nth) {
            Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None))
        } else {
            self.connection
                .prepare_cached("COMMIT")
                .and_then(|mut commit| commit.execute([]))
        };
        match committed {
            Ok(_) => Ok(()),
            Err(error) if fault::is_refused_write(&error) => Err(self.roll_back(error)),
            Err(error) => Err(Failure::Fatal(
                self.report_unknown_disk_state(&format!("a commit failed: {error}")),
            )),
        }
    }

    /// Rolls back, and checks that the connection can begin the next transaction.
    fn roll_back(&mut self, cause: Error) -> Failure {
        // Before another statement runs.
        let fault = Fault::of(cause, &self.connection);
        let cause = &fault.error;
        if fault::is_fsync(cause) {
            return Failure::Fatal(self.report_unknown_disk_state(&format!("an fsync failed: {cause}")));
        }
        let usable = || {
            // Some errors have rolled it back already.
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            self.connection
                .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        };
        if let Err(error) = usable() {
            return Failure::Fatal(self.report_unknown_disk_state(&format!("no rollback after `{cause}`: {error}")));
        }
        if fault::is_refused_write(cause) {
            self.refused_writes.refused(&fault.to_store_error());
            // A checkpoint may fit into the file's free pages; the log can then be reused from its start.
            if let Err(unknown) = self.checkpoint_log("PASSIVE") {
                return Failure::Fatal(unknown);
            }
        }
        Failure::RolledBack(fault)
    }

    /// Calls `on_fatal`, which by default ends the process.
    fn report_unknown_disk_state(&self, reason: &str) -> UnknownDiskState {
        (self.options.on_fatal)(reason);
        UnknownDiskState
    }

    /// Checkpoints the log between commits, when it has grown enough.
    fn checkpoint(&mut self) -> Result<(), UnknownDiskState> {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages < self.checkpointed {
            // The log has started over.
            self.checkpointed = 0;
        }
        if pages - self.checkpointed < CHECKPOINT_PAGES {
            return Ok(());
        }
        self.checkpointed = pages;
        if pages < LOG_LIMIT_PAGES {
            return self.checkpoint_log("PASSIVE").map(drop);
        }
        // Lets the log start over. A long read, such as a backup's, is not waited for to its end.
        let _ = self.connection.busy_timeout(LOG_LIMIT_TIMEOUT);
        let done = self.checkpoint_log("RESTART");
        let _ = self.connection.busy_timeout(connection::BUSY);
        done.map(drop)
    }

    /// Empties the log, so that deleted values are not found there any more. A long read keeps it from that; it is tried again after the next commit.
    fn truncate_log(&mut self) -> Result<(), UnknownDiskState> {
        let _ = self.connection.busy_timeout(LOG_LIMIT_TIMEOUT);
        let done = self.checkpoint_log("TRUNCATE");
        let _ = self.connection.busy_timeout(connection::BUSY);
        self.truncation_due = !done?;
        if !self.truncation_due {
            self.log_pages.store(0, Ordering::Relaxed);
            self.checkpointed = 0;
        }
        Ok(())
    }

    /// Returns whether all of the log was checkpointed and, in the modes that wait for readers, can start over. A failure to write can be tried again: the log still holds everything. After a failed fsync the state is unknown: the next fsync may
    /// succeed without having written anything.
    fn checkpoint_log(&self, mode: &str) -> Result<bool, UnknownDiskState> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        match self.connection.query_row(&sql, [], |row| row.get::<_, i64>(0)) {
            Ok(busy) => Ok(busy == 0),
            Err(error) if fault::is_fsync(&error) => {
                Err(self.report_unknown_disk_state(&format!("a checkpoint failed: {error}")))
            }
            Err(error) => {
                // The log has said so already.
                if !(self.refused_writes.go_on() && fault::is_refused_write(&error)) {
                    tracing::warn!(%error, "the write-ahead log could not be checkpointed; trying again later");
                }
                Ok(false)
            }
        }
    }
}
