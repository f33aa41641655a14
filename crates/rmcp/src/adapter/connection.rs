//! A connection in memory to the handler: the client's end and the handler's end.

use futures_util::future::{FutureExt, ready};
use parking_lot::Mutex;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, Service,
    model::{
        CallToolResponse, ClientCapabilities, ClientJsonRpcMessage, ClientNotification, ClientRequest,
        InitializeRequestParams, ServerConfig, ServerJsonRpcMessage, ServerResult,
    },
    service::{NotificationContext, RequestContext, serve_directly},
    transport::Transport,
};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// How many messages each direction buffers; then the sender waits.
const CAPACITY: usize = 64;

/// What the handler returned.
pub(super) type HandlerResult = Result<ServerResult, ErrorData>;

/// The client's end of a connection.
pub(super) struct ClientEnd {
    pub(super) sender: mpsc::Sender<ClientJsonRpcMessage>,
    pub(super) receiver: mpsc::Receiver<ServerJsonRpcMessage>,
}

/// The handler's end of a connection, for rmcp.
pub(super) struct HandlerEnd {
    sender: mpsc::Sender<ServerJsonRpcMessage>,
    receiver: mpsc::Receiver<ClientJsonRpcMessage>,
}

/// The other end is closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection in memory is closed")]
pub(super) struct ConnectionClosed;

pub(super) fn connect() -> (ClientEnd, HandlerEnd) {
    let (to_handler, from_client) = mpsc::channel(CAPACITY);
    let (to_client, from_handler) = mpsc::channel(CAPACITY);
    let client_end = ClientEnd {
        sender: to_handler,
        receiver: from_handler,
    };
    let handler_end = HandlerEnd {
        sender: to_client,
        receiver: from_client,
    };
    (client_end, handler_end)
}

impl Transport<RoleServer> for HandlerEnd {
    type Error = ConnectionClosed;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), ConnectionClosed>> + Send + 'static {
        let sender = self.sender.clone();
        async move { sender.send(message).await.map_err(|_| ConnectionClosed) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.receiver.recv().await
    }

    fn close(&mut self) -> impl Future<Output = Result<(), ConnectionClosed>> + Send {
        self.receiver.close();
        ready(Ok(()))
    }
}

/// A handler of any type.
pub(super) trait Handler: Send + Sync + 'static {
    /// Opens a connection for one request of `peer`. The result does not travel on the connection, because rmcp drops the result of a cancelled
    /// request there, and allows questions in results only for one era.
    fn connect(&self, peer: InitializeRequestParams) -> RequestConnection;
}

/// A connection for one request. Dropping it drops the handler's future.
pub(super) struct RequestConnection {
    pub(super) client_end: ClientEnd,
    /// Receives the result; closed without one if the handler panicked.
    pub(super) result: oneshot::Receiver<HandlerResult>,
    pub(super) _open: Box<dyn Send>,
}

pub(super) struct TypedHandler<H>(pub(super) Arc<H>);

impl<H: ServerHandler> Handler for TypedHandler<H> {
    fn connect(&self, peer: InitializeRequestParams) -> RequestConnection {
        let (client_end, handler_end) = connect();
        let (responder, result) = oneshot::channel();
        let service = SingleRequestService {
            handler: Arc::clone(&self.0),
            responder: Mutex::new(Some(responder)),
        };
        RequestConnection {
            client_end,
            result,
            _open: Box::new(serve_directly(service, handler_end, Some(peer))),
        }
    }
}

/// Calls the handler for the one request of a connection and sends the result to the receiver.
struct SingleRequestService<H> {
    handler: Arc<H>,
    responder: Mutex<Option<oneshot::Sender<HandlerResult>>>,
}

impl<H: ServerHandler> Service<RoleServer> for SingleRequestService<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        cx: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let responder = self.responder.lock().take();
        let Some(mut responder) = responder else {
            return Err(ErrorData::internal_error("this connection is for one request", None));
        };
        let result = tokio::select! {
            biased;
            result = call_handler(&*self.handler, request, cx) => Some(result),
            // The receiver is dropped: drop the handler's future.
            () = responder.closed() => None,
        };
        if let Some(result) = result {
            // The receiver may be dropped meanwhile.
            let _ = responder.send(result);
        }
        // Nobody reads this: the result has been sent already.
        Ok(ServerResult::empty(()))
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        cx: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::<RoleServer>::handle_notification(&*self.handler, notification, cx).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&*self.handler)
    }
}

/// Calls the handler directly for the three requests whose result may be a question: rmcp's dispatch allows such results only for modern
/// clients.
async fn call_handler<H: ServerHandler>(
    handler: &H,
    request: ClientRequest,
    cx: RequestContext<RoleServer>,
) -> HandlerResult {
    let result = match request {
        ClientRequest::CallToolRequest(request) => match handler.call_tool(request.params, cx).await? {
            CallToolResponse::Task(_) => Err(ErrorData::missing_required_client_capability(
                ClientCapabilities::builder().enable_tasks().build(),
            )),
            response => Ok(response.into()),
        },
        ClientRequest::GetPromptRequest(request) => {
            handler
                .get_prompt(request.params, cx)
                .map(|result| result.map(Into::into))
                .await
        }
        ClientRequest::ReadResourceRequest(request) => {
            handler
                .read_resource(request.params, cx)
                .map(|result| result.map(Into::into))
                .await
        }
        other => Service::<RoleServer>::handle_request(handler, other, cx).await,
    };
    // Longhaul adds the result type for modern clients.
    result.map(|mut result| {
        result.strip_result_type_for_legacy_peer();
        result
    })
}
