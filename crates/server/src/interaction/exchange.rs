//! Answering a request whose client waits: as one message if nothing comes before the response, else as a stream that shows signs
//! of life.

use crate::{
    admission::{
        limits::{Busy, ByteBudget, Exhausted, Room},
        request::AdmittedRequest,
    },
    interaction::Interaction,
    response::{
        Answer, KeptId, shutting_down,
        stream::{self, Gone, KEEP_ALIVE, Sink, Text},
    },
    session::in_flight::Entry,
};
use longhaul_core::{BoxFuture, SessionKey};
use longhaul_wire::RpcError;
use std::sync::Arc;

/// What comes next in the answer to a request.
pub(crate) enum Turn {
    /// A notification. A client that takes no stream does not hear it.
    Notice(String),
    /// A request of ours to a legacy client. One that takes no stream gets it on a push stream of its session.
    Question(String),
    /// Nothing is said for a while.
    Quiet,
    /// The rest of the answer comes from here.
    Next(Box<dyn Talk>),
    /// The response, which is the last.
    Response(Response),
}

/// A JSON-RPC response, and what HTTP says around one that is not streamed.
pub(crate) struct Response {
    pub(crate) status: u16,
    retry_after: Option<u64>,
    text: Text,
}

impl Response {
    /// A response that says what happened, whatever that was.
    pub(crate) fn of(text: String) -> Self {
        Self {
            status: 200,
            retry_after: None,
            text: text.into(),
        }
    }

    pub(crate) fn error(id: &KeptId, error: &RpcError) -> Self {
        let mut text = String::new();
        error.write_response(&mut text, Some(id.get()));
        Self {
            status: error.status(),
            retry_after: error.retry_after(),
            text: text.into(),
        }
    }

    /// As it is, in room that was taken for it.
    pub(crate) fn in_room(mut self, room: Option<Room>) -> Self {
        self.text.room = room;
        self
    }

    /// With room for it, if it is large; without room an error takes its place.
    fn with_room(mut self, memory: &ByteBudget, id: &KeptId) -> Self {
        if self.text.room.is_none() {
            match memory.answer(self.text.text.len()) {
                Ok(room) => self.text.room = room,
                Err(Exhausted) => return Self::error(id, &Busy::Answers.into()),
            }
        }
        self
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        let Response {
            status,
            retry_after,
            text,
        } = response;
        Self::Message {
            status,
            retry_after,
            text,
        }
    }
}

/// Something that answers a request. Dropping it before [`answered`](Self::answered) says that the client has left.
pub(crate) trait Talk: Send + 'static {
    /// What comes next. Dropping the future loses nothing: the next one goes on where it stood.
    fn next(&mut self) -> BoxFuture<'_, Turn>;

    /// The response is the transport's now.
    fn answered(&mut self) {}

    /// The client does not want the answer any more: also a legacy one, of which a lost connection says nothing (T-08).
    fn cancel(&mut self) {}
}

/// Answers a request with what `talk` says.
pub(crate) fn answer(interaction: &Arc<Interaction>, request: &AdmittedRequest<'_>, talk: Box<dyn Talk>) -> Answer {
    let conversation = Conversation {
        interaction: Arc::clone(interaction),
        talk,
        id: KeptId::of(request.id),
        session: request.caller.session_key().cloned(),
        cancelled: interaction
            .sessions
            .in_flight
            .enter(request.caller.session_key(), request.id),
        unsent: Vec::new(),
    };
    Answer::Later(Box::pin(conversation.respond(request.caller.takes_stream)))
}

/// All that is needed to answer the request, kept apart from its bytes, which may be large.
struct Conversation {
    interaction: Arc<Interaction>,
    talk: Box<dyn Talk>,
    id: KeptId,
    session: Option<SessionKey>,
    cancelled: Entry,
    /// Questions that no stream has taken yet.
    unsent: Vec<String>,
}

/// What a wait for the next turn comes to.
enum Step {
    Message(String),
    Quiet,
    Response(Response),
    Silence,
    Cancelled,
    /// The server ends before there is an answer: what a client takes along when it leaves ends, too.
    Closed(Response),
}

impl Conversation {
    /// The response by itself, or from the first thing on that comes before it a stream, if the client takes one.
    async fn respond(mut self, takes_stream: bool) -> Answer {
        let legacy = self.session.is_some();
        let first = loop {
            match self.step(takes_stream).await {
                Step::Response(response) => {
                    self.talk.answered();
                    return response.into();
                }
                Step::Cancelled => return Answer::Accepted,
                Step::Closed(response) => return response.into(),
                step @ (Step::Message(_) | Step::Silence) if takes_stream => break step,
                // Only a legacy stream can be left and resumed.
                Step::Quiet if takes_stream && legacy => break Step::Quiet,
                Step::Silence => self.send_unsent().await,
                Step::Message(_) | Step::Quiet => {}
            }
        };
        let interaction = Arc::clone(&self.interaction);
        Answer::Stream(stream::events(interaction.engine.ports(), |sink| async move {
            // Whoever has gone is told no more.
            let _ = self.stream(sink, first).await;
        }))
    }

    /// Sends what comes until the response, which is the last.
    async fn stream(mut self, sink: Sink, first: Step) -> Result<(), Gone> {
        let mut step = first;
        loop {
            match step {
                Step::Message(text) => sink.message(text).await?,
                Step::Quiet => sink.quiet().await?,
                Step::Silence => sink.keep_alive(),
                Step::Cancelled => return Ok(()),
                Step::Closed(Response { text, .. }) => return sink.message(text).await,
                Step::Response(Response { text, .. }) => {
                    sink.message(text).await?;
                    self.talk.answered();
                    return Ok(());
                }
            }
            step = self.step(true).await;
        }
    }

    async fn step(&mut self, takes_stream: bool) -> Step {
        let silence = self.interaction.engine.ports().clock.sleep(KEEP_ALIVE);
        tokio::pin!(silence);
        loop {
            let turn = tokio::select! {
                // What there is to say goes before what speaks against it.
                biased;
                turn = self.talk.next() => turn,
                () = self.cancelled.cancelled() => {
                    self.talk.cancel();
                    return Step::Cancelled;
                }
                () = self.interaction.shutdown.closed() => return Step::Closed(Response::error(&self.id, &shutting_down())),
                () = &mut silence => return Step::Silence,
            };
            match turn {
                Turn::Notice(text) => return Step::Message(text),
                Turn::Question(text) if takes_stream => return Step::Message(text),
                Turn::Question(text) => {
                    self.unsent.push(text);
                    self.send_unsent().await;
                }
                Turn::Quiet => return Step::Quiet,
                Turn::Next(talk) => self.talk = talk,
                Turn::Response(response) => {
                    return Step::Response(response.with_room(&self.interaction.admission.memory, &self.id));
                }
            }
        }
    }

    /// Sends questions over the session's push streams, as far as one takes them.
    async fn send_unsent(&mut self) {
        let Some(session) = &self.session else { return };
        while let Some(question) = self.unsent.first() {
            if !self.interaction.push.streams.send(session, question.clone()).await {
                return;
            }
            self.unsent.remove(0);
        }
    }
}
