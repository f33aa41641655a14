//! What a handler may ask while it answers a request.

use crate::{
    Ports,
    progress_stream::ToolMessage,
    question::{AskError, Question},
    requestor::Requestor,
};
use longhaul_core::{BoxFuture, Json, LogLevel, Principal};
use std::sync::Arc;

/// Carries a request's questions to its sender and what is said meanwhile; one for each way that can be done.
pub trait Requesting: Send + Sync + 'static {
    /// Asks the sender.
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>>;

    /// Passes on progress or a log message, if the sender wants it.
    fn say(&self, said: ToolMessage);
}

/// A handler's door to the request it answers. Cheap to clone. The handler's future is dropped when the client no longer waits.
#[derive(Clone)]
pub struct RequestContext(Arc<Shared>);

struct Shared {
    principal: Principal,
    requestor: Arc<Requestor>,
    ports: Ports,
    requesting: Arc<dyn Requesting>,
}

impl RequestContext {
    /// The context of one request.
    pub fn new(principal: Principal, requestor: Arc<Requestor>, ports: Ports, requesting: Arc<dyn Requesting>) -> Self {
        Self(Arc::new(Shared {
            principal,
            requestor,
            ports,
            requesting,
        }))
    }

    /// Who asks.
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// What the sender said about itself.
    pub fn requestor(&self) -> &Arc<Requestor> {
        &self.0.requestor
    }

    /// Time, randomness, concurrency.
    pub fn ports(&self) -> &Ports {
        &self.0.ports
    }

    /// Asks the client a question and waits for the answer.
    ///
    /// A modern client answers by sending its request again, so the handler is then run again from its start and given the answers
    /// that have come: ask the same questions in the same order, or name them.
    ///
    /// # Errors
    /// [`AskError::Unsupported`] if the client has not declared that it can be asked this.
    pub async fn ask(&self, question: impl Into<Question>) -> Result<Json, AskError> {
        let question = question.into();
        question.fits(&self.0.requestor.capabilities)?;
        self.0.requesting.ask(question).await
    }

    /// How far the handler has come. NaN and infinities are no figures, and are not told.
    pub fn progress(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(said) = ToolMessage::progress(current, total, message.map(Arc::from)) {
            self.0.requesting.say(said);
        }
    }

    /// Says that what there was to do on a page is done; `id` is the `elicitationId` of the question that sent a person there. Only clients of
    /// 2025-11-25 are told, and nothing of it is kept.
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        self.0
            .requesting
            .say(ToolMessage::ElicitationComplete { id: Arc::clone(id) });
    }

    /// A log message for the client, if it wants those.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        self.0.requesting.say(ToolMessage::Log {
            level,
            logger: logger.map(Arc::from),
            data,
        });
    }
}
