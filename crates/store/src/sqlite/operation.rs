//! One change on its way to the writer, and its answer on the way back.

use super::transaction::Tx;
use longhaul_core::store::StoreError;
use tokio::sync::oneshot;

/// A change as the writer sees it. It can be run again after its transaction was rolled back.
pub(super) trait Operation: Send {
    /// Runs inside the writer's transaction and keeps the answer. On an error the whole transaction is rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;
    /// Sends the answer to the waiting caller.
    fn acknowledge(&mut self);
    /// Answers the waiting caller that the change was not made.
    fn refuse(&mut self, why: StoreError);
    /// About how many bytes it writes.
    fn weight(&self) -> usize;
    /// Whether it may wait for others to commit with: see [`Change::can_wait`](longhaul_core::store::Change::can_wait).
    fn can_wait(&self) -> bool;
}

/// A change whose caller waits for the answer.
pub(super) struct Pending<W, T, E> {
    work: W,
    weight: usize,
    can_wait: bool,
    answer: Option<Result<T, E>>,
    waiting: Option<oneshot::Sender<Result<T, E>>>,
}

impl<W, T, E> Pending<W, T, E> {
    /// The change, and the receiver of its answer.
    pub(super) fn new(weight: usize, can_wait: bool, work: W) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (waiting, answer) = oneshot::channel();
        let pending = Self {
            work,
            weight,
            can_wait,
            answer: None,
            waiting: Some(waiting),
        };
        (pending, answer)
    }

    fn send(&mut self, answer: Result<T, E>) {
        if let Some(waiting) = self.waiting.take() {
            // The caller may have stopped waiting; the change was made all the same.
            let _ = waiting.send(answer);
        }
    }
}

impl<W, T, E> Operation for Pending<W, T, E>
where
    W: FnMut(&mut Tx<'_>) -> rusqlite::Result<Result<T, E>> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()> {
        self.answer = Some((self.work)(tx)?);
        Ok(())
    }

    fn acknowledge(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.send(answer);
        }
    }

    fn refuse(&mut self, why: StoreError) {
        self.send(Err(why.into()));
    }

    fn weight(&self) -> usize {
        self.weight
    }

    fn can_wait(&self) -> bool {
        self.can_wait
    }
}
