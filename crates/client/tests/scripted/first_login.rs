//! Where a first login is made, as which client, and for which permissions.

use crate::{
    authorization_server::Protected,
    login::{browser, call},
};
use longhaul_client::{ClientIdentity, Login, LoginOptions, RegisteredByHand, TokenError, TokenFile};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::tempdir;

const PATH_OF_RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const ROOT_OF_RESOURCE: &str = "/.well-known/oauth-protected-resource";

/// What the challenge says, then the place for the path of the server, then the one for its host.
#[tokio::test]
async fn s_30_the_metadata_of_a_server_are_looked_for_in_order() {
    for (are_at, challenge_at, read) in [
        (
            vec!["/elsewhere", PATH_OF_RESOURCE, ROOT_OF_RESOURCE],
            Some("/elsewhere"),
            vec!["/elsewhere"],
        ),
        (vec![PATH_OF_RESOURCE, ROOT_OF_RESOURCE], None, vec![PATH_OF_RESOURCE]),
        (vec![ROOT_OF_RESOURCE], None, vec![PATH_OF_RESOURCE, ROOT_OF_RESOURCE]),
    ] {
        let (server, folder) = (Protected::start().await, tempdir().unwrap());
        server.issued(|issued| issued.described_at.clone_from(&are_at));
        let challenge = challenge_at.map(|at| format!(r#"Bearer resource_metadata="{}{at}""#, server.origin));
        let login = server.login(folder.path(), Some(browser()));
        login.log_in(challenge.as_deref()).await.unwrap();
        let places = server.issued(|issued| issued.places_asked.clone());
        let of_resource: Vec<&str> = places
            .iter()
            .map(String::as_str)
            .filter(|place| ["/elsewhere", PATH_OF_RESOURCE, ROOT_OF_RESOURCE].contains(place))
            .collect();
        assert_eq!(of_resource, read, "{are_at:?}");
    }
}

/// RFC 8414, then OpenID Connect Discovery; the path of an issuer is inserted, and at last appended.
#[tokio::test]
async fn s_30_the_metadata_of_an_authorization_server_are_looked_for_in_order() {
    let places = |path: &str| match path {
        "" => vec![
            "/.well-known/oauth-authorization-server".to_owned(),
            "/.well-known/openid-configuration".to_owned(),
        ],
        path => vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
            format!("{path}/.well-known/openid-configuration"),
        ],
    };
    for path in ["", "/tenant"] {
        for (nth, place) in places(path).into_iter().enumerate() {
            let (server, folder) = (Protected::start().await, tempdir().unwrap());
            let issuer = format!("{}{path}", server.origin);
            server.issued(|issued| {
                issued.named_issuer = Some(String::leak(issuer.clone()));
                issued.metadata = json!({"issuer": issuer});
                issued.issuer_described_at = Some(place.clone());
            });
            let who = server.login(folder.path(), Some(browser())).log_in(None).await.unwrap();
            assert_eq!(who.issuer, Some(issuer));
            let asked = server.issued(|issued| issued.places_asked.clone());
            let of_issuer: Vec<&String> = asked
                .iter()
                .filter(|place| !place.contains("protected-resource"))
                .collect();
            let expected = places(path);
            assert_eq!(of_issuer, expected[..=nth].iter().collect::<Vec<_>>());
        }
    }
}

/// `plain` hides nothing.
#[tokio::test]
async fn s_31_an_authorization_server_without_s256_is_refused() {
    for methods in [json!(["plain"]), json!([]), Value::Null] {
        let (server, folder) = (Protected::start().await, tempdir().unwrap());
        server.issued(|issued| issued.metadata = json!({"code_challenge_methods_supported": methods}));
        let error = server
            .login(folder.path(), Some(browser()))
            .log_in(None)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("PKCE"), "{methods}: {error}");
        server.issued(|issued| assert!(issued.asked.is_empty() && issued.grants.is_empty()));
    }
}

fn login_as(server: &Protected, folder: &Path, identity: ClientIdentity) -> Login {
    let mut options = LoginOptions::default();
    options.consent = Some(browser());
    options.identity = identity;
    let file = TokenFile::open(&folder.join("tokens.json")).unwrap();
    Login::new(&server.url(), file, options).unwrap()
}

/// Registered by hand, by a metadata document, by itself, or not at all.
#[tokio::test]
async fn s_33_the_first_way_of_registration_that_applies_is_used() {
    const DOCUMENT: &str = "https://app.example/client.json";
    let by_hand = || {
        Some(RegisteredByHand {
            client_id: "by-hand".to_owned(),
            client_secret: None,
        })
    };
    let document = || Some(DOCUMENT.to_owned());
    for (registered, metadata_url, reads_documents, registers, expected) in [
        (by_hand(), document(), true, true, Some("by-hand")),
        (None, document(), true, true, Some(DOCUMENT)),
        (None, document(), false, true, Some("client-1")),
        (None, None, true, true, Some("client-1")),
        (None, document(), false, false, None),
    ] {
        let (server, folder) = (Protected::start().await, tempdir().unwrap());
        server.issued(|issued| {
            issued.metadata = json!({"client_id_metadata_document_supported": reads_documents});
            if !registers {
                issued.metadata["registration_endpoint"] = Value::Null;
            }
        });
        let mut identity = ClientIdentity::default();
        identity.registered = registered;
        identity.metadata_url = metadata_url;
        let logged_in = login_as(&server, folder.path(), identity).log_in(None).await;
        match expected {
            Some(client) => assert_eq!(logged_in.unwrap().client_id.as_deref(), Some(client)),
            None => assert_eq!(logged_in.unwrap_err(), TokenError::NoRegistration),
        }
        // A program on a user's machine (OpenID Connect Dynamic Client Registration, section 2).
        for registration in server.issued(|issued| issued.registered.clone()) {
            assert_eq!(registration["application_type"], "native");
            assert_eq!(registration["redirect_uris"], json!(["http://127.0.0.1:9/callback"]));
        }
    }
}

/// Another authorization server knows nothing of a client.
#[tokio::test]
async fn s_33_a_client_registers_at_each_authorization_server() {
    let (server, other, folder) = (Protected::start().await, Protected::start().await, tempdir().unwrap());
    other.issued(|issued| issued.issues_for = Some(server.url()));
    let login = server.login(folder.path(), Some(browser()));
    let first = login.log_in(None).await.unwrap();
    server.issued(|issued| issued.named_issuer = Some(String::leak(other.origin.clone())));
    let second = login.log_in(None).await.unwrap();
    assert_eq!(
        (first.issuer, second.issuer),
        (Some(server.origin.clone()), Some(other.origin.clone()))
    );
    assert_eq!(other.issued(|issued| issued.registrations), 1);
    server.issued(|issued| issued.named_issuer = None);
    login.log_in(None).await.unwrap();
    assert_eq!(server.issued(|issued| issued.registrations), 1);
}

/// The permissions of the challenge, else those of the metadata, else none.
#[tokio::test]
async fn s_34_a_first_login_asks_for_what_the_server_names() {
    for (challenged, supported, expected) in [
        (Some("read"), vec!["read", "write"], "read"),
        (None, vec!["read", "write"], "read write"),
        (None, vec![], ""),
    ] {
        let (server, folder) = (Protected::start().await, tempdir().unwrap());
        server.issued(|issued| {
            issued.names_scopes_late = challenged.is_none();
            issued.scopes_supported = Some(supported.clone());
            issued.grants_only = Some("read");
        });
        call(&server.connect(&server.login(folder.path(), Some(browser()))))
            .await
            .unwrap();
        assert_eq!(
            server.issued(|issued| issued.asked.clone()),
            [expected],
            "{challenged:?} {supported:?}"
        );
    }
}
