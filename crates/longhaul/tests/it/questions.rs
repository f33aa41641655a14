//! Asking from a handler: the same code for clients of both eras, in a task and outside one.

use crate::{ERAS, low_level::connect_http, start};
use futures_util::StreamExt;
use longhaul::{
    AskError, ElicitResult, Era, Error, Field, Form, NoArguments, Prompt, RequestContext, ServerHandle, TaskContext,
    TaskPolicy, Tool, ToolResult, schemars::JsonSchema, testing::Client, time::millis,
};
use longhaul_client::{CallStatus, Client as Caller, Connection, EraChoice, InputResponse, Inputs, Options};
use longhaul_ledger::ClientJournal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    /// Your name.
    #[schemars(length(min = 2))]
    name: String,
}

async fn greet(cx: TaskContext) -> ToolResult<String> {
    let user: Name = cx.elicit("Who are you?").key("who").await?;
    Ok(format!("Hello, {}!", user.name))
}

/// A client that gives these answers in order, and the questions that it was asked.
async fn answering(
    server: &ServerHandle,
    era: Era,
    answers: impl Into<Vec<Value>>,
) -> (Client, Arc<Mutex<Vec<Value>>>) {
    let answers = Mutex::new(answers.into().into_iter());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let questions = Arc::clone(&asked);
    let client = Client::connect(server, era).answering(move |question| {
        questions.lock().unwrap().push(question.clone());
        answers.lock().unwrap().next().unwrap_or(json!({"action": "cancel"}))
    });
    (client.await.unwrap(), asked)
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

#[tokio::test]
async fn a_form_is_asked_and_answered() {
    for policy in [TaskPolicy::Never, TaskPolicy::Always] {
        let server = start(|server| server.tool(Tool::new("greet", greet).task(policy))).await;
        for era in ERAS {
            let (client, asked) = answering(&server, era, [accept(json!({"name": "Ann"}))]).await;
            assert_eq!(client.call("greet", json!({})).await.unwrap().text(), "Hello, Ann!");
            let asked = asked.lock().unwrap();
            assert_eq!(asked[0]["method"], "elicitation/create");
            assert_eq!(asked[0]["params"]["message"], "Who are you?");
            assert_eq!(
                asked[0]["params"]["requestedSchema"],
                json!({
                    "type": "object",
                    "properties": {"name": {"type": "string", "minLength": 2, "description": "Your name."}},
                    "required": ["name"],
                })
            );
        }
    }
}

/// A legacy client cannot be told: the question is asked again with what was wrong, and after three answers the tool fails.
#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    for policy in [TaskPolicy::Never, TaskPolicy::Always] {
        let server = start(|server| server.tool(Tool::new("greet", greet).task(policy))).await;
        let answers = [accept(json!({"name": "A"})), accept(json!({"name": "Ann"}))];
        let (client, asked) = answering(&server, Era::Legacy, answers).await;
        assert_eq!(client.call("greet", json!({})).await.unwrap().text(), "Hello, Ann!");
        let again = asked.lock().unwrap()[1]["params"]["message"].to_string();
        assert!(
            again.contains("Who are you?")
                && again.contains("could not be used: `name` does not fit; it must be a text"),
            "{again}"
        );

        let (client, asked) = answering(&server, Era::Legacy, vec![accept(json!({"name": 1})); 9]).await;
        let called = client.call("greet", json!({})).await.unwrap();
        assert!(
            called.is_error() && called.text().contains("could not be used"),
            "{}",
            called.text()
        );
        assert_eq!(asked.lock().unwrap().len(), 3);
    }
}

/// What the server cannot know of the form is the tool's to say, in both eras.
#[tokio::test]
async fn an_answer_that_the_type_refuses_is_asked_for_again() {
    #[derive(Deserialize, JsonSchema)]
    struct Port {
        #[schemars(with = "String")]
        port: std::num::NonZeroU16,
    }
    let connect = async |cx: TaskContext| -> ToolResult<String> {
        let asked: Port = cx.elicit("Which?").await?;
        Ok(asked.port.to_string())
    };
    for policy in [TaskPolicy::Never, TaskPolicy::Always] {
        let server = start(|server| server.tool(Tool::new("connect", connect).task(policy))).await;
        for era in ERAS {
            let (client, asked) = answering(&server, era, vec![accept(json!({"port": "x"})); 9]).await;
            let called = client.call("connect", json!({})).await.unwrap();
            assert!(
                called.is_error() && called.text().contains("could not be used"),
                "{}",
                called.text()
            );
            assert_eq!(asked.lock().unwrap().len(), 3);
        }
    }
}

/// The question stays open, and the client can answer it again.
#[tokio::test]
async fn a_modern_client_is_told_that_its_answer_does_not_fit() {
    let server = start(|server| server.tool(Tool::new("greet", greet).task(TaskPolicy::Always))).await;
    let client = Client::connect(&server, Era::Modern).await.unwrap();
    let task = client.start("greet", json!({})).await.unwrap();
    let questions = task.questions().await.unwrap();
    let key = questions.keys().next().unwrap();
    let refused = task.answer(key, accept(json!({"name": "A"}))).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("`name` does not fit; it must be a text of at least 2 characters"),
        "{refused}"
    );
    task.answer(key, accept(json!({"name": "Ann"}))).await.unwrap();
    assert_eq!(task.wait().await.unwrap().text(), "Hello, Ann!");

    let server = start(|server| server.tool(Tool::new("greet", greet).task(TaskPolicy::Never))).await;
    let (client, _) = answering(&server, Era::Modern, [accept(json!({"name": "A"}))]).await;
    let refused = client.call("greet", json!({})).await.unwrap_err();
    assert!(refused.to_string().contains("`name` does not fit"), "{refused}");
}

#[tokio::test]
async fn a_declined_question_ends_the_tool_unless_it_reads_the_answer() {
    let reads_answer = async |cx: TaskContext| -> ToolResult<&'static str> {
        Ok(match cx.elicit::<Name>("Who?").answer().await? {
            ElicitResult::Accepted(_) => "accepted",
            ElicitResult::Declined => "declined",
            ElicitResult::Dismissed => "dismissed",
        })
    };
    let server = start(|server| {
        server
            .tool(Tool::new("greet", greet))
            .tool(Tool::new("reads_answer", reads_answer))
    })
    .await;
    for era in ERAS {
        for (action, word) in [("decline", "declined"), ("cancel", "dismissed")] {
            let answer = json!({"action": action});
            let (client, _) = answering(&server, era, [answer.clone(), answer]).await;
            let ended = client.call("greet", json!({})).await.unwrap();
            assert!(ended.is_error() && ended.text().contains(word), "{}", ended.text());
            assert_eq!(client.call("reads_answer", json!({})).await.unwrap().text(), word);
        }
    }
}

/// A modern client gets the missing capability in the error's data, a legacy client in a text.
#[tokio::test]
async fn a_client_without_the_capability_gets_an_error() {
    let server = start(|server| server.tool(Tool::new("greet", greet))).await;
    for era in ERAS {
        let client = Client::connect(&server, era).declaring(json!({})).await.unwrap();
        match client.call("greet", json!({})).await {
            Ok(called) => {
                assert_eq!(era, Era::Legacy);
                assert!(
                    called.is_error() && called.text().contains("elicitation"),
                    "{}",
                    called.text()
                );
            }
            Err(failure) => {
                assert_eq!((era, failure.code), (Era::Modern, -32021));
                assert!(failure.message.contains("elicitation (form)"), "{failure:?}");
                assert!(
                    failure.data["requiredCapabilities"]["elicitation"].is_object(),
                    "{failure:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_tool_asks_a_model_for_a_page_and_for_roots() {
    let model = async |cx: TaskContext| -> ToolResult<String> {
        let answer = cx
            .sample("Capital of France?")
            .system_prompt("Be brief.")
            .max_tokens(5)
            .await?;
        Ok(format!("{} by {}", answer.text(), answer.model))
    };
    let page = async |cx: TaskContext| -> ToolResult<&'static str> {
        cx.elicit_url("Sign in", "https://acme.example/login").await?;
        Ok("opened")
    };
    let roots = async |cx: TaskContext| -> ToolResult<String> { Ok(cx.roots().await?.remove(0).uri) };
    let server = start(|server| {
        server
            .tool(Tool::new("model", model))
            .tool(Tool::new("page", page))
            .tool(Tool::new("roots", roots))
    })
    .await;
    for era in ERAS {
        let answer = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m-1"});
        let roots = json!({"roots": [{"uri": "file:///home", "name": "home"}]});
        let (client, asked) = answering(&server, era, [answer, json!({"action": "accept"}), roots]).await;
        assert_eq!(client.call("model", json!({})).await.unwrap().text(), "Paris by m-1");
        assert_eq!(client.call("page", json!({})).await.unwrap().text(), "opened");
        assert_eq!(client.call("roots", json!({})).await.unwrap().text(), "file:///home");
        let asked = asked.lock().unwrap();
        assert_eq!(asked[0]["params"]["systemPrompt"], "Be brief.");
        assert_eq!(asked[0]["params"]["maxTokens"], 5);
        assert_eq!(asked[1]["params"]["url"], "https://acme.example/login");
        assert_eq!(asked[2]["method"], "roots/list");
    }
}

#[tokio::test]
async fn two_questions_may_be_open_at_once() {
    let two = async |cx: TaskContext| -> ToolResult<String> {
        let form = Form::new().field("color", Field::choice(["red", "blue"]));
        let name = cx.elicit::<Name>("Name?").key("name").into_future();
        let color = cx.elicit_form("Color?", form).key("color").into_future();
        let (name, color) = tokio::join!(name, color);
        Ok(format!("{} {}", name?.name, color?["color"]))
    };
    let server = start(|server| server.tool(Tool::new("two", two).task(TaskPolicy::Always))).await;
    let client = Client::connect(&server, Era::Modern).await.unwrap();
    let task = client.start("two", json!({})).await.unwrap();
    let questions = task.questions().await.unwrap();
    assert_eq!(questions.len(), 2);
    for (key, question) in &questions {
        let is_name = question["params"]["message"] == "Name?";
        let content = if is_name {
            json!({"name": "Ann"})
        } else {
            json!({"color": "red"})
        };
        task.answer(key, accept(content)).await.unwrap();
    }
    assert_eq!(task.wait().await.unwrap().text(), "Ann \"red\"");
}

/// A modern client is asked before its task is created; a legacy client has its task first.
#[tokio::test]
async fn ask_before_runs_before_the_tool() {
    let ask =
        async |cx: RequestContext, _: NoArguments| -> Result<Name, Error> { Ok(cx.elicit("Who?").key("who").await?) };
    let tool = Tool::new("register", async |ready: Name| format!("Registered {}", ready.name))
        .ask_before(ask)
        .task(TaskPolicy::Always);
    let server = start(|server| server.tool(tool)).await;
    for era in ERAS {
        let (client, asked) = answering(&server, era, [accept(json!({"name": "Ann"}))]).await;
        assert_eq!(
            client.tools().await.unwrap()[0]["inputSchema"]["additionalProperties"],
            false
        );
        let task = client.start("register", json!({})).await.unwrap();
        if era == Era::Modern {
            assert_eq!(asked.lock().unwrap().len(), 1, "asked before the task was announced");
        }
        assert_eq!(task.wait().await.unwrap().text(), "Registered Ann");
        assert_eq!(asked.lock().unwrap().len(), 1, "asked once");
    }
}

#[tokio::test]
async fn a_prompt_may_ask() {
    let about = async |cx: RequestContext| -> Result<String, Error> {
        let user: Name = cx.elicit("Who?").key("who").await?;
        Ok(format!("About {}", user.name))
    };
    let server = start(|server| server.prompt(Prompt::new("about", about))).await;
    for era in ERAS {
        let (client, _) = answering(&server, era, [accept(json!({"name": "Ann"}))]).await;
        let got = client.get_prompt("about", json!({})).await.unwrap();
        assert_eq!(got["messages"][0]["content"]["text"], "About Ann");
    }
}

/// A question that is not answered in time is withdrawn, and the tool continues.
#[tokio::test]
async fn a_question_may_have_a_time_limit() {
    let impatient = async |cx: TaskContext| match cx.elicit::<Name>("Who?").within(millis(20)).await {
        Err(AskError::Unanswered) => "went on alone",
        _ => "answered",
    };
    let server = start(|server| server.tool(Tool::new("impatient", impatient).task(TaskPolicy::Always))).await;
    let client = Client::connect(&server, Era::Modern).await.unwrap();
    let task = client.start("impatient", json!({})).await.unwrap();
    let questions = task.questions().await.unwrap();
    // The question may be withdrawn by now.
    assert!(questions.len() <= 1);
    loop {
        let state = task.next().await.unwrap();
        if state["status"] == "completed" {
            assert_eq!(state["result"]["content"][0]["text"], "went on alone");
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// Another process of the user may have a handler.
#[tokio::test]
async fn a_client_without_a_handler_leaves_the_question_of_a_legacy_task_open() {
    let ask = |cx: TaskContext| async move {
        match cx.elicit::<Name>("Who?").await {
            Ok(user) => Ok(user.name),
            Err(error) => Err(Error::from(error)),
        }
    };
    let slow = async |cx: TaskContext| -> ToolResult<()> { Err(cx.cancelled().await.into()) };
    let server = start(|server| {
        server
            .tool(Tool::new("ask", ask).task(TaskPolicy::Always))
            .tool(Tool::new("slow", slow).task(TaskPolicy::Always))
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let journal = ClientJournal::open(&directory.path().join("client/handles.db"))
        .await
        .unwrap();
    let (_, url) = connect_http(&server, Era::Legacy).await;
    let client = async |inputs: Option<Inputs>| {
        let mut options = options_of(Era::Legacy);
        options.inputs = inputs.map(Into::into);
        Caller::recorded(Connection::open(&url, options).await.unwrap(), journal.clone())
    };
    let first = client(Some(Inputs::deferred())).await;
    let detached = first.start("ask", json!({})).await.unwrap().detach().await.unwrap();
    // Holds the connection of the one without a handler open.
    let other = first.start("slow", json!({})).await.unwrap().detach().await.unwrap();
    drop((first, detached, other));

    let second = client(None).await;
    let mut results = second.results().await.unwrap();
    let (_, error) = results.next().await.unwrap();
    let error = error.unwrap_err();
    assert!(error.to_string().contains("still waits for the answer"), "{error}");
    let waiting = server
        .engine()
        .unwrap()
        .ports()
        .within(millis(300), results.next())
        .await;
    assert!(waiting.is_none(), "{waiting:?}");
    drop((results, second));

    let accepting = Inputs::new().elicit(async |_| Ok(InputResponse::accept(json!({"name": "Ann"}))));
    let third = client(Some(accepting)).await;
    let mut results = third.results().await.unwrap();
    let (_, outcome) = results.next().await.unwrap();
    assert_eq!(outcome.unwrap().text(), "Ann");
}

#[tokio::test]
async fn a_handler_that_panics_is_an_error_and_the_call_ends() {
    let ask = async |cx: TaskContext| match cx.elicit::<Name>("Who?").await {
        Err(AskError::Refused(failure)) => failure.message.to_string(),
        Err(AskError::Dismissed) => "dismissed".to_owned(),
        _ => "answered".to_owned(),
    };
    for policy in [TaskPolicy::Never, TaskPolicy::Always] {
        let server = start(|server| server.tool(Tool::new("ask", ask).task(policy))).await;
        for era in ERAS {
            let (_, url) = connect_http(&server, era).await;
            let mut options = options_of(era);
            options.inputs = Some(Inputs::new().elicit(async |_| panic!("the window is gone")).into());
            let client = Caller::new(Connection::open(&url, options).await.unwrap());
            let text = client.call("ask", json!({})).await.unwrap().text().to_owned();
            let expected = match era {
                Era::Legacy => "This client failed to answer",
                Era::Modern => "dismissed",
            };
            assert_eq!(text, expected);
        }
    }
}

fn options_of(era: Era) -> Options {
    let mut options = Options::named("test", "1");
    options.era = match era {
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    };
    options
}

#[tokio::test]
async fn of_two_answers_given_at_once_one_is_taken() {
    let server = start(|server| server.tool(Tool::new("greet", greet).task(TaskPolicy::Always))).await;
    for era in ERAS {
        let (_, url) = connect_http(&server, era).await;
        let mut options = options_of(era);
        options.inputs = Some(Inputs::deferred().into());
        let client = Caller::new(Connection::open(&url, options).await.unwrap());
        let call = client.start("greet", json!({})).await.unwrap();
        let mut status = Box::pin(call.status());
        let key = loop {
            if let Some(CallStatus::Task(task)) = status.next().await
                && let Some(question) = task.input_requests.first()
            {
                break question.key.clone().unwrap();
            }
        };
        let give = |name| call.answer(&key, InputResponse::accept(json!({"name": name})));
        let (ann, bob) = tokio::join!(give("Ann"), give("Bob"));
        assert!(ann.is_ok() && bob.is_err(), "{era:?}: {ann:?} {bob:?}");
        assert!(give("Cy").await.is_err());
        assert_eq!(call.result().await.unwrap().text(), "Hello, Ann!");
    }
}

/// It is the author's mistake, and the tool's error names the field.
#[tokio::test]
async fn a_form_that_is_not_flat_is_refused() {
    #[derive(Deserialize, JsonSchema)]
    struct Deep {
        #[expect(dead_code, reason = "only its schema is used")]
        inner: Vec<Name>,
    }
    let deep = async |cx: TaskContext| -> ToolResult<&'static str> {
        cx.elicit::<Deep>("How deep?").await?;
        Ok("")
    };
    let server = start(|server| server.tool(Tool::new("deep", deep))).await;
    for era in ERAS {
        let (client, asked) = answering(&server, era, []).await;
        let called = client.call("deep", json!({})).await.unwrap();
        assert!(
            called.is_error() && called.text().contains("`inner` of Deep"),
            "{}",
            called.text()
        );
        assert!(asked.lock().unwrap().is_empty());
    }
}

/// A client of 2025-11-25 gets a notification with the elicitation's id, from tools, tasks and prompts. Later revisions have neither.
#[tokio::test]
async fn c_32_a_client_is_notified_when_a_page_is_done() {
    const PAGE: &str = "https://acme.example/pay";
    let pay = async |cx: TaskContext| -> ToolResult<&'static str> {
        cx.elicit_url("Please pay", PAGE).await?.complete();
        // Nothing is sent about a task that has ended.
        cx.elicit::<Name>("Who was it?").await?;
        Ok("paid")
    };
    let invoice = async |cx: RequestContext| -> Result<String, Error> {
        cx.elicit_url("Please pay", PAGE).await?.complete();
        Ok("Thank them.".to_owned())
    };
    let server = start(|server| {
        server
            .tool(Tool::new("pay", pay))
            .prompt(Prompt::new("invoice", invoice))
    })
    .await;
    for era in ERAS {
        let (agreed, named) = (json!({"action": "accept"}), accept(json!({"name": "Ann"})));
        let answers = [agreed.clone(), named.clone(), agreed.clone(), named, agreed];
        let (client, asked) = answering(&server, era, answers).await;
        assert_eq!(client.call("pay", json!({})).await.unwrap().text(), "paid");
        let task = client.start("pay", json!({})).await.unwrap();
        assert_eq!(task.wait().await.unwrap().text(), "paid");
        client.get_prompt("invoice", json!({})).await.unwrap();
        let pages: Vec<Value> = {
            let asked = asked.lock().unwrap();
            let pages = asked.iter().filter(|question| question["params"]["mode"] == "url");
            pages
                .map(|question| question["params"]["elicitationId"].clone())
                .collect()
        };
        assert_eq!(pages.len(), 3);
        for id in pages {
            match era {
                Era::Legacy => {
                    let params = client.notification("notifications/elicitation/complete").await.unwrap();
                    assert_eq!(params, json!({"elicitationId": id}));
                }
                Era::Modern => assert_eq!(id, Value::Null),
            }
        }
    }
}
