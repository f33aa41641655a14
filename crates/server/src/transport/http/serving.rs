//! What answers the requests of a connection.

use super::{
    PATH,
    connection::Connection,
    endpoint::answer,
    response::{Response, refuse},
};
use crate::transport::front::Front;
use hyper::{Request, body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use longhaul_wire::RpcError;
use std::{sync::Arc, time::Duration};

/// How long a connection may be idle, or take to send its head.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// The same for a connection that is refused.
pub(super) const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest head; MCP's is some hundred bytes.
pub(super) const HEAD_BYTES: usize = 64 * 1024;

/// What answers the requests of a connection.
pub(super) enum Server {
    /// The endpoint. Requests for it go neither through a router nor through layers, which would cost more than most answers.
    Endpoint {
        front: Arc<Front>,
        /// Answers requests for other paths.
        others: TowerToHyperService<axum::Router>,
    },
    /// An application around the endpoint.
    Application(TowerToHyperService<axum::Router>),
    /// Every request is answered with the limit that was reached. The client may be sending one already, which must be read first.
    Refusal(Arc<Front>, RpcError),
}

impl Server {
    pub(super) async fn answer(&self, connection: &Arc<Connection>, mut request: Request<Incoming>) -> Response {
        let _open = connection.begin();
        let app = match self {
            Self::Endpoint { front, .. } if request.uri().path() == PATH => {
                return answer(front, connection, request).await;
            }
            Self::Endpoint { others: app, .. } | Self::Application(app) => app,
            Self::Refusal(front, error) => return refuse(front, error),
        };
        request.extensions_mut().insert(Arc::clone(connection));
        let Ok(response) = Box::pin(app.call(request)).await;
        response.map(Into::into)
    }
}
