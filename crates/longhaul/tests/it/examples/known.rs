//! The examples that other SDKs have, too: called by a client of each era, over standard input and output.

use super::process::program;
use longhaul_client::{
    CallResponse, ChildOptions, ChildProcess, Connection, EraChoice, Options, Outcome, RequestError,
};
use rusqlite::Connection as Database;
use serde_json::{Value, json};

const ERAS: [EraChoice; 2] = [EraChoice::Legacy, EraChoice::Modern];

/// A connection to an example of its own.
struct Client(Connection);

impl Client {
    fn of(example: &str, args: &[&str], era: EraChoice) -> Self {
        let program = program(example).get_program().to_str().unwrap().to_owned();
        let child = ChildProcess::new(ChildOptions::new(program, args.iter().copied()));
        let mut options = Options::named("test", "1");
        options.era = era;
        Self(Connection::over(child, options))
    }

    async fn send(&self, method: &str, params: Value) -> Result<Value, RequestError> {
        let result = self.0.send(method, params).await?;
        Ok(serde_json::from_str(result.as_str()).unwrap())
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let tools = self.0.list_tools().await.unwrap();
        let tool = tools.iter().find(|listed| listed.name == tool).unwrap();
        let arguments = arguments.as_object().unwrap();
        let outcome = match self.0.call_tool(tool, arguments, &mut |_| {}).await.unwrap() {
            CallResponse::Done(outcome) => outcome,
            CallResponse::Task(task) => task.wait(&mut |_| {}).await.unwrap(),
        };
        match outcome {
            Outcome::Result { json, .. } => serde_json::from_str(json.as_str()).unwrap(),
            other => panic!("no result: {other:?}"),
        }
    }

    async fn rows(&self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments).await["structuredContent"]["rows"].clone()
    }
}

#[tokio::test]
async fn echo_echoes_in_three_ways() {
    for era in ERAS {
        let client = Client::of("echo", &["--stdio"], era);
        let called = client.call("echo", json!({"message": "hi"})).await;
        assert_eq!(called["content"][0]["text"], "Tool echo: hi");
        let read = client
            .send("resources/read", json!({"uri": "echo://hi"}))
            .await
            .unwrap();
        assert_eq!(read["contents"][0]["text"], "Resource echo: hi");
        let prompt = json!({"name": "echo", "arguments": {"message": "hi"}});
        let prompt = client.send("prompts/get", prompt).await.unwrap();
        assert_eq!(
            prompt["messages"][0]["content"]["text"],
            "Please process this message: hi"
        );
        client.0.close().await;
    }
}

#[tokio::test]
async fn the_sqlite_explorer_reads_and_never_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("music.db");
    let database = Database::open(&path).unwrap();
    let schema = r#"
        CREATE TABLE albums (title TEXT NOT NULL, year INTEGER, cover BLOB);
        CREATE TABLE "odd "" name" (x);
        INSERT INTO albums VALUES ('Kind of Blue', 1959, x'0102'), ('Blue Train', 1957, NULL);
        INSERT INTO "odd "" name" VALUES (1.5);"#;
    database.execute_batch(schema).unwrap();
    for era in ERAS {
        let client = Client::of("sqlite_explorer", &[path.to_str().unwrap()], era);
        let tables = client.rows("list_tables", json!({})).await;
        assert_eq!(tables, json!([["albums", "table"], ["odd \" name", "table"]]));
        let columns = client.rows("describe", json!({"table": "albums"})).await;
        assert_eq!(
            columns,
            json!([
                ["title", "TEXT", 1, 0],
                ["year", "INTEGER", 0, 0],
                ["cover", "BLOB", 0, 0]
            ])
        );
        let sql = "SELECT title, cover FROM albums ORDER BY year";
        let albums = client.rows("query", json!({"sql": sql})).await;
        assert_eq!(
            albums,
            json!([["Blue Train", null], ["Kind of Blue", {"blob": "2 bytes"}]])
        );

        for (sql, why) in [
            ("DELETE FROM albums", "readonly"),
            ("SELECT artist FROM albums", "no such column"),
            ("SELECT 1; SELECT 2", "ultiple"),
        ] {
            let refused = client.call("query", json!({"sql": sql})).await;
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(refused["isError"] == true && text.contains(why), "{refused}");
        }

        let read = |uri: &'static str| client.send("resources/read", json!({"uri": uri}));
        let odd = read("sqlite://main/odd%20%22%20name").await.unwrap();
        let odd: Value = serde_json::from_str(odd["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(odd, json!({"columns": ["x"], "rows": [[1.5]]}));
        let missing = read("sqlite://main/artists").await.unwrap_err().to_string();
        assert!(missing.contains("not found"), "{missing}");

        for reference in [
            json!({"type": "ref/resource", "uri": "sqlite://main/{table}"}),
            json!({"type": "ref/prompt", "name": "analyze"}),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "table", "value": "al"}});
            let completed = client.send("completion/complete", params).await.unwrap();
            assert_eq!(completed["completion"]["values"], json!(["albums"]));
        }
        let prompt = json!({"name": "analyze", "arguments": {"table": "albums"}});
        let prompt = client.send("prompts/get", prompt).await.unwrap();
        assert_eq!(
            prompt["messages"][0]["content"]["text"],
            "Query the table `albums`, and say what stands out."
        );
        client.0.close().await;
    }
    let albums: u32 = database
        .query_row("SELECT count(*) FROM albums", [], |row| row.get(0))
        .unwrap();
    assert_eq!(albums, 2);
}
