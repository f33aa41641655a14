//! What a legacy client sends to one node and another node needs. Without a balancer that keeps each session on one node, its requests reach any of them.
//!
//! These messages may be lost. Then a request is not cancelled, a log level is the one of before, a question is put again, and a client misses an update of a resource.

use super::{Session, Sessions};
use longhaul_core::{LogLevel, NodeId};
use longhaul_runtime::Engine;
use longhaul_wire::jsonrpc::Response;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::borrow::Cow;

/// A message to the server of another node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SessionMessage<'a> {
    /// The response to a request that the receiver has sent, and only it can take.
    Response {
        /// The id of the session, as its client sends it.
        session: String,
        response: Box<RawValue>,
    },
    /// The client has cancelled a request that the sender does not answer.
    Cancelled {
        session: Cow<'a, str>,
        request: Cow<'a, str>,
    },
    /// The client has set the level of its log messages.
    Level { session: String, level: Cow<'a, str> },
    /// The session has created a task.
    Created { session: Cow<'a, str>, task: Cow<'a, str> },
    /// The roots of the client have changed.
    Roots { session: Cow<'a, str> },
    /// A request for the client, which has no stream at the node that sends this.
    ToClient {
        session: Cow<'a, str>,
        request: Box<RawValue>,
    },
    /// The client has ended the session.
    Ended { session: String },
    /// The client has unsubscribed from a resource, at this time in milliseconds.
    Unsubscribed {
        session: Cow<'a, str>,
        uri: Cow<'a, str>,
        at: i64,
    },
    /// A resource has changed, for one principal or for all.
    ResourceUpdated {
        uri: Cow<'a, str>,
        principal: Option<Cow<'a, str>>,
    },
    /// The sender offers other tools, prompts or resources than before.
    ListsChanged {
        tools: bool,
        prompts: bool,
        resources: bool,
    },
    /// A resource has changed to which these sessions have subscribed at the node that sends this, where their push streams are not.
    SubscribedUpdated {
        uri: Cow<'a, str>,
        sessions: Vec<Cow<'a, str>>,
        relayed: Option<Box<RawValue>>,
    },
}

/// Tells all other nodes. Nobody waits for it.
pub(crate) fn broadcast(engine: &Engine, message: &SessionMessage<'_>) {
    if engine.may_have_other_nodes()
        && let Ok(message) = to_raw_value(message)
    {
        engine.broadcast_to_servers(message);
    }
}

/// Passes a response on to the node that has sent its request.
pub(crate) fn pass_on(engine: &Engine, sessions: &Sessions, to: NodeId, session: &Session, response: &Response<'_>) {
    let Some(id) = response.id else { return };
    let (member, value) = match response.outcome {
        Ok(result) => ("result", result),
        Err(error) => ("error", error),
    };
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":{},"{member}":{}}}"#,
        id.as_json(),
        value.get()
    );
    let Ok(response) = RawValue::from_string(text) else {
        return;
    };
    let session = session.to_id(&sessions.ids);
    if let Ok(message) = to_raw_value(&SessionMessage::Response { session, response }) {
        engine.tell_server(to, message);
    }
}

/// Has a session be sent log messages of `level` and above, by this node.
pub(crate) fn set_level(sessions: &Sessions, engine: &Engine, session: &Session, level: LogLevel) {
    engine.catalog().ask_for_logs(level);
    sessions.preferences.set_level(session, level);
}
