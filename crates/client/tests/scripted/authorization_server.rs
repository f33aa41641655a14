//! A server that requires tokens, and the authorization server that issues them: PKCE is verified, codes and refresh tokens work once.

use axum::{
    Form, Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
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

    fn issue(&mut self, scope: &str) -> Value {
        let scope = self.grants_only.unwrap_or(scope);
        let (access, refresh) = (self.name("access"), self.name("refresh"));
        self.access.insert(access.clone(), scope.to_owned());
        self.refresh.insert(refresh.clone(), scope.to_owned());
        json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.lifetime,
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
            ..Issued::default()
        };
        let server = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            issued: Arc::new(Mutex::new(issued)),
        };
        let app = Router::new()
            .route("/mcp", post(mcp))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource_metadata))
            .route("/.well-known/oauth-authorization-server", get(server_metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
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

async fn resource_metadata(State(server): State<Protected>) -> Json<Value> {
    let issuer = server.issued(|issued| issued.named_issuer.map(str::to_owned));
    let issuer = issuer.unwrap_or_else(|| server.origin.clone());
    let resource = server.issued(|issued| issued.named_resource.clone());
    let resource = resource.unwrap_or_else(|| server.url());
    let mut issuers = vec![issuer];
    issuers.extend(server.issued(|issued| issued.more_issuers.clone()));
    let mut metadata = json!({"resource": resource, "authorization_servers": issuers});
    if !server.issued(|issued| issued.names_scopes_late) {
        metadata["scopes_supported"] = json!(["read"]);
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
        issued.name("client")
    });
    Json(json!({"client_id": client_id, "redirect_uris": client["redirect_uris"]}))
}

async fn authorize(State(server): State<Protected>, Query(mut asked): Query<HashMap<String, String>>) -> Redirect {
    // RFC 6749, section 3.3.
    asked.entry("scope".to_owned()).or_default();
    assert_eq!(asked["code_challenge_method"], "S256");
    assert_eq!(asked["resource"], server.resource());
    let to = format!(
        "{}?state={}&iss={}",
        asked["redirect_uri"], asked["state"], server.origin
    );
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
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", server.origin);
        let is_late = server.issued(|issued| issued.names_scopes_late) && status == StatusCode::UNAUTHORIZED;
        let scope = if is_late {
            String::new()
        } else {
            format!(r#", scope="{wanted}""#)
        };
        let challenge = format!(r#"Bearer {error}resource_metadata="{metadata}"{scope}"#);
        (status, [(header::WWW_AUTHENTICATE, challenge)]).into_response()
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
