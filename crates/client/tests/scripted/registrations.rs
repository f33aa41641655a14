//! How this client is known to authorization servers, and the tokens that it takes from them.

use crate::{
    authorization_server::{Issued, Protected},
    login::{browser, call, token_error, words},
};
use longhaul_client::{Login, LoginOptions, RegisteredByHand, TokenError, TokenFile};
use serde_json::json;
use std::sync::{Arc, atomic::Ordering};
use tempfile::tempdir;

/// Some authorization servers let a client ask only for what it has registered for (RFC 7591, section 2).
#[tokio::test]
async fn s_34_a_client_that_needs_more_registers_for_more() {
    let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
    server.issued(|issued| {
        issued.holds_to_registration = true;
        issued.metadata = json!({"scopes_supported": ["read", "deploy", "offline_access"]});
    });
    let login = server.login(folder.path(), Some(browser.clone()));
    call(&server.connect(&login)).await.unwrap();
    login.log_in(None).await.unwrap();
    assert_eq!(server.issued(|issued| issued.registrations), 1);

    server.issued(|issued| issued.call_scope = "deploy");
    call(&server.connect(&login)).await.unwrap();
    let (registrations, asked) = server.issued(|issued| (issued.registrations, issued.asked.clone()));
    assert_eq!((registrations, browser.logins.load(Ordering::Relaxed)), (2, 3));
    assert_eq!(words(asked.last().unwrap()), words("read deploy offline_access"));

    // The one that may ask for more stays.
    login.log_in(None).await.unwrap();
    assert_eq!(server.issued(|issued| issued.registrations), 2);
    let mut options = LoginOptions::default();
    options.consent = Some(browser);
    options.scopes = vec!["read".to_owned()];
    let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
    Login::new(&server.url(), file, options)
        .unwrap()
        .log_in(None)
        .await
        .unwrap();
    assert_eq!(server.issued(|issued| issued.registrations), 2);
}

/// What the authorization server does not know any more is not shown to it for ever.
#[tokio::test]
async fn s_33_a_client_that_was_forgotten_registers_again_once() {
    let forget = |issued: &mut Issued| issued.clients.clear();
    // Found out before the user is asked, by the answer of the browser, or when the code is exchanged.
    for (checks_codes_first, checks_late, asked_in_vain) in [(false, true, 0), (true, false, 1), (true, true, 1)] {
        let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
        server.issued(|issued| issued.checks_codes_first = checks_codes_first);
        let login = server.login(folder.path(), Some(browser.clone()));
        call(&server.connect(&login)).await.unwrap();
        server.issued(|issued| {
            forget(issued);
            issued.checks_clients_late = checks_late;
        });
        login.log_in(None).await.unwrap();
        assert_eq!(server.issued(|issued| issued.registrations), 2);
        assert_eq!(browser.logins.load(Ordering::Relaxed), 2 + asked_in_vain);
        call(&server.connect(&login)).await.unwrap();

        // Its refresh tokens are of no use any more. Nobody can be asked here.
        server.issued(|issued| {
            forget(issued);
            issued.access.clear();
        });
        let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
        assert!(matches!(error, TokenError::LoginRequired { .. }), "{error}");
        call(&server.connect(&login)).await.unwrap();
        assert_eq!(server.issued(|issued| issued.registrations), 3);

        // By hand.
        server.issued(forget);
        login.log_out().await.unwrap();
        login.log_in(None).await.unwrap();
        assert_eq!(server.issued(|issued| issued.registrations), 4);
    }
}

/// One that was registered by hand is not replaced by another one.
#[tokio::test]
async fn s_33_a_client_of_the_user_that_is_not_known_is_an_error() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let mut options = LoginOptions::default();
    options.consent = Some(browser());
    options.identity.registered = Some(RegisteredByHand {
        client_id: "client-of-hand".to_owned(),
        client_secret: None,
    });
    let file = TokenFile::open(&folder.path().join("tokens.json")).unwrap();
    let login = Login::new(&server.url(), file, options).unwrap();
    for checks_late in [false, true] {
        server.issued(|issued| issued.checks_clients_late = checks_late);
        let error = login.log_in(None).await.unwrap_err();
        assert!(matches!(error, TokenError::InvalidClient { .. }), "{error}");
        assert_eq!(server.issued(|issued| issued.registrations), 0);
    }
}

/// RFC 6749, section 7.1: such a token is good only with a proof that this client does not make.
#[tokio::test]
async fn a_token_of_another_type_is_not_sent() {
    for other in ["DPoP", "mac"] {
        let (server, folder, browser) = (Protected::start().await, tempdir().unwrap(), browser());
        server.issued(|issued| issued.token_type = Some(other));
        let login = server.login(folder.path(), Some(browser));
        let error = token_error(call(&server.connect(&login)).await);
        let shown = error.to_string().to_lowercase();
        assert!(shown.contains(&format!("type \"{}\"", other.to_lowercase())), "{error}");
        assert!(matches!(error, TokenError::Failed { .. }), "{error}");
        assert_eq!(login.who().await.unwrap(), None);

        // Nor is it taken for one that is refreshed.
        server.issued(|issued| issued.token_type = Some("BEARER"));
        call(&server.connect(&login)).await.unwrap();
        server.issued(|issued| {
            issued.access.clear();
            issued.token_type = Some(other);
        });
        let error = token_error(call(&server.connect(&server.login(folder.path(), None))).await);
        assert!(matches!(error, TokenError::Failed { .. }), "{error}");
    }
}

/// A server may have a header for each scheme.
#[tokio::test]
async fn the_challenge_for_tokens_is_found_behind_that_of_another_scheme() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    server.issued(|issued| {
        issued.described_at = vec!["/elsewhere"];
        issued.has_other_scheme = true;
    });
    let login: Arc<_> = server.login(folder.path(), Some(browser()));
    call(&server.connect(&login)).await.unwrap();
}
