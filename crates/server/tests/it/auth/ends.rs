//! Credentials that expire or are revoked while something is open.

use super::{Authenticated, audit::audited_by, of};
use crate::{
    client::Reply,
    clock::{TestClock, until},
    request::{Post, act, everything, everything_and_tasks, list},
    server::{Options, Server},
    stage::{Counter, HandlerFuture, Stage},
};
use longhaul_core::{
    Json, Principal, TaskPolicy,
    store::{SearchOrder, TaskFilter, TaskSearch},
};
use longhaul_runtime::{Intake, RequestContext, ToolSettings};
use serde_json::json;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Ends the credentials of this token.
fn end(served: &Authenticated, token: &str) {
    match token {
        "ann-revocable" => served.tokens.revocation.revoke(),
        _ => served.tokens.clock.advance(Duration::from_secs(60)),
    }
}

async fn served() -> Authenticated {
    Authenticated::with(Options::with_clock(&TestClock::standing())).await
}

const TOKENS: [&str; 2] = ["ann-revocable", "ann-expiring"];

#[tokio::test]
async fn streams_and_waits_end_with_the_credentials() {
    for token in TOKENS {
        let served = served().await;
        let session = served.session(token).await;
        let task = served.legacy_task(token, &session, "wait").await;

        let mut push = served.listen(token, &session).await;
        let result = Post::on_task(&session, "tasks/result", &task);
        let mut stream = served.stream(token, result.clone()).await;
        let mut plain = served.send(token, result.json_only()).await;
        let wanted = json!({"toolsListChanged": true});
        let mut subscription = served.subscribe(token, wanted).await;

        end(&served, token);
        assert_eq!(subscription.message().await, None, "{token}");
        for ended in [&mut stream, &mut push] {
            while let Some(message) = ended.message().await {
                assert!(message.get("id").is_none(), "{message}");
            }
        }
        let refused = plain.reply().await;
        assert_eq!(refused.status(), 401, "{token}");
        let challenge = refused.head.header("www-authenticate").unwrap();
        assert!(challenge.contains("invalid_token"), "{challenge}");
        assert_eq!(refused.json()["id"], 1);

        // The task goes on, for whoever has the same principal.
        served.server.stage.released.count();
        served.server.stage.finished.reaches(1).await;
    }
}

/// What is admitted is done. The answer reaches whoever was admitted for as long as the credentials were not revoked. Then it says that the tool may have run: clients
/// repeat what is answered with 401, 403 or -32600, since nothing has happened.
#[tokio::test]
async fn an_admitted_call_finishes_after_its_credentials_have_ended() {
    for token in ["ann-expiring", "ann-revocable"] {
        let is_revoked = token == "ann-revocable";
        for streams in [false, true] {
            let served = served().await;
            let call = |acting| Post::plain_call("never", acting).progress_token(json!("p"));
            let call = match streams {
                true => call("report 1"),
                false => call("wait").json_only(),
            };
            let mut client = served.send(token, call).await;
            if streams {
                client.stream_head().await;
                assert_eq!(client.message().await.unwrap()["params"]["progressToken"], "p");
            }
            served.server.stage.begun.reaches(1).await;
            end(&served, token);
            let release = || served.server.stage.released.count();
            if !is_revoked {
                release();
            }
            let answer = match streams {
                // The clock has moved on, so it may be told first that the call goes on.
                true => loop {
                    let message = client.message().await.unwrap();
                    if message["method"] != "notifications/progress" {
                        break message;
                    }
                },
                false => {
                    let reply = client.reply().await;
                    assert_eq!(reply.status(), 200, "{token}");
                    assert_eq!(reply.head.header("www-authenticate"), None, "nothing is to be repeated");
                    reply.json()
                }
            };
            assert_eq!(answer["id"], 1);
            if is_revoked {
                let error = &answer["error"];
                assert_eq!(error["code"], -32603, "{answer}");
                assert!(error["message"].as_str().unwrap().contains("may have run"), "{answer}");
                release();
            } else {
                assert!(answer.get("error").is_none(), "{answer}");
            }
            served.server.stage.finished.reaches(1).await;
        }
    }
    let served = served().await;
    end(&served, "ann-revocable");
    assert_eq!(served.status("ann-revocable", list()).await, 401);
}

/// The connection ends with the key. What it would have read is there for the same principal's next key.
#[tokio::test]
async fn t_11_a_call_of_a_session_is_resumed_with_other_credentials() {
    let served = served().await;
    let session = served.session("ann-revocable").await;
    let call = Post::legacy_call(Some(&session), "never", "report 1").progress_token(json!("p"));
    let mut client = served.stream("ann-revocable", call).await;
    client.message().await.unwrap();
    end(&served, "ann-revocable");
    assert_eq!(client.message().await, None);
    served.server.stage.released.count();
    served.server.stage.finished.reaches(1).await;
    let last = client.last_event_id.unwrap();
    let mut resumed = served.resume("ann-again", &session, &last).await;
    let response = loop {
        let message = resumed.message().await.expect("the response is kept");
        if message.get("result").is_some() {
            break message;
        }
    };
    assert_eq!(response["id"], 1);
}

/// Waits for the test before there is a task.
struct WaitFirst {
    stage: Stage,
    /// How often it was run.
    asked: Counter,
}

impl WaitFirst {
    /// Offers the tool `prepared`, which waits so; counts how often.
    async fn offer(server: &Server) -> Counter {
        let asked = Counter::default();
        let intake = Self {
            stage: server.stage.clone(),
            asked: asked.clone(),
        };
        let settings = ToolSettings {
            intake: Some(Arc::new(intake)),
            ..server.stage.settings("prepared", TaskPolicy::Never)
        };
        server.put_tool(settings).await;
        asked
    }
}

impl Intake for WaitFirst {
    fn take(self: Arc<Self>, arguments: Json, cx: RequestContext) -> HandlerFuture<Json> {
        Box::pin(async move {
            cx.progress(1.0, None, None);
            self.asked.count();
            self.stage.released.reaches(1).await;
            Ok(arguments)
        })
    }
}

/// Also if the request had come before but for its last bytes.
#[tokio::test]
async fn nothing_is_done_with_credentials_that_end_before_the_request_is_there() {
    let token = "ann-revocable";
    let served = served().await;
    let session = served.session(token).await;
    let task = served.legacy_task(token, &session, "wait").await;
    let cancel = Post::on_task(&session, "tasks/cancel", &task);
    let bytes = of(token, cancel).to_bytes();
    let (first, last) = bytes.split_at(bytes.len() - 1);
    let mut client = served.server.connect().await;
    client.send(first).await;
    // Who sends it is asked when its head is there: before a request is answered that is sent later.
    let ping = Post::ping(Some(&session));
    served.result(token, ping).await;
    end(&served, token);
    client.send(last).await;
    assert_eq!(client.head().await.status, 401);
    let store = served.server.engine.store();
    let stored = store.get_unscoped(&task.parse().unwrap()).await.unwrap().unwrap();
    assert!(stored.task.stop.is_none(), "{stored:?}");
}

/// A call whose tool still asks for what is missing has not begun: it does not when its key is revoked.
#[tokio::test]
async fn a_call_in_its_intake_does_not_begin_when_its_credentials_are_revoked() {
    for (token, begins) in [("ann-revocable", false), ("ann-expiring", true)] {
        let (served, told) = audited_by(TestClock::standing(), |_| ()).await;
        let stage = &served.server.stage;
        WaitFirst::offer(&served.server).await;
        let session = served.session(token).await;
        let call = Post::legacy_call(Some(&session), "prepared", "say").progress_token(json!("p"));
        let mut client = served.stream(token, call).await;
        assert_eq!(client.message().await.unwrap()["method"], "notifications/progress");
        end(&served, token);
        if !begins {
            // Its connection is cut; the answer is there for the principal's next key.
            assert_eq!(client.message().await, None);
            let last = client.last_event_id.take().unwrap();
            client = served.resume("ann-again", &session, &last).await;
        }
        stage.released.count();
        let answer = loop {
            let message = client.message().await.expect("the response is kept");
            if message.get("id").is_some() {
                break message;
            }
        };
        assert_eq!(answer.get("result").is_some(), begins, "{token}: {answer}");
        assert_eq!(stage.begun.get(), usize::from(begins), "{token}");
        let calls = told.take().into_iter().filter(|[action, ..]| action == "call");
        let outcomes: Vec<String> = calls.map(|[_, outcome, ..]| outcome).collect();
        let expected: &[&str] = if begins { &["ok"] } else { &["ok", "denied"] };
        assert_eq!(outcomes, expected, "{token}");
    }
}

/// Nothing was done of the request, so its client is told where it gets other credentials, as with 401.
#[tokio::test]
async fn s_22_a_refusal_after_an_intake_has_a_challenge() {
    let served = served().await;
    let stage = &served.server.stage;
    let asked = WaitFirst::offer(&served.server).await;
    let call = Post::plain_call("prepared", "say").json_only();
    let mut client = served.send("ann-revocable", call.clone()).await;
    asked.reaches(1).await;
    end(&served, "ann-revocable");
    let after_intake = client.reply().await;
    assert_eq!(after_intake.status(), 403);
    assert_eq!(after_intake.json()["id"], 1);
    let before = served.exchange("ann-revocable", call).await;
    assert_eq!(before.status(), 401);
    let challenge = |reply: &Reply| reply.head.header("www-authenticate").unwrap().to_owned();
    assert!(challenge(&after_intake).contains("resource_metadata=\"https://"));
    assert!(challenge(&after_intake).contains("error=\"invalid_token\""));
    assert!(challenge(&before).contains("resource_metadata=\"https://"));
    assert_eq!(stage.begun.get(), 0);
}

/// A call that waits for a slot has not begun: it does not when its credentials are revoked, unless the same principal can come back for it with others. If nobody is
/// its principal any more, it does not in any case.
#[tokio::test]
async fn a_queued_call_does_not_begin_when_its_credentials_are_revoked() {
    let ann = Principal::named("key:ann");
    for (way, token, is_withdrawn, begins) in [
        ("plain", "ann-revocable", false, false),
        ("plain", "ann-expiring", false, true),
        ("keyed", "ann-revocable", false, true),
        ("keyed", "ann-revocable", true, false),
        ("session", "ann-revocable", false, true),
        ("session", "ann-revocable", true, false),
    ] {
        let case = format!("{way} {token} {is_withdrawn}");
        let mut options = Options::with_clock(&TestClock::standing());
        options.max_running = Some(1);
        let served = Authenticated::with(options).await;
        let (stage, store) = (&served.server.stage, served.server.engine.store());
        let busy = served.task("bob", Post::call("optional", "wait")).await;
        stage.begun.reaches(1).await;

        let session = served.session(token).await;
        let plain = Post::plain_call("never", "say").json_only();
        let call = match way {
            "session" => Post::legacy_call(Some(&session), "never", "say"),
            "keyed" => plain.keyed("k"),
            _ => plain,
        };
        let mut client = served.send(token, call).await;
        let live = async |count: u64| {
            until(async || store.usage(Some(&ann)).await.unwrap().live == count).await;
        };
        live(1).await;
        if way == "session" {
            served.tokens.clock.advance(Duration::from_secs(15));
            client.stream_head().await;
        }
        served.tokens.withdraws_ann.store(is_withdrawn, Ordering::SeqCst);
        end(&served, token);
        match (way, token) {
            ("session", _) => assert_eq!(client.message().await, None, "{case}"),
            ("plain", "ann-revocable") => assert_eq!(client.reply().await.status(), 403, "{case}"),
            // It may begin, as far as this process knows.
            ("keyed", _) => assert_eq!(client.reply().await.json()["error"]["code"], -32603, "{case}"),
            _ => {}
        }
        if way == "plain" && !begins {
            // At once, and not when its turn comes.
            live(0).await;
        }
        stage.released.count();
        served.poll("bob", &busy, "completed").await;
        live(0).await;
        assert_eq!(stage.begun.get(), 1 + usize::from(begins), "{case}");
        if token == "ann-expiring" {
            assert!(client.reply().await.body.contains("done"), "{case}");
        }
    }
}

/// Whoever is asked could answer with nothing: a question to ended credentials is refused, also one that was asked before.
#[tokio::test]
async fn nothing_is_asked_with_credentials_that_have_ended() {
    for token in TOKENS {
        for asked_before in [true, false] {
            let served = served().await;
            let session = served.session(token).await;
            // On the stream of the call, and as a request on a push stream that other credentials of the principal have open.
            let mut push = served.listen("ann-again", &session).await;
            push.first_id().await;
            let call = |acting| Post::legacy_call(Some(&session), "never", acting).json_only();
            let acting = match asked_before {
                true => "ask_all name",
                false => "wait_then_ask name",
            };
            let mut client = served.send(token, call(acting)).await;
            if asked_before {
                assert_eq!(push.pushed().await["method"], "elicitation/create", "{token}");
            } else {
                served.server.stage.begun.reaches(1).await;
            }
            end(&served, token);
            served.server.stage.released.count();
            served.server.stage.finished.reaches(1).await;
            if token == "ann-expiring" {
                let text = client.reply().await.body;
                assert!(text.contains("its credentials have expired"), "{text}");
            }
            // The next question is one of credentials that are valid.
            let _others = served.send("ann-again", call("ask_all other")).await;
            let question = push.next("elicitation/create").await.to_string();
            assert!(question.contains("other"), "{token}: {question}");
        }
    }
}

/// Nobody can come back for the name of a revoked key, so its questions are refused; a user whose token has ended can.
#[tokio::test]
async fn open_questions_are_refused_when_nobody_is_their_principal_any_more() {
    let served = served().await;
    let plain = Post::modern_with("tools/call", act("never", "ask"), everything());
    let task = Post::modern_with("tools/call", act("optional", "ask"), everything_and_tasks());
    let asked = served.result("ann", plain).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let of_ann = served.task("ann", task.clone()).await;
    let of_bob = served.task("bob", task).await;
    let store = served.server.engine.store();
    let asking = async || {
        let filter = TaskFilter {
            asks: true,
            ..TaskFilter::default()
        };
        let search = TaskSearch {
            filter,
            order: SearchOrder::OldestFirst,
            after: None,
            limit: 10,
            most_examined: 10,
        };
        store.search(search).await.unwrap().tasks
    };
    until(async || asking().await.len() >= 3).await;
    served.tokens.withdraws_ann.store(true, Ordering::SeqCst);
    served.tokens.clock.advance(Duration::from_secs(30));
    until(async || asking().await.len() <= 1).await;
    assert_eq!(asking().await[0].id.as_str(), of_bob);
    let id = of_ann.parse().unwrap();
    until(async || store.get_unscoped(&id).await.unwrap().unwrap().task.is_done()).await;
}
