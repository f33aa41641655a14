//! Logging in to a protected server, and staying logged in.

use crate::authorization_server::{Issued, Protected};
use longhaul_client::{
    AccessToken, CallResponse, Connection, Consent, Login, LoginOptions, Options, RegisteredByHand, RequestError,
    TokenError, TokenFile, TokenProvider, Url,
};
use longhaul_core::BoxFuture;
use reqwest::redirect::Policy;
use serde_json::{Map, json};
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};
use tempfile::tempdir;

impl Protected {
    pub(crate) fn login(&self, folder: &Path, consent: Option<Arc<dyn Consent>>) -> Arc<Login> {
        let mut options = LoginOptions::default();
        options.consent = consent;
        let file = TokenFile::open(&folder.join("tokens.json")).unwrap();
        Arc::new(Login::new(&self.url(), file, options).unwrap())
    }

    /// A connection with this login.
    pub(crate) fn connect(&self, login: &Arc<Login>) -> Connection {
        let mut options = Options::named("test", "0");
        options.tokens = Some(Arc::clone(login) as _);
        Connection::lazy(&self.url(), options).unwrap()
    }
}

/// A user with a browser, who agrees to every login.
#[derive(Default)]
pub(crate) struct Browser {
    pub(crate) logins: AtomicUsize,
    /// What becomes of the URL that the browser is sent to.
    tamper: Option<fn(&str) -> String>,
}

impl Consent for Browser {
    fn redirect_uri<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        Box::pin(std::future::ready(Ok("http://127.0.0.1:9/callback".to_owned())))
    }

    fn authorize<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        Box::pin(async move {
            self.logins.fetch_add(1, Ordering::Relaxed);
            let browser = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
            let answer = browser.get(url.clone()).send().await.unwrap();
            let location = answer.headers()["location"].to_str().unwrap();
            let location = self
                .tamper
                .map_or_else(|| location.to_owned(), |tamper| tamper(location));
            Ok(Url::parse(&location).unwrap())
        })
    }
}

/// A user who never logs in.
pub(crate) struct NoBrowser;

impl Consent for NoBrowser {
    fn redirect_uri<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Result<String, TokenError>> {
        Box::pin(std::future::ready(Ok("http://127.0.0.1:9/callback".to_owned())))
    }

    fn authorize<'a>(&'a self, _: &'a Url) -> BoxFuture<'a, Result<Url, TokenError>> {
        let reason = "nobody is there".to_owned();
        Box::pin(std::future::ready(Err(TokenError::LoginRequired {
            reason,
            names_issuers: true,
        })))
    }
}

/// The words of a scope, in no order.
pub(crate) fn words(scope: &str) -> BTreeSet<&str> {
    scope.split(' ').collect()
}

type Tamper = fn(&str) -> String;

pub(crate) async fn call(connection: &Connection) -> Result<(), RequestError> {
    let tool = connection.list_tools().await?.remove(0);
    match connection.call_tool(&tool, &Map::new(), &mut |_| {}).await? {
        CallResponse::Done(_) => Ok(()),
        CallResponse::Task(_) => panic!("a task"),
    }
}

pub(crate) fn browser() -> Arc<Browser> {
    Arc::default()
}

pub(crate) fn token_error(result: Result<(), RequestError>) -> TokenError {
    match result {
        Err(RequestError::Token { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

/// One login serves every later process.
#[tokio::test]
async fn a_login_is_made_once_and_outlives_the_process() {
    let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
    let login = server.login(folder.path(), Some(browser.clone()));
    assert_eq!(login.who().await.unwrap(), None);
    call(&server.connect(&login)).await.unwrap();
    let who = login.who().await.unwrap().unwrap();
    assert_eq!((who.issuer.as_deref(), who.refreshes), (Some(&*server.origin), true));
    assert_eq!(who.scopes, ["read"]);

    let later = server.login(folder.path(), None);
    call(&server.connect(&later)).await.unwrap();
    assert_eq!(browser.logins.load(Ordering::Relaxed), 1);

    // A second login is not another client.
    login.log_in(None).await.unwrap();
    assert_eq!(server.issued(|issued| issued.registrations), 1);

    // Nothing stays, and secrets of the client neither.
    assert!(later.log_out().await.unwrap());
    let left = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
    assert!(!left.contains("client"), "{left}");
    assert!(!later.log_out().await.unwrap());
    let error = token_error(call(&server.connect(&later)).await);
    assert!(matches!(error, TokenError::LoginRequired { .. }), "{error}");
    login.log_in(None).await.unwrap();
    assert_eq!(server.issued(|issued| issued.registrations), 2);
    call(&server.connect(&server.login(folder.path(), None))).await.unwrap();
}

#[tokio::test]
async fn a_login_of_the_client_itself_is_repeated_when_it_ends() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let file = || TokenFile::open(&folder.path().join("tokens.json")).unwrap();
    let mut options = LoginOptions::default();
    options.as_client = true;
    options.identity.registered = Some(RegisteredByHand {
        client_id: "robot".to_owned(),
        client_secret: Some("its secret".to_owned()),
    });
    let login = Login::new(&server.url(), file(), options).unwrap();
    login.log_in(None).await.unwrap();
    assert!(login.who().await.unwrap().unwrap().refreshes);

    // Another process knows only the file, and has nobody to ask.
    server.issued(|issued| issued.access.clear());
    let later = server.login(folder.path(), None);
    call(&server.connect(&later)).await.unwrap();
    let asked = server.issued(|issued| issued.clients_asked.clone());
    assert_eq!(asked, ["robot its secret"; 2]);

    // The secret is not shown to another authorization server.
    let other = Protected::start().await;
    let named = String::leak(other.origin.clone());
    server.issued(|issued| {
        issued.access.clear();
        issued.named_issuer = Some(named);
    });
    let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
    assert!(matches!(error, TokenError::LoginRequired { .. }), "{error}");
    for part in [&*server.origin, &other.origin, "name the new one as `issuer`"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert!(other.issued(|issued| issued.clients_asked.is_empty()));
}

/// Whoever changes the client in a configuration means that its tokens are used.
#[tokio::test]
async fn a_token_of_another_client_than_the_configured_one_is_not_used() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let login = |client: &str| {
        let mut options = LoginOptions::default();
        options.as_client = true;
        options.identity.registered = Some(RegisteredByHand {
            client_id: client.to_owned(),
            client_secret: Some("secret".to_owned()),
        });
        let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
        Arc::new(Login::new(&server.url(), file, options).unwrap())
    };
    for client in ["one", "one", "other", "other"] {
        call(&server.connect(&login(client))).await.unwrap();
    }
    let asked = server.issued(|issued| issued.clients_asked.clone());
    assert_eq!(asked, ["one secret", "other secret"]);
}

/// Codes, tokens and secrets are sent there.
#[tokio::test]
async fn an_authorization_server_without_tls_is_refused_but_on_this_machine() {
    for name in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
        for address in [
            "http://example.com/x",
            "http://10.0.0.1/x",
            "javascript:alert(1)",
            "not a URL",
        ] {
            let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
            server.issued(|issued| issued.metadata = json!({name: address}));
            let login = server.login(folder.path(), Some(browser.clone()));
            let error = token_error(call(&server.connect(&login)).await).to_string();
            assert!(error.contains(address), "{name} {address}: {error}");
            assert_eq!(browser.logins.load(Ordering::Relaxed), 0);
            assert_eq!(server.issued(|issued| issued.registrations), 0);
        }
    }
}

/// What is untrue in metadata.
type Lie = fn(&mut Issued, &str);

/// RFC 9728, section 3.3, and RFC 8414, section 3.3: metadata of another resource, or of another issuer, is not used.
#[tokio::test]
async fn s_30_metadata_of_another_server_or_issuer_is_refused_before_anything_is_sent() {
    let other_issuer: Lie = |issued, _| issued.metadata = json!({"issuer": "https://other.example"});
    let other_resource: Lie = |issued, _| issued.named_resource = Some("https://other.example/mcp".to_owned());
    // The same place, and another server there.
    let resource_beside: Lie = |issued, origin| issued.named_resource = Some(format!("{origin}/another"));
    // Without a challenge the metadata are looked for at their usual place. The authorization server at the origin is none that the server has named.
    let lies: [(Lie, bool, &str); 6] = [
        (other_resource, true, "other.example"),
        (other_resource, false, "other.example"),
        (resource_beside, true, "/another"),
        (resource_beside, false, "/another"),
        (other_issuer, true, "other.example"),
        (other_issuer, false, "other.example"),
    ];
    for (lie, is_challenged, named) in lies {
        let (server, folder) = (Protected::start().await, tempdir().unwrap());
        server.issued(|issued| lie(issued, &server.origin));
        let login = server.login(folder.path(), Some(browser()));
        let error = match is_challenged {
            true => token_error(call(&server.connect(&login)).await).to_string(),
            false => login.log_in(None).await.unwrap_err().to_string(),
        };
        assert!(error.contains(named), "{named}: {error}");
        if server.issued(|issued| issued.named_resource.is_some()) {
            let both = error.contains("are those of") && error.contains(&format!("not of {}", server.url()));
            assert!(both, "{error}");
        }
        server.issued(|issued| {
            assert_eq!(
                (issued.registrations, issued.asked.len(), issued.grants.len()),
                (0, 0, 0)
            );
        });
    }
}

#[tokio::test]
async fn an_ended_token_is_refreshed_once_by_many() {
    let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
    // It is not used for so long.
    server.issued(|issued| issued.lifetime = 1);
    call(&server.connect(&server.login(folder.path(), Some(browser.clone()))))
        .await
        .unwrap();
    server.issued(|issued| {
        issued.access.clear();
        issued.grants.clear();
        issued.lifetime = 3600;
    });
    // Each is a process of its own, as far as the file is concerned; the server accepts each refresh token once.
    let logins: Vec<Arc<Login>> = (0..8).map(|_| server.login(folder.path(), None)).collect();
    let calls = logins.iter().map(|login| async { call(&server.connect(login)).await });
    for called in futures_util::future::join_all(calls).await {
        called.unwrap();
    }
    assert_eq!(server.issued(|issued| issued.grants.clone()), ["refresh_token"]);

    // A token that the server forgot before its end.
    server.issued(|issued| issued.access.clear());
    call(&server.connect(&logins[0])).await.unwrap();
    assert_eq!(browser.logins.load(Ordering::Relaxed), 1);
}

/// A token that is still accepted is used while its authorization server is not available, and after its end that is an error.
#[tokio::test]
async fn a_token_that_cannot_be_refreshed_is_used_to_its_end() {
    let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
    call(&server.connect(&server.login(folder.path(), Some(browser.clone()))))
        .await
        .unwrap();
    server.issued(|issued| {
        issued.is_down = true;
        issued.grants.clear();
    });
    let ends_in = |seconds: u64| {
        let file = folder.path().join("tokens.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, after) = text.split_once(r#""token_received_at":"#).unwrap();
        let digits = after.trim_start().find(|c: char| !c.is_ascii_digit()).unwrap();
        let rest = &after.trim_start()[digits..];
        #[expect(clippy::disallowed_methods, reason = "tokens end by the system's clock")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let received = now.as_secs() + seconds - 3600;
        std::fs::write(&file, format!(r#"{before}"token_received_at":{received}{rest}"#)).unwrap();
    };
    ends_in(25);
    let login = server.login(folder.path(), None);
    for _ in 0..3 {
        call(&server.connect(&login)).await.unwrap();
    }
    assert_eq!(
        server.issued(|issued| issued.grants.clone()),
        ["refresh_token"],
        "asked once"
    );

    ends_in(0);
    let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
    assert!(matches!(error, TokenError::Unavailable { .. }), "{error}");
    server.issued(|issued| issued.is_down = false);
    call(&server.connect(&server.login(folder.path(), None))).await.unwrap();
    assert_eq!(browser.logins.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_refused_refresh_token_needs_a_new_login() {
    let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
    let login = server.login(folder.path(), Some(browser.clone()));
    call(&server.connect(&login)).await.unwrap();
    server.issued(|issued| {
        issued.access.clear();
        issued.refresh.clear();
    });
    let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
    assert!(matches!(error, TokenError::LoginRequired { .. }), "{error}");
    call(&server.connect(&login)).await.unwrap();
    assert_eq!(browser.logins.load(Ordering::Relaxed), 2);
}

/// The new token permits what the old one did, and a server that is never content is not asked for ever.
#[tokio::test]
async fn a_server_that_wants_more_permissions_gets_them_beside_the_old_ones() {
    let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
    let login = server.login(folder.path(), Some(browser.clone()));
    let connection = server.connect(&login);
    call(&connection).await.unwrap();
    server.issued(|issued| issued.call_scope = "deploy");
    let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
    assert!(error.to_string().contains("permits deploy"), "{error}");
    call(&connection).await.unwrap();
    let asked = server.issued(|issued| issued.asked.clone());
    assert_eq!(asked.len(), 2);
    assert_eq!(words(&asked[1]), words("read deploy"));

    server.issued(|issued| {
        issued.call_scope = "more";
        issued.grants_only = Some("read deploy");
    });
    let error = token_error(call(&connection).await).to_string();
    assert!(error.contains("does not grant more"), "{error}");
    assert_eq!(browser.logins.load(Ordering::Relaxed), 3);
    // The user has just tried that.
    let error = token_error(call(&connection).await);
    let scopes = vec!["more".to_owned()];
    assert_eq!(error, TokenError::NotGranted { scopes });
    assert_eq!(browser.logins.load(Ordering::Relaxed), 3);

    // It grants all, and the server always wants something else: a request asks twice.
    server.issued(|issued| {
        issued.grants_only = None;
        issued.wants_more = true;
    });
    let refused = call(&connection).await.unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert_eq!(browser.logins.load(Ordering::Relaxed), 5);
}

/// A refresh token is for the authorization server that has issued it.
#[tokio::test]
async fn s_33_a_refresh_token_is_not_shown_to_another_authorization_server() {
    let (server, other) = (Protected::start().await, Protected::start().await);
    let (folder, browser) = (tempdir().unwrap(), browser());
    call(&server.connect(&server.login(folder.path(), Some(browser.clone()))))
        .await
        .unwrap();
    let named = String::leak(other.origin.clone());
    server.issued(|issued| {
        issued.access.clear();
        issued.named_issuer = Some(named);
    });
    let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
    assert!(matches!(error, TokenError::LoginRequired { .. }), "{error}");
    for part in [&*server.origin, &other.origin] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert!(other.issued(|issued| issued.grants.is_empty()));
}

/// No login is made with a server that cannot be trusted, and the texts of a stranger are not shown.
#[tokio::test]
async fn an_answer_that_does_not_fit_the_login_is_refused() {
    let tampered: [(Tamper, &str); 8] = [
        (|to| to.replace("state=", "state=x"), "another login"),
        (|to| format!("{to}&code=another"), "`code` more than once"),
        (
            |to| to.replace("iss=", "iss=https://evil.example&iss="),
            "`iss` more than once",
        ),
        (
            |to| to.replace("iss=", "iss=https://evil.example"),
            "another authorization server",
        ),
        (
            |to| {
                format!(
                    "{}&error=access_denied&error_description=no+luck",
                    to.replace("iss=", "is=").replace("code=", "c=")
                )
            },
            "does not say which authorization server",
        ),
        (
            |to| {
                format!(
                    "{}&error=access_denied&error_description=no+luck",
                    to.replace("code=", "c=")
                )
            },
            "no luck",
        ),
        (|to| to.replace("code=", "code=x"), "exchange failed"),
        (
            |to| {
                to.split_once("&iss").map_or(String::new(), |(head, tail)| {
                    format!("{head}&{}", tail.split_once('&').unwrap().1)
                })
            },
            "does not say which authorization server",
        ),
    ];
    for (tamper, expected) in tampered {
        let (server, folder) = (Protected::start().await, tempdir().unwrap());
        let browser = Browser {
            tamper: Some(tamper),
            ..Browser::default()
        };
        let login = server.login(folder.path(), Some(Arc::new(browser)));
        let error = token_error(call(&server.connect(&login)).await).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(login.who().await.unwrap(), None);
        assert!(server.issued(|issued| issued.access.is_empty()));
    }
    let stranger = Browser {
        tamper: Some(|to| {
            format!(
                "{}&error=x&error_description=buy+this",
                to.replace("iss=", "iss=https://evil.example")
            )
        }),
        ..Browser::default()
    };
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let login = server.login(folder.path(), Some(Arc::new(stranger)));
    let error = token_error(call(&server.connect(&login)).await).to_string();
    assert!(!error.contains("buy"), "{error}");

    server.issued(|issued| issued.has_pkce = false);
    let login = server.login(folder.path(), Some(browser()));
    let error = token_error(call(&server.connect(&login)).await).to_string();
    assert!(error.contains("PKCE"), "{error}");
}

#[tokio::test]
async fn a_key_is_sent_and_not_replaced() {
    let server = Protected::start().await;
    server.issued(|issued| issued.access.insert("lhk_1".to_owned(), "read".to_owned()));
    let with = |key: &str| {
        let mut options = Options::named("test", "0");
        options.tokens = Some(Arc::new(AccessToken::new(key).unwrap()));
        Connection::lazy(&server.url(), options).unwrap()
    };
    call(&with("lhk_1")).await.unwrap();
    let error = call(&with("lhk_2")).await.unwrap_err();
    assert!(matches!(error, RequestError::Unauthorized { .. }), "{error}");
    assert!(error.is_refusal() && !error.to_string().contains("lhk_2"), "{error}");
}

#[tokio::test]
async fn a_kept_key_is_used_instead_of_a_login() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| issued.access.insert("lhk_1".to_owned(), "read".to_owned()));
    let login = server.login(folder.path(), None);
    assert!(login.keep_key("two words").await.is_err());
    login.keep_key("lhk_1").await.unwrap();
    call(&server.connect(&login)).await.unwrap();
    call(&server.connect(&server.login(folder.path(), None))).await.unwrap();
    assert_eq!(login.who().await.unwrap().unwrap().client_id, None);
    server.issued(|issued| issued.access.clear());
    let error = token_error(call(&server.connect(&login)).await);
    assert!(matches!(error, TokenError::LoginRequired { .. }), "{error}");
    // A login takes its place.
    let browser = browser();
    let later = server.login(folder.path(), Some(browser.clone()));
    call(&server.connect(&later)).await.unwrap();
    assert!(later.who().await.unwrap().unwrap().client_id.is_some());
    assert!(later.log_out().await.unwrap());
    assert_eq!(later.who().await.unwrap(), None);
}

/// What another process has done counts from the next request on, although the server still takes what was used before.
#[tokio::test]
async fn a_login_that_another_process_replaces_or_ends_is_not_used_any_more() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let (here, there) = (server.login(folder.path(), None), server.login(folder.path(), None));
    for key in ["lhk_1", "lhk_2"] {
        there.keep_key(key).await.unwrap();
        assert_eq!(here.token().await.unwrap(), Some(AccessToken::new(key).unwrap()));
    }
    assert!(there.log_out().await.unwrap());
    assert_eq!(here.token().await.unwrap(), None);
}

/// The reason is what the user can do something about, or the operator.
#[tokio::test]
async fn a_refusal_is_reported_with_the_reason_of_the_server() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| issued.refuses_because = Some("the audience is another server"));
    let new = token_error(call(&server.connect(&server.login(folder.path(), Some(browser())))).await);
    let kept = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
    let mut options = Options::named("test", "0");
    options.tokens = Some(Arc::new(AccessToken::new("lhk_1").unwrap()));
    let key = call(&Connection::lazy(&server.url(), options).unwrap()).await;
    for error in [new.to_string(), kept.to_string(), key.unwrap_err().to_string()] {
        assert!(error.contains("the audience is another server"), "{error}");
    }
}

#[tokio::test]
async fn an_authorization_server_that_grants_less_is_told_apart() {
    let refuses: Tamper = |to| format!("{}&error=invalid_scope", to.replace("code=", "c="));
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let browser = Browser {
        tamper: Some(refuses),
        ..Browser::default()
    };
    let login = server.login(folder.path(), Some(Arc::new(browser)));
    let error = login.log_in(None).await.unwrap_err();
    assert!(matches!(error, TokenError::InvalidScope { .. }), "{error}");
    server.issued(|issued| issued.metadata = json!({"registration_endpoint": null}));
    let other = tempdir().unwrap();
    let error = server.login(other.path(), Some(self::browser())).log_in(None).await;
    assert_eq!(error.unwrap_err(), TokenError::NoRegistration);
}

/// A server that refuses without saying where to log in.
#[tokio::test]
async fn a_server_that_names_no_authorization_server_is_named_as_the_reason() {
    let peer = crate::peer::Peer::start(|_| crate::peer::plain(401, ""));
    let folder = tempdir().unwrap();
    let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
    let mut login = LoginOptions::default();
    login.consent = Some(browser());
    let mut options = Options::named("test", "0");
    options.tokens = Some(Arc::new(Login::new(&peer.url(), file, login).unwrap()));
    let error = token_error(call(&Connection::lazy(&peer.url(), options).unwrap()).await);
    assert_eq!(error, TokenError::NoIssuer);
}
