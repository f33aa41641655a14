//! The connection on which the handler is initialized, and on which it may announce changes at any time.

use super::{
    AdapterError,
    catalog::{Features, Offer},
    changes::{Change, Changes},
    connection::{ClientEnd, TypedHandler, connect},
    exchange::HostedHandler,
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
    client_end: ClientEnd,
    initialize_result: InitializeResult,
    subscribed: HashSet<String>,
    _open: Box<dyn Send>,
}

impl StandingConnection {
    pub(super) async fn open<H: ServerHandler>(handler: &TypedHandler<H>) -> Result<Self, AdapterError> {
        let (mut client_end, handler_end) = connect();
        let served = rmcp::serve_server(Arc::clone(&handler.0), handler_end);
        let (served, initialize_result) = tokio::join!(served, initialize(&mut client_end));
        let served = served.map_err(|error| AdapterError::Initialize(error.to_string()))?;
        Ok(Self {
            client_end,
            initialize_result: initialize_result?,
            subscribed: HashSet::new(),
            _open: Box::new(served),
        })
    }

    pub(super) fn initialize_result(&self) -> &InitializeResult {
        &self.initialize_result
    }

    pub(super) fn features(&self) -> Features {
        let can = &self.initialize_result.capabilities;
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

    /// Subscribes to all listed resources, because some handlers notify only subscribers. Longhaul forwards the updates to its own subscribers.
    pub(super) async fn subscribe(&mut self, offered: &Offer, hosted: &HostedHandler) {
        if !self.features().subscribe {
            return;
        }
        for uri in offered.resources() {
            if !self.subscribed.insert(uri.to_owned()) {
                continue;
            }
            let subscribe = json!({"method": "resources/subscribe", "params": {"uri": uri}});
            if let Ok(request) = request(subscribe, hosted.next_id()) {
                // An error in the response is ignored: the handler then announces no updates.
                let _ = self.client_end.sender.send(request).await;
            }
        }
    }

    /// Forwards announced changes until the connection is closed. Cancel safe.
    pub(super) async fn forward_changes(&mut self, changes: &Changes) {
        while let Some(message) = self.client_end.receiver.recv().await {
            match message {
                JsonRpcMessage::Notification(notification) => {
                    if let Some(change) = Change::of(&notification.notification) {
                        changes.send(change);
                    }
                }
                JsonRpcMessage::Request(asked) => {
                    let reply = refuse(asked.id, &asked.request);
                    // Does not wait, so that forwarding stays cancel safe. There is one reply for each message received.
                    let _ = self.client_end.sender.try_send(reply);
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

/// Refuses a question, because this connection has no client; answers a ping.
fn refuse(id: RequestId, request: &ServerRequest) -> ClientJsonRpcMessage {
    if matches!(request, ServerRequest::PingRequest(_)) {
        return JsonRpcMessage::response(rmcp::model::ClientResult::empty(()), id);
    }
    let why = "this connection has no client: ask on the connection of a call";
    JsonRpcMessage::error(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None), Some(id))
}

/// The handshake of 2025-11-25, as a client without capabilities.
async fn initialize(client_end: &mut ClientEnd) -> Result<InitializeResult, AdapterError> {
    let failed = |why: &dyn std::fmt::Display| AdapterError::Initialize(why.to_string());
    let params = json!({"method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "clientInfo": {"name": "longhaul", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {},
    }});
    let initialize = request(params, RequestId::Number(0)).map_err(|error| failed(&error))?;
    let closed = || failed(&"the connection was closed");
    client_end.sender.send(initialize).await.map_err(|_| closed())?;
    let initialize_result = loop {
        match client_end.receiver.recv().await.ok_or_else(closed)? {
            ServerJsonRpcMessage::Response(response) => match response.result {
                ServerResult::InitializeResult(initialize_result) => break initialize_result,
                _ => return Err(failed(&"the answer is not an InitializeResult")),
            },
            ServerJsonRpcMessage::Error(error) => return Err(failed(&error.error.message)),
            ServerJsonRpcMessage::Request(asked) => {
                client_end
                    .sender
                    .send(refuse(asked.id, &asked.request))
                    .await
                    .map_err(|_| closed())?;
            }
            ServerJsonRpcMessage::Notification(_) => {}
        }
    };
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let initialized = serde_json::from_value(initialized).map_err(|error| failed(&error))?;
    client_end.sender.send(initialized).await.map_err(|_| closed())?;
    Ok(initialize_result)
}
