//! Logging in where a server names several authorization servers.

use crate::{
    authorization_server::Protected,
    login::{browser, call, token_error},
};
use longhaul_client::{Login, LoginOptions, TokenError, TokenFile};
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};
use tempfile::{TempDir, tempdir};

/// A server that names its own authorization server, and a second one.
struct Two {
    server: Protected,
    second: Protected,
    folder: TempDir,
}

impl Two {
    async fn start() -> Self {
        let (server, second) = (Protected::start().await, Protected::start().await);
        server.issued(|issued| issued.more_issuers = vec![second.origin.clone()]);
        second.issued(|issued| issued.issues_for = Some(server.url()));
        Self {
            server,
            second,
            folder: tempdir().unwrap(),
        }
    }

    fn login(&self, change: impl FnOnce(&mut LoginOptions)) -> Arc<Login> {
        let mut options = LoginOptions::default();
        options.consent = Some(browser());
        change(&mut options);
        login_in(self.folder.path(), &self.server, options)
    }

    /// The server accepts what the second one has issued.
    fn trust(&self) {
        let access = self.second.issued(|issued| issued.access.clone());
        self.server.issued(|issued| issued.access = access);
    }
}

fn login_in(folder: &Path, server: &Protected, options: LoginOptions) -> Arc<Login> {
    let file = TokenFile::open(&folder.join("tokens.json")).unwrap();
    Arc::new(Login::new(&server.url(), file, options).unwrap())
}

#[tokio::test]
async fn s_30_one_of_several_authorization_servers_is_chosen_and_stays_so() {
    let two = Two::start().await;
    let choosing = two.login(|options| options.issuer = Some(two.second.origin.clone()));
    let logged_in = choosing.log_in(None).await.unwrap();
    assert_eq!(logged_in.issuer.as_ref(), Some(&two.second.origin));
    two.trust();
    call(&two.server.connect(&choosing)).await.unwrap();
    assert_eq!(
        two.server.issued(|issued| (issued.registrations, issued.grants.len())),
        (0, 0)
    );

    // Another process refreshes the token there, also while the first one does not answer.
    let later = two.login(|options| options.consent = None);
    two.server.issued(|issued| {
        issued.access.clear();
        issued.metadata = serde_json::json!({"issuer": "https://broken.example"});
    });
    let refused = token_error(call(&two.server.connect(&later)).await);
    assert!(refused.to_string().contains("has just issued"), "{refused}");
    two.trust();
    call(&two.server.connect(&later)).await.unwrap();
    let granted = two.second.issued(|issued| issued.grants.clone());
    assert_eq!(granted, ["authorization_code", "refresh_token"]);

    // And asks for more there.
    two.server.issued(|issued| issued.call_scope = "deploy");
    two.second.issued(|issued| issued.metadata_reads = 0);
    let user = two.login(|_| {});
    let connection = two.server.connect(&user);
    let stepped_up = async {
        loop {
            match call(&connection).await {
                Ok(()) => break,
                // Until the server knows the new token.
                Err(error) => {
                    assert!(error.to_string().contains("has just issued"), "{error}");
                    two.trust();
                }
            }
        }
    };
    stepped_up.await;
    assert_eq!(two.second.issued(|issued| issued.asked.len()), 2);
    assert_eq!(two.server.issued(|issued| issued.asked.len()), 0);
}

#[tokio::test]
async fn s_30_the_first_authorization_server_is_taken_unless_one_is_chosen() {
    let two = Two::start().await;
    let choosing = two.login(|options| options.issuer = Some(two.second.origin.clone()));
    choosing.log_in(None).await.unwrap();
    // A new login is not bound to an earlier choice.
    let logged_in = two.login(|_| {}).log_in(None).await.unwrap();
    assert_eq!(logged_in.issuer.as_ref(), Some(&two.server.origin));
    call(&two.server.connect(&two.login(|_| {}))).await.unwrap();
    let first = two.server.issued(|issued| issued.asked.len());
    assert_eq!((first, two.second.issued(|issued| issued.asked.len())), (1, 1));
}

#[tokio::test]
async fn s_30_an_authorization_server_that_is_not_named_is_refused_with_those_that_are() {
    let two = Two::start().await;
    let user = browser();
    for is_challenged in [true, false] {
        let login = two.login(|options| {
            options.issuer = Some("https://login.example".to_owned());
            options.consent = Some(user.clone());
        });
        let error = match is_challenged {
            true => token_error(call(&two.server.connect(&login)).await),
            false => login.log_in(None).await.unwrap_err(),
        };
        let named = format!("{}, {}", two.server.origin, two.second.origin);
        let reason = format!("the server does not trust https://login.example; it names {named}");
        assert_eq!(error, TokenError::Failed { reason });
    }
    assert_eq!(user.logins.load(Ordering::Relaxed), 0);
}

/// The origin of a server that answers everything with 500, or of none.
#[expect(clippy::disallowed_methods, reason = "real sockets are not simulated")]
async fn broken(answers: bool) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    if answers {
        let app = axum::Router::new().fallback(|| std::future::ready(axum::http::StatusCode::INTERNAL_SERVER_ERROR));
        tokio::spawn(async move { axum::serve(listener, app).await });
    }
    origin
}

/// One that cannot be reached or fails is passed by, and a login is refreshed where it was made, also when the first one is back.
#[tokio::test]
async fn s_30_the_first_authorization_server_that_answers_is_taken() {
    for answers in [true, false] {
        let two = Two::start().await;
        let first = broken(answers).await;
        let named = String::leak(first.clone());
        two.server.issued(|issued| issued.named_issuer = Some(named));
        let logged_in = two.login(|_| {}).log_in(None).await.unwrap();
        assert_eq!(logged_in.issuer.as_ref(), Some(&two.second.origin));

        two.server.issued(|issued| issued.named_issuer = None);
        let later = two.login(|options| options.consent = None);
        let refused = token_error(call(&two.server.connect(&later)).await);
        assert!(refused.to_string().contains("has just issued"), "{refused}");
        let granted = two.second.issued(|issued| issued.grants.clone());
        assert_eq!(granted, ["authorization_code", "refresh_token"]);
        assert!(two.server.issued(|issued| issued.grants.is_empty()));

        // With nobody left each of them is named.
        two.server.issued(|issued| {
            issued.named_issuer = Some(named);
            issued.more_issuers = vec![first.clone().replace("127.0.0.1", "localhost")];
        });
        let error = two.login(|_| {}).log_in(None).await.unwrap_err();
        assert!(matches!(error, TokenError::Unavailable { .. }), "{error:?}");
        for origin in [first.clone(), first.replace("127.0.0.1", "localhost")] {
            assert!(error.to_string().contains(&origin), "{error}");
        }
    }
}

/// A server names the permissions of its first authorization server, and a strict second one knows others.
#[tokio::test]
async fn s_34_an_authorization_server_that_was_chosen_need_not_know_the_permissions_of_the_first() {
    let two = Two::start().await;
    two.second.issued(|issued| issued.knows_scopes = Some(vec!["build"]));
    let choosing = two.login(|options| options.issuer = Some(two.second.origin.clone()));
    choosing.log_in(None).await.unwrap();
    assert_eq!(two.second.issued(|issued| issued.asked.clone()), [""]);

    // The refusal of a request names them.
    two.trust();
    two.server.issued(|issued| issued.call_scope = "build");
    two.second.issued(|issued| issued.access.clear());
    two.server.issued(|issued| {
        for scope in issued.access.values_mut() {
            "read".clone_into(scope);
        }
    });
    // What it issues is accepted once the server knows it, after the refusal.
    let refused = call(&two.server.connect(&choosing)).await;
    assert!(refused.is_err());
    assert_eq!(two.second.issued(|issued| issued.asked.clone()), ["", "build"]);

    // What the user names is asked for.
    let naming = two.login(|options| {
        options.issuer = Some(two.second.origin.clone());
        options.scopes = vec!["wrong".to_owned()];
    });
    let error = naming.log_in(None).await.unwrap_err();
    assert!(matches!(error, TokenError::InvalidScope { .. }), "{error}");
}
