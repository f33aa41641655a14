//! Group commit: one thread, one transaction for all who wait, one fsync, then all their answers. Deferred changes
//! (`durability`) are committed without one, unless they come to a transaction that has one anyway.
//!
//! A change has no savepoint of its own. It writes nothing when it is refused, and when SQLite fails in the middle of one the whole
//! transaction is rolled back and each change tried alone, which it must be anyway when the disk is full (SQLite then rolls back by
//! itself). A savepoint for each change was measured to cost a fifth of the writer's time.

use super::{
    Plant,
    commit_effects::{Board, CommitEffects},
    connection,
    durability::DeferredTasks,
    fault::{self, Fault},
    in_place::InPlace,
    operation::Operation,
    options::{OnFatal, SqliteOptions},
    transaction::Tx,
};
use longhaul_core::store::StoreError;
use rusqlite::{Connection, Error, ffi, hooks::Wal};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicUsize, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
    time::{Duration, Instant},
};

/// One commit carries at most so many changes and bytes, so that nobody waits long for the work of others.
const MOST_CHANGES: usize = 1024;
const MOST_BYTES: usize = 4 << 20;
/// How long an open transaction is held for those who were answered last and will most likely ask again at once. Far shorter than
/// the fsync that it saves them.
const GATHER: Duration = Duration::from_micros(150);
/// The log is worked into the file when it has grown by so many pages (16 MiB).
const CHECKPOINT_PAGES: i32 = 4096;
/// Readers that come and go can keep the log from starting over; at this many pages (128 MiB) the writer waits a
/// little for them.
const LOG_LIMIT_PAGES: i32 = 32_768;
const LOG_LIMIT_PATIENCE: Duration = Duration::from_millis(100);

/// What comes through the queue.
pub(super) enum Message {
    Do(Box<dyn Operation>),
    /// Finish what came before, and end.
    Close,
}

/// Who else comes along.
///
/// Those who wait in a loop ask again as soon as they were answered. Were each commit to take only who is there at that moment, they
/// would fall into two halves that wait for each other's fsync; a short wait keeps them together.
struct Gathering {
    crowd: usize,
    since: Option<Instant>,
}

impl Gathering {
    fn new(crowd: usize) -> Self {
        Self { crowd, since: None }
    }

    /// The next change, when `here` are in the transaction already; `None` when it is time to commit.
    fn next(&mut self, queue: &Receiver<Message>, here: usize) -> Option<Message> {
        match queue.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Empty) if here < self.crowd => queue.recv_timeout(self.patience()?).ok(),
            Err(_) => None,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a fraction of an fsync, and nothing but speed depends on it"
    )]
    fn patience(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        GATHER.checked_sub(since.elapsed())
    }
}

/// Why a batch was not committed.
enum Failure {
    /// It was rolled back; each change may try alone.
    RolledBack(Fault),
    /// Another process held a transaction for as long as is waited for it.
    Locked,
    /// Nobody can say what the disk holds.
    Fatal(Distrust),
}

/// Nobody can say any more what the disk holds, and [`SqliteOptions::on_fatal`] was told so: before anyone who waits could
/// learn of it, so that a process that ends there has answered nothing.
struct Distrust;

/// A server whose writer is gone looks alive and keeps nothing; better it ends.
struct PanicWatch(OnFatal);

impl Drop for PanicWatch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)("the writer panicked");
        }
    }
}

/// The one who writes.
pub(super) struct Writer {
    connection: Connection,
    queue: Receiver<Message>,
    /// The changes that come before all that are still in the queue.
    next: Vec<Box<dyn Operation>>,
    /// Whether another process holds a transaction, and that was said.
    locked: bool,
    board: Arc<Board>,
    in_place: InPlace,
    options: SqliteOptions,
    deferred: DeferredTasks,
    /// Whether SQLite syncs what it commits.
    synced: bool,
    log_pages: Arc<AtomicI32>,
    checkpointed: i32,
    commits: u64,
    /// How many have asked and were not answered yet.
    in_flight: Arc<AtomicUsize>,
    /// How many those were when the latest synced commit was done, before it was acknowledged.
    crowd: usize,
    closing: bool,
}

impl Writer {
    pub(super) fn new(
        mut connection: Connection,
        queue: Receiver<Message>,
        in_flight: Arc<AtomicUsize>,
        board: Arc<Board>,
        in_place: InPlace,
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
            board,
            in_place,
            options,
            deferred: DeferredTasks::default(),
            synced: true,
            log_pages,
            checkpointed: 0,
            commits: 0,
            in_flight,
            crowd: 0,
            closing: false,
        })
    }

    /// Works until it is told to close, or everyone who could ask is gone, or the disk can no longer be trusted.
    pub(super) fn run(mut self) {
        let _watch = PanicWatch(self.options.on_fatal.clone());
        while !self.closing {
            let mut batch = std::mem::take(&mut self.next);
            if batch.is_empty() {
                match self.queue.recv() {
                    Ok(Message::Do(first)) => batch.push(first),
                    Ok(Message::Close) | Err(_) => return,
                }
            }
            if let Err(Distrust) = self.commit_all(batch) {
                // Dropping the queue unanswered tells everyone who waits that nobody knows.
                return;
            }
        }
        for operation in std::mem::take(&mut self.next) {
            self.refuse(operation, StoreError::Closed);
        }
    }

    /// Commits `batch` and what has come in meanwhile, together if possible.
    fn commit_all(&mut self, mut batch: Vec<Box<dyn Operation>>) -> Result<(), Distrust> {
        match self.commit(&mut batch, true) {
            Ok(()) => {}
            Err(Failure::Fatal(distrust)) => return Err(distrust),
            Err(Failure::Locked) => self.refuse_while_locked(batch),
            Err(Failure::RolledBack(error)) => self.commit_each(batch, &error)?,
        }
        self.checkpoint()
    }

    /// One bad change, or one too big for the disk, must not take the others down.
    fn commit_each(&mut self, mut batch: Vec<Box<dyn Operation>>, error: &Fault) -> Result<(), Distrust> {
        if batch.len() == 1 {
            batch
                .drain(..)
                .for_each(|alone| self.refuse(alone, error.to_store_error()));
            return Ok(());
        }
        let mut batch = batch.into_iter();
        while let Some(operation) = batch.next() {
            let mut alone = vec![operation];
            match self.commit(&mut alone, false) {
                Ok(()) => {}
                Err(Failure::Fatal(distrust)) => return Err(distrust),
                Err(Failure::RolledBack(error)) => {
                    alone
                        .into_iter()
                        .for_each(|alone| self.refuse(alone, error.to_store_error()));
                }
                Err(Failure::Locked) => {
                    self.refuse_while_locked(alone.into_iter().chain(batch).collect());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Refuses together all who have waited as long as SQLite waits for another process. Those who came meanwhile wait once more, together.
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
                Message::Do(operation) => self.next.push(operation),
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

    /// One transaction: runs the batch, takes in more while it is open if told so, commits, and only then answers.
    fn commit(&mut self, batch: &mut Vec<Box<dyn Operation>>, take_more: bool) -> Result<(), Failure> {
        let synced = !batch
            .iter()
            .all(|operation| self.deferred.allow(operation.durability()));
        let filled = self.set_synced(synced).and_then(|()| self.fill(batch, take_more));
        let mut effects = match filled {
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
        if Plant::acknowledges_early(self.options.plant) {
            batch.iter_mut().for_each(|operation| operation.acknowledge());
            Plant::hold_back();
        }
        self.commit_transaction()?;
        // What is not synced nobody is told of, and it would cost as much as a page of it.
        if synced && let Err(gone) = self.in_place.check() {
            return Err(Failure::Fatal(self.distrust(&gone)));
        }
        self.deferred.apply(std::mem::take(&mut effects.durability));
        #[cfg(test)]
        self.options
            .witness
            .iter()
            .for_each(|witness| witness(&self.connection));
        self.board.publish_ends(&mut effects);
        let crowd = self.in_flight.fetch_sub(batch.len(), Ordering::Relaxed);
        if synced {
            self.crowd = crowd;
        }
        batch.iter_mut().for_each(|operation| operation.acknowledge());
        self.board.publish_hints(&effects);
        Ok(())
    }

    /// SQLite takes the level when the statement is prepared, and between transactions only.
    fn set_synced(&mut self, synced: bool) -> Result<(), Error> {
        if self.synced != synced {
            let level = Plant::synchronous(self.options.plant, synced);
            self.connection
                .execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            self.synced = synced;
        }
        Ok(())
    }

    /// Takes in what comes, in order, up to the first change that needs a sync if this transaction will have none.
    fn fill(&mut self, batch: &mut Vec<Box<dyn Operation>>, take_more: bool) -> Result<CommitEffects, Error> {
        let mut tx = Tx::begin(&self.connection)?;
        // Without an fsync there is nothing to be saved by waiting for others.
        let mut gathering = Gathering::new(if self.synced { self.crowd } else { 0 });
        let (mut done, mut bytes) = (0, 0);
        loop {
            for operation in &mut batch[done..] {
                operation.run(&mut tx)?;
                bytes += operation.weight();
            }
            done = batch.len();
            if !take_more || done >= MOST_CHANGES || bytes >= MOST_BYTES {
                return tx.end();
            }
            match gathering.next(&self.queue, done) {
                Some(Message::Do(operation)) if self.synced || self.deferred.allow(operation.durability()) => {
                    batch.push(operation);
                }
                Some(Message::Do(operation)) => {
                    self.next.push(operation);
                    return tx.end();
                }
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
        let committed = if Plant::commit_fails(self.options.plant, nth) {
            Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None))
        } else {
            self.connection
                .prepare_cached("COMMIT")
                .and_then(|mut commit| commit.execute([]))
        };
        match committed {
            Ok(_) => Ok(()),
            Err(error) if fault::is_refused_write(&error) => Err(self.roll_back(error)),
            Err(error) => Err(Failure::Fatal(self.distrust(&format!("a commit failed: {error}")))),
        }
    }

    /// Leaves the transaction and proves that the connection is fit for the next one.
    fn roll_back(&mut self, cause: Error) -> Failure {
        // Before another statement runs.
        let fault = Fault::of(cause, &self.connection);
        let cause = &fault.error;
        if fault::is_fsync(cause) {
            return Failure::Fatal(self.distrust(&format!("an fsync failed: {cause}")));
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
            return Failure::Fatal(self.distrust(&format!("no rollback after `{cause}`: {error}")));
        }
        if fault::is_refused_write(cause) {
            tracing::warn!(error = %fault.to_store_error(), "a write was refused");
            // What the log holds may fit into the file's free pages, and the log can then start over in the room it has.
            if let Err(distrust) = self.work_in("PASSIVE") {
                return Failure::Fatal(distrust);
            }
        }
        Failure::RolledBack(fault)
    }

    /// Says that the disk cannot be trusted. By default this ends the process.
    fn distrust(&self, reason: &str) -> Distrust {
        (self.options.on_fatal)(reason);
        Distrust
    }

    /// Works the log into the file, between commits, when it has grown enough.
    fn checkpoint(&mut self) -> Result<(), Distrust> {
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
            return self.work_in("PASSIVE");
        }
        // Only to have the log start over; a long read, such as a backup's, is not waited for to its end.
        let _ = self.connection.busy_timeout(LOG_LIMIT_PATIENCE);
        let done = self.work_in("RESTART");
        let _ = self.connection.busy_timeout(connection::BUSY);
        done
    }

    /// A failure to write can be tried again: the log still holds everything. After a failed fsync nobody knows: the next one may
    /// succeed without having written anything.
    fn work_in(&self, mode: &str) -> Result<(), Distrust> {
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        match self.connection.query_row(&sql, [], |_| Ok(())) {
            Ok(()) => Ok(()),
            Err(error) if fault::is_fsync(&error) => Err(self.distrust(&format!("a checkpoint failed: {error}"))),
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log could not be worked into the file; trying again later");
                Ok(())
            }
        }
    }
}
