//! Changes of tasks that the server pushes, for all waits of a connection.
//!
//! A modern server pushes the changes of the tasks that a subscription names, and the names of a subscription cannot be changed. So tasks share
//! streams: those that are first waited for at about the same time get one together, and several small ones are replaced by one.
//! A legacy server pushes what it likes, on any stream.

use crate::TaskSnapshot;
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
};

/// The most tasks of a subscription.
const MAX_TASKS: usize = 1_000;
/// With so many streams of fewer than half as many tasks, they are replaced by one.
const SMALL_STREAMS: usize = 4;
/// How often a stream is opened that ends early without a push.
const MAX_ENDED: u32 = 3;
/// A stream that ends after this time has not ended early.
const NOT_EARLY: Duration = Duration::from_secs(30);

/// The tasks that are waited for on a connection, and the streams on which their changes come.
pub(crate) struct TaskPushes {
    shared: Arc<Mutex<Shared>>,
    /// There are tasks without a stream.
    wake: Arc<Notify>,
    opener: Mutex<Option<AbortHandle>>,
    /// Whether a stream was open before.
    was_open: AtomicBool,
}

/// A stream of pushes while it is read.
pub(crate) struct PushStream {
    number: u64,
    shared: Arc<Mutex<Shared>>,
    wake: Arc<Notify>,
}

impl PushStream {
    /// The server has said of which tasks it will push every change.
    pub(crate) fn acknowledged<'a>(&self, accepted: impl Iterator<Item = &'a str>) {
        self.shared.lock().acknowledged(self.number, accepted);
    }

    /// A task has changed.
    pub(crate) fn deliver(&self, task: TaskSnapshot) {
        self.shared.lock().deliver(task);
    }

    /// It has come to its end. Its tasks need another one.
    pub(crate) fn ended(self, now: Duration) {
        self.shared.lock().ended(self.number, now);
        self.wake.notify_one();
    }
}

/// The state of [`TaskPushes`].
#[derive(Default)]
struct Shared {
    tasks: HashMap<String, WatchedTask>,
    /// Those that no stream covers.
    uncovered: HashSet<String>,
    streams: HashMap<u64, Stream>,
    opened: u64,
    /// Streams in a row that have ended early and without a push.
    ended: u32,
    /// Streams in a row that could not be opened.
    failures: u32,
    /// The server has refused a subscription.
    is_refused: bool,
}

struct WatchedTask {
    waits: usize,
    pushed: watch::Sender<PushState>,
    stream: Option<u64>,
}

struct Stream {
    /// The tasks that are still waited for.
    tasks: usize,
    opened_at: Duration,
    /// The streams that this one replaces once it is acknowledged.
    replaces: Vec<u64>,
    reader: Option<AbortHandle>,
}

/// What was pushed of a task.
#[derive(Clone, Default)]
struct PushState {
    /// The server has said that it will push every change, and the stream is open.
    is_complete: bool,
    last: Option<Arc<TaskSnapshot>>,
}

/// The changes of one task that are pushed while this is kept. A push is a hint: the task is also polled.
pub(crate) struct Push {
    task: String,
    shared: Arc<Mutex<Shared>>,
    receiver: watch::Receiver<PushState>,
    seen: PushState,
}

/// What has happened to a [`Push`].
pub(crate) enum Change {
    Task(Arc<TaskSnapshot>),
    /// From now on every change is pushed. What has changed since the task was last read, and before, was not.
    Complete,
    /// Changes are no longer pushed for certain.
    Incomplete,
}

impl Default for TaskPushes {
    fn default() -> Self {
        Self {
            shared: Arc::default(),
            wake: Arc::new(Notify::new()),
            opener: Mutex::new(None),
            was_open: AtomicBool::new(false),
        }
    }
}

impl TaskPushes {
    /// A task of this id has changed, as some stream says.
    pub(crate) fn deliver(&self, task: TaskSnapshot) {
        self.shared.lock().deliver(task);
    }

    /// Opens streams for tasks that have none, by what `start` begins unless it goes on. That is woken whenever there are some.
    pub(crate) fn open_streams(&self, start: impl FnOnce(Arc<Notify>) -> AbortHandle) {
        let mut opener = self.opener.lock();
        if opener.as_ref().is_none_or(AbortHandle::is_finished) {
            *opener = Some(start(Arc::clone(&self.wake)));
        }
        drop(opener);
        self.wake.notify_one();
    }

    /// The tasks of the next stream, and the streams that it replaces. `None` if there is nothing to be done.
    pub(crate) fn next_batch(&self) -> Option<(Vec<String>, Vec<u64>)> {
        self.shared.lock().next_batch()
    }

    /// A stream is open for these tasks, and is read by what `start` begins.
    pub(crate) fn opened(
        &self,
        tasks: &[String],
        replaces: Vec<u64>,
        now: Duration,
        start: impl FnOnce(PushStream) -> AbortHandle,
    ) {
        // Held until the stream has its reader, which may end at once.
        let mut shared = self.shared.lock();
        let number = shared.begin_stream(tasks, replaces, now);
        let reader = start(PushStream {
            number,
            shared: Arc::clone(&self.shared),
            wake: Arc::clone(&self.wake),
        });
        shared.set_reader(number, reader);
    }

    /// From now on a stream was open.
    pub(crate) fn note_open(&self) {
        self.was_open.store(true, Ordering::Relaxed);
    }

    /// Whether a stream was open before.
    pub(crate) fn was_open(&self) -> bool {
        self.was_open.load(Ordering::Relaxed)
    }

    /// A stream for these tasks could not be opened. How often that was so in a row; `None` if it is not to be tried again.
    pub(crate) fn not_opened(&self, tasks: Vec<String>, may_try_again: bool) -> Option<u32> {
        let mut shared = self.shared.lock();
        shared.put_back(tasks);
        if !may_try_again {
            shared.is_refused = true;
            return None;
        }
        shared.failures = shared.failures.saturating_add(1);
        Some(shared.failures)
    }

    /// How many tasks are waited for.
    pub(crate) fn watched(&self) -> usize {
        self.shared.lock().tasks.len()
    }

    /// Closes the streams, because the server has changed its era or lost the session. They are opened again when it is known.
    pub(crate) fn restart(&self) {
        let mut shared = self.shared.lock();
        let streams: Vec<u64> = shared.streams.keys().copied().collect();
        for stream in streams {
            shared.close(stream);
        }
        (shared.ended, shared.failures) = (0, 0);
        shared.is_refused = false;
        drop(shared);
        self.wake.notify_one();
    }

    /// Closes the streams for good.
    pub(crate) fn stop(&self) {
        if let Some(opener) = self.opener.lock().take() {
            opener.abort();
        }
        for (_, stream) in self.shared.lock().streams.drain() {
            stream.abort();
        }
    }
}

impl Drop for TaskPushes {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// A task of this id has changed.
    fn deliver(&mut self, task: TaskSnapshot) {
        self.ended = 0;
        if let Some(watched) = self.tasks.get(&task.id) {
            watched.pushed.send_modify(|pushed| pushed.last = Some(Arc::new(task)));
        }
    }

    /// The tasks have no stream yet.
    fn put_back(&mut self, tasks: Vec<String>) {
        let is_uncovered = |task: &String| self.tasks.get(task).is_some_and(|watched| watched.stream.is_none());
        let tasks: Vec<String> = tasks.into_iter().filter(is_uncovered).collect();
        self.uncovered.extend(tasks);
    }

    /// The reader of the stream has begun.
    fn set_reader(&mut self, number: u64, reader: AbortHandle) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.reader = Some(reader);
        }
    }

    fn watch(&mut self, task: &str) -> watch::Receiver<PushState> {
        if let Some(watched) = self.tasks.get_mut(task) {
            watched.waits += 1;
            return watched.pushed.subscribe();
        }
        let (pushed, receiver) = watch::channel(PushState::default());
        let watched = WatchedTask {
            waits: 1,
            pushed,
            stream: None,
        };
        self.tasks.insert(task.to_owned(), watched);
        self.uncovered.insert(task.to_owned());
        receiver
    }

    fn unwatch(&mut self, task: &str) {
        let Some(watched) = self.tasks.get_mut(task) else {
            return;
        };
        watched.waits -= 1;
        if watched.waits > 0 {
            return;
        }
        let stream = watched.stream;
        self.tasks.remove(task);
        match stream {
            Some(number) => self.leave(number),
            None => drop(self.uncovered.remove(task)),
        }
    }

    /// A task of the stream is no longer waited for.
    fn leave(&mut self, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        stream.tasks = stream.tasks.saturating_sub(1);
        if stream.tasks == 0
            && let Some(stream) = self.streams.remove(&number)
        {
            stream.abort();
        }
    }

    /// The tasks of the next stream, and the streams that it replaces. `None` if there is nothing to be done.
    fn next_batch(&mut self) -> Option<(Vec<String>, Vec<u64>)> {
        if self.is_refused || self.ended >= MAX_ENDED {
            return None;
        }
        let mut batch: Vec<String> = self.uncovered.iter().take(MAX_TASKS).cloned().collect();
        if batch.is_empty() {
            return None;
        }
        for task in &batch {
            self.uncovered.remove(task);
        }
        let small = |(number, stream): (&u64, &Stream)| (stream.tasks < MAX_TASKS / 2).then_some(*number);
        let mut replaced: Vec<u64> = self.streams.iter().filter_map(small).collect();
        let tasks: usize = replaced.iter().map(|number| self.streams[number].tasks).sum();
        if replaced.len() < SMALL_STREAMS || batch.len() + tasks > MAX_TASKS {
            replaced.clear();
        }
        let is_replaced = |watched: &WatchedTask| watched.stream.is_some_and(|stream| replaced.contains(&stream));
        let moved = self.tasks.iter().filter(|(_, watched)| is_replaced(watched));
        batch.extend(moved.map(|(task, _)| task.clone()));
        Some((batch, replaced))
    }

    /// The streams that it replaces stay open until it is acknowledged.
    fn begin_stream(&mut self, tasks: &[String], replaces: Vec<u64>, now: Duration) -> u64 {
        self.opened += 1;
        self.failures = 0;
        let mut stream = Stream {
            tasks: 0,
            opened_at: now,
            replaces,
            reader: None,
        };
        for task in tasks {
            if let Some(watched) = self.tasks.get_mut(task) {
                watched.stream = Some(self.opened);
                stream.tasks += 1;
            }
        }
        self.streams.insert(self.opened, stream);
        self.opened
    }

    fn acknowledged<'a>(&mut self, number: u64, accepted: impl Iterator<Item = &'a str>) {
        let accepted: HashSet<&str> = accepted.collect();
        for (task, watched) in self.tasks.iter().filter(|(_, watched)| watched.stream == Some(number)) {
            let is_complete = accepted.contains(task.as_str());
            watched
                .pushed
                .send_if_modified(|pushed| std::mem::replace(&mut pushed.is_complete, is_complete) != is_complete);
        }
        let replaced = self
            .streams
            .get_mut(&number)
            .map(|stream| std::mem::take(&mut stream.replaces));
        for old in replaced.into_iter().flatten() {
            if let Some(old) = self.streams.remove(&old) {
                old.abort();
            }
        }
    }

    /// The stream has come to its end.
    fn ended(&mut self, number: u64, now: Duration) {
        let early = self
            .streams
            .get(&number)
            .is_some_and(|stream| now.saturating_sub(stream.opened_at) < NOT_EARLY);
        self.ended = if early { self.ended + 1 } else { 0 };
        self.close(number);
    }

    fn close(&mut self, number: u64) {
        let Some(stream) = self.streams.remove(&number) else {
            return;
        };
        stream.abort();
        for (task, watched) in &mut self.tasks {
            if watched.stream == Some(number) {
                watched.stream = None;
                watched
                    .pushed
                    .send_if_modified(|pushed| std::mem::take(&mut pushed.is_complete));
                self.uncovered.insert(task.clone());
            }
        }
        for old in stream.replaces {
            if let Some(old) = self.streams.remove(&old) {
                old.abort();
            }
        }
    }
}

impl Stream {
    fn abort(&self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

impl Push {
    pub(crate) fn of(pushes: &TaskPushes, task: &str) -> Self {
        let receiver = pushes.shared.lock().watch(task);
        let seen = receiver.borrow().clone();
        Self {
            task: task.to_owned(),
            shared: Arc::clone(&pushes.shared),
            receiver,
            seen,
        }
    }

    /// Whether every change is pushed, so that polls may be rare.
    pub(crate) fn is_complete(&self) -> bool {
        self.seen.is_complete
    }

    /// The next change. Never completes if nothing is pushed.
    pub(crate) async fn next(&mut self) -> Change {
        loop {
            if self.receiver.changed().await.is_err() {
                return std::future::pending().await;
            }
            let now = self.receiver.borrow_and_update().clone();
            let before = std::mem::replace(&mut self.seen, now);
            if !before.is_complete && self.seen.is_complete {
                return Change::Complete;
            }
            if let Some(last) = &self.seen.last
                && before.last.is_none_or(|before| !Arc::ptr_eq(&before, last))
            {
                return Change::Task(Arc::clone(last));
            }
            if before.is_complete && !self.seen.is_complete {
                return Change::Incomplete;
            }
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.shared.lock().unwatch(&self.task);
    }
}
