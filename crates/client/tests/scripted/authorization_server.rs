//! A server that requires tokens, and the authorization server that issues them: PKCE is verified, codes and refresh tokens work once.

use axum::{
    Form, Json, Router,
    extract::{Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
};

/// What the authorization server has issued, and what a test asks of it.
#[derive(Default)]
pub(crate) struct Issued {
    /// Codes with what they were asked with.
    codes: HashMap<String, HashMap<String, String>>,
    /// Access tokens that are accepted, with their scopes.
    pub(crate) access: HashMap<String, String>,
    /// Refresh tokens that were not used yet, with their scopes.
    pub(crate) refresh: HashMap<String, String>,
    /// The tokens end after this many seconds.
    pub(crate) lifetime: u64,
    /// Each call needs another permission than those that its token has.
    pub(crate) wants_more: bool,
    /// What a call needs.
    pub(crate) call_scope: &'static str,
    /// The server names a scope only when it refuses a token without it.
    pub(crate) names_scopes_late: bool,
    /// Why the server refuses every token, if it does.
    pub(crate) refuses_because: Option<&'static str>,
    /// Each token permits this, whatever was asked for.
    pub(crate) grants_only: Option<&'static str>,
    pub(crate) has_pkce: bool,
    /// Where the protected server says that its authorization server is; `None`: where it is.
    pub(crate) named_issuer: Option<&'static str>,
    /// Authorization servers that the protected server names behind that one.
    pub(crate) more_issuers: Vec<String>,
    /// What the tokens are for, if it is not the server that this authorization server is a part of.
    pub(crate) issues_for: Option<String>,
    /// What the protected server says that it is, instead of the truth.
    pub(crate) named_resource: Option<String>,
    /// How often the metadata of the authorization server were read.
    pub(crate) metadata_reads: usize,
    /// The authorization server answers with 503.
    pub(crate) is_down: bool,
    /// What is said of the authorization server instead of the truth.
    pub(crate) metadata: Value,
    /// How often a token was asked for, by grant.
    pub(crate) grants: Vec<String>,
    pub(crate) registrations: usize,
    /// Clients that have registered themselves, with the scopes they registered for. A test that removes one makes the server forget it.
    pub(crate) clients: HashMap<String, String>,
    /// A login may ask only for what its client has registered for.
    pub(crate) holds_to_registration: bool,
    /// The permissions that the authorization server knows; another one is refused.
    pub(crate) knows_scopes: Option<Vec<&'static str>>,
    /// A client that is not known is refused when it asks for tokens, and not before.
    pub(crate) checks_clients_late: bool,
    /// A code that is not known is refused before the client is looked at.
    pub(crate) checks_codes_first: bool,
    /// The type of the tokens.
    pub(crate) token_type: Option<&'static str>,
    /// The server takes names and passwords, too, and says so first.
    pub(crate) has_other_scheme: bool,
    /// Where the metadata of the protected server are, of `/elsewhere` and the two usual places. The challenge names the first.
    pub(crate) described_at: Vec<&'static str>,
    /// The only place where the metadata of the authorization server are; `None` for the first one.
    pub(crate) issuer_described_at: Option<String>,
    /// Where metadata were asked for.
    pub(crate) places_asked: Vec<String>,
    /// The permissions that the metadata of the protected server name.
    pub(crate) scopes_supported: Option<Vec<&'static str>>,
    /// What clients have registered.
    pub(crate) registered: Vec<Value>,
    /// As whom tokens were asked for without a user.
    pub(crate) clients_asked: Vec<String>,
    /// The scopes of each login.
    pub(crate) asked: Vec<String>,
    next: u32,
}

impl Issued {
    fn name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}", self.next)
    }

    /// Whether a client has registered itself, and was forgotten.
    fn has_forgotten(&self, client: &str) -> bool {
        client.starts_with("client-") && !self.clients.contains_key(client)
    }

    fn issue(&mut self, scope: &str) -> Value {
        let scope = self.grants_only.unwrap_or(scope);
        let (access, refresh) = (self.name("access"), self.name("refresh"));
        self.access.insert(access.clone(), scope.to_owned());
        self.refresh.insert(refresh.clone(), scope.to_owned());
        json!({
            "access_token": access, "token_type": self.token_type.unwrap_or("Bearer"), "expires_in": self.lifetime,
            "refresh_token": refresh, "scope": scope,
        })
    }
}

#[derive(Clone)]
pub(crate) struct Protected {
    pub(crate) origin: String,
    pub(crate) issued: Arc<Mutex<Issued>>,
}

impl Protected {
    pub(crate) async fn start() -> Self {
        Self::start_on("127.0.0.1".parse().unwrap()).await
    }

    #[expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]
    pub(crate) async fn start_on(address: IpAddr) -> Self {
        let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
        let issued = Issued {
            lifetime: 3600,
            call_scope: "read",
            has_pkce: true,
            described_at: vec!["/.well-known/oauth-protected-resource/mcp"],
            ..Issued::default()
        };
        let server = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            issued: Arc::new(Mutex::new(issued)),
        };
        let app = Router::new()
            .route("/mcp", post(mcp))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .fallback(get(metadata))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// What the tokens are for.
    fn resource(&self) -> String {
        let other = self.issued(|issued| issued.issues_for.clone());
        other.unwrap_or_else(|| self.url())
    }

    pub(crate) fn issued<T>(&self, look: impl FnOnce(&mut Issued) -> T) -> T {
        look(&mut self.issued.lock().unwrap())
    }
}

async fn metadata(server: State<Protected>, uri: Uri) -> Response {
    let place = uri.path();
    let (is_of_resource, is_of_issuer) = server.issued(|issued| {
        issued.places_asked.push(place.to_owned());
        let usual = "/.well-known/oauth-authorization-server";
        let of_issuer = issued.issuer_described_at.as_deref().unwrap_or(usual);
        (issued.described_at.contains(&place), of_issuer == place)
    });
    match (is_of_resource, is_of_issuer) {
        (true, _) => resource_metadata(server).await.into_response(),
        (_, true) => server_metadata(server).await.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn resource_metadata(State(server): State<Protected>) -> Json<Value> {
    let issuer = server.issued(|issued| issued.named_issuer.map(str::to_owned));
    let issuer = issuer.unwrap_or_else(|| server.origin.clone());
    let resource = server.issued(|issued| issued.named_resource.clone());
    let resource = resource.unwrap_or_else(|| server.url());
    let mut issuers = vec![issuer];
    issuers.extend(server.issued(|issued| issued.more_issuers.clone()));
    let mut metadata = json!({"resource": resource, "authorization_servers": issuers});
    let scopes = server.issued(|issued| match &issued.scopes_supported {
        None if issued.names_scopes_late => Vec::new(),
        None => vec!["read"],
        Some(scopes) => scopes.clone(),
    });
    if !scopes.is_empty() {
        metadata["scopes_supported"] = json!(scopes);
    }
    Json(metadata)
}

async fn server_metadata(State(server): State<Protected>) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", server.origin);
    let mut metadata = json!({
        "issuer": server.origin, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
        "registration_endpoint": at("/register"), "response_types_supported": ["code"],
        "authorization_response_iss_parameter_supported": true,
    });
    if server.issued(|issued| issued.has_pkce) {
        metadata["code_challenge_methods_supported"] = json!(["S256"]);
    }
    let instead = server.issued(|issued| {
        issued.metadata_reads += 1;
        issued.metadata.clone()
    });
    for (name, value) in instead.as_object().into_iter().flatten() {
        metadata[name] = value.clone();
    }
    Json(metadata)
}

async fn register(State(server): State<Protected>, Json(client): Json<Value>) -> Json<Value> {
    let client_id = server.issued(|issued| {
        issued.registrations += 1;
        issued.registered.push(client.clone());
        let client_id = issued.name("client");
        let scope = client["scope"].as_str().unwrap_or_default();
        issued.clients.insert(client_id.clone(), scope.to_owned());
        client_id
    });
    Json(json!({"client_id": client_id, "redirect_uris": client["redirect_uris"]}))
}

async fn authorize(State(server): State<Protected>, Query(mut asked): Query<HashMap<String, String>>) -> Redirect {
    // RFC 6749, section 3.3.
    asked.entry("scope".to_owned()).or_default();
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], server.resource());
    let named = server.issued(|issued| issued.metadata["issuer"].as_str().map(str::to_owned));
    let issuer = named.as_ref().unwrap_or(&server.origin);
    let to = format!("{}?state={}&iss={issuer}", asked["redirect_uri"], asked["state"]);
    let refused = server.issued(|issued| {
        let registered = issued.clients.get(&asked["client_id"]);
        let may =
            |scope: &str| registered.is_some_and(|scopes| scopes.split(' ').any(|registered| registered == scope));
        if issued.has_forgotten(&asked["client_id"]) && !issued.checks_clients_late {
            return Some("unauthorized_client");
        }
        let is_strict = issued.holds_to_registration && !asked["scope"].is_empty();
        let knows = |scope: &str| {
            issued
                .knows_scopes
                .as_ref()
                .is_none_or(|known| scope.is_empty() || known.contains(&scope))
        };
        let is_invalid = (is_strict && !asked["scope"].split(' ').all(may)) || !asked["scope"].split(' ').all(knows);
        is_invalid.then_some("invalid_scope")
    });
    if let Some(error) = refused {
        return Redirect::to(&format!("{to}&error={error}"));
    }
    let code = server.issued(|issued| {
        issued.asked.push(asked["scope"].clone());
        let code = issued.name("code");
        issued.codes.insert(code.clone(), asked);
        code
    });
    Redirect::to(&format!("{to}&code={code}"))
}

async fn token(State(server): State<Protected>, Form(asked): Form<HashMap<String, String>>) -> Response {
    let refuse = || (StatusCode::BAD_REQUEST, Json(json!({"error": "invalid_grant"}))).into_response();
    assert_eq!(asked["resource"], server.resource());
    server.issued(|issued| {
        issued.grants.push(asked["grant_type"].clone());
        if issued.is_down {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let has_code = asked.get("code").is_none_or(|code| issued.codes.contains_key(code));
        if issued.has_forgotten(&asked["client_id"]) && (has_code || !issued.checks_codes_first) {
            let error = json!({"error": "invalid_client", "error_description": "no such client"});
            return (StatusCode::UNAUTHORIZED, Json(error)).into_response();
        }
        let scope = match asked["grant_type"].as_str() {
            "client_credentials" => {
                issued
                    .clients_asked
                    .push([&*asked["client_id"], &*asked["client_secret"]].join(" "));
                let mut tokens = issued.issue("read");
                if let Some(tokens) = tokens.as_object_mut() {
                    tokens.remove("refresh_token");
                }
                return Json(tokens).into_response();
            }
            "authorization_code" => {
                let Some(code) = issued.codes.remove(&asked["code"]) else {
                    return refuse();
                };
                let verifier = URL_SAFE_NO_PAD.encode(Sha256::digest(&asked["code_verifier"]));
                let same = |name: &str| code[name] == asked[name];
                if verifier != code["code_challenge"] || !same("redirect_uri") || !same("client_id") {
                    return refuse();
                }
                code["scope"].clone()
            }
            _ => match issued.refresh.remove(&asked["refresh_token"]) {
                Some(scope) => scope,
                None => return refuse(),
            },
        };
        Json(issued.issue(&scope)).into_response()
    })
}

async fn mcp(State(server): State<Protected>, headers: HeaderMap, Json(message): Json<Value>) -> Response {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|token| token.strip_prefix("Bearer "));
    let is_call = message["method"] == "tools/call";
    let (scope, wanted) = server.issued(|issued| {
        let scope = token.and_then(|token| issued.access.get(token)).cloned();
        let wanted = match (is_call, issued.wants_more) {
            (true, true) => issued.name("more"),
            (true, false) => issued.call_scope.to_owned(),
            (false, _) => "read".to_owned(),
        };
        (scope, wanted)
    });
    let refuse = |status: StatusCode, error: &str| {
        let metadata = format!("{}{}", server.origin, server.issued(|issued| issued.described_at[0]));
        let is_late = server.issued(|issued| issued.names_scopes_late) && status == StatusCode::UNAUTHORIZED;
        let scope = if is_late {
            String::new()
        } else {
            format!(r#", scope="{wanted}""#)
        };
        let challenge = format!(r#"Bearer {error}resource_metadata="{metadata}"{scope}"#);
        let mut response = (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
        if server.issued(|issued| issued.has_other_scheme) {
            let bearer = response.headers_mut().remove(header::WWW_AUTHENTICATE);
            for challenge in [Some(HeaderValue::from_static(r#"Basic realm="tools""#)), bearer] {
                let challenge = challenge.unwrap();
                response.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
        }
        response
    };
    if let Some(reason) = server
        .issued(|issued| issued.refuses_because)
        .filter(|_| token.is_some())
    {
        let error = format!(r#"error="invalid_token", error_description="{reason}", "#);
        return refuse(StatusCode::UNAUTHORIZED, &error);
    }
    let Some(scope) = scope else {
        return refuse(StatusCode::UNAUTHORIZED, "");
    };
    if !scope.split(' ').any(|granted| granted == wanted) {
        return refuse(StatusCode::FORBIDDEN, r#"error="insufficient_scope", "#);
    }
    let result = match message["method"].as_str() {
        Some("server/discover") => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "protected", "version": "0"},
        }),
        Some("tools/list") => json!({
            "resultType": "complete", "tools": [{"name": "deploy", "inputSchema": {"type": "object"}}],
        }),
        _ => json!({"resultType": "complete", "content": []}),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}
