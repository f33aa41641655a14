//! Calls that a legacy server refuses until the user has been to a page (error −32042).

use crate::peer::{Peer, event_stream, legacy, plain};
use futures_util::FutureExt;
use longhaul_client::{
    CallResponse, Client, ClientCapabilities, InputHandler, InputRequest, InputResponse, Inputs, Outcome, RequestError,
    RpcFailure, SystemClock,
};
use longhaul_core::BoxFuture;
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const URL: &str = "https://acme.example/connect?for=7";

/// A server that refuses the first call, and its push stream.
fn refusing_once() -> (Peer, UnboundedSender<String>) {
    let (stream, events) = unbounded_channel();
    let events: Mutex<Option<UnboundedReceiver<String>>> = Mutex::new(Some(events));
    let is_refused = Mutex::new(false);
    let peer = legacy(Value::Null, move |seen| match seen.method() {
        "tools/call" if !std::mem::replace(&mut *is_refused.lock().unwrap(), true) => {
            let page = json!({"mode": "url", "elicitationId": "page-7", "url": URL, "message": "Connect the account"});
            seen.error(200, -32042, json!({"elicitations": [page]}))
        }
        "tools/call" => seen.result(json!({"content": [{"type": "text", "text": "done"}]})),
        _ if seen.verb == "GET" => match events.lock().unwrap().take() {
            Some(events) => event_stream(events),
            None => plain(405, ""),
        },
        _ => plain(202, ""),
    });
    (peer, stream)
}

async fn call(peer: &Peer, inputs: Option<Arc<dyn InputHandler>>) -> Result<CallResponse, RequestError> {
    let (connection, _) = peer.connection_with(|options| {
        options.clock = Arc::new(SystemClock);
        options.inputs = inputs;
    });
    let tool = connection.list_tools().await.unwrap().remove(0);
    connection.call_tool(&tool, &Map::new(), &mut |_| {}).await
}

/// Agrees to open pages, and says whether the user has finished.
struct Visitor(bool);

impl InputHandler for Visitor {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation_url: true,
            ..ClientCapabilities::default()
        }
    }

    fn answer(&self, _: InputRequest) -> BoxFuture<'static, Result<InputResponse, RpcFailure>> {
        std::future::ready(Ok(InputResponse::accept_url())).boxed()
    }

    fn page_finished(&self, page: &InputRequest) -> BoxFuture<'static, bool> {
        assert_eq!(page.url(), Some(URL));
        std::future::ready(self.0).boxed()
    }
}

#[tokio::test]
async fn the_call_is_made_again_when_the_server_says_that_the_page_is_finished() {
    let (peer, stream) = refusing_once();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, stream) = (Arc::clone(&asked), Mutex::new(stream));
    let inputs = Inputs::new().open_url(move |page| {
        seen.lock()
            .unwrap()
            .push((page.url().map(str::to_owned), page.message().to_owned()));
        let finished = json!({
            "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "page-7"},
        });
        stream.lock().unwrap().send(format!("data: {finished}\n\n")).unwrap();
        async { Ok(InputResponse::accept_url()) }
    });
    let called = call(&peer, Some(inputs.into())).await.unwrap();
    assert!(matches!(called, CallResponse::Done(_)), "{called:?}");
    assert_eq!(
        *asked.lock().unwrap(),
        [(Some(URL.to_owned()), "Connect the account".to_owned())]
    );
    assert_eq!(peer.calls_of("tools/call").len(), 2);
}

#[tokio::test]
async fn the_call_is_made_again_when_the_user_has_finished() {
    let (peer, _stream) = refusing_once();
    call(&peer, Some(Arc::new(Visitor(true)))).await.unwrap();
    assert_eq!(peer.calls_of("tools/call").len(), 2);
}

#[tokio::test]
async fn the_closures_of_a_handler_say_that_the_user_has_finished() {
    for (finished, calls) in [(true, 2), (false, 1)] {
        let (peer, _stream) = refusing_once();
        let inputs = Inputs::new()
            .open_url(|_| async { Ok(InputResponse::accept_url()) })
            .page_finished(move |page| async move {
                assert_eq!(page.elicitation_id(), Some("page-7"));
                finished
            });
        assert_eq!(call(&peer, Some(inputs.into())).await.is_ok(), finished);
        assert_eq!(peer.calls_of("tools/call").len(), calls);
    }
}

/// The page is opened elsewhere, for example in a browser that comes back to the application.
#[tokio::test]
async fn the_application_says_by_the_connection_that_the_user_has_finished() {
    let (peer, _stream) = refusing_once();
    let (opened, mut pages) = unbounded_channel();
    let inputs = Inputs::new().open_url(move |page| {
        opened.send(page).unwrap();
        async { Ok(InputResponse::accept_url()) }
    });
    let (connection, _) = peer.connection_with(|options| {
        options.clock = Arc::new(SystemClock);
        options.inputs = Some(inputs.into());
    });
    let client = Client::new(connection);
    let call = client.start("größe", Value::Null).await.unwrap();
    let page = pages.recv().await.unwrap();
    client.connection().page_finished(page.elicitation_id().unwrap());
    assert!(matches!(call.result().await, Ok(Outcome::Result { .. })));
    assert_eq!(peer.calls_of("tools/call").len(), 2);
}

/// Few servers say that the user has finished, and many applications cannot.
#[tokio::test]
async fn the_call_is_made_again_from_time_to_time_while_nobody_says_that_the_page_is_finished() {
    let refusals = Mutex::new(4);
    let peer = legacy(Value::Null, move |seen| match seen.method() {
        "tools/call" if *refusals.lock().unwrap() > 0 => {
            *refusals.lock().unwrap() -= 1;
            let page = json!({"mode": "url", "elicitationId": "page-7", "url": URL, "message": "Connect the account"});
            seen.error(200, -32042, json!({"elicitations": [page]}))
        }
        "tools/call" => seen.result(json!({"content": [{"type": "text", "text": "done"}]})),
        _ if seen.verb == "GET" => plain(405, ""),
        _ => plain(202, ""),
    });
    let (opened, mut pages) = unbounded_channel();
    let inputs = Inputs::new().open_url(move |page| {
        opened.send(page).unwrap();
        async { Ok(InputResponse::accept_url()) }
    });
    // Its sleeps are recorded, and are over at once.
    let (connection, clock) = peer.connection_with(|options| options.inputs = Some(inputs.into()));
    let tool = connection.list_tools().await.unwrap().remove(0);
    let called = connection.call_tool(&tool, &Map::new(), &mut |_| {}).await.unwrap();
    assert!(matches!(called, CallResponse::Done(_)), "{called:?}");
    assert_eq!(peer.calls_of("tools/call").len(), 5);
    assert!(
        pages.recv().await.is_some() && pages.try_recv().is_err(),
        "the user is asked once"
    );
    let pauses = [2, 4, 8, 15].map(Duration::from_secs);
    let sleeps = clock.sleeps();
    assert!(sleeps.windows(4).any(|four| four == pauses), "{sleeps:?}");
}

#[tokio::test]
async fn a_user_who_does_not_go_to_the_page_gives_the_call_up() {
    let declining = Inputs::new().open_url(|_| async { Ok(InputResponse::decline()) });
    for inputs in [declining.into(), Arc::new(Visitor(false)) as Arc<dyn InputHandler>] {
        let (peer, _stream) = refusing_once();
        let error = call(&peer, Some(inputs)).await.unwrap_err();
        assert!(matches!(error, RequestError::PageRequired { .. }), "{error}");
        assert!(error.is_refusal() && error.to_string().contains(URL), "{error}");
        assert_eq!(peer.calls_of("tools/call").len(), 1);
    }
}

#[tokio::test]
async fn without_anyone_to_open_pages_the_error_is_the_answer() {
    let only_forms = Inputs::new().elicit(|_| async { Ok(InputResponse::cancel()) });
    for inputs in [None, Some(only_forms.into())] {
        let (peer, _stream) = refusing_once();
        let error = call(&peer, inputs).await.unwrap_err();
        assert!(
            matches!(&error, RequestError::Rpc(failure) if failure.code == -32042),
            "{error}"
        );
        assert_eq!(peer.calls_of("tools/call").len(), 1);
    }
}
