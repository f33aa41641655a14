//! A connection to the handler inside this process: rmcp's side of it, and ours.

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

/// Messages on their way in either direction; then their sender waits.
const CAPACITY: usize = 64;

/// What the handler came to.
pub(super) type Told = Result<ServerResult, ErrorData>;

/// Our end of a connection.
pub(super) struct Near {
    pub(super) to: mpsc::Sender<ClientJsonRpcMessage>,
    pub(super) from: mpsc::Receiver<ServerJsonRpcMessage>,
}

/// rmcp's end of it.
pub(super) struct Far {
    to: mpsc::Sender<ServerJsonRpcMessage>,
    from: mpsc::Receiver<ClientJsonRpcMessage>,
}

/// The other end has gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection in memory is closed")]
pub(super) struct Closed;

pub(super) fn connect() -> (Near, Far) {
    let (to_handler, from_us) = mpsc::channel(CAPACITY);
    let (to_us, from_handler) = mpsc::channel(CAPACITY);
    let near = Near {
        to: to_handler,
        from: from_handler,
    };
    let far = Far {
        to: to_us,
        from: from_us,
    };
    (near, far)
}

impl Transport<RoleServer> for Far {
    type Error = Closed;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let to = self.to.clone();
        async move { to.send(message).await.map_err(|_| Closed) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.from.recv().await
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Closed>> + Send {
        self.from.close();
        ready(Ok(()))
    }
}

/// A handler, its type forgotten.
pub(super) trait Handler: Send + Sync + 'static {
    /// A connection of its own for one request of `peer`. What the request comes to is told beside the connection, so that nothing stands
    /// between: neither that rmcp swallows what a cancelled request came to, nor that it lets only one generation be asked.
    fn connect(&self, peer: InitializeRequestParams) -> OneRequest;
}

/// A connection for one request. Dropping it drops the handler's work.
pub(super) struct OneRequest {
    pub(super) near: Near,
    /// An error if the handler panicked.
    pub(super) told: oneshot::Receiver<Told>,
    pub(super) _open: Box<dyn Send>,
}

pub(super) struct Typed<H>(pub(super) Arc<H>);

impl<H: ServerHandler> Handler for Typed<H> {
    fn connect(&self, peer: InitializeRequestParams) -> OneRequest {
        let (near, far) = connect();
        let (tell, told) = oneshot::channel();
        let gate = Gate {
            handler: Arc::clone(&self.0),
            tell: Mutex::new(Some(tell)),
        };
        OneRequest {
            near,
            told,
            _open: Box::new(serve_directly(gate, far, Some(peer))),
        }
    }
}

/// Stands before the handler on a connection for one request.
struct Gate<H> {
    handler: Arc<H>,
    tell: Mutex<Option<oneshot::Sender<Told>>>,
}

impl<H: ServerHandler> Service<RoleServer> for Gate<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        cx: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let tell = self.tell.lock().take();
        let Some(mut tell) = tell else {
            return Err(ErrorData::internal_error("this connection is for one request", None));
        };
        let told = tokio::select! {
            biased;
            told = answer(&*self.handler, request, cx) => Some(told),
            // Nobody waits any more: the work is dropped here.
            () = tell.closed() => None,
        };
        if let Some(told) = told {
            // Whoever has gone since needs no answer.
            let _ = tell.send(told);
        }
        // Read by nobody: the answer went the other way.
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

/// The three kinds of requests that may be answered with questions go to the handler past rmcp's own check, which lets questions be put
/// only one way in each generation. Here either way is good.
async fn answer<H: ServerHandler>(handler: &H, request: ClientRequest, cx: RequestContext<RoleServer>) -> Told {
    let answered = match request {
        ClientRequest::CallToolRequest(request) => match handler.call_tool(request.params, cx).await? {
            CallToolResponse::Task(_) => Err(ErrorData::missing_required_client_capability(
                ClientCapabilities::builder().enable_tasks().build(),
            )),
            response => Ok(response.into()),
        },
        ClientRequest::GetPromptRequest(request) => {
            handler
                .get_prompt(request.params, cx)
                .map(|told| told.map(Into::into))
                .await
        }
        ClientRequest::ReadResourceRequest(request) => {
            handler
                .read_resource(request.params, cx)
                .map(|told| told.map(Into::into))
                .await
        }
        other => Service::<RoleServer>::handle_request(handler, other, cx).await,
    };
    // Each client is told in the words of its own generation.
    answered.map(|mut result| {
        result.strip_result_type_for_legacy_peer();
        result
    })
}
