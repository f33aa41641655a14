//! The port behind which requests over HTTP are authenticated.

use super::identity::Identity;
use http::{HeaderMap, Uri, header};
use longhaul_core::{BoxFuture, Principal};
use std::{borrow::Cow, fmt, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpStream;

/// Decides who sends a request over HTTP. A server may have several: they are asked in their order, and the first that does not answer
/// [`AuthDecision::NotMine`] decides.
///
/// ```
/// use longhaul_core::Principal;
/// use longhaul_server::auth::{Authenticator, AuthDecision, Denied, Identity, Permissions, RequestHead};
/// use std::sync::Arc;
///
/// /// One token, known to one client.
/// struct OneToken {
///     token: String,
///     identity: Arc<Identity>,
/// }
///
/// impl Authenticator for OneToken {
///     fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
///         match head.bearer_token() {
///             None => AuthDecision::NotMine,
///             // A real one compares in constant time.
///             Some(token) if token == self.token => AuthDecision::Known(Ok(Arc::clone(&self.identity))),
///             Some(_) => AuthDecision::Known(Err(Denied::invalid("the token is unknown"))),
///         }
///     }
/// }
///
/// let identity = Identity::verified(Principal::named("key:ci"), Permissions::all());
/// let authenticator = OneToken { token: "secret".into(), identity: Arc::new(identity) };
/// # let _ = authenticator;
/// ```
pub trait Authenticator: Send + Sync {
    /// Who sends a request with this head. Called before the body is read, for each request.
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a>;

    /// What a sender without valid credentials is told about where to get some.
    fn challenge(&self) -> Challenge {
        Challenge::default()
    }

    /// The metadata of this server as a protected resource (RFC 9728), a JSON text, which anyone may read.
    fn metadata(&self) -> Option<String> {
        None
    }

    /// Whether this principal was one of this authenticator's and nobody will ever be it again. Its calls that have not begun are cancelled when it is their turn, since
    /// nobody could read what they come to. Asked before each call begins.
    fn is_withdrawn(&self, _principal: &Principal) -> bool {
        false
    }

    /// Whose the other end of a TCP connection is. Asked once, when it is accepted; the answer is in [`Peer::Tcp`] for each of its requests.
    ///
    /// The answer must be about this connection and not about a later one with the same two addresses: the other end may have left already, and
    /// another process may have its port.
    fn peer_user(&self, _connection: &TcpStream) -> PeerUser {
        PeerUser::Unknown
    }
}

/// What an [`Authenticator`] says.
pub enum AuthDecision<'a> {
    /// The request has no credentials of this kind.
    NotMine,
    /// It is known at once.
    Known(Result<Arc<Identity>, Denied>),
    /// It must be found out, by asking another server or by verifying a signature. Not waited for if too many requests of the address were denied.
    Pending(BoxFuture<'a, Result<Arc<Identity>, Denied>>),
    /// The same of credentials that were accepted shortly before: waited for however many other requests of the address were denied.
    Renewing(BoxFuture<'a, Result<Arc<Identity>, Denied>>),
}

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denied {
    /// It has no credentials: 401.
    Missing,
    /// Its credentials are not valid, or not any more: 401.
    Invalid {
        /// Why, for the sender. It must tell nothing that helps to guess.
        description: Cow<'static, str>,
        /// Whose they were, for the audit log alone.
        principal: Option<Principal>,
    },
    /// Whether they are valid will be known later, and they look like many that are not: 503. Counted as invalid ones are.
    Undecided {
        /// When to try again.
        retry_after: Duration,
    },
    /// Whether they are valid cannot be found out now, which is not the sender's fault: 503. Counted as invalid ones are, all the same.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// Whose the connection is could not be found out ([`PeerUser::Unavailable`]): 503, after which the connection is closed, since that is asked once. Counted all
    /// the same.
    PeerUnavailable {
        /// When to try again, on another connection.
        retry_after: Duration,
    },
}

/// For the audit log.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no credentials"),
            Self::Invalid { description, .. } => f.write_str(description),
            Self::Undecided { .. } => f.write_str("the credentials may be valid, which is found out later"),
            Self::Unavailable { .. } => f.write_str("whether the credentials are valid cannot be found out now"),
            Self::PeerUnavailable { .. } => f.write_str("whose the connection is cannot be found out now"),
        }
    }
}

/// Of credentials that were valid.
pub(crate) const ENDED: &str = "the credentials have expired or were revoked";

impl Denied {
    /// Credentials that are not valid. The sender is told why.
    pub fn invalid(description: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid {
            description: description.into(),
            principal: None,
        }
    }

    /// Credentials that were this principal's once. The sender is told why they are not any more, the audit log also whose they were.
    pub fn ended_of(principal: &Principal, description: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid {
            description: description.into(),
            principal: Some(principal.clone()),
        }
    }

    /// Whose the credentials were, if that is known.
    pub(crate) fn principal(&self) -> Option<Arc<str>> {
        match self {
            Self::Invalid {
                principal: Some(principal),
                ..
            } => Some(principal.as_str().into()),
            _ => None,
        }
    }

    /// Credentials that were valid.
    pub(crate) fn ended() -> Self {
        Self::invalid(ENDED)
    }
}

/// The parameters of the `WWW-Authenticate` header of a refused request (RFC 6750, RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Challenge {
    /// The URL of the metadata that names the authorization servers.
    pub resource_metadata: Option<String>,
    /// The scope that is enough for most requests.
    pub scope: Option<String>,
}

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its target. A token in it does not count.
    pub uri: &'a Uri,
    /// What it came from.
    pub peer: &'a Peer,
}

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Peer {
    /// A TCP connection.
    Tcp {
        /// The address of this server's end.
        local: SocketAddr,
        /// The address of the other end.
        remote: SocketAddr,
        /// Whose the other end is.
        user: PeerUser,
    },
    /// A Unix socket.
    Unix {
        /// The user of the process at the other end.
        uid: u32,
    },
    /// It is not known, as in an application that mounts the router into its own server.
    #[default]
    Unknown,
}

/// Whose the other end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PeerUser {
    /// The user's who runs this process.
    Same,
    /// Another user's of this machine.
    Other,
    /// It is not known.
    #[default]
    Unknown,
    /// The system could not be asked: this process has no file descriptor left, for example. Another connection may be known.
    Unavailable,
}

impl<'a> RequestHead<'a> {
    /// The token of `Authorization: Bearer …`, if there is one. A request with two such headers never gets here.
    pub fn bearer_token(&self) -> Option<&'a str> {
        let value = self.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
    }
}

impl Peer {
    /// Whether it is a Unix socket that another user of this machine has opened.
    pub(crate) fn is_of_other_user(&self) -> bool {
        matches!(self, Self::Unix { uid } if *uid != rustix::process::geteuid().as_raw())
    }

    /// The address of the other end, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { remote, .. } => Some(*remote),
            Self::Unix { .. } | Self::Unknown => None,
        }
    }
}
