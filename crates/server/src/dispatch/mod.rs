//! From bytes to the method that answers them.

mod audit;
mod custom_method;
mod notification;
pub(crate) mod permission;
mod table;

use crate::{
    admission::{
        caller::{Caller, TransportMode},
        identity::Identity,
        request::AdmittedRequest,
    },
    audit::AuditOutcome,
    interaction::{
        Interaction,
        legacy::client_response::{self, ResponseMatch},
    },
    methods::Methods,
    response::Answer,
    session::{
        Session,
        other_nodes::{self, SessionMessage},
    },
    signer::Signer,
};
use longhaul_core::{TaskId, truncate};
use longhaul_runtime::{CustomMethod, SessionChange};
use longhaul_wire::{
    AdmissionRules, Admitted, Era, Generation, Message, MessageTransport, Meta, Method, Params, Rejection, Request,
    RpcError, admit, admit_custom, detect_era,
    jsonrpc::{Notification, Response},
};
use notification::NotificationSlots;
use std::{net::IpAddr, sync::Arc};
use tracing::debug;

/// Bytes of a method's name that the log shows.
const LONGEST_METHOD: usize = 100;

/// One message, and how it arrived.
pub(crate) struct IncomingMessage<'a> {
    /// The message.
    pub(crate) bytes: &'a [u8],
    /// What carries it.
    pub(crate) transport: MessageTransport<'a>,
    /// The live session of its id, if it has one.
    pub(crate) session: Option<Session>,
    /// Whether its sender takes a stream of events as an answer.
    pub(crate) takes_stream: bool,
    /// Who has sent it.
    pub(crate) identity: &'a Arc<Identity>,
    /// What the transport may do.
    pub(crate) mode: TransportMode,
    /// The address that it came from, if it is asked for.
    pub(crate) address: Option<IpAddr>,
    /// The plain call that its sender comes back for: this is its `tools/call`, without the arguments.
    pub(crate) resumed_call: Option<&'a TaskId>,
}

/// Finds the era and the method of each message.
pub(crate) struct Dispatcher {
    methods: Methods,
    notification_slots: NotificationSlots,
    /// Refuse requests for tasks that leave `Mcp-Name` out, too.
    strict_headers: bool,
}

impl Dispatcher {
    pub(crate) fn new(interaction: &Arc<Interaction>, cursors: Signer, strict_headers: bool) -> Self {
        Self {
            methods: Methods::new(interaction, cursors),
            notification_slots: NotificationSlots::default(),
            strict_headers,
        }
    }

    /// Answers one message.
    pub(crate) async fn dispatch(&self, incoming: &IncomingMessage<'_>) -> Answer {
        match Message::parse(incoming.bytes) {
            Err(Rejection { id, error }) => Answer::error(id, &error),
            Ok(Message::Request(request)) => {
                debug!(
                    method = truncate(&request.method, LONGEST_METHOD),
                    session = incoming.session.is_some(),
                    "request"
                );
                let id = request.id;
                self.request(&request, incoming)
                    .await
                    .unwrap_or_else(|error| Answer::error(Some(id), &error))
            }
            Ok(Message::Notification(notification)) => {
                debug!(method = truncate(&notification.method, LONGEST_METHOD), "notification");
                self.notification(&notification, incoming).await.unwrap_or_else(refused)
            }
            Ok(Message::Response(response)) => self.response(&response, incoming).await.unwrap_or_else(refused),
        }
    }

    async fn request(&self, request: &Request<'_>, incoming: &IncomingMessage<'_>) -> Result<Answer, RpcError> {
        let custom = self.methods.engine.catalog().method(&request.method);
        let custom = match custom {
            Some(custom) if custom.is_standard() => Some(custom),
            None => {
                if !Method::is_known(&request.method)
                    && let Some(fallback) = self.methods.engine.catalog().fallback_method()
                {
                    let (era, params, meta) = admit_custom(request, &incoming.transport)?;
                    let admitted = self.admitted(request, incoming, &era, params, meta);
                    let (interaction, params) = (&self.methods.interaction, request.raw_params());
                    return custom_method::call_fallback(interaction, &admitted, fallback, &request.method, params);
                }
                None
            }
            Some(custom) => {
                let (era, params, meta) = admit_custom(request, &incoming.transport)?;
                let admitted = self.admitted(request, incoming, &era, params, meta);
                return custom_method::call(&self.methods.interaction, &admitted, custom, request.raw_params());
            }
        };
        let rules = AdmissionRules {
            strict_headers: self.strict_headers,
            serves: table::serves,
        };
        let Admitted {
            era,
            method,
            params,
            meta,
        } = admit(request, &incoming.transport, &rules)?;
        let mut admitted = self.admitted(request, incoming, &era, params, meta);
        let interaction = &self.methods.interaction;
        if let Some(auditor) = &interaction.auditor {
            admitted.audit = audit::begin(auditor, interaction, method, &admitted);
        }
        if let Some(refused) = permission::refuse(interaction, method, &admitted) {
            if let Some(audit) = &admitted.audit {
                audit.end(AuditOutcome::Denied);
            }
            return Ok(refused);
        }
        let answered = match interaction.admission.meter.request(method, admitted.caller.principal()) {
            Ok(()) => self.answer(method, &admitted, custom, request).await,
            Err(busy) => Err(busy.into()),
        };
        match (answered, &admitted.audit) {
            (Ok(answer), None) => Ok(answer),
            (Ok(answer), Some(audit)) => {
                audit.end(AuditOutcome::Ok);
                Ok(answer)
            }
            (Err(error), _) => Err(self.failed(method, &admitted, error)),
        }
    }

    /// The error of a request. Unknown ids are counted: too many in a second are refused in another way, which depends on the sender alone.
    fn failed(&self, method: Method, request: &AdmittedRequest<'_>, error: RpcError) -> RpcError {
        let unknown = audit::is_unknown_task(method, request, &error);
        let error = match unknown {
            true => {
                let meter = &self.methods.interaction.admission.meter;
                (meter.unknown_id(request.caller.identity(), request.address)).map_or_else(RpcError::from, |()| error)
            }
            false => error,
        };
        if let Some(audit) = &request.audit {
            audit.record(match audit::outcome_of(&error) {
                AuditOutcome::Failed(_) if unknown => AuditOutcome::Unknown,
                outcome => outcome,
            });
        }
        error
    }

    async fn answer(
        &self,
        method: Method,
        admitted: &AdmittedRequest<'_>,
        custom: Option<Arc<CustomMethod>>,
        request: &Request<'_>,
    ) -> Result<Answer, RpcError> {
        let caller = &admitted.caller;
        caller.mode.ensure_served(caller.generation, method)?;
        if method == Method::ToolsCall
            && admitted.resumed_call.is_none()
            && let Some(author) = self.methods.engine.catalog().call_handler()
        {
            let params = request.raw_params();
            return Box::pin(custom_method::call_tool(&self.methods, admitted, author, params)).await;
        }
        let custom = custom.filter(|_| !permission::hides_list(method, admitted.caller.identity()));
        match custom {
            None => table::call(&self.methods, method, admitted).await,
            // Boxed, since it is rare.
            Some(custom) => {
                let params = request.raw_params();
                Box::pin(custom_method::call_standard(
                    &self.methods,
                    method,
                    admitted,
                    custom,
                    params,
                ))
                .await
            }
        }
    }

    /// An admitted request with its caller.
    fn admitted<'a>(
        &self,
        request: &'a Request<'_>,
        incoming: &'a IncomingMessage<'_>,
        era: &Era<'_>,
        params: &'a Params<'a>,
        meta: &'a Meta<'a>,
    ) -> AdmittedRequest<'a> {
        AdmittedRequest {
            id: request.id,
            params,
            meta,
            headers: incoming.transport.headers(),
            caller: self.caller(incoming, era),
            address: incoming.address,
            resumed_call: incoming.resumed_call,
            audit: None,
        }
    }

    fn caller(&self, incoming: &IncomingMessage<'_>, era: &Era<'_>) -> Caller {
        Caller::new(
            era,
            incoming.identity,
            incoming.session.as_ref(),
            incoming.takes_stream,
            incoming.mode,
        )
    }

    /// Handles a response to a request of ours. Only sessions get such requests, and a modern client must not respond.
    async fn response(&self, response: &Response<'_>, incoming: &IncomingMessage<'_>) -> Result<Answer, RpcError> {
        let taken = self.take_response(response, incoming).await;
        if let Some(auditor) = &self.methods.interaction.auditor {
            let outcome = match &taken {
                Ok((_, outcome)) => *outcome,
                Err(error) => audit::outcome_of(error),
            };
            let IncomingMessage {
                identity,
                session,
                address,
                ..
            } = incoming;
            audit::answered(auditor, identity, session.as_ref(), response, *address, outcome);
        }
        taken.map(|(answer, _)| answer)
    }

    /// Takes a response, and says how the audit log calls that. What is awaited by nobody is accepted all the same: the wait may just have ended.
    async fn take_response(
        &self,
        response: &Response<'_>,
        incoming: &IncomingMessage<'_>,
    ) -> Result<(Answer, AuditOutcome), RpcError> {
        if !incoming.identity.permissions().allows_answers() {
            let refusal = permission::refuse_response(&self.methods.interaction, incoming.identity);
            return Ok((refusal, AuditOutcome::Denied));
        }
        match (&incoming.session, &incoming.transport) {
            (Some(session), _) => {
                let interaction = &self.methods.interaction;
                let outcome = match client_response::accept(interaction, session, response).await? {
                    ResponseMatch::Answer => AuditOutcome::Ok,
                    ResponseMatch::NotAwaited => AuditOutcome::Unknown,
                    ResponseMatch::UnknownTask => {
                        let meter = &interaction.admission.meter;
                        meter.unknown_id(incoming.identity, incoming.address)?;
                        AuditOutcome::Unknown
                    }
                };
                Ok((Answer::Accepted, outcome))
            }
            (
                None,
                MessageTransport::Http {
                    session: longhaul_wire::SessionState::Gone,
                    ..
                },
            ) => Err(RpcError::session_not_found()),
            (None, _) => Err(RpcError::invalid_request("No response is awaited here")),
        }
    }

    /// Handles a notification. Unknown ones are accepted: they have no answer, and a later revision may define them.
    async fn notification(
        &self,
        notification: &Notification<'_>,
        incoming: &IncomingMessage<'_>,
    ) -> Result<Answer, RpcError> {
        let params = notification.params()?;
        let era = detect_era(Some(&notification.method), params.meta()?, &incoming.transport)?;
        let caller = self.caller(incoming, &era);
        // Over HTTP a modern client cancels a request by leaving; it has no notification for it.
        let legacy = matches!(era, Era::Legacy(_));
        let method = legacy
            .then(|| Method::parse(&notification.method, Generation::Legacy))
            .flatten();
        match (method, caller.session_key()) {
            (Some(Method::Cancelled), session) => {
                let request = params.cancelled()?.request_id.canonical();
                if let Some(session) = session
                    && !self.methods.interaction.sessions.in_flight.cancel(session, &request)
                {
                    let session = session.as_str().into();
                    other_nodes::broadcast(&self.methods.engine, &SessionMessage::Cancelled { session, request });
                }
            }
            (Some(Method::RootsListChanged), Some(session)) => {
                let changed = SessionChange::Roots(session.clone());
                self.methods.engine.catalog().session_changed(changed);
                let session = session.as_str().into();
                other_nodes::broadcast(&self.methods.engine, &SessionMessage::Roots { session });
            }
            _ => {}
        }
        notification::pass_to_author(&self.methods.engine, &self.notification_slots, &caller, notification).await?;
        Ok(Answer::Accepted)
    }
}

/// Refuses a message for how it arrived, with its id if it has a valid one.
pub(crate) fn refuse_message(bytes: &[u8], error: &RpcError) -> Answer {
    let id = match Message::parse(bytes) {
        Ok(Message::Request(request)) => Some(request.id),
        Ok(Message::Notification(_) | Message::Response(_)) => None,
        Err(Rejection { id, .. }) => id,
    };
    Answer::error(id, error)
}

/// A refused notification or response has a status of its own: 200 would read as accepted.
fn refused(error: RpcError) -> Answer {
    let error = if error.status() < 400 {
        error.with_status(400)
    } else {
        error
    };
    Answer::error(None, &error)
}
