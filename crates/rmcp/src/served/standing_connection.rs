//! The connection on which the handler is initialized, and on which it may announce changes at any time.

use super::{
    ServedError,
    catalog::{Features, Offered},
    changes::{Change, Changes},
    connection::{Near, Typed, connect},
    exchange::Hosted,
};
use rmcp::{
    ErrorData, ServerHandler,
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, InitializeResult, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage, ServerRequest, ServerResult,
    },
};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc};

/// The standing connection. Dropping it closes it.
pub(super) struct StandingConnection {
    near: Near,
    about: InitializeResult,
    subscribed: HashSet<String>,
    _open: Box<dyn Send>,
}

impl StandingConnection {
    pub(super) async fn open<H: ServerHandler>(handler: &Typed<H>) -> Result<Self, ServedError> {
        let (mut near, far) = connect();
        let served = rmcp::serve_server(Arc::clone(&handler.0), far);
        let (served, about) = tokio::join!(served, greet(&mut near));
        let served = served.map_err(|error| ServedError::Initialize(error.to_string()))?;
        Ok(Self {
            near,
            about: about?,
            subscribed: HashSet::new(),
            _open: Box::new(served),
        })
    }

    pub(super) fn about(&self) -> &InitializeResult {
        &self.about
    }

    pub(super) fn features(&self) -> Features {
        let can = &self.about.capabilities;
        Features {
            tools: can.tools.is_some(),
            prompts: can.prompts.is_some(),
            resources: can.resources.is_some(),
            completions: can.completions.is_some(),
            subscribe: can
                .resources
                .as_ref()
                .is_some_and(|resources| resources.subscribe == Some(true)),
        }
    }

    /// Asks to hear of changes of what is listed, for handlers that tell only who asked. Longhaul's own subscribers choose from what comes.
    pub(super) async fn subscribe(&mut self, offered: &Offered, hosted: &Hosted) {
        if !self.features().subscribe {
            return;
        }
        for uri in offered.resources() {
            if !self.subscribed.insert(uri.to_owned()) {
                continue;
            }
            let subscribe = json!({"method": "resources/subscribe", "params": {"uri": uri}});
            if let Ok(request) = request(subscribe, hosted.next_id()) {
                // Answered by silence or by an error, which is the handler's own business.
                let _ = self.near.to.send(request).await;
            }
        }
    }

    /// Passes on what changes, until the connection is closed. Loses nothing when dropped.
    pub(super) async fn listen(&mut self, changes: &Changes) {
        while let Some(message) = self.near.from.recv().await {
            match message {
                JsonRpcMessage::Notification(notification) => {
                    if let Some(change) = Change::of(&notification.notification) {
                        changes.send(change);
                    }
                }
                JsonRpcMessage::Request(asked) => {
                    let nobody = nobody(asked.id, &asked.request);
                    // Never waits: there is one reply for each message taken.
                    let _ = self.near.to.try_send(nobody);
                }
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
            }
        }
    }
}

fn request(message: Value, id: RequestId) -> Result<ClientJsonRpcMessage, serde_json::Error> {
    let request: ClientRequest = serde_json::from_value(message)?;
    Ok(JsonRpcMessage::request(request, id))
}

/// Nobody in particular is on this connection, so nobody can be asked.
fn nobody(id: RequestId, request: &ServerRequest) -> ClientJsonRpcMessage {
    if matches!(request, ServerRequest::PingRequest(_)) {
        return JsonRpcMessage::response(rmcp::model::ClientResult::empty(()), id);
    }
    let why = "ask inside a call, on its own connection: here is no client";
    JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None), Some(id))
}

/// The handshake of 2025-11-25, as a client that can be asked nothing.
async fn greet(near: &mut Near) -> Result<InitializeResult, ServedError> {
    let failed = |why: &dyn std::fmt::Display| ServedError::Initialize(why.to_string());
    let hello = json!({"method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "clientInfo": {"name": "longhaul", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {},
    }});
    let hello = request(hello, RequestId::Number(0)).map_err(|error| failed(&error))?;
    let closed = || failed(&"the connection was closed");
    near.to.send(hello).await.map_err(|_| closed())?;
    let about = loop {
        match near.from.recv().await.ok_or_else(closed)? {
            ServerJsonRpcMessage::Response(response) => match response.result {
                ServerResult::InitializeResult(about) => break about,
                _ => return Err(failed(&"the answer is no InitializeResult")),
            },
            ServerJsonRpcMessage::Error(error) => return Err(failed(&error.error.message)),
            ServerJsonRpcMessage::Request(asked) => {
                near.to
                    .send(nobody(asked.id, &asked.request))
                    .await
                    .map_err(|_| closed())?;
            }
            ServerJsonRpcMessage::Notification(_) => {}
        }
    };
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ready = serde_json::from_value(ready).map_err(|error| failed(&error))?;
    near.to.send(ready).await.map_err(|_| closed())?;
    Ok(about)
}
