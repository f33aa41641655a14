//! Extensions of the author.

use super::capabilities;
use crate::{ERAS, connect, start};
use longhaul::Era;
use serde_json::json;

#[tokio::test]
async fn extensions_are_declared_in_the_way_of_each_era() {
    let server = start(|server| {
        server
            .extension("com.example/reports", json!({"formats": ["pdf"]}))
            .extension("com.example/other", json!({}))
    })
    .await;
    for era in ERAS {
        let client = connect(&server, era).await;
        let capabilities = capabilities(&client, era).await;
        let declared = match era {
            Era::Legacy => &capabilities["experimental"],
            Era::Modern => &capabilities["extensions"],
        };
        assert_eq!(declared["com.example/reports"], json!({"formats": ["pdf"]}));
        assert_eq!(declared["com.example/other"], json!({}));
        assert!(declared["dev.longhaul/idempotency"].is_object(), "{declared}");
    }
}
