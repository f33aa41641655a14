//! Requests with a token of an issuer.

use super::{
    error::IssuerError,
    fetch::Fetcher,
    holder::TrustedIssuer,
    introspection::{Introspector, TokenDigest},
    issuer::{Issuer, KeySource, parse_identifier},
    jwks::{Jwks, KeySet, Lookup, NO_KEY, VerifyingKey, read_file},
    jwt::{LONGEST, UnverifiedJwt},
    metadata::ProtectedResource,
};
use crate::keys::{KEY_PREFIX, is_like_key};
use longhaul_core::{Clock, UnixMillis};
use longhaul_runtime::Ports;
use longhaul_server::auth::{AuthDecision, Authenticator, Challenge, Denied, Identity, RequestHead};
use quick_cache::sync::Cache;
use sha2::Digest as _;
use std::{collections::HashSet, convert::Infallible, path::Path, sync::Arc, time::Duration};

/// How many verified tokens are remembered.
const MOST_VERIFIED: usize = 10_000;
const UNKNOWN_ISSUER: &str = "the token is of an issuer that this server does not know";

/// Accepts the tokens of issuers.
///
/// ```
/// use longhaul_auth::oauth::{Issuer, OAuthAuthenticator};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = tokio::runtime::Runtime::new()?;
/// # let _entered = runtime.enter();
/// let ports = longhaul_runtime::Ports::system();
/// let issuer = Issuer::new("https://login.example.com")?.jwks("https://login.example.com/keys")?;
/// let authenticator = OAuthAuthenticator::new("https://mcp.example/mcp", vec![issuer], &ports)?;
/// assert_eq!(
///     authenticator.metadata_url(),
///     "https://mcp.example/.well-known/oauth-protected-resource/mcp",
/// );
/// # Ok(())
/// # }
/// ```
pub struct OAuthAuthenticator {
    issuers: Arc<[IssuerState]>,
    /// JWTs that were verified. A token is remembered by its digest.
    verified: Arc<Cache<TokenDigest, VerifiedJwt>>,
    clock: Arc<dyn Clock>,
    metadata: ProtectedResource,
    metadata_url: String,
}

struct IssuerState {
    issuer: TrustedIssuer,
    jwks: Option<Jwks>,
    introspector: Option<Arc<Introspector>>,
}

#[derive(Clone)]
struct VerifiedJwt {
    identity: Arc<Identity>,
    /// The place of its issuer.
    issuer: usize,
}

impl OAuthAuthenticator {
    /// Accepts tokens that these issuers have made for the server at `public_url`, exactly as tokens name it (`aud`).
    ///
    /// Keys in files are read now. Others are fetched in the background, so that a server starts also while an issuer is down.
    ///
    /// # Errors
    /// [`IssuerError`].
    pub fn new(public_url: &str, issuers: Vec<Issuer>, ports: &Ports) -> Result<Self, IssuerError> {
        Self::check(public_url, &issuers)?;
        let resource = parse_identifier("public_url", public_url)?;
        let path = resource.path().trim_end_matches('/');
        let metadata_url = format!(
            "{}/.well-known/oauth-protected-resource{path}",
            resource.origin().ascii_serialization()
        );
        let metadata = ProtectedResource::new(public_url, &issuers);
        let fetcher = Fetcher::new(issuers.iter().flat_map(Issuer::urls), ports)?;
        let audience: Arc<str> = public_url.into();
        let verified = Arc::new(Cache::new(MOST_VERIFIED));
        let states = issuers
            .into_iter()
            .map(|issuer| IssuerState::new(issuer, &audience, &fetcher, ports));
        let issuers: Arc<[IssuerState]> = states.collect::<Result<_, _>>()?;
        ports
            .spawner
            .spawn(Box::pin(keep_fresh(&issuers, &verified, Arc::clone(&ports.clock))));
        Ok(Self {
            issuers,
            verified,
            clock: Arc::clone(&ports.clock),
            metadata,
            metadata_url,
        })
    }

    /// Whether [`new`](Self::new) would accept these settings, as far as that can be told without reading a file.
    ///
    /// # Errors
    /// [`IssuerError`].
    pub fn check(public_url: &str, issuers: &[Issuer]) -> Result<(), IssuerError> {
        parse_identifier("public_url", public_url)?;
        check(issuers)
    }

    /// Reads the keys of the issuer of this name, if they are in a file, and forgets them: [`new`](Self::new) would fail like this.
    ///
    /// # Errors
    /// [`IssuerError::KeyFile`].
    pub fn check_key_file(issuer: &str, keys: &KeySource) -> Result<(), IssuerError> {
        match keys {
            KeySource::File(path) => read_keys(issuer, path).map(drop),
            KeySource::Url(_) => Ok(()),
        }
    }

    /// The metadata document, to be served at [`metadata_url`](Self::metadata_url) and at `/.well-known/oauth-protected-resource`.
    pub fn metadata(&self) -> &ProtectedResource {
        &self.metadata
    }

    /// Where clients look for the metadata document.
    pub fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    fn decide<'a>(&'a self, token: &'a str) -> AuthDecision<'a> {
        if token.len() > LONGEST {
            return refuse("the token is too long");
        }
        let digest = sha2::Sha256::digest(token.as_bytes()).into();
        if let Some(identity) = self.remembered(&digest) {
            return AuthDecision::Known(Ok(identity));
        }
        match UnverifiedJwt::parse(token) {
            Err(denied) => AuthDecision::Known(Err(denied)),
            Ok(Some(jwt)) => match self.issuers.iter().position(|state| *state.issuer.name == *jwt.issuer) {
                Some(place) => self.decide_on_jwt(token, jwt, place, digest),
                None => refuse(UNKNOWN_ISSUER),
            },
            // `new` has checked that there is only one whom it can be shown to.
            Ok(None) => match self.issuers.iter().find_map(|state| state.introspector.as_ref()) {
                Some(introspector) => introspect(introspector, token, digest),
                None => refuse(UNKNOWN_ISSUER),
            },
        }
    }

    fn decide_on_jwt<'a>(
        &'a self,
        token: &'a str,
        jwt: UnverifiedJwt<'a>,
        place: usize,
        digest: TokenDigest,
    ) -> AuthDecision<'a> {
        let state = &self.issuers[place];
        let Some(jwks) = &state.jwks else {
            return match &state.introspector {
                Some(introspector) => introspect(introspector, token, digest),
                None => refuse(UNKNOWN_ISSUER),
            };
        };
        // A signature is the costliest part of a request, so it is not verified for a sender with too many denied ones.
        AuthDecision::Pending(Box::pin(async move {
            let key = match jwks.find(&jwt) {
                Lookup::Known(found) => found?,
                Lookup::Wait(fetch) => jwks.find_after(fetch, &jwt).await?,
            };
            self.accept(&jwt, &key, place, digest)
        }))
    }

    /// Who holds a token that this key of its issuer has signed.
    fn accept(
        &self,
        jwt: &UnverifiedJwt<'_>,
        key: &Arc<VerifyingKey>,
        place: usize,
        digest: TokenDigest,
    ) -> Result<Arc<Identity>, Denied> {
        let TrustedIssuer { name, audience, .. } = &self.issuers[place].issuer;
        let claims = jwt.claims()?;
        claims.check(name, audience, self.clock.wall())?;
        let identity = Arc::new(self.issuers[place].issuer.identify(&claims, key.revocation())?);
        let verified = || VerifiedJwt {
            identity,
            issuer: place,
        };
        // Where several requests with the token come at once, all get the identity of one, so that it is seen whether somebody holds it.
        let verified = self
            .verified
            .get_or_insert_with(&digest, || Ok::<_, Infallible>(verified()));
        let Ok(verified) = verified;
        Ok(verified.identity)
    }

    /// Who holds a token that was verified before, unless it has expired or the key that signed it was withdrawn.
    fn remembered(&self, digest: &TokenDigest) -> Option<Arc<Identity>> {
        let verified = self.verified.get(digest)?;
        let jwks = self.issuers[verified.issuer].jwks.as_ref()?;
        let has_expired = |at: UnixMillis| at <= self.clock.wall();
        if verified.identity.is_revoked() || verified.identity.expires_at().is_some_and(has_expired) {
            self.verified.remove(digest);
            return None;
        }
        jwks.are_usable().then_some(verified.identity)
    }
}

impl Authenticator for OAuthAuthenticator {
    fn authenticate<'a>(&'a self, head: &'a RequestHead<'a>) -> AuthDecision<'a> {
        match head.bearer_token() {
            // An issuer is not shown an API key, also not one that was copied with a mistake.
            None => AuthDecision::NotMine,
            Some(token) if token.starts_with(KEY_PREFIX) => AuthDecision::NotMine,
            Some(token) if is_like_key(token) => {
                refuse("the token looks like an API key that was copied with a mistake")
            }
            Some(token) => self.decide(token),
        }
    }

    fn metadata(&self) -> Option<String> {
        Some(self.metadata.to_json())
    }

    fn challenge(&self) -> Challenge {
        Challenge {
            resource_metadata: Some(self.metadata_url.clone()),
            scope: self.metadata.scope(),
        }
    }
}

impl IssuerState {
    fn new(issuer: Issuer, audience: &Arc<str>, fetcher: &Fetcher, ports: &Ports) -> Result<Self, IssuerError> {
        let Issuer {
            name,
            keys,
            introspection,
            scopes,
        } = issuer;
        let jwks = match keys {
            None => None,
            Some(source) => {
                let jwks = Jwks::new(&name, &source, fetcher.clone(), ports);
                match &source {
                    KeySource::Url(_) => jwks.warm_up(),
                    KeySource::File(path) => jwks.set(read_keys(&name, path)?),
                }
                Some(jwks)
            }
        };
        let issuer = TrustedIssuer {
            name: name.into(),
            scopes: Arc::new(scopes),
            audience: Arc::clone(audience),
        };
        let introspector =
            introspection.map(|endpoint| Introspector::new(issuer.clone(), endpoint, fetcher.clone(), ports));
        Ok(Self {
            issuer,
            jwks,
            introspector,
        })
    }
}

/// Until the keys of issuers are looked at again; `None` if no issuer has any.
fn time_to_look(issuers: &[IssuerState]) -> Option<Duration> {
    let keys = issuers.iter().filter_map(|state| state.jwks.as_ref());
    keys.map(Jwks::time_to_look).min()
}

/// Has the keys of issuers fetched while anything is open that their tokens have opened. On a server without requests nothing else would notice that a key was
/// withdrawn.
fn keep_fresh(
    issuers: &Arc<[IssuerState]>,
    verified: &Arc<Cache<TokenDigest, VerifiedJwt>>,
    clock: Arc<dyn Clock>,
) -> impl Future<Output = ()> + Send + 'static {
    let (issuers, verified) = (Arc::downgrade(issuers), Arc::downgrade(verified));
    async move {
        loop {
            let Some(pause) = issuers.upgrade().and_then(|issuers| time_to_look(&issuers)) else {
                return;
            };
            clock.sleep(pause).await;
            let (Some(issuers), Some(verified)) = (issuers.upgrade(), verified.upgrade()) else {
                return;
            };
            // One is the table's own, one that of the iteration.
            let held = verified
                .iter()
                .filter(|(_, token)| Arc::strong_count(&token.identity) > 2);
            let held: HashSet<usize> = held.map(|(_, token)| token.issuer).collect();
            for jwks in held.into_iter().filter_map(|place| issuers[place].jwks.as_ref()) {
                jwks.are_usable();
            }
        }
    }
}

fn introspect<'a>(introspector: &'a Arc<Introspector>, token: &'a str, digest: TokenDigest) -> AuthDecision<'a> {
    match introspector.known(token, &digest) {
        Some(known) => AuthDecision::Known(known),
        None if introspector.accepted(&digest) => {
            AuthDecision::Renewing(Box::pin(introspector.identify(token, digest)))
        }
        None => AuthDecision::Pending(Box::pin(introspector.identify(token, digest))),
    }
}

fn refuse<'a>(reason: &'static str) -> AuthDecision<'a> {
    AuthDecision::Known(Err(Denied::invalid(reason)))
}

/// The keys of an issuer in a file.
fn read_keys(issuer: &str, path: &Path) -> Result<KeySet, IssuerError> {
    let keys = read_file(path).and_then(|text| KeySet::parse(&text));
    let keys = keys.and_then(|keys| match keys.is_empty() {
        true => Err(NO_KEY.to_owned()),
        false => Ok(keys),
    });
    keys.map_err(|reason| IssuerError::KeyFile {
        issuer: issuer.to_owned(),
        path: path.to_owned(),
        reason,
    })
}

/// What one issuer's settings do not show.
fn check(issuers: &[Issuer]) -> Result<(), IssuerError> {
    if issuers.is_empty() {
        return Err(IssuerError::None);
    }
    for (at, issuer) in issuers.iter().enumerate() {
        if issuer.keys.is_none() && issuer.introspection.is_none() {
            return Err(IssuerError::NoVerification(issuer.name.clone()));
        }
        if issuers[..at].iter().any(|other| other.name == issuer.name) {
            return Err(IssuerError::Twice(issuer.name.clone()));
        }
    }
    let mut introspected = issuers.iter().filter(|issuer| issuer.introspection.is_some());
    match (introspected.next(), introspected.next()) {
        (Some(one), Some(other)) => Err(IssuerError::TwoIntrospections(one.name.clone(), other.name.clone())),
        _ => Ok(()),
    }
}
