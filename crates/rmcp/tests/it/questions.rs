//! What a handler asks is asked of whoever called, in either generation, however the handler asks.

use crate::{ERAS, ann, desk};
use longhaul::{Era, testing::Client};
use serde_json::json;

#[tokio::test]
async fn every_way_of_asking_reaches_every_client() {
    let (server, _) = desk().await;
    for era in ERAS {
        let client = ann(&server, era).await;
        for (tool, answer) in [
            ("ask", "Hello, Ann!"),
            ("ask_in_rounds", "Hello, Ann!"),
            ("sample", "4"),
            ("roots", "2"),
        ] {
            assert_eq!(
                client.call(tool, json!({})).await.unwrap().text(),
                answer,
                "{tool}, called"
            );
            let task = client.start(tool, json!({})).await.unwrap();
            assert_eq!(task.wait().await.unwrap().text(), answer, "{tool}, as a task");
        }
    }
}

#[tokio::test]
async fn a_question_is_the_tasks_input_and_carries_no_token_of_ours() {
    let (server, _) = desk().await;
    let client = ann(&server, Era::Modern).await;
    let task = client.start("ask", json!({})).await.unwrap();
    let questions = task.questions().await.unwrap();
    let (key, question) = questions.iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Who are you?");
    assert!(!question.to_string().contains("progressToken"), "{question}");
    task.answer(key, json!({"action": "accept", "content": {"name": "Bea"}}))
        .await
        .unwrap();
    assert_eq!(
        task.next().await.unwrap()["result"]["content"][0]["text"],
        "Hello, Bea!"
    );
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not() {
    let (server, _) = desk().await;
    for era in ERAS {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let client = Client::connect(&server, era).declaring(tasks).await.unwrap();
        // The handler was told by an error, and made an error of it.
        assert!(client.call("ask", json!({})).await.is_err(), "{era:?}");
        // Longhaul asked, so it says what is missing.
        match (era, client.call("ask_in_rounds", json!({})).await) {
            (Era::Modern, Err(failure)) => assert_eq!(failure.code, -32021),
            (Era::Legacy, Ok(called)) => assert!(called.is_error()),
            (era, other) => panic!("{era:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_cancelled_question_is_taken_back() {
    let (server, _) = desk().await;
    let client = ann(&server, Era::Modern).await;
    let task = client.start("ask", json!({})).await.unwrap();
    assert_eq!(task.questions().await.unwrap().len(), 1);
    task.cancel().await.unwrap();
    while task.get().await.unwrap()["status"] != "cancelled" {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}
