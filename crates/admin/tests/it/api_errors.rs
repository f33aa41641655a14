//! What the API answers when it refuses.

use crate::world::{World, answered};
use reqwest::{Method, header};
use serde_json::{Value, json};

/// A part of an id may fit several tasks, so it is none that was deleted.
#[tokio::test]
async fn a_part_of_an_id_is_no_task() {
    let world = World::new(true).await;
    let id = world.running("runs").await;
    for path in ["/api/tasks", "/tasks"] {
        let answer = world.get(&format!("{path}/{}", &id[..4])).await;
        assert_eq!(answer.status(), 404);
        let text = answer.text().await.unwrap();
        assert!(
            text.contains("is not the whole id of a task, which has 36 characters"),
            "{text}"
        );
    }
    let (status, refused) = world.act(&format!("/api/tasks/{}/cancel", &id[..4])).await;
    assert_eq!(
        (status, &refused["error"]["kind"]),
        (404, &json!("not_found")),
        "{refused}"
    );
    let gone = format!("{}{}", &id[..35], if id.ends_with('0') { "1" } else { "0" });
    let answer = answered(world.request(Method::GET, &format!("/api/tasks/{gone}"))).await;
    assert_eq!(
        answer,
        (
            404,
            json!({"error": {"kind": "not_found", "message": "task not found"}})
        )
    );
}

/// Whatever is wrong with a request, the answer is what the description says.
#[tokio::test]
async fn errors_are_as_described() {
    let world = World::new(true).await;
    let description = world.json("/api/openapi.json").await;
    let id = world.running("runs").await;
    let json_type = (header::CONTENT_TYPE, "application/json");
    let (foreign, browser) = (
        (header::HOST, "elsewhere.example"),
        (header::ORIGIN, "http://elsewhere.example"),
    );
    let text = (header::CONTENT_TYPE, "text/plain");
    for (method, path, query, (name, value), body, status) in [
        (Method::GET, "/api/tasks", "?sate=failed", json_type.clone(), "", 400),
        (
            Method::GET,
            "/api/tasks/{id}/journal",
            "?after=x",
            json_type.clone(),
            "",
            400,
        ),
        (
            Method::GET,
            "/api/tasks/{id}/log",
            "?offset=-1",
            json_type.clone(),
            "",
            400,
        ),
        (Method::GET, "/api/audit", "?limit=x", json_type.clone(), "", 400),
        (Method::GET, "/api/audit", "?limit=0", json_type.clone(), "", 400),
        (Method::GET, "/api/audit", "?limit=999999", json_type.clone(), "", 400),
        (Method::GET, "/api/stats", "", foreign, "", 403),
        (Method::POST, "/api/drain", "", browser, "", 403),
        (Method::POST, "/api/tasks/{id}/reset", "", json_type.clone(), "{", 400),
        (
            Method::POST,
            "/api/tasks/{id}/reset",
            "",
            text.clone(),
            "{\"before\": 1}",
            415,
        ),
        (Method::POST, "/api/tasks/{id}/reset", "", json_type.clone(), "{}", 400),
        (Method::POST, "/api/tasks/{id}/answer", "", json_type.clone(), "{", 400),
        (Method::POST, "/api/tasks/{id}/answer", "", text, "{}", 415),
        (Method::POST, "/api/tasks/{id}/answer", "", json_type.clone(), "", 400),
        (
            Method::POST,
            "/api/tasks/{id}/answer",
            "",
            json_type.clone(),
            "[1]",
            400,
        ),
        (
            Method::POST,
            "/api/tasks/{id}/answer",
            "",
            json_type.clone(),
            "{\"key\": 1, \"answer\": {}}",
            400,
        ),
        (Method::POST, "/api/tasks/{id}/answer", "", json_type.clone(), "{}", 400),
    ] {
        let address = format!("{}{query}", path.replace("{id}", &id));
        let request = world.request(method.clone(), &address).header(name, value).body(body);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{method} {address}");
        assert_eq!(
            answer.headers()[header::CONTENT_TYPE],
            "application/json",
            "{method} {address}"
        );
        let error: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        for member in ["kind", "message"] {
            assert!(!error["error"][member].as_str().unwrap().trim().is_empty(), "{error}");
        }
        if path.ends_with("/answer") || path.ends_with("/reset") {
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("the body must be JSON such as `{"), "{message}");
        }
        if method == Method::GET && status == 400 {
            let message = error["error"]["message"].as_str().unwrap();
            let says_what_is_right = message.contains("it must be ") || message.contains("expected one of `state`");
            assert!(says_what_is_right, "{message}");
        }
        let operation = &description["paths"][path][method.as_str().to_lowercase()];
        let described = &operation["responses"][status.to_string()];
        assert_eq!(
            described["$ref"], "#/components/responses/Error",
            "{status} of {method} {path}"
        );
    }
    let undecodable = world.request(Method::GET, "/api/tasks/%ff");
    assert_eq!(undecodable.send().await.unwrap().status(), 400);
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let described = |status| !operation["responses"][status].is_null();
            assert!(described("401") && described("403"), "{method} {path}");
            assert!(!path.contains('{') || described("400"), "{method} {path}");
        }
    }
    let host = &description["components"]["schemas"]["ActiveAttempt"]["properties"]["host"];
    let task = world.json(&format!("/api/tasks/{id}")).await;
    assert!(task["attempt"].get("host").is_none_or(Value::is_null), "{task}");
    assert_eq!(host["type"], json!(["string", "null"]));
}
