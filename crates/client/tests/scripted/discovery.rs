//! Where a client finds the authorization server of a server, and as whom it comes there.

use crate::login::NoBrowser;
use axum::{
    Json, Router,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use longhaul_client::{Consent, Login, LoginOptions, RegisteredByHand, TokenError, TokenFile, Url};
use longhaul_core::BoxFuture;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};
use tempfile::tempdir;

/// A server with a document at each of these paths, and nothing elsewhere.
#[derive(Clone)]
struct Site {
    origin: String,
    documents: Arc<Mutex<BTreeMap<String, Value>>>,
    /// What was asked for, in order.
    asked: Arc<Mutex<Vec<String>>>,
    /// The bodies of registrations.
    registered: Arc<Mutex<Vec<Value>>>,
}

impl Site {
    #[expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let site = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            documents: Arc::default(),
            asked: Arc::default(),
            registered: Arc::default(),
        };
        let app = Router::new().fallback(answer).with_state(site.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        site
    }

    fn put(&self, path: &str, document: Value) {
        self.documents.lock().unwrap().insert(path.to_owned(), document);
    }

    /// Describes the server at `/mcp` at one place, and its authorization server, whose issuer has this path, at another one.
    fn describe(&self, resource: &str, server: &str, issuer: &str) {
        let metadata = json!({
            "resource": format!("{}/mcp", self.origin),
            "authorization_servers": [format!("{}{issuer}", self.origin)],
        });
        self.put(resource, metadata);
        let at = |path: &str| format!("{}{path}", self.origin);
        let metadata = json!({
            "issuer": format!("{}{issuer}", self.origin), "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"), "registration_endpoint": at("/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        });
        self.put(server, metadata);
    }

    fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        change(self.documents.lock().unwrap().get_mut(path).unwrap());
    }

    /// What was asked for since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn login(&self, folder: &tempfile::TempDir, change: impl FnOnce(&mut LoginOptions)) -> (Login, Arc<Shown>) {
        let shown = Arc::new(Shown::default());
        let mut options = LoginOptions::default();
        options.consent = Some(shown.clone());
        change(&mut options);
        let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
        (
            Login::new(&format!("{}/mcp", self.origin), file, options).unwrap(),
            shown,
        )
    }

    /// What the user is asked to agree to in a login that begins with this challenge.
    async fn shown(
        &self,
        folder: &tempfile::TempDir,
        challenge: Option<&str>,
        change: impl FnOnce(&mut LoginOptions),
    ) -> HashMap<String, String> {
        let (login, shown) = self.login(folder, change);
        let ended = login.log_in(challenge).await.unwrap_err();
        let url = shown.0.lock().unwrap().take();
        let url = url.unwrap_or_else(|| panic!("{ended}"));
        assert!(
            url.as_str().starts_with(&format!("{}/authorize?", self.origin)),
            "{url}"
        );
        url.query_pairs().into_owned().collect()
    }
}

async fn answer(State(site): State<Site>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    site.asked.lock().unwrap().push(path.clone());
    if path == "/register" {
        let body = axum::body::to_bytes(request.into_body(), 1 << 16).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let id = format!("registered-{}", site.registered.lock().unwrap().len());
        let answer = json!({"client_id": id, "redirect_uris": body["redirect_uris"]});
        site.registered.lock().unwrap().push(body);
        return Json(answer).into_response();
    }
    let document = site.documents.lock().unwrap().get(&path).cloned();
    match (document, path.as_str()) {
        (Some(document), _) => Json(document).into_response(),
        (None, "/mcp") => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response(),
        (None, _) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A user who reads where to log in, and leaves.
#[derive(Default)]
struct Shown(Mutex<Option<Url>>);

/// The same, whose browser returns to another address.
struct ReturningElsewhere(Arc<Shown>);

impl Consent for ReturningElsewhere {
    fn redirect_uri<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        Box::pin(std::future::ready(Ok("http://127.0.0.1:10/callback".to_owned())))
    }

    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        self.0.authorize(url)
    }
}

impl Consent for Shown {
    fn redirect_uri<'a>(&'a self, preferred: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        NoBrowser.redirect_uri(preferred)
    }

    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        *self.0.lock().unwrap() = Some(url.clone());
        NoBrowser.authorize(url)
    }
}

const OF_ORIGIN: &str = "/.well-known/oauth-authorization-server";
const OF_RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";

/// What a challenge announces comes first, then the place for the server's path, then that of the origin (RFC 9728).
#[tokio::test]
async fn s_30_metadata_of_a_server_are_found_at_each_of_their_places() {
    for (place, is_announced) in [
        ("/elsewhere/metadata", true),
        (OF_RESOURCE, false),
        ("/.well-known/oauth-protected-resource", false),
    ] {
        let (site, folder) = (Site::start().await, tempdir().unwrap());
        site.describe(place, OF_ORIGIN, "");
        let challenge = format!(r#"Bearer resource_metadata="{}{place}""#, site.origin);
        let asked = site.shown(&folder, is_announced.then_some(&*challenge), |_| {}).await;
        assert_eq!(asked["resource"], format!("{}/mcp", site.origin), "{place}");
        let requests = site.asked();
        let mut of_resources = requests
            .iter()
            .filter(|path| path.contains("resource") || *path == place);
        assert_eq!(of_resources.next_back().unwrap(), place, "{requests:?}");
        if is_announced {
            assert_eq!(requests[0], place, "{requests:?}");
        }
    }
}

/// RFC 8414 with the issuer's path inserted, then OpenID Connect with it inserted, then with it in front.
#[tokio::test]
async fn s_30_metadata_of_an_authorization_server_are_found_at_each_of_their_places() {
    let of_tenant = [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration",
    ];
    let of_origin = [OF_ORIGIN, "/.well-known/openid-configuration"];
    for (issuer, places) in [("/tenant", of_tenant.as_slice()), ("", &of_origin)] {
        for (nth, place) in places.iter().enumerate() {
            let (site, folder) = (Site::start().await, tempdir().unwrap());
            site.describe(OF_RESOURCE, place, issuer);
            site.shown(&folder, None, |_| {}).await;
            let mut requests = site.asked();
            requests.retain(|path| places.contains(&&**path));
            requests.dedup();
            assert_eq!(requests, places[..=nth], "{place}");
        }
    }
}

/// Nothing is asked of a user without PKCE and without the server that the token is for.
#[tokio::test]
async fn s_31_a_login_names_its_server_and_proves_that_it_began_it() {
    let (site, folder) = (Site::start().await, tempdir().unwrap());
    site.describe(OF_RESOURCE, OF_ORIGIN, "");
    let asked = site.shown(&folder, None, |_| {}).await;
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], format!("{}/mcp", site.origin));
    // 256 bits, and other ones each time.
    let again = site.shown(&folder, None, |_| {}).await;
    for name in ["code_challenge", "state"] {
        assert!(asked[name].len() >= 22, "{asked:?}");
        assert_ne!(asked[name], again[name]);
    }
    for unfit in [json!(null), json!([]), json!(["plain"])] {
        site.change(OF_ORIGIN, |metadata| {
            metadata["code_challenge_methods_supported"] = unfit.clone();
        });
        let (login, shown) = site.login(&folder, |_| {});
        let refused = login.log_in(None).await.unwrap_err().to_string();
        assert!(refused.contains("PKCE"), "{unfit}: {refused}");
        assert!(shown.0.lock().unwrap().is_none());
    }
}

/// Registered by hand, then by a metadata document where the server reads them, then by an earlier registration at the same server, then by a new one.
#[tokio::test]
async fn s_33_a_client_is_known_in_the_first_way_there_is() {
    const DOCUMENT: &str = "https://client.example/metadata.json";
    let (site, folder) = (Site::start().await, tempdir().unwrap());
    site.describe(OF_RESOURCE, OF_ORIGIN, "");
    let by_hand = |options: &mut LoginOptions| {
        options.identity.metadata_url = Some(DOCUMENT.to_owned());
        options.identity.registered = Some(RegisteredByHand {
            client_id: "by-hand".to_owned(),
            client_secret: None,
        });
    };
    let by_document = |options: &mut LoginOptions| options.identity.metadata_url = Some(DOCUMENT.to_owned());
    // This server reads no documents.
    let first = site.shown(&folder, None, by_document).await;
    assert_eq!(first["client_id"], "registered-0");
    let body = site.registered.lock().unwrap()[0].clone();
    assert_eq!(body["redirect_uris"], json!([first["redirect_uri"]]));
    assert_eq!(body["application_type"], "native", "{body}");
    assert_eq!(site.shown(&folder, None, |_| {}).await["client_id"], "registered-0");
    site.change(OF_ORIGIN, |metadata| {
        metadata["client_id_metadata_document_supported"] = true.into();
    });
    assert_eq!(site.shown(&folder, None, by_document).await["client_id"], DOCUMENT);
    assert_eq!(site.shown(&folder, None, by_hand).await["client_id"], "by-hand");
    // Another authorization server does not know it.
    site.describe(OF_RESOURCE, "/.well-known/oauth-authorization-server/other", "/other");
    let elsewhere = site.shown(&folder, None, |_| {}).await;
    assert_eq!(elsewhere["client_id"], "registered-1");
    // Nor does this one send a browser to an address that it was not told of.
    let shown = Arc::new(Shown::default());
    let (login, _) = site.login(&folder, |options| {
        options.consent = Some(Arc::new(ReturningElsewhere(shown.clone())));
    });
    login.log_in(None).await.unwrap_err();
    let url = shown.0.lock().unwrap().take().unwrap();
    assert!(url.as_str().contains("client_id=registered-2"), "{url}");
}

/// Nothing is read where others on the network could change it, and a chosen authorization server is the one of the server, or none.
#[tokio::test]
async fn s_30_what_the_server_does_not_name_is_not_trusted() {
    let (site, folder) = (Site::start().await, tempdir().unwrap());
    site.describe(OF_RESOURCE, OF_ORIGIN, "");
    let (login, shown) = site.login(&folder, |_| {});
    let challenge = r#"Bearer resource_metadata="http://198.51.100.1/metadata""#;
    let refused = login.log_in(Some(challenge)).await.unwrap_err().to_string();
    assert!(refused.contains("must be an https address"), "{refused}");
    // The server names none: then it is the one at its own origin.
    site.documents.lock().unwrap().remove(OF_RESOURCE);
    let (chosen, other) = site.login(&folder, |options| {
        options.issuer = Some("https://login.example".to_owned());
    });
    let refused = chosen.log_in(None).await.unwrap_err().to_string();
    assert!(refused.contains("does not trust https://login.example"), "{refused}");
    assert!(shown.0.lock().unwrap().is_none() && other.0.lock().unwrap().is_none());
}

/// What the challenge wants, else what the server says that it has, else nothing.
#[tokio::test]
async fn s_34_the_scope_of_the_challenge_comes_first() {
    let (site, folder) = (Site::start().await, tempdir().unwrap());
    site.describe(OF_RESOURCE, OF_ORIGIN, "");
    let challenge = Some(r#"Bearer scope="tools:build tasks:read""#);
    let nothing = site.shown(&folder, None, |_| {}).await;
    assert_eq!(nothing.get("scope"), None);
    site.change(OF_RESOURCE, |metadata| metadata["scopes_supported"] = json!(["all"]));
    assert_eq!(site.shown(&folder, None, |_| {}).await["scope"], "all");
    let wanted = site.shown(&folder, challenge, |_| {}).await;
    assert_eq!(wanted["scope"], "tools:build tasks:read");
}
