//! Who is served: the authenticators in their order, and what a refused sender is told.

use super::{
    authenticator::{AuthDecision, Authenticator, Challenge, Denied, ENDED, Peer, PeerUser, RequestHead},
    identity::Identity,
    limits::{Busy, Meter, Source},
};
use http::{HeaderMap, Uri, header};
use longhaul_core::{Clock, Principal};
use longhaul_runtime::MayBegin;
use std::{net::SocketAddr, sync::Arc};
use tokio::net::TcpStream;
use tracing::debug;

/// The principal of senders without credentials, where anyone is served.
pub const ANYONE: &str = "anyone";

/// Who may use a server over HTTP.
#[derive(Clone, Default)]
pub struct Authentication {
    /// Asked in this order. Without any, and without [`allow_unauthenticated`](Self::allow_unauthenticated), everyone who can connect is served as
    /// [`Principal::local`].
    pub authenticators: Vec<Arc<dyn Authenticator>>,
    /// Whether requests that no authenticator has anything to say about are served, too: anyone may then call every tool. They share a principal of their own, which is
    /// nobody's whom an authenticator knows, and not [`Principal::local`].
    pub allow_unauthenticated: bool,
}

impl Authentication {
    /// Whether a request is served without anything being asked about its sender.
    pub fn is_open(&self) -> bool {
        self.authenticators.is_empty()
    }

    /// Whether all whom it serves are the user who runs the server, as far as it knows: they have no limits but those that are set.
    pub(crate) fn is_of_one_user(&self) -> bool {
        self.is_open() && !self.allow_unauthenticated
    }

    /// Which calls may begin, for the engine: those of principals that no authenticator has [withdrawn](Authenticator::is_withdrawn).
    pub fn may_begin(&self) -> Option<Arc<MayBegin>> {
        let authenticators = self.authenticators.clone();
        let is_withdrawn = move |principal: &Principal| {
            let mut asked = authenticators.iter();
            asked.any(|authenticator| authenticator.is_withdrawn(principal))
        };
        (!self.is_open()).then(|| Arc::new(move |principal: &Principal| !is_withdrawn(principal)) as Arc<MayBegin>)
    }
}

/// Decides who sends a request.
pub(crate) struct Access {
    authenticators: Vec<Arc<dyn Authenticator>>,
    /// Who sends a request that no authenticator has anything to say about, if it is served.
    anyone: Option<Arc<Identity>>,
    /// Whether this is the user who runs the server, and nobody else is served.
    is_of_one_user: bool,
    challenge: Challenge,
    /// The metadata as a protected resource.
    pub(crate) metadata: Option<String>,
}

/// A request that is not served.
#[derive(Debug)]
pub(crate) enum AccessRefusal {
    Denied(Denied),
    /// Too many requests from where it comes from were denied.
    Busy(Busy),
}

impl Access {
    pub(crate) fn new(authentication: Authentication) -> Self {
        let is_of_one_user = authentication.is_of_one_user();
        let Authentication {
            authenticators,
            allow_unauthenticated,
        } = authentication;
        let principal = match is_of_one_user {
            true => Principal::local(),
            // Neither those whom others verify nor the owner, who comes over stdio.
            false => Principal::named(ANYONE),
        };
        let mut challenge = Challenge::default();
        for Challenge {
            resource_metadata,
            scope,
        } in authenticators.iter().map(|authenticator| authenticator.challenge())
        {
            challenge.resource_metadata = challenge.resource_metadata.or(resource_metadata);
            challenge.scope = challenge.scope.or(scope);
        }
        Self {
            anyone: (is_of_one_user || allow_unauthenticated).then(|| Arc::new(Identity::unverified(principal))),
            is_of_one_user,
            metadata: authenticators.iter().find_map(|authenticator| authenticator.metadata()),
            authenticators,
            challenge,
        }
    }

    /// Whom everyone is, if nobody is asked who they are.
    pub(crate) fn everyone(&self) -> Option<&Arc<Identity>> {
        self.anyone.as_ref().filter(|_| self.authenticators.is_empty())
    }

    /// Whether it is found out who sends a request.
    pub(crate) fn knows_senders(&self) -> bool {
        !self.authenticators.is_empty()
    }

    /// What is known of a connection.
    pub(crate) fn peer(&self, connection: &TcpStream, (local, remote): (SocketAddr, SocketAddr)) -> Peer {
        let asked = self.authenticators.iter();
        let user = asked
            .map(|authenticator| authenticator.peer_user(connection))
            .find(|user| *user != PeerUser::Unknown);
        Peer::Tcp {
            local,
            remote,
            user: user.unwrap_or_default(),
        }
    }

    /// Who sends a request with this head.
    pub(crate) async fn authenticate(
        &self,
        (headers, uri, peer): (&HeaderMap, &Uri, &Peer),
        source: Option<Source>,
        meter: &Meter,
        clock: &dyn Clock,
    ) -> Result<Arc<Identity>, AccessRefusal> {
        let decided = self.decide(&RequestHead { headers, uri, peer }, source, meter).await?;
        let denied = match decided {
            Ok(identity) if !identity.has_ended(clock.wall()) => return Ok(identity),
            Ok(identity) => Denied::ended_of(identity.principal(), ENDED),
            Err(denied) => denied,
        };
        debug!(?denied, ?source, "a request was denied");
        // Also if it is not the sender's fault: answering it costs as much.
        meter.denied(source).map_err(AccessRefusal::Busy)?;
        Err(AccessRefusal::Denied(denied))
    }

    async fn decide(
        &self,
        head: &RequestHead<'_>,
        source: Option<Source>,
        meter: &Meter,
    ) -> Result<Result<Arc<Identity>, Denied>, AccessRefusal> {
        let credentials = head.headers.get_all(header::AUTHORIZATION).iter().count();
        if credentials > 1 {
            return Ok(Err(Denied::invalid("there is more than one Authorization header")));
        }
        for authenticator in &self.authenticators {
            match authenticator.authenticate(head) {
                AuthDecision::NotMine => {}
                AuthDecision::Known(known) => return Ok(known),
                AuthDecision::Pending(pending) => {
                    meter.check_denied(source).map_err(AccessRefusal::Busy)?;
                    return Ok(pending.await);
                }
                AuthDecision::Renewing(pending) => return Ok(pending.await),
            }
        }
        // Where everyone is the same user, another user is nobody.
        let is_anyone = !self.is_of_one_user || !head.peer.is_of_other_user();
        Ok(match (self.anyone.as_ref().filter(|_| is_anyone), credentials) {
            (Some(anyone), 0) => Ok(Arc::clone(anyone)),
            (None, 0) => Err(Denied::Missing),
            // Someone who believes to be known must not be served as anyone.
            (_, _) => Err(Denied::invalid("the credentials are of no kind that this server knows")),
        })
    }

    /// Where challenges say that the metadata is.
    pub(crate) fn metadata_url(&self) -> Option<&str> {
        self.challenge.resource_metadata.as_deref()
    }

    /// The `WWW-Authenticate` of a request without valid credentials.
    pub(crate) fn challenge(&self, denied: &Denied) -> String {
        let mut challenge = ChallengeText::new();
        if let Denied::Invalid { description, .. } = denied {
            challenge.add("error", "invalid_token");
            challenge.add("error_description", description);
        }
        if let Some(scope) = &self.challenge.scope {
            challenge.add("scope", scope);
        }
        self.with_metadata(challenge)
    }

    /// The `WWW-Authenticate` of a request whose sender may not do what it asks for, and can with this scope.
    pub(crate) fn insufficient(&self, scope: Option<&str>) -> String {
        let mut challenge = ChallengeText::new();
        challenge.add("error", "insufficient_scope");
        if let Some(scope) = scope {
            challenge.add("scope", scope);
        }
        self.with_metadata(challenge)
    }

    fn with_metadata(&self, mut challenge: ChallengeText) -> String {
        if let Some(url) = &self.challenge.resource_metadata {
            challenge.add("resource_metadata", url);
        }
        challenge.0
    }
}

/// A `Bearer` challenge.
struct ChallengeText(String);

impl ChallengeText {
    fn new() -> Self {
        Self("Bearer".to_owned())
    }

    /// Adds a parameter. Characters that its syntax does not have are left out.
    fn add(&mut self, name: &str, value: &str) {
        self.0.push_str(if self.0.contains(' ') { ", " } else { " " });
        self.0.push_str(name);
        self.0.push_str("=\"");
        self.0.extend(
            value
                .chars()
                .filter(|c| (' '..='~').contains(c) && !"\"\\".contains(*c)),
        );
        self.0.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ChallengeAuthenticator(Challenge);

    impl Authenticator for ChallengeAuthenticator {
        fn authenticate<'a>(&'a self, _: &'a RequestHead<'a>) -> AuthDecision<'a> {
            AuthDecision::NotMine
        }

        fn challenge(&self) -> Challenge {
            self.0.clone()
        }
    }

    fn access(challenges: impl IntoIterator<Item = Challenge>) -> Access {
        let authenticators = challenges
            .into_iter()
            .map(|challenge| Arc::new(ChallengeAuthenticator(challenge)) as Arc<dyn Authenticator>);
        Access::new(Authentication {
            authenticators: authenticators.collect(),
            allow_unauthenticated: false,
        })
    }

    #[test]
    fn s_20_s_22_a_challenge_says_what_is_wrong_and_where_to_go() {
        let keys = Challenge::default();
        assert_eq!(access([keys.clone()]).challenge(&Denied::Missing), "Bearer");
        let url = "https://a.example/.well-known/oauth-protected-resource/mcp";
        let oauth = Challenge {
            resource_metadata: Some(url.to_owned()),
            scope: Some("tasks:write".to_owned()),
        };
        let both = access([keys, oauth]);
        let invalid = Denied::invalid("it \"has\"\r\n expired\u{e4}");
        for (challenge, expected) in [
            (both.challenge(&Denied::Missing), r#"scope="tasks:write""#),
            (
                both.challenge(&invalid),
                r#"error="invalid_token", error_description="it has expired", scope="tasks:write""#,
            ),
            (
                both.insufficient(Some("tools:build tasks:write")),
                r#"error="insufficient_scope", scope="tools:build tasks:write""#,
            ),
            (both.insufficient(None), r#"error="insufficient_scope""#),
        ] {
            assert_eq!(challenge, format!("Bearer {expected}, resource_metadata=\"{url}\""));
        }
    }
}
