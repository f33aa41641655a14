//! Questions of a handler, by request or by result, to clients of both eras.

use crate::{ERAS, connect, start};
use longhaul::{Era, testing::Client};
use serde_json::json;

#[tokio::test]
async fn clients_of_both_eras_are_asked_every_kind_of_question() {
    let (server, _) = start().await;
    for era in ERAS {
        let client = connect(&server, era).await;
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
async fn a_question_is_the_tasks_input_without_a_progress_token() {
    let (server, _) = start().await;
    let client = connect(&server, Era::Modern).await;
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
async fn a_client_without_the_capability_is_not_asked() {
    let (server, _) = start().await;
    for era in ERAS {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let client = Client::connect(&server, era).declaring(tasks).await.unwrap();
        // The handler gets an error and returns it.
        assert!(client.call("ask", json!({})).await.is_err(), "{era:?}");
        // Longhaul asks, so its error names the capability.
        match (era, client.call("ask_in_rounds", json!({})).await) {
            (Era::Modern, Err(failure)) => assert_eq!(failure.code, -32021),
            (Era::Legacy, Ok(called)) => assert!(called.is_error()),
            (era, other) => panic!("{era:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_task_that_asks_can_be_cancelled() {
    let (server, _) = start().await;
    let client = connect(&server, Era::Modern).await;
    let task = client.start("ask", json!({})).await.unwrap();
    assert_eq!(task.questions().await.unwrap().len(), 1);
    task.cancel().await.unwrap();
    while task.get().await.unwrap()["status"] != "cancelled" {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}
