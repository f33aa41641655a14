//! Questions with a form that is none, as earlier releases have stored them.

use crate::world::{World, answered};
use longhaul::testing::Task;
use longhaul_core::{BoxFuture, Capability, Json, Outcome};
use longhaul_runtime::{ExecutionEnd, Executor, ExecutorAttempt, Question, TaskContext, Tool, ToolSettings};
use reqwest::{Method, header};
use serde_json::{Value, json};
use std::sync::Arc;

/// Asks for this form, and ends with the answer.
struct Asks(Value);

impl Executor for Asks {
    fn run(self: Arc<Self>, _: ExecutorAttempt, cx: TaskContext) -> BoxFuture<'static, ExecutionEnd> {
        let params = json!({"message": "Which?", "requestedSchema": self.0});
        let question = Question {
            needs: Some(Capability::ElicitationForm),
            ..Question::new(Json::from(json!({"method": "elicitation/create", "params": params})))
        };
        Box::pin(async move {
            let answer = cx.ask(question).await.unwrap();
            ExecutionEnd::Finished(Outcome::tool_error(answer.as_str()))
        })
    }
}

async fn asking(world: &World, form: Value) -> (Task<'_>, String) {
    let executor: Arc<dyn Executor> = Arc::new(Asks(form));
    let settings = ToolSettings::new("unsound", "unsound", Json::from(json!({})), executor);
    let engine = world.server.engine().unwrap();
    engine.put_tool(Tool::new(settings).unwrap()).await.unwrap();
    let task = world.client.start("unsound", json!({})).await.unwrap();
    // The client of tests takes no form that is none.
    loop {
        let shown = world.json(&format!("/api/tasks/{}", task.id())).await;
        if let Some(key) = shown["questions"][0]["key"].as_str() {
            return (task, key.to_owned());
        }
        tokio::task::yield_now().await;
    }
}

/// Everybody can still say no.
#[tokio::test]
async fn a_form_that_is_none_is_shown_and_can_be_declined() {
    let recursive = json!({"type": "object", "properties": {"a": {"$recursiveRef": "#"}}});
    for form in [json!({"$ref": "#"}), recursive] {
        let world = World::new(true).await;
        let (task, key) = asking(&world, form).await;
        let path = format!("/tasks/{}", task.id());
        let page = world.page(&path).await;
        assert!(
            page.contains("It asks: Which?") && page.contains("can only be declined"),
            "{page}"
        );
        assert!(
            page.contains(r#"value="decline""#) && !page.contains(r#"value="accept""#),
            "{page}"
        );

        let accepted = json!({"action": "accept", "content": {"a": 1}});
        let body = json!({"key": key, "answer": accepted}).to_string();
        let request = world
            .request(Method::POST, &format!("/api{path}/answer"))
            .header(header::CONTENT_TYPE, "application/json");
        let (status, error) = answered(request.body(body)).await;
        assert_eq!((status, &error["error"]["kind"]), (400, &json!("invalid")), "{error}");
        let refused = task.answer(&key, accepted).await.unwrap_err().to_string();
        assert!(refused.contains("the form is invalid"), "{refused}");

        let form = format!("key={key}&action=decline");
        assert_eq!(world.submit(&format!("{path}/answer"), &form).await, (303, path));
        assert!(task.wait().await.unwrap().text().contains("decline"));
    }
}
