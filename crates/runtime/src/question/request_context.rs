//! The context of a handler that answers a request.

use super::{AskError, Question, requestor::Requestor};
use crate::{Ports, node::ToolMessage};
use longhaul_core::{BoxFuture, Json, LogLevel, Owner, Principal, SessionKey};
use std::sync::Arc;

/// Carries questions and messages of a handler to the sender of its request.
pub trait RequestChannel: Send + Sync + 'static {
    /// Asks the sender.
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Json, AskError>>;

    /// Sends progress or a log message, if the sender wants it.
    fn send(&self, message: ToolMessage);
}

/// What a handler uses to ask and to report. Cheap to clone. The handler's future is dropped when the client no longer waits.
#[derive(Clone)]
pub struct RequestContext(Arc<Shared>);

struct Shared {
    owner: Owner,
    requestor: Arc<Requestor>,
    ports: Ports,
    channel: Arc<dyn RequestChannel>,
}

impl RequestContext {
    /// The context of one request of this owner.
    pub fn new(owner: Owner, requestor: Arc<Requestor>, ports: Ports, channel: Arc<dyn RequestChannel>) -> Self {
        Self(Arc::new(Shared {
            owner,
            requestor,
            ports,
            channel,
        }))
    }

    /// The context of a message that is not answered on its connection, such as a notification: nothing can be asked, and reports go nowhere.
    pub fn without_channel(owner: Owner, requestor: Arc<Requestor>, ports: Ports) -> Self {
        Self::new(owner, requestor, ports, Arc::new(NoChannel))
    }

    /// Who sent the request.
    pub fn principal(&self) -> &Principal {
        &self.0.owner.principal
    }

    /// The legacy session that it belongs to, if there is one.
    pub fn session(&self) -> Option<&SessionKey> {
        self.0.owner.session.as_ref()
    }

    /// What is known about the sender.
    pub fn requestor(&self) -> &Arc<Requestor> {
        &self.0.requestor
    }

    /// Time, randomness, concurrency.
    pub fn ports(&self) -> &Ports {
        &self.0.ports
    }

    /// Asks the client a question and waits for the answer.
    ///
    /// A modern client answers by sending its request again, so the handler then runs again from its start with the answers so far: ask the same
    /// questions in the same order, or name them.
    ///
    /// # Errors
    /// [`AskError::Unsupported`] if the client has not declared that it can be asked this, or there is no way to ask it.
    pub async fn ask(&self, question: impl Into<Question>) -> Result<Json, AskError> {
        let question = question.into();
        question.fits(&self.0.requestor.capabilities)?;
        self.0.channel.ask(question).await
    }

    /// Reports progress. NaN and infinities are ignored.
    pub fn progress(&self, current: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(message) = ToolMessage::progress(current, total, message.map(Arc::from)) {
            self.send(message);
        }
    }

    /// Sends a message to the client, if it wants it.
    pub fn send(&self, message: ToolMessage) {
        self.0.channel.send(message);
    }

    /// Reports that the user has finished with a page that a question sent them to; `id` is the question's `elicitationId`. Only clients of
    /// 2025-11-25 are sent this. It is not stored.
    pub fn elicitation_complete(&self, id: &Arc<str>) {
        self.send(ToolMessage::ElicitationComplete { id: Arc::clone(id) });
    }

    /// Sends a log message to the client, if it wants those.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: Json) {
        self.send(ToolMessage::Log {
            level,
            logger: logger.map(Arc::from),
            data,
            relayed: None,
        });
    }
}

struct NoChannel;

impl RequestChannel for NoChannel {
    fn ask(&self, _: Question) -> BoxFuture<'static, Result<Json, AskError>> {
        Box::pin(std::future::ready(Err(AskError::Withdrawn)))
    }

    fn send(&self, _: ToolMessage) {}
}
