//! Whose a server on this machine is, before it is sent credentials: while it does not run, any user of the machine can listen on its port.

use crate::machine::listening_socket::{self, ListeningSocket};
use longhaul_client::{AccessToken, Login, Refusal, TokenError, TokenProvider, Url};
use longhaul_core::BoxFuture;

/// Root can read the credentials anyway.
const ROOT: u32 = 0;

/// A server that is reached through a port of this machine, without TLS, which would show who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LoopbackServer {
    port: u16,
    /// The user that it belongs to, if it is not this one.
    user: Option<u32>,
}

/// Another user listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "another user (uid {user}) listens on port {port} of this machine, so nothing was sent: it would get your credentials. If that is the server, write `uid = {user}` into its entry in servers.toml"
)]
pub(crate) struct OfAnotherUser {
    user: u32,
    port: u16,
}

/// Whether a URL leads to a port of this machine.
pub(crate) fn is_on_this_machine(url: &str) -> bool {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

impl LoopbackServer {
    /// `user` is whose it is, if the configuration says so.
    pub(super) fn of(url: &str, user: Option<u32>) -> Option<Self> {
        let is_loopback = is_on_this_machine(url);
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "http")?;
        let port = url.port_or_known_default()?;
        is_loopback.then_some(Self { port, user })
    }

    /// Nothing is known of listeners on other systems than Linux, nor of one in another network namespace.
    ///
    /// # Errors
    /// [`OfAnotherUser`].
    pub(super) fn check(self) -> Result<(), OfAnotherUser> {
        match super::own_user() {
            Some(own) => self.check_sockets(&listening_socket::on_port(self.port), own),
            None => Ok(()),
        }
    }

    fn check_sockets(self, sockets: &[ListeningSocket], own: u32) -> Result<(), OfAnotherUser> {
        let may_listen = |user: u32| user == ROOT || user == self.user.unwrap_or(own);
        match sockets.iter().find(|socket| !may_listen(socket.user)) {
            Some(ListeningSocket { user, .. }) => Err(OfAnotherUser {
                user: *user,
                port: self.port,
            }),
            None => Ok(()),
        }
    }
}

/// A login whose tokens are shown to this server only while its own user listens. They are asked for before each request.
pub(super) struct LoopbackLogin {
    pub(super) login: Login,
    pub(super) server: LoopbackServer,
}

impl LoopbackLogin {
    fn checked(&self, token: Option<AccessToken>) -> Result<Option<AccessToken>, TokenError> {
        if token.is_some() {
            self.server.check().map_err(|error| TokenError::Failed {
                reason: error.to_string(),
            })?;
        }
        Ok(token)
    }
}

impl TokenProvider for LoopbackLogin {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move { self.checked(self.login.token().await?) })
    }

    fn replace<'a>(&'a self, refusal: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(async move { self.checked(self.login.replace(refusal).await?) })
    }

    fn login(&self) -> BoxFuture<'_, Option<String>> {
        self.login.login()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_on_this_machine_can_be_taken_over() {
        let of = |url: &str| LoopbackServer::of(url, None).map(|server| server.port);
        assert_eq!(of("http://127.0.0.1:7411/mcp"), Some(7411));
        assert_eq!(of("http://[::1]:1/mcp"), Some(1));
        assert_eq!(of("http://localhost/mcp"), Some(80));
        for other in [
            "https://127.0.0.1:7411/mcp",
            "http://example.com/mcp",
            "http://10.0.0.1:7411/mcp",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_server_belongs_to_this_user_to_root_or_to_whom_the_entry_names() {
        let check = |named: Option<u32>, users: &[u32]| {
            let sockets = users.iter().map(|user| ListeningSocket {
                inode: "1".to_owned(),
                user: *user,
            });
            let server = LoopbackServer {
                port: 7411,
                user: named,
            };
            server.check_sockets(&Vec::from_iter(sockets), 1000).is_ok()
        };
        assert!(check(None, &[]) && check(None, &[1000]) && check(None, &[0]));
        assert!(!check(None, &[1001]) && !check(None, &[1000, 1001]));
        assert!(check(Some(998), &[998]) && !check(Some(998), &[1000]));
    }
}
