//! Which addresses a server may listen on.

use crate::{
    admission::access::Authentication,
    transport::http::{HttpOptions, TrustedProxy, allowed_hosts::is_loopback},
};
use std::{io, net::SocketAddr};

/// Which addresses a server may listen on. By default only those that other machines cannot reach.
///
/// ```
/// use longhaul_server::{auth::Authentication, http::{Exposure, HttpOptions}};
/// let exposure = Exposure::of(&Authentication::default(), &HttpOptions::default(), true);
/// assert!(exposure.check(([127, 0, 0, 1], 7411).into()).is_ok());
/// assert!(exposure.check(([192, 0, 2, 1], 7411).into()).is_err(), "nobody decides who may come in");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exposure {
    is_decided: bool,
    may_cross_network: bool,
    /// Every address is one of a trusted proxy, which alone would make it possible.
    has_everyone_as_proxy: bool,
}

impl Exposure {
    /// For a server with this authentication. What it receives and sends may cross a network if it has TLS, if TLS ends at a proxy and it serves nobody else
    /// there, or if it may be read on the way.
    pub fn of(authentication: &Authentication, http: &HttpOptions, has_tls: bool) -> Self {
        let everyone = TrustedProxy::are_everyone(&http.trusted_proxies);
        Self {
            is_decided: !authentication.authenticators.is_empty() || authentication.allow_unauthenticated,
            may_cross_network: has_tls || http.plain_http || (!http.trusted_proxies.is_empty() && !everyone),
            has_everyone_as_proxy: everyone,
        }
    }

    /// Any address. For a program that has checked by itself who may come in, and how.
    pub fn unchecked() -> Self {
        Self {
            is_decided: true,
            may_cross_network: true,
            has_everyone_as_proxy: false,
        }
    }

    /// Whether it may listen there.
    ///
    /// # Errors
    /// [`ListenError::NobodyDecides`], [`ListenError::PlainHttp`], [`ListenError::EveryoneIsProxy`].
    pub fn check(self, address: SocketAddr) -> Result<(), ListenError> {
        if is_loopback(address.ip()) {
            return Ok(());
        }
        match self {
            Self { is_decided: false, .. } => Err(ListenError::NobodyDecides(address)),
            Self {
                may_cross_network: false,
                has_everyone_as_proxy: true,
                ..
            } => Err(ListenError::EveryoneIsProxy(address)),
            Self {
                may_cross_network: false,
                ..
            } => Err(ListenError::PlainHttp(address)),
            _ => Ok(()),
        }
    }
}

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address could be reached from other machines, and everyone would be served.
    #[error(
        "{0} can be reached from other machines, and nothing decides who may call the tools: turn on API keys or another authenticator, or listen on 127.0.0.1 or [::1]"
    )]
    NobodyDecides(SocketAddr),
    /// The address could be reached from other machines, and what is sent could be read on the way.
    #[error(
        "{0} can be reached from other machines, and without TLS everyone on the way could read tokens and results: give the listener a certificate, name the \
         proxies at which TLS ends, let a proxy on this machine forward to 127.0.0.1, or allow plain HTTP"
    )]
    PlainHttp(SocketAddr),
    /// As without TLS and proxies, since every address is one of a trusted proxy.
    #[error(
        "{0} can be reached from other machines, and the trusted proxies are all addresses there are, so that plain HTTP would be served to everyone: name only the \
         proxies at which TLS ends, give the listener a certificate, or allow plain HTTP"
    )]
    EveryoneIsProxy(SocketAddr),
    /// The system refuses.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}
