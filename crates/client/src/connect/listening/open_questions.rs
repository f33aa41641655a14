//! The questions of legacy tasks that this process is asked. The handle of the task can answer them, beside the handler.

use crate::{InputRequest, InputResponse, RequestError};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use tokio::sync::{oneshot, watch};

/// A request of the server that is being served has one as soon as the handler is asked.
pub(crate) type QuestionSlot = Arc<OnceLock<OpenQuestion>>;

/// Says whether the server has taken the answer. Nothing, if it wants none any more.
pub(crate) type AnswerReceipt = oneshot::Receiver<Result<(), RequestError>>;

/// A question of a task that waits for its answer.
pub(crate) struct OpenQuestion {
    /// It has a key.
    request: InputRequest,
    given: watch::Sender<Option<InputResponse>>,
    taken: Mutex<Option<oneshot::Sender<Result<(), RequestError>>>>,
}

impl OpenQuestion {
    pub(crate) fn new(request: InputRequest) -> Self {
        Self {
            request,
            given: watch::Sender::new(None),
            taken: Mutex::default(),
        }
    }

    pub(crate) fn request(&self) -> &InputRequest {
        &self.request
    }

    /// Answers it in place of the handler. `None` if that was done before.
    pub(crate) fn give(&self, answer: InputResponse) -> Option<AnswerReceipt> {
        let (sender, taken) = oneshot::channel();
        let mut waiting = self.taken.lock();
        if waiting.is_some() || self.given.borrow().is_some() {
            return None;
        }
        *waiting = Some(sender);
        self.given.send_replace(Some(answer));
        Some(taken)
    }

    /// The answer that is given in place of that of the handler.
    pub(crate) fn given(&self) -> watch::Receiver<Option<InputResponse>> {
        self.given.subscribe()
    }

    /// What has become of the response. `false` says that its session has ended.
    pub(crate) fn settle(&self, sent: Result<bool, RequestError>) {
        let Some(waiting) = self.taken.lock().take() else {
            return;
        };
        // Who has given the answer may not wait any more.
        let _ = match sent {
            Ok(true) => waiting.send(Ok(())),
            Ok(false) => return,
            Err(error) => waiting.send(Err(error)),
        };
    }
}

/// Waits for an answer that is given in place of that of the handler.
pub(crate) async fn answer_given(mut given: Option<watch::Receiver<Option<InputResponse>>>) -> InputResponse {
    if let Some(given) = &mut given
        && let Ok(answer) = given.wait_for(Option::is_some).await
        && let Some(answer) = answer.clone()
    {
        return answer;
    }
    std::future::pending().await
}
