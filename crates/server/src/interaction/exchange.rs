//! Answering a request whose client waits: as one message if the response comes before any other message or a keep-alive, otherwise as
//! a stream. One that can be resumed begins after a second. A client that takes no stream always gets one message.

use crate::{
    admission::{
        authenticator::Denied,
        identity::Identity,
        limits::{BudgetExhausted, Busy, ByteBudget, Reservation},
        request::AdmittedRequest,
    },
    interaction::Interaction,
    response::{
        Answer, OwnedRequestId, after_begin, credentials_ended,
        resumption::Resumption,
        revoked_after_begin, shutting_down,
        stream::{self, KEEP_ALIVE, ReaderGone, Sink, Text},
    },
    session::in_flight::InFlightRequest,
};
use longhaul_core::{BoxFuture, SessionKey};
use longhaul_wire::RpcError;
use std::{sync::Arc, time::Duration};

/// How long a client that can resume its stream is without one. It has no event id until then, so it could not come back for its answer.
const PRIMED_AFTER: Duration = Duration::from_secs(1);

/// What a responder gives next.
pub(crate) enum ResponderEvent {
    /// A notification. Dropped if the client takes no stream.
    Notification(String),
    /// A request of ours to a legacy client. One that takes no stream gets it on a push stream of its session.
    Request(String),
    /// Nothing will come for a while: a stream that can be resumed may be closed.
    CloseStream,
    /// The sender's credentials were revoked, and the work, which may have begun, goes on: an answer must not say that nothing has happened.
    SenderRevoked,
    /// The rest of the answer comes from this one.
    Continue(Box<dyn Responder>),
    /// The response, which is the last.
    Response(FinalResponse),
}

/// The JSON-RPC response that ends an exchange, with its HTTP status and headers if it is not streamed.
pub(crate) struct FinalResponse {
    pub(crate) status: u16,
    retry_after: Option<u64>,
    /// HTTP's `WWW-Authenticate`.
    challenge: Option<Box<str>>,
    text: Text,
}

impl FinalResponse {
    /// A response with HTTP status 200.
    pub(crate) fn of(text: String) -> Self {
        Self {
            status: 200,
            retry_after: None,
            challenge: None,
            text: text.into(),
        }
    }

    pub(crate) fn error(id: &OwnedRequestId, error: &RpcError) -> Self {
        let mut text = String::new();
        error.write_response(&mut text, Some(id.get()));
        Self {
            status: error.status(),
            retry_after: error.retry_after(),
            challenge: None,
            text: text.into(),
        }
    }

    /// The response to a request of which nothing was done, because its sender's credentials have ended meanwhile: it may be sent again with others.
    pub(crate) fn credentials_ended(interaction: &Interaction, id: &OwnedRequestId) -> Self {
        let challenge = interaction.admission.access.challenge(&Denied::ended());
        Self {
            challenge: Some(challenge.into()),
            ..Self::error(id, &credentials_ended())
        }
    }

    /// With memory that was reserved for it.
    pub(crate) fn with_reservation(mut self, reservation: Option<Reservation>) -> Self {
        self.text.reservation = reservation;
        self
    }

    /// Reserves memory for a large response. If there is none, returns an error response instead.
    fn with_memory_reserved(mut self, memory: &ByteBudget, id: &OwnedRequestId) -> Self {
        if self.text.reservation.is_none() {
            match memory.reserve_for_answer(self.text.text.len()) {
                Ok(reservation) => self.text.reservation = reservation,
                Err(BudgetExhausted) => return Self::error(id, &memory.refuse(Busy::Answers)),
            }
        }
        self
    }
}

impl From<FinalResponse> for Answer {
    fn from(response: FinalResponse) -> Self {
        let FinalResponse {
            status,
            retry_after,
            challenge,
            text,
        } = response;
        if let Some(challenge) = challenge {
            let text = text.text;
            return Self::Challenge {
                status,
                challenge,
                text,
            };
        }
        Self::Message {
            status,
            retry_after,
            text,
        }
    }
}

/// Answers a request. It is dropped before [`answered`](Self::answered) when the client disconnects or cancels, and on shutdown.
pub(crate) trait Responder: Send + 'static {
    /// What comes next. Dropping the future loses nothing: the next call continues from there.
    fn next(&mut self) -> BoxFuture<'_, ResponderEvent>;

    /// The transport has the response.
    fn answered(&mut self) {}

    /// What a process does for the client that does not have the stream on which it is answered.
    fn resumption(&self) -> Option<Resumption> {
        None
    }

    /// The server closes, and the client was told so: it does not come back.
    fn closed(&mut self) {}

    /// Whether the work goes on if the sender's credentials end before the response: it was admitted. Then it looks by itself whether they were revoked.
    fn goes_on(&self) -> bool {
        false
    }

    /// The client has cancelled the request. A lost connection of a client that can return is no cancellation.
    fn cancel(&mut self) {}

    /// The client has left, and may still cancel `request` if the work goes on.
    fn left(&mut self, _request: Arc<InFlightRequest>) {}
}

/// Answers a request with what `responder` gives.
pub(crate) fn answer_with(
    interaction: &Arc<Interaction>,
    request: &AdmittedRequest<'_>,
    responder: Box<dyn Responder>,
) -> Answer {
    let exchange = Exchange {
        interaction: Arc::clone(interaction),
        responder: Some(responder),
        sender: Arc::clone(request.caller.identity()),
        id: OwnedRequestId::of(request.id),
        session: request.caller.session_key().cloned(),
        in_flight: Arc::new(
            interaction
                .sessions
                .in_flight
                .enter(request.caller.session_key(), request.id),
        ),
        unsent: Vec::new(),
    };
    Answer::Later(Box::pin(exchange.respond(request.caller.takes_stream)))
}

/// What is needed to answer a request. Does not hold the request's bytes, which may be large.
struct Exchange {
    interaction: Arc<Interaction>,
    /// `None` when it has answered, or was cancelled.
    responder: Option<Box<dyn Responder>>,
    sender: Arc<Identity>,
    id: OwnedRequestId,
    session: Option<SessionKey>,
    in_flight: Arc<InFlightRequest>,
    /// Requests that were not sent on any stream yet.
    unsent: Vec<String>,
}

/// What ended a wait for the next event.
enum WaitOutcome {
    Message(String),
    CloseStream,
    Response(FinalResponse),
    KeepAliveDue,
    Cancelled,
    /// The server closes before there is an answer, or the sender's credentials were revoked.
    Closed(FinalResponse),
}

impl Exchange {
    /// The response by itself, or a stream from the first message or keep-alive on, if the client takes one.
    async fn respond(mut self, takes_stream: bool) -> Answer {
        let legacy = self.session.is_some();
        let silence = match legacy && takes_stream {
            true => PRIMED_AFTER,
            false => KEEP_ALIVE,
        };
        let first = loop {
            match self.wait(takes_stream, true, silence).await {
                WaitOutcome::Response(response) => {
                    self.answered();
                    return response.into();
                }
                WaitOutcome::Cancelled => return Answer::Accepted,
                WaitOutcome::Closed(response) => return response.into(),
                outcome @ (WaitOutcome::Message(_) | WaitOutcome::KeepAliveDue) if takes_stream => break outcome,
                // Only legacy streams can be resumed.
                WaitOutcome::CloseStream if takes_stream && legacy => break WaitOutcome::CloseStream,
                WaitOutcome::KeepAliveDue => self.send_unsent().await,
                WaitOutcome::Message(_) | WaitOutcome::CloseStream => {}
            }
        };
        let interaction = Arc::clone(&self.interaction);
        let resumption = legacy.then(|| {
            let of_work = self.responder.as_ref().and_then(|responder| responder.resumption());
            of_work.unwrap_or_else(|| Resumption::fail([self.id.get()]))
        });
        let events = stream::events(interaction.engine.ports(), |sink| async move {
            // Nothing more is sent to a client that has left.
            let _ = self.stream(sink, first).await;
        });
        Answer::Stream(events.resumed_by(resumption))
    }

    /// Sends what comes until the response, which is the last.
    async fn stream(mut self, sink: Sink, first: WaitOutcome) -> Result<(), ReaderGone> {
        // A stream that can be resumed goes on for whoever may resume it; the transport disconnects its reader.
        let ends_if_revoked = self.session.is_none();
        let mut outcome = first;
        loop {
            match outcome {
                WaitOutcome::Message(text) => sink.message(text).await?,
                WaitOutcome::CloseStream => sink.close_stream().await?,
                WaitOutcome::KeepAliveDue => sink.keep_alive(),
                WaitOutcome::Cancelled => return Ok(()),
                // Whoever reads the stream no longer may come back to the next process.
                WaitOutcome::Closed(_) if !ends_if_revoked && !sink.has_reader() => return Ok(()),
                WaitOutcome::Closed(FinalResponse { text, .. }) => {
                    sink.message(text).await?;
                    if let Some(responder) = self.responder.as_mut().filter(|_| !ends_if_revoked) {
                        responder.closed();
                    }
                    return Ok(());
                }
                WaitOutcome::Response(FinalResponse { text, .. }) => {
                    sink.message(text).await?;
                    self.answered();
                    return Ok(());
                }
            }
            outcome = self.wait(true, ends_if_revoked, KEEP_ALIVE).await;
        }
    }

    /// Waits for the next event, or until nothing has come for so long.
    async fn wait(&mut self, takes_stream: bool, ends_if_revoked: bool, silence: Duration) -> WaitOutcome {
        let keep_alive = self.interaction.engine.ports().clock.sleep(silence);
        tokio::pin!(keep_alive);
        loop {
            // It knows by itself when they are revoked, and whether it has begun.
            let goes_on = self.responder.as_ref().is_some_and(|responder| responder.goes_on());
            let next = async {
                match &mut self.responder {
                    Some(responder) => responder.next().await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                // Messages go out before a cancellation or a shutdown takes effect.
                biased;
                event = next => event,
                () = self.in_flight.cancelled() => {
                    if let Some(mut responder) = self.responder.take() {
                        responder.cancel();
                    }
                    return WaitOutcome::Cancelled;
                }
                () = self.interaction.shutdown.closed() => {
                    let error = match goes_on {
                        true => after_begin(shutting_down()),
                        false => shutting_down(),
                    };
                    return WaitOutcome::Closed(FinalResponse::error(&self.id, &error));
                }
                () = self.sender.revoked(), if ends_if_revoked && !goes_on && self.sender.can_be_revoked() => {
                    return WaitOutcome::Closed(FinalResponse::credentials_ended(&self.interaction, &self.id));
                }
                () = &mut keep_alive => return WaitOutcome::KeepAliveDue,
            };
            match event {
                ResponderEvent::Notification(text) => return WaitOutcome::Message(text),
                ResponderEvent::Request(text) if takes_stream => return WaitOutcome::Message(text),
                ResponderEvent::Request(text) => {
                    self.unsent.push(text);
                    self.send_unsent().await;
                }
                ResponderEvent::CloseStream => return WaitOutcome::CloseStream,
                ResponderEvent::Continue(responder) => self.responder = Some(responder),
                ResponderEvent::SenderRevoked if ends_if_revoked => {
                    return WaitOutcome::Closed(FinalResponse::error(&self.id, &revoked_after_begin()));
                }
                ResponderEvent::SenderRevoked => {}
                ResponderEvent::Response(response) => {
                    return WaitOutcome::Response(
                        response.with_memory_reserved(&self.interaction.admission.memory, &self.id),
                    );
                }
            }
        }
    }

    fn answered(&mut self) {
        if let Some(mut responder) = self.responder.take() {
            responder.answered();
        }
    }

    /// Sends requests over the session's push streams, as long as one takes them.
    async fn send_unsent(&mut self) {
        let Some(session) = &self.session else { return };
        while let Some(request) = self.unsent.first() {
            if !self.interaction.push.streams.send(session, request.clone()).await {
                return;
            }
            self.unsent.remove(0);
        }
    }
}

/// Nobody takes the answer any more. If that is because the sender's credentials have ended, the work goes on without a reader.
impl Drop for Exchange {
    fn drop(&mut self) {
        // Its client may close the stream as soon as its cancellation is accepted.
        if self.responder.is_some() && self.in_flight.take_cancellation() {
            if let Some(mut responder) = self.responder.take() {
                responder.cancel();
            }
            return;
        }
        let clock = &self.interaction.engine.ports().clock;
        let Some(mut responder) = self.responder.take().filter(|responder| responder.goes_on()) else {
            return;
        };
        let request = Arc::clone(&self.in_flight);
        if self.sender.can_end() && self.sender.has_ended(clock.wall()) {
            let shutdown = self.interaction.shutdown.clone();
            self.interaction.engine.ports().spawner.spawn(Box::pin(async move {
                tokio::select! {
                    () = without_reader(responder, request) => {}
                    () = shutdown.closed() => {}
                }
            }));
        } else {
            responder.left(request);
        }
    }
}

async fn without_reader(mut responder: Box<dyn Responder>, request: Arc<InFlightRequest>) {
    loop {
        let event = tokio::select! {
            biased;
            event = responder.next() => event,
            () = request.cancelled() => return responder.cancel(),
        };
        match event {
            ResponderEvent::Response(_) => return responder.answered(),
            ResponderEvent::Continue(next) => responder = next,
            ResponderEvent::Notification(_)
            | ResponderEvent::Request(_)
            | ResponderEvent::CloseStream
            | ResponderEvent::SenderRevoked => {}
        }
    }
}
