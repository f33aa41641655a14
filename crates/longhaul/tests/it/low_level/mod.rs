//! What an author answers below tools, prompts and resources, in both eras, over a byte stream and over HTTP.

mod extensions;
mod notifications;
mod subscriptions;
mod tool_calls;
mod unknown_methods;

use longhaul::{Era, ServerHandle};
use longhaul_client::{Connection, EraChoice, Options};
use serde_json::{Map, Value, json};

type Members = Map<String, Value>;

/// Serves over HTTP, and connects a client of this era. Returns the URL, too.
pub(crate) async fn connect_http(server: &ServerHandle, era: Era) -> (Connection, String) {
    let listener = server.listen("127.0.0.1:0").await.unwrap();
    let url = listener.url();
    let engine = server.engine().unwrap();
    engine.spawn(listener.serve_until(std::future::pending()));
    let mut options = Options::named("test", "1");
    options.era = match era {
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    };
    (Connection::open(&url, options).await.unwrap(), url)
}

/// What the server declares.
async fn capabilities(client: &longhaul::testing::Client, era: Era) -> Value {
    let method = match era {
        Era::Legacy => "initialize",
        Era::Modern => "server/discover",
    };
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    client.request(method, params).await.unwrap()["capabilities"].take()
}
