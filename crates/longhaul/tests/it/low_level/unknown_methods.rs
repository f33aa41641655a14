//! Requests of methods that nobody else answers.

use super::{Members, connect_http};
use crate::{ERAS, connect, start};
use longhaul::{Era, Error, RawJson, RequestContext, ServerHandle};
use serde_json::{Value, json};

async fn server() -> ServerHandle {
    start(|server| {
        server
            .method("com.example/known", async |_: RequestContext, _: Members| {
                Ok::<_, Error>(Members::from_iter([("known".to_owned(), true.into())]))
            })
            .fallback_method(
                async |cx: RequestContext, method: String, params: Members| match &*method {
                    "com.example/nothing" => Err(Error::not_found()),
                    "com.example/also_nothing" => Err(Error::method_not_found()),
                    _ => {
                        let era = format!("{:?}", cx.era());
                        Ok(RawJson::from(
                            json!({"method": method, "text": params.get("text"), "era": era}),
                        ))
                    }
                },
            )
    })
    .await
}

#[tokio::test]
async fn a_fallback_answers_what_nobody_knows() {
    let server = server().await;
    for era in ERAS {
        let client = connect(&server, era).await;
        for method in ["com.example/other", "com.example/more/x"] {
            let result = client.request(method, json!({"text": 5})).await.unwrap();
            assert_eq!((&result["method"], &result["text"]), (&json!(method), &json!(5)));
            assert_eq!(result["era"], format!("{era:?}"));
        }
        assert_eq!(
            client.request("com.example/known", json!({})).await.unwrap()["known"],
            true
        );
        for method in ["com.example/nothing", "com.example/also_nothing"] {
            let unknown = client.request(method, json!({})).await.unwrap_err();
            assert_eq!(unknown.code, -32601, "{unknown}");
        }
        // What MCP has in another era is not the author's.
        let other = match era {
            Era::Legacy => "server/discover",
            Era::Modern => "ping",
        };
        assert_eq!(client.request(other, json!({})).await.unwrap_err().code, -32601);
    }
}

#[tokio::test]
async fn a_fallback_answers_over_http() {
    let server = server().await;
    for era in ERAS {
        let (client, _) = connect_http(&server, era).await;
        // Also names that a method of one's own may not have.
        for method in ["status", "tools/mine"] {
            let result = client.send(method, json!({"text": "x"})).await.unwrap();
            let result: Value = serde_json::from_str(result.as_str()).unwrap();
            assert_eq!((&result["method"], &result["text"]), (&json!(method), &json!("x")));
        }
        let unknown = client
            .send("com.example/nothing", json!({}))
            .await
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("com.example/nothing"), "{unknown}");
    }
}
