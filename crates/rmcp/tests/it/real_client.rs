//! rmcp's own client calls an rmcp handler through Longhaul.

use crate::start;
use longhaul::ServerHandle;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, model::*, service::RequestContext,
};
use serde_json::json;

#[derive(Clone)]
struct Ann;

impl ClientHandler for Ann {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        ClientConfig::new(
            serde_json::from_value(capabilities).unwrap(),
            Implementation::new("ann", "1"),
        )
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ann"})))
    }
}

async fn with_client(mode: ClientLifecycleMode, test: impl AsyncFnOnce(&ServerHandle, rmcp::Peer<RoleClient>)) {
    let (server, _) = start().await;
    let (near, far) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(far);
    let served = server.serve_lines(reader, writer);
    let tested = async {
        let client = Ann.serve_with_lifecycle(tokio::io::split(near), mode).await.unwrap();
        test(&server, client.peer().clone()).await;
    };
    tokio::select! {
        () = tested => {}
        served = served => panic!("the server has closed its connection: {served:?}"),
    }
}

fn text(result: &CallToolResult) -> &str {
    result.content[0].as_text().map_or("", |block| &block.text)
}

#[tokio::test]
async fn a_legacy_client_calls_tools_and_answers_questions() {
    with_client(ClientLifecycleMode::Initialize, async |_, client| {
        assert_eq!(client.list_all_tools().await.unwrap().len(), 15);
        for (tool, expected) in [("ask", "Hello, Ann!"), ("ask_in_rounds", "Hello, Ann!")] {
            let result = client.call_tool(CallToolRequestParams::new(tool)).await.unwrap();
            assert_eq!(text(&result), expected, "{tool}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_modern_client_follows_tasks() {
    let mode = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    with_client(mode, async |_, client| {
        for tool in ["ask", "ask_in_rounds"] {
            let called = client.call_tool_once(CallToolRequestParams::new(tool)).await.unwrap();
            let CallToolResponse::Task(created) = called else {
                panic!("no task: {called:?}")
            };
            let id = created.task.task_id;
            let result = loop {
                match client.get_task(GetTaskParams::new(&id)).await.unwrap().task.payload {
                    TaskPayload::InputRequired { input_requests } => {
                        let answer = json!({"action": "accept", "content": {"name": "Ann"}});
                        let answers = input_requests.into_keys().map(|key| (key, answer.clone())).collect();
                        client.update_task(UpdateTaskParams::new(&id, answers)).await.unwrap();
                    }
                    TaskPayload::Completed { result } => break result,
                    TaskPayload::Working => tokio::task::yield_now().await,
                    other => panic!("{tool}: {other:?}"),
                }
            };
            assert_eq!(result["content"][0]["text"], "Hello, Ann!", "{tool}");
        }
    })
    .await;
}
