//! Asking from a handler: the same code for clients of both eras, in a task and outside one.

use crate::{ERAS, start};
use longhaul::{
    AskError, ElicitResult, Era, Error, Field, Form, NoArguments, Prompt, RequestContext, ServerHandle, TaskContext,
    TaskPolicy, Tool, ToolResult, schemars::JsonSchema, testing::Client, time::millis,
};
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

/// A client that answers with these, in turn, and what it was asked.
async fn answering(
    server: &ServerHandle,
    era: Era,
    answers: impl Into<Vec<Value>>,
) -> (Client, Arc<Mutex<Vec<Value>>>) {
    let answers = Mutex::new(answers.into().into_iter());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let client = Client::connect(server, era).answering(move |question| {
        heard.lock().unwrap().push(question.clone());
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

/// G2-42: an answer that does not fit the form is asked for again, with what was wrong; after three it is given up on.
#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    for policy in [TaskPolicy::Never, TaskPolicy::Always] {
        let server = start(|server| server.tool(Tool::new("greet", greet).task(policy))).await;
        for era in ERAS {
            let answers = [accept(json!({"name": "A"})), accept(json!({"name": "Ann"}))];
            let (client, asked) = answering(&server, era, answers).await;
            assert_eq!(client.call("greet", json!({})).await.unwrap().text(), "Hello, Ann!");
            let again = asked.lock().unwrap()[1]["params"]["message"].to_string();
            assert!(
                again.contains("Who are you?") && again.contains("could not be used: name"),
                "{again}"
            );

            let (client, asked) = answering(&server, era, vec![accept(json!({"name": 1})); 9]).await;
            let called = client.call("greet", json!({})).await.unwrap();
            assert!(
                called.is_error() && called.text().contains("could not be used"),
                "{}",
                called.text()
            );
            assert_eq!(asked.lock().unwrap().len(), 3);
        }
    }
}

#[tokio::test]
async fn a_no_ends_the_tool_unless_it_listens() {
    let listens = async |cx: TaskContext| -> ToolResult<&'static str> {
        Ok(match cx.elicit::<Name>("Who?").answer().await? {
            ElicitResult::Accepted(_) => "accepted",
            ElicitResult::Declined => "declined",
            ElicitResult::Dismissed => "dismissed",
        })
    };
    let server = start(|server| {
        server
            .tool(Tool::new("greet", greet))
            .tool(Tool::new("listens", listens))
    })
    .await;
    for era in ERAS {
        for (action, told) in [("decline", "declined"), ("cancel", "dismissed")] {
            let answer = json!({"action": action});
            let (client, _) = answering(&server, era, [answer.clone(), answer]).await;
            let ended = client.call("greet", json!({})).await.unwrap();
            assert!(ended.is_error() && ended.text().contains(told), "{}", ended.text());
            assert_eq!(client.call("listens", json!({})).await.unwrap().text(), told);
        }
    }
}

/// U-13: what a client has not declared it is not asked. A modern one is told what to declare, a legacy one in words.
#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_so() {
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
async fn a_model_a_page_and_roots_are_asked_for() {
    let model = async |cx: TaskContext| -> ToolResult<String> {
        let said = cx
            .sample("Capital of France?")
            .system_prompt("Be brief.")
            .max_tokens(5)
            .await?;
        Ok(format!("{} by {}", said.text(), said.model))
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
        let said = json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m-1"});
        let roots = json!({"roots": [{"uri": "file:///home", "name": "home"}]});
        let (client, asked) = answering(&server, era, [said, json!({"action": "accept"}), roots]).await;
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

/// G2-28: what is asked at once is shown at once.
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

/// G2-17, X-12: what a modern client is asked before the task leaves no trace in it. A legacy client has its task first (G1-11).
#[tokio::test]
async fn what_is_missing_is_asked_before_the_work_begins() {
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

/// A question that nobody answers in time is withdrawn, and the tool goes on.
#[tokio::test]
async fn a_question_may_be_given_so_long() {
    let impatient = async |cx: TaskContext| match cx.elicit::<Name>("Who?").within(millis(20)).await {
        Err(AskError::Unanswered) => "went on alone",
        _ => "answered",
    };
    let server = start(|server| server.tool(Tool::new("impatient", impatient).task(TaskPolicy::Always))).await;
    let client = Client::connect(&server, Era::Modern).await.unwrap();
    let task = client.start("impatient", json!({})).await.unwrap();
    let questions = task.questions().await.unwrap();
    // It may have gone on before we looked.
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

/// A form that cannot be is the author's mistake, and the tool's error says which field it is.
#[tokio::test]
async fn a_form_that_is_not_flat_is_refused() {
    #[derive(Deserialize, JsonSchema)]
    struct Deep {
        #[expect(dead_code, reason = "only its schema is looked at")]
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

/// C-32: a client of 2025-11-25 hears when what there was to do on a page is done, under the id it was sent there with, whatever sent it. Later
/// ones know neither.
#[tokio::test]
async fn c_32_a_client_hears_when_a_page_is_done_with() {
    const PAGE: &str = "https://acme.example/pay";
    let pay = async |cx: TaskContext| -> ToolResult<&'static str> {
        cx.elicit_url("Please pay", PAGE).await?.done();
        // A task that is over is told of no more.
        cx.elicit::<Name>("Who was it?").await?;
        Ok("paid")
    };
    let invoice = async |cx: RequestContext| -> Result<String, Error> {
        cx.elicit_url("Please pay", PAGE).await?.done();
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
                    let told = client.notification("notifications/elicitation/complete").await.unwrap();
                    assert_eq!(told, json!({"elicitationId": id}));
                }
                Era::Modern => assert_eq!(id, Value::Null),
            }
        }
    }
}
