//! Resources and resource templates.

use crate::{ERAS, connect, start};
use longhaul::{Era, Error, Json, Resource, ResourceTemplate, schemars::JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct User {
    id: u64,
}

async fn profile(user: User) -> Result<Json<Value>, Error> {
    match user.id {
        0 => Err(Error::not_found()),
        id => Ok(Json(json!({"id": id}))),
    }
}

/// A URI that names nothing is an error, also when only the function knows.
#[tokio::test]
async fn resources_are_read() {
    let server = start(|server| {
        server
            .resource(
                Resource::text("docs://readme", "Read me.")
                    .name("readme")
                    .mime_type("text/markdown"),
            )
            .resource(
                Resource::new("docs://bytes", async || vec![1u8, 2, 3])
                    .title("Bytes")
                    .priority(0.5),
            )
            .template(ResourceTemplate::new("users://{id}", profile).complete_from("id", ["12", "13", "20"]))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let listed = client.request("resources/list", json!({})).await.unwrap();
        assert_eq!(
            listed["resources"],
            json!([
                {"uri": "docs://readme", "name": "readme", "mimeType": "text/markdown", "size": 8},
                {"uri": "docs://bytes", "name": "docs://bytes", "title": "Bytes", "annotations": {"priority": 0.5}},
            ])
        );
        let readme = client.read("docs://readme").await.unwrap();
        assert_eq!(
            readme,
            [json!({"uri": "docs://readme", "mimeType": "text/markdown", "text": "Read me."})]
        );
        let bytes = client.read("docs://bytes").await.unwrap();
        assert_eq!(bytes, [json!({"uri": "docs://bytes", "blob": "AQID"})]);
        let user = client.read("users://7").await.unwrap();
        assert_eq!(
            user,
            [json!({"uri": "users://7", "mimeType": "application/json", "text": "{\"id\":7}"})]
        );
        let code = if era == Era::Legacy { -32002 } else { -32602 };
        for unknown in ["users://0", "users://ann", "nothing://here"] {
            let failure = client.read(unknown).await.unwrap_err();
            assert_eq!(
                (failure.code, &failure.data["uri"]),
                (code, &json!(unknown)),
                "{failure}"
            );
        }
        let completed = client
            .request(
                "completion/complete",
                json!({"ref": {"type": "ref/resource", "uri": "users://{id}"}, "argument": {"name": "id", "value": "1"}}),
            )
            .await
            .unwrap();
        assert_eq!(completed["completion"]["values"], json!(["12", "13"]));
    }
}
