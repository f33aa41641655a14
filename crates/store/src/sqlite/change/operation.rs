//! One change on its way to the writer, and its answer on the way back.

use super::Tx;
use longhaul_core::store::StoreError;
use tokio::sync::oneshot;

/// A change as the writer sees it. It can be run again after its transaction was rolled back.
pub(crate) trait Operation: Send {
    /// Runs inside the writer's transaction and keeps the answer. On an error the whole transaction is rolled back.
    fn run(&mut self, tx: &mut Tx<'_>) -> rusqlite::Result<()>;
    /// Sends the answer to the waiting caller.
    fn acknowledge(&mut self);
    /// Keeps the answer that the change was not made, in place of running it.
    fn decline(&mut self, why: StoreError);
    /// Answers the waiting caller that the change was not made.
    fn refuse(&mut self, why: StoreError);
    /// About how many bytes it writes.
    fn size_hint_bytes(&self) -> usize;
    /// Whether it may wait for others to commit with: see [`Change::can_wait`](longhaul_core::store::Change::can_wait).
    fn can_be_deferred(&self) -> bool;
    /// Whether it may use the room that is [reserved](crate::sqlite::directory::reserve) for what makes room, and for a start.
    fn may_use_reserve(&self) -> bool;
}

/// What the writer takes into account before it runs a change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    /// See [`Operation::size_hint_bytes`].
    pub(crate) size_hint_bytes: usize,
    /// See [`Operation::can_be_deferred`].
    pub(crate) can_be_deferred: bool,
    /// See [`Operation::may_use_reserve`].
    pub(crate) may_use_reserve: bool,
}

/// A change whose caller waits for the answer.
pub(crate) struct PendingOperation<W, T, E> {
    work: W,
    needs: Needs,
    answer: Option<Result<T, E>>,
    reply_to: Option<oneshot::Sender<Result<T, E>>>,
}

impl<W, T, E> PendingOperation<W, T, E> {
    /// The change, and the receiver of its answer.
    pub(crate) fn new(needs: Needs, work: W) -> (Self, oneshot::Receiver<Result<T, E>>) {
        let (reply_to, answer) = oneshot::channel();
        let pending = Self {
            work,
            needs,
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

impl<W, T, E> Operation for PendingOperation<W, T, E>
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

    fn decline(&mut self, why: StoreError) {
        self.answer = Some(Err(why.into()));
    }

    fn refuse(&mut self, why: StoreError) {
        self.send(Err(why.into()));
    }

    fn size_hint_bytes(&self) -> usize {
        self.needs.size_hint_bytes
    }

    fn can_be_deferred(&self) -> bool {
        self.needs.can_be_deferred
    }

    fn may_use_reserve(&self) -> bool {
        self.needs.may_use_reserve
    }
}
