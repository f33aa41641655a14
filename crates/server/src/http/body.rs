//! Reading a body: not too large, not too slow.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use longhaul_runtime::Ports;
use longhaul_wire::RpcError;
use std::time::Duration;

/// How long a body may take to arrive. A message is small, and a client that trickles holds a connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(body: Body, limit: usize, ports: &Ports) -> Result<Bytes, RpcError> {
    // Two megabytes of a body that says it has ten are not worth reading.
    if http_body::Body::size_hint(&body).lower() > limit as u64 {
        return Err(too_large(limit));
    }
    match ports.within(PATIENCE, Limited::new(body, limit).collect()).await {
        Some(Ok(collected)) => Ok(collected.to_bytes()),
        Some(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Some(Err(_)) => Err(RpcError::parse("The body ended before it was complete")),
        None => Err(RpcError::parse("The body took too long to arrive").with_status(408)),
    }
}

fn too_large(limit: usize) -> RpcError {
    RpcError::invalid_request(format!("The body is larger than {limit} bytes (server.max_body)")).with_status(413)
}
