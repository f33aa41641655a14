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
    fn size_hint_bytes(&self) -> usize;
    /// Whether it may wait for others to commit with: see [`Change::can_wait`](longhaul_core::store::Change::can_wait).
    fn can_be_deferred(&self) -> bool;
}

/// A change whose caller waits for the answer.
pub(super) struct Pending<W, T, E> {
    work: W,
    size_hint_bytes: usize,
    can_be_deferred: bool,
    answer: Option<Result<T, E>>,
    reply_to: Option<oneshot::Sender<Result<T, E>>>,
}

impl<W, T, E> Pending<W, T, E> {
    /// The change, and the receiver of its answer.
    pub(super) fn new(
        size_hint_bytes: usize,
        can_be_deferred: bool,
        work: W,
    ) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (reply_to, answer) = oneshot::channel();
        let pending = Self {
            work,
            size_hint_bytes,
            can_be_deferred,
            answer: None,
            reply_to: Some(reply_to),
        };
        (pending, answer)
    }

    fn send(&mut self, answer: Result<T, E>) {
        if let Some(reply_to) = self.reply_to.take() {
            // The caller may have stopped waiting.
            let _ = reply_to.send(answer);
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

    fn size_hint_bytes(&self) -> usize {
        self.size_hint_bytes
    }

    fn can_be_deferred(&self) -> bool {
        self.can_be_deferred
    }
}
