//! What answers the requests of a connection.

use crate::transport::{
    http::{
        PATH,
        connection::{Connection, RequestConnection},
        endpoint::answer,
        response::{Response, accepted_with, refuse},
    },
    protocol_server::ProtocolServer,
};
use axum::BoxError;
use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use hyper::{Request, service::Service};
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
        protocol: Arc<ProtocolServer>,
        /// Answers requests for other paths.
        others: TowerToHyperService<axum::Router>,
    },
    /// An application around the endpoint.
    Application(TowerToHyperService<axum::Router>),
    /// Every request is answered with the limit that was reached. The client may be sending one already, which must be read first.
    Refusal(Arc<ProtocolServer>, RpcError),
}

impl Server {
    pub(super) async fn answer<B>(&self, connection: &Arc<Connection>, mut request: Request<B>) -> Response
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let _open = connection.begin();
        let (app, of_request) = match self {
            Self::Endpoint { protocol, .. } if request.uri().path() == PATH => {
                return answer(protocol, connection, request).await;
            }
            Self::Endpoint { others, .. } => (others, RequestConnection::of_endpoint(Arc::clone(connection))),
            Self::Application(app) => (app, RequestConnection::of_application(Arc::clone(connection))),
            Self::Refusal(protocol, error) => return refuse(protocol, error),
        };
        request.extensions_mut().insert(of_request.clone());
        let Ok(response) = Box::pin(app.call(request.map(axum::body::Body::new))).await;
        let response = response.map(Into::into);
        // Who is refused by the application is not to stay either.
        match of_request
            .take()
            .filter(|_| response.status() != StatusCode::UNAUTHORIZED)
        {
            Some(accepted) => accepted_with(response, accepted),
            None => response,
        }
    }
}
