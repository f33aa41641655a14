//! Tasks of a call that was made with another login than the present one.

use crate::{
    authorization_server::Protected,
    login::{browser, call},
    peer::{Peer, modern},
    task::{created, modern_task},
};
use longhaul_client::{AccessToken, CallState, Client, OtherLogin, RecordedCall, Refusal, TokenError, TokenProvider};
use longhaul_core::BoxFuture;
use longhaul_ledger::ClientJournal;
use serde_json::{Value, json};
use std::{path::Path, sync::Arc};
use tempfile::tempdir;

/// A user whose name is the token.
struct User(&'static str);

impl TokenProvider for User {
    fn token(&self) -> BoxFuture<'_, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::ready(Ok(AccessToken::new(self.0).ok())))
    }

    fn replace<'a>(&'a self, _: Refusal<'a>) -> BoxFuture<'a, Result<Option<AccessToken>, TokenError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn login(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(Some(format!(
            "user {} at https://login.example",
            self.0
        ))))
    }
}

async fn client(peer: &Peer, directory: &Path, user: Option<&'static str>) -> Client {
    let tokens = user.map(|user| Arc::new(User(user)) as Arc<dyn TokenProvider>);
    let (connection, _) = peer.connection_with(|options| options.tokens = tokens);
    let journal = ClientJournal::open(&directory.join("client/handles.db")).await.unwrap();
    Client::recorded(connection, journal)
}

async fn recorded(client: &Client) -> RecordedCall {
    client.calls().await.unwrap().remove(0)
}

/// It exists only for whoever made it, so it is not recorded as lost because others do not see it.
#[tokio::test]
async fn a_task_is_not_lost_because_it_is_asked_for_with_another_login() {
    let peer = modern(|seen| match (seen.method(), seen.header("authorization")) {
        ("tools/call", _) => seen.result(created()),
        ("tasks/get", Some("Bearer ann")) => seen.result(modern_task("working", json!({}))),
        _ => seen.error(200, -32602, Value::Null),
    });
    let directory = tempdir().unwrap();
    let ann = client(&peer, directory.path(), Some("ann")).await;
    ann.start("optional", Value::Null).await.unwrap().task().await.unwrap();
    assert_eq!(
        recorded(&ann).await.login.as_deref(),
        Some("user ann at https://login.example")
    );
    for (user, present) in [
        (Some("bob"), "the present login is user bob at https://login.example"),
        (None, "there is no login now"),
    ] {
        let other = client(&peer, directory.path(), user).await;
        let task = other.task(&recorded(&other).await).await.unwrap();
        let made_as = "it was started as user ann at https://login.example";
        let said = task.other_login().map(OtherLogin::to_string);
        assert_eq!(said, Some(format!("{made_as}, and {present}")));
        assert!(task.get().await.unwrap_err().is_unknown_task());
        assert_eq!(recorded(&other).await.state, CallState::Task);
    }
    let again = client(&peer, directory.path(), Some("ann")).await;
    let task = again.task(&recorded(&again).await).await.unwrap();
    assert_eq!(task.other_login(), None);
    task.get().await.unwrap();
}

/// A token need not say whom it is for. Then each login has a name of its own, which stays while the token is refreshed and permits more.
#[tokio::test]
async fn a_login_without_a_subject_has_a_name_until_the_next_one() {
    let (server, folder) = (Protected::start().await, tempdir().unwrap());
    let login = server.login(folder.path(), Some(browser()));
    assert_eq!(login.login().await, None);
    login.log_in(None).await.unwrap();
    let name = login.login().await.unwrap();
    assert!(
        name.starts_with("login ") && name.ends_with(&format!(" at {}", server.origin)),
        "{name}"
    );
    // In another process, with a refreshed token.
    server.issued(|issued| issued.access.clear());
    let later = server.login(folder.path(), Some(browser()));
    let connection = server.connect(&later);
    call(&connection).await.unwrap();
    server.issued(|issued| issued.call_scope = "deploy");
    call(&connection).await.unwrap();
    let granted = server.issued(|issued| issued.grants.clone());
    assert_eq!(granted, ["authorization_code", "refresh_token", "authorization_code"]);
    assert_eq!(connection.login().await, Some(name.clone()));
    later.log_in(None).await.unwrap();
    let second = later.login().await;
    assert!(second.is_some() && second != Some(name), "{second:?}");

    later.keep_key("lhk_secret").await.unwrap();
    let key = later.login().await.unwrap();
    assert!(key.starts_with("key ") && !key.contains("secret"), "{key}");
    later.keep_key("lhk_other").await.unwrap();
    assert_ne!(later.login().await, Some(key));
}
