//! Resources of each kind.

use crate::contents::PNG;
use longhaul::{Json, Resource, ResourceTemplate, schemars::JsonSchema};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) fn resources() -> Vec<Resource> {
    vec![
        Resource::text("test://static-text", "This is the content of the static text resource.")
            .name("static-text")
            .description("A text that does not change")
            .mime_type("text/plain"),
        Resource::blob("test://static-binary", PNG)
            .name("static-binary")
            .description("A picture that does not change")
            .mime_type("image/png"),
        Resource::new("test://watched-resource", async || "Watch me.")
            .name("watched-resource")
            .description("A text to subscribe to")
            .mime_type("text/plain"),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    id: String,
}

pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("test://template/{id}/data", data)
        .name("template-data")
        .description("Data by id")
        .mime_type("application/json")
        .complete_from("id", ["123", "456"])
}

async fn data(item: Item) -> Json<Value> {
    let data = format!("Data for ID: {}", item.id);
    Json(json!({"id": item.id, "templateTest": true, "data": data}))
}
