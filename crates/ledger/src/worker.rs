//! The thread that changes the journal: the changes that wait at the same time share one transaction, and one fsync.

use crate::{
    file::{
        JournalFile, crash_point,
        process_lock::{ProcessLock, ProcessLocks},
        schema,
    },
    refusal::{Refusal, because},
    retention,
};
use longhaul_client::JournalError;
use longhaul_core::{Clock, UnixMillis};
use parking_lot::Mutex;
use rusqlite::{Connection, Error, TransactionBehavior};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{runtime::Handle, sync::oneshot, task::spawn_blocking};

/// The most changes in a transaction.
const BATCH: usize = 256;

/// What a read or a change works with.
pub(crate) struct Scope<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) locks: &'a ProcessLocks,
    pub(crate) now: UnixMillis,
    /// The name of this process's lock. Empty in a read before the first change: then nothing is in the hands of this process.
    pub(crate) process: &'a str,
}

/// An open journal, and the changes that wait for it.
pub(crate) struct Worker {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    file: Mutex<JournalFile>,
    lock: Mutex<LockState>,
    queue: Mutex<Queue>,
}

/// This process's lock.
enum LockState {
    /// Taken with the first change: a process that only reads needs none.
    Unregistered,
    Registered(ProcessLock),
    Closed,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Box<dyn Job>>,
    /// Whether a thread runs them.
    is_running: bool,
}

/// A change with its answer, before the answer may be given.
trait Job: Send {
    /// Runs it in a transaction, perhaps again after the transaction was rolled back.
    fn run(&mut self, scope: &Scope<'_>) -> Result<(), Error>;
    /// Answers, when the change is on disk or cannot be.
    fn answer(self: Box<Self>, failed: Option<JournalError>);
}

struct Change<F, R> {
    run: F,
    done: Option<Result<R, JournalError>>,
    reply: oneshot::Sender<Result<R, JournalError>>,
}

impl<R: Send, F: FnMut(&Scope<'_>) -> Result<R, Refusal> + Send> Job for Change<F, R> {
    fn run(&mut self, scope: &Scope<'_>) -> Result<(), Error> {
        self.done = Some(match (self.run)(scope) {
            Ok(done) => Ok(done),
            Err(Refusal::Journal(error)) => Err(error),
            Err(Refusal::Sqlite(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<JournalError>) {
        let answer = failed.map(Err).or(self.done);
        if let Some(answer) = answer {
            // The caller may have gone.
            let _ = self.reply.send(answer);
        }
    }
}

/// Why a transaction was rolled back, or is not certain.
enum RollbackReason {
    /// By a statement of one of its changes.
    ByChange(JournalError),
    /// By what they all need.
    ForAll(JournalError),
}

impl Worker {
    #[expect(
        clippy::disallowed_methods,
        reason = "SQLite blocks, and the client has no Spawner port"
    )]
    pub(crate) async fn open(path: PathBuf, clock: Arc<dyn Clock>) -> Result<Arc<Self>, JournalError> {
        let opened = {
            let path = path.clone();
            spawn_blocking(move || JournalFile::open(&path)).await
        };
        let file = opened.unwrap_or_else(|error| Err(stopped(&path, &error.to_string())))?;
        Ok(Arc::new(Self {
            path: file.path.clone(),
            clock,
            file: Mutex::new(file),
            lock: Mutex::new(LockState::Unregistered),
            queue: Mutex::default(),
        }))
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs a read, outside any transaction.
    #[expect(
        clippy::disallowed_methods,
        reason = "SQLite blocks, and the client has no Spawner port"
    )]
    pub(crate) async fn read<R: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Scope<'_>) -> Result<R, Refusal> + Send + 'static,
    ) -> Result<R, JournalError> {
        let worker = self.clone();
        let run = move || {
            let file = worker.file.lock();
            let scope = Scope {
                connection: &file.connection,
                locks: &file.locks,
                now: worker.clock.now(),
                process: &worker.registered_name(),
            };
            read(&scope).map_err(|refusal| refusal.into_error(&worker.path))
        };
        let read = spawn_blocking(run).await;
        read.unwrap_or_else(|error| Err(stopped(&self.path, &error.to_string())))
    }

    /// Runs a change in a transaction. When this returns it is on disk, or an error.
    pub(crate) async fn write<R: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnMut(&Scope<'_>) -> Result<R, Refusal> + Send + 'static,
    ) -> Result<R, JournalError> {
        self.answer(self.enqueue(change)).await
    }

    /// Waits for the answer to a change.
    pub(crate) async fn answer<R>(
        &self,
        answer: oneshot::Receiver<Result<R, JournalError>>,
    ) -> Result<R, JournalError> {
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(stopped(&self.path, "its thread has stopped")),
        }
    }

    /// Runs a change before all that are asked for later, and does not wait for it. Outside a runtime it runs with the next one.
    #[expect(
        clippy::disallowed_methods,
        reason = "SQLite blocks, and the client has no Spawner port"
    )]
    pub(crate) fn enqueue<R: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnMut(&Scope<'_>) -> Result<R, Refusal> + Send + 'static,
    ) -> oneshot::Receiver<Result<R, JournalError>> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Change {
            run: change,
            done: None,
            reply,
        });
        let runtime = Handle::try_current();
        let must_start = {
            let mut queue = self.queue.lock();
            queue.jobs.push(job);
            runtime.is_ok() && !std::mem::replace(&mut queue.is_running, true)
        };
        if let (true, Ok(runtime)) = (must_start, runtime) {
            let run = Run {
                worker: self.clone(),
                is_over: false,
            };
            drop(runtime.spawn_blocking(move || run.run()));
        }
        answer
    }

    /// The file, for tests that break it.
    #[cfg(test)]
    pub(crate) fn file(&self) -> parking_lot::MutexGuard<'_, JournalFile> {
        self.file.lock()
    }

    /// Gives up all that this process has in hand. It does not wait for changes that run.
    pub(crate) fn close(&self) {
        *self.lock.lock() = LockState::Closed;
    }

    /// The name of this process's lock.
    fn register(&self, locks: &ProcessLocks) -> Result<String, JournalError> {
        let mut state = self.lock.lock();
        if let LockState::Unregistered = *state {
            let lock = locks.register();
            let lock = lock.map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => JournalError::Full {
                    path: self.path.clone(),
                },
                _ => stopped(&self.path, &format!("cannot lock a file beside it: {error}")),
            })?;
            *state = LockState::Registered(lock);
        }
        match &*state {
            LockState::Registered(lock) => Ok(lock.name().to_owned()),
            _ => Err(stopped(&self.path, "it was closed")),
        }
    }

    /// The same, if there was a change.
    fn registered_name(&self) -> String {
        match &*self.lock.lock() {
            LockState::Registered(lock) => lock.name().to_owned(),
            LockState::Unregistered | LockState::Closed => String::new(),
        }
    }

    fn run_batch(&self, mut jobs: Vec<Box<dyn Job>>) {
        let mut file = self.file.lock();
        let now = self.clock.now();
        match self.transact(&mut file, now, &mut jobs) {
            Ok(()) => jobs.into_iter().for_each(|job| job.answer(None)),
            // One by one, so that the others do not fail with it.
            Err(RollbackReason::ByChange(_)) if jobs.len() > 1 => {
                for mut job in jobs {
                    let failed = match self.transact(&mut file, now, std::slice::from_mut(&mut job)) {
                        Ok(()) => None,
                        Err(RollbackReason::ByChange(error) | RollbackReason::ForAll(error)) => Some(error),
                    };
                    job.answer(failed);
                }
            }
            Err(RollbackReason::ByChange(error) | RollbackReason::ForAll(error)) => {
                jobs.into_iter().for_each(|job| job.answer(Some(error.clone())));
            }
        }
    }

    fn transact(
        &self,
        file: &mut JournalFile,
        now: UnixMillis,
        jobs: &mut [Box<dyn Job>],
    ) -> Result<(), RollbackReason> {
        let process = self.register(&file.locks).map_err(RollbackReason::ForAll)?;
        crash_point::reached();
        if crash_point::write_fails() {
            return Err(RollbackReason::ForAll(stopped(
                &self.path,
                "a test lets this write fail",
            )));
        }
        let for_all = |error| RollbackReason::ForAll(because(&error, &self.path));
        let transaction = file
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(for_all)?;
        // A later release may have migrated the file since it was opened.
        schema::check_in(&transaction, &self.path).map_err(RollbackReason::ForAll)?;
        retention::delete_some(&transaction, now).map_err(for_all)?;
        let scope = Scope {
            connection: &transaction,
            locks: &file.locks,
            now,
            process: &process,
        };
        for job in jobs {
            job.run(&scope)
                .map_err(|error| RollbackReason::ByChange(because(&error, &self.path)))?;
        }
        crash_point::reached();
        transaction.commit().map_err(for_all)?;
        crash_point::reached();
        file.check_in_place().map_err(RollbackReason::ForAll)
    }
}

/// Runs jobs until there are none. Should it never start, because the runtime ends, the jobs that wait are dropped, and their callers get
/// an error.
struct Run {
    worker: Arc<Worker>,
    is_over: bool,
}

impl Run {
    fn run(mut self) {
        loop {
            let jobs = {
                let mut queue = self.worker.queue.lock();
                let count = queue.jobs.len().min(BATCH);
                if count == 0 {
                    queue.is_running = false;
                    self.is_over = true;
                    return;
                }
                queue.jobs.drain(..count).collect()
            };
            // After a panic, the callers of these jobs get an error, and the others are served.
            let _ = catch_unwind(AssertUnwindSafe(|| self.worker.run_batch(jobs)));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let jobs = {
            let mut queue = self.worker.queue.lock();
            queue.is_running = false;
            std::mem::take(&mut queue.jobs)
        };
        drop(jobs);
    }
}

fn stopped(path: &Path, detail: &str) -> JournalError {
    JournalError::Failed {
        path: path.to_owned(),
        detail: detail.to_owned(),
    }
}
