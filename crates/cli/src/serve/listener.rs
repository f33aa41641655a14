//! Where clients come in over HTTP: an address, or a Unix socket.

use super::ServeError;
use crate::{
    args,
    config::{Listen, ServerConfig},
    machine::port_owner,
};
use longhaul_core::store::NodeRole;
use longhaul_server::http::{Exposure, ListenError, Listener, SocketListener, Tls};
use std::io;

/// Listens for clients; `None` if it does not, because it only works, or only for `longhaul stdio`.
pub(super) async fn bind(
    server: &ServerConfig,
    role: NodeRole,
    asked: &args::Serve,
) -> Result<Option<BoundListener>, ServeError> {
    let tls = match &server.tls {
        Some(files) => Some(Tls::from_pem_files(&files.cert, &files.key)?),
        None => None,
    };
    if role == NodeRole::Worker {
        return Ok(None);
    }
    match listen(server, tls).await {
        Err(ServeError::Listen { error, owner }) if asked.idle_exit.is_some() => {
            tracing::warn!("{error}{owner}; serving only longhaul stdio");
            Ok(None)
        }
        bound => bound.map(Some),
    }
}

/// Where clients come in.
pub(super) enum BoundListener {
    Address(Listener),
    Unix(SocketListener),
}

impl BoundListener {
    pub(super) fn url(&self) -> String {
        match self {
            Self::Address(listener) => listener.url(),
            Self::Unix(listener) => Listen::Unix(listener.path().to_owned()).url(false),
        }
    }
}

async fn listen(server: &ServerConfig, tls: Option<Tls>) -> Result<BoundListener, ServeError> {
    let address = match &server.listen {
        Listen::Address(address) => *address,
        Listen::Unix(path) => {
            return Ok(BoundListener::Unix(
                SocketListener::bind(path, server.socket_mode).await?,
            ));
        }
    };
    // What it may listen on was checked with the configuration.
    let listener = Listener::bind_exposed(address, Exposure::unchecked())
        .await
        .map_err(|error| {
            let in_use =
                matches!(&error, ListenError::Bind { source, .. } if source.kind() == io::ErrorKind::AddrInUse);
            let owner = if in_use {
                let owner = port_owner::describe(address.port());
                format!("{owner}; set another address with `listen` in the file, or with --listen")
            } else {
                String::new()
            };
            ServeError::Listen { error, owner }
        })?;
    Ok(BoundListener::Address(match tls {
        Some(tls) => listener.with_tls(tls),
        None => listener,
    }))
}
