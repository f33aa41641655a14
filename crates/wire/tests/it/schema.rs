//! Messages against the line that tags them.

use longhaul_schemas::PublishedSchema;
use serde_json::{Value, json};

/// Checks a message against a line's tag, such as `25:res:CallToolResult`.
pub(crate) fn check(tag: &str, message: &Value) {
    let [schema, part, definition] = tag.split(':').collect::<Vec<_>>()[..] else {
        panic!("{tag}")
    };
    let value = match part {
        "msg" => message,
        "res" => &message["result"],
        "par" => &message["params"],
        other => panic!("{other}"),
    };
    let schema = match schema {
        "25" => PublishedSchema::Legacy,
        "26" => PublishedSchema::Modern,
        "x" => PublishedSchema::Tasks,
        other => panic!("{other}"),
    };
    schema.check(definition, value).unwrap();
}

#[test]
fn the_validator_finds_violations() {
    // A null where a member should be left out, and a task that claims to be complete when created.
    let task = json!({"taskId":"t","status":"working","statusMessage":null,"createdAt":"","lastUpdatedAt":"","ttl":1});
    PublishedSchema::Legacy.check("Task", &task).unwrap_err();
    let created =
        json!({"resultType":"complete","taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":1});
    PublishedSchema::Tasks.check("CreateTaskResult", &created).unwrap_err();
}
