//! The executor of the simulation: polls ready futures in an order drawn from the seed, and advances time when none is ready.

use longhaul_core::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// A simulated process: futures that die together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// Clients, disks and randomness, which never die.
    pub(crate) const WORLD: Self = Self(0);
}

/// A single-threaded executor with simulated time.
pub(crate) struct Executor {
    state: Mutex<ExecutorState>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

struct ExecutorState {
    jobs: BTreeMap<u64, Job>,
    spawned: u64,
    dead: BTreeSet<Process>,
    /// Milliseconds since the beginning.
    elapsed: u64,
    sleepers: BTreeMap<(u64, u64), Waker>,
    sleeps: u64,
    schedule: fastrand::Rng,
}

struct Job {
    process: Process,
    /// `None` while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
}

/// Marks a job as ready. The set is ordered, so it does not matter in which order several are woken.
struct Ready {
    job: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.ready.lock().insert(self.job);
    }
}

/// The result of a turn of the executor.
pub(crate) enum TurnOutcome {
    /// This job was polled.
    Ran(u64),
    /// Nothing was ready, and time has passed.
    Waited,
    /// Nothing is ready, and nothing will be.
    Idle,
    /// A job panicked, with this message.
    Panicked(String),
}

impl Executor {
    pub(crate) fn new(schedule: fastrand::Rng) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(ExecutorState {
                jobs: BTreeMap::new(),
                spawned: 0,
                dead: BTreeSet::new(),
                elapsed: 0,
                sleepers: BTreeMap::new(),
                sleeps: 0,
                schedule,
            }),
            ready: Arc::default(),
        })
    }

    /// Milliseconds since the beginning.
    pub(crate) fn elapsed(&self) -> u64 {
        self.state.lock().elapsed
    }

    /// Spawns a job, unless its process is dead.
    pub(crate) fn spawn(&self, process: Process, future: BoxFuture<'static, ()>) {
        let mut state = self.state.lock();
        if state.dead.contains(&process) {
            drop(state);
            return drop(future);
        }
        let job = state.spawned;
        state.spawned += 1;
        let waker = Waker::from(Arc::new(Ready {
            job,
            ready: Arc::clone(&self.ready),
        }));
        state.jobs.insert(
            job,
            Job {
                process,
                future: Some(future),
                waker,
            },
        );
        self.ready.lock().insert(job);
    }

    pub(crate) fn is_dead(&self, process: Process) -> bool {
        self.state.lock().dead.contains(&process)
    }

    /// Kills a process: drops all of its futures and refuses new ones.
    pub(crate) fn kill(&self, process: Process) {
        let mut state = self.state.lock();
        state.dead.insert(process);
        self.drop_jobs(state, |job| job.process == process);
    }

    /// Drops all futures, to break reference cycles.
    pub(crate) fn clear(&self) {
        let state = self.state.lock();
        self.drop_jobs(state, |_| true);
    }

    fn drop_jobs(&self, mut state: MutexGuard<'_, ExecutorState>, which: impl Fn(&Job) -> bool) {
        let dropped: Vec<u64> = (state.jobs.iter().filter(|(_, job)| which(job)))
            .map(|(id, _)| *id)
            .collect();
        let jobs: Vec<Job> = dropped.iter().filter_map(|id| state.jobs.remove(id)).collect();
        // Outside of the lock, because dropping a future may wake or spawn others.
        drop(state);
        for job in jobs {
            drop(job);
        }
        let mut ready = self.ready.lock();
        for id in dropped {
            ready.remove(&id);
        }
    }

    /// Polls one ready job, or advances time to the next timer.
    pub(crate) fn turn(&self) -> TurnOutcome {
        let Some(id) = self.draw() else {
            return self.advance_time();
        };
        let (mut future, waker) = {
            let mut state = self.state.lock();
            let Some(job) = state.jobs.get_mut(&id) else {
                return TurnOutcome::Ran(id);
            };
            match job.future.take() {
                Some(future) => (future, job.waker.clone()),
                None => return TurnOutcome::Ran(id),
            }
        };
        let mut cx = Context::from_waker(&waker);
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
            Ok(Poll::Pending) => {
                let mut state = self.state.lock();
                match state.jobs.get_mut(&id) {
                    Some(job) => job.future = Some(future),
                    None => {
                        drop(state);
                        drop(future);
                    }
                }
            }
            Ok(Poll::Ready(())) => {
                self.state.lock().jobs.remove(&id);
                drop(future);
            }
            Err(panic) => {
                self.state.lock().jobs.remove(&id);
                return TurnOutcome::Panicked(panic_message(&*panic));
            }
        }
        TurnOutcome::Ran(id)
    }

    fn draw(&self) -> Option<u64> {
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            return None;
        }
        let nth = self.state.lock().schedule.usize(..ready.len());
        let id = ready.iter().nth(nth).copied()?;
        ready.remove(&id);
        Some(id)
    }

    fn advance_time(&self) -> TurnOutcome {
        let mut state = self.state.lock();
        let Some((&(until, _), _)) = state.sleepers.first_key_value() else {
            return TurnOutcome::Idle;
        };
        state.elapsed = state.elapsed.max(until);
        let mut due = Vec::new();
        while let Some(entry) = state.sleepers.first_entry() {
            if entry.key().0 > until {
                break;
            }
            due.push(entry.remove());
        }
        drop(state);
        due.into_iter().for_each(Waker::wake);
        TurnOutcome::Waited
    }

    /// Completes `duration` after this call, like a real sleep, and not after the first poll.
    pub(crate) fn sleep(self: &Arc<Self>, duration: Duration) -> Sleep {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Sleep {
            until: self.elapsed().saturating_add(millis),
            executor: Arc::clone(self),
            key: None,
        }
    }
}

/// A sleep; dropping it removes its timer.
pub(crate) struct Sleep {
    executor: Arc<Executor>,
    until: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.executor.state.lock();
        if state.elapsed >= self.until {
            return Poll::Ready(());
        }
        let key = self.key.unwrap_or_else(|| {
            state.sleeps += 1;
            (self.until, state.sleeps)
        });
        state.sleepers.insert(key, cx.waker().clone());
        drop(state);
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.executor.state.lock().sleepers.remove(&key);
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
