//! An rmcp handler with every feature that a handler can have, written for rmcp alone.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::*,
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, json};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::sync::Notify;

#[derive(Clone, Default)]
pub(crate) struct TestHandler(Arc<State>);

#[derive(Default)]
pub(crate) struct State {
    /// Lets the tool `wait` return.
    pub(crate) resume: Notify,
    /// A tool has started.
    pub(crate) started: Notify,
    /// How many calls were started.
    pub(crate) calls: AtomicUsize,
    /// The future of `ignores_cancel` was dropped, or `stops_if_cancelled` was cancelled.
    pub(crate) dropped: Notify,
    pub(crate) initialized: AtomicUsize,
    /// Whether `change_tools` has changed the list of tools.
    tools_changed: AtomicBool,
    pub(crate) subscribed: Mutex<Vec<String>>,
}

impl TestHandler {
    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.0)
    }
}

struct NotifyOnDrop(Arc<State>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

fn tools() -> Value {
    let object = json!({"type": "object"});
    json!([
        {
            "name": "echo", "title": "Echo", "description": "Returns its text",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-unknown": [1, 2.5]}}, "required": ["text"]},
            "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
            "annotations": {"title": "Echo!", "readOnlyHint": true, "openWorldHint": false},
            "icons": [{"src": "https://example.com/e.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
            "_meta": {"com.example/team": {"n": 1}},
        },
        {"name": "wait", "inputSchema": object},
        {"name": "ask", "inputSchema": object},
        {"name": "ask_in_rounds", "inputSchema": object},
        {"name": "sample", "inputSchema": object},
        {"name": "roots", "inputSchema": object},
        {"name": "fails", "inputSchema": object},
        {"name": "rpc_error", "inputSchema": object},
        {"name": "panics", "inputSchema": object},
        {"name": "ignores_cancel", "inputSchema": object},
        {"name": "stops_if_cancelled", "inputSchema": object},
        {"name": "whoami", "inputSchema": object},
        {"name": "update_resource", "inputSchema": object},
        {"name": "change_tools", "inputSchema": object},
        {"name": "page", "inputSchema": object},
    ])
}

fn form(message: &str) -> ElicitRequestParams {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema).unwrap(),
    }
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl TestHandler {
    async fn ask(&self, cx: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let answer = cx
            .peer
            .create_elicitation(form("Who are you?"))
            .await
            .map_err(internal)?;
        Ok(answer.content.unwrap_or_default()["name"]
            .as_str()
            .unwrap_or("nobody")
            .to_owned())
    }

    async fn work(&self, cx: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let token = cx
            .meta
            .get_progress_token()
            .ok_or_else(|| internal("no progress token"))?;
        let half = ProgressNotificationParam::new(token, 1.0)
            .with_total(2.0)
            .with_message("halfway");
        cx.peer.notify_progress(half).await.map_err(internal)?;
        self.0.started.notify_one();
        self.0.resume.notified().await;
        Ok(text("done"))
    }
}

#[expect(deprecated, reason = "rmcp marks sampling and roots as deprecated")]
impl ServerHandler for TestHandler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}, "completions": {},
        });
        let about = Implementation::new("desk", "2.1.0")
            .with_title("The desk")
            .with_website_url("https://example.com");
        ServerConfig::new(serde_json::from_value(capabilities).unwrap())
            .with_server_info(about)
            .with_instructions("Ask the desk.")
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.0.initialized.fetch_add(1, Ordering::SeqCst);
    }

    /// Each page has one tool.
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = tools();
        if self.0.tools_changed.load(Ordering::SeqCst) {
            let tools = tools.as_array_mut().unwrap();
            tools.retain(|tool| tool["name"] != "roots");
            tools.push(json!({"name": "added", "inputSchema": {"type": "object"}}));
        }
        let from: usize = request
            .and_then(|page| page.cursor)
            .map_or(0, |cursor| cursor.parse().unwrap());
        let next = (from + 1 < tools.as_array().unwrap().len()).then(|| (from + 1).to_string());
        let page = json!({"tools": [tools[from]], "nextCursor": next});
        Ok(serde_json::from_value(page).unwrap())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let arguments = request.arguments.unwrap_or_default();
        Ok(match &*request.name {
            "echo" => {
                let mut result = CallToolResult::structured(json!({"text": arguments["text"]}));
                result.meta = Some(serde_json::from_value(json!({"com.example/cost": 3})).unwrap());
                result.into()
            }
            "wait" => return self.work(&cx).await,
            "ask" => text(format!("Hello, {}!", self.ask(&cx).await?)),
            "ask_in_rounds" => match request.input_responses {
                None => {
                    let question = InputRequest::Elicitation(ElicitRequest::new(form("In rounds: who?")));
                    let questions = [("who".to_owned(), question)].into();
                    InputRequiredResult::new(Some(questions), Some("s.t/a=te \"x\"".to_owned())).into()
                }
                Some(answers) => {
                    assert_eq!(request.request_state.as_deref(), Some("s.t/a=te \"x\""));
                    text(format!(
                        "Hello, {}!",
                        answers["who"]["content"]["name"].as_str().unwrap()
                    ))
                }
            },
            "sample" => {
                let message = SamplingMessage::user_text("2+2?");
                let params = CreateMessageRequestParams::new(vec![message], 10);
                let answer = cx.peer.create_message(params).await.map_err(internal)?;
                text(
                    serde_json::to_value(answer).unwrap()["content"]["text"]
                        .as_str()
                        .unwrap(),
                )
            }
            "roots" => text(cx.peer.list_roots().await.map_err(internal)?.roots.len().to_string()),
            "fails" => CallToolResult::error(vec![ContentBlock::text("no")]).into(),
            "rpc_error" => return Err(ErrorData::new(ErrorCode(-32050), "broken", Some(json!({"part": 7})))),
            "panics" => panic!("on purpose"),
            "ignores_cancel" => {
                let _notify = NotifyOnDrop(self.state());
                self.0.started.notify_one();
                std::future::pending().await
            }
            "stops_if_cancelled" => {
                self.0.started.notify_one();
                cx.ct.cancelled().await;
                self.0.dropped.notify_one();
                return Err(internal("stopped"));
            }
            "whoami" => {
                let peer = cx.peer.peer_info().unwrap();
                text(
                    json!({"client": peer.client_info, "can": peer.capabilities, "meta": cx.meta, "id": cx.id})
                        .to_string(),
                )
            }
            "page" => {
                let done = json!({"elicitationId": "page-7"});
                let done = CustomNotification::new("notifications/elicitation/complete", Some(done));
                cx.peer.send_notification(done.into()).await.map_err(internal)?;
                text("done")
            }
            "update_resource" => {
                let updated = ResourceUpdatedNotificationParam::new("desk://book");
                cx.peer.notify_resource_updated(updated).await.map_err(internal)?;
                text("updated")
            }
            "change_tools" => {
                self.0.tools_changed.store(true, Ordering::SeqCst);
                cx.peer.notify_tool_list_changed().await.map_err(internal)?;
                text("changed")
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        })
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = json!([{
            "name": "letter", "title": "A letter", "_meta": {"com.example/x": 1},
            "arguments": [{"name": "to", "required": true}, {"name": "from"}],
        }]);
        Ok(serde_json::from_value(json!({"prompts": prompts})).unwrap())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let to = request.arguments.unwrap_or_default()["to"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let from = self.ask(&cx).await?;
        let letter = PromptMessage::new_text(Role::User, format!("Dear {to}, yours {from}"));
        Ok(GetPromptResult::new(vec![letter]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = json!([{"uri": "desk://book", "name": "book", "mimeType": "text/plain", "size": 4}]);
        Ok(serde_json::from_value(json!({"resources": resources})).unwrap())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = json!([{"uriTemplate": "desk://page/{n}", "name": "page"}]);
        Ok(serde_json::from_value(json!({"resourceTemplates": templates})).unwrap())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri == "desk://page/13" {
            return Err(ErrorData::resource_not_found("no such page", None));
        }
        let contents = ResourceContents::text(format!("this is {}", request.uri), request.uri);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let completed = format!("{}{}", request.argument.value, "da");
        Ok(CompleteResult::new(CompletionInfo::new(vec![completed]).unwrap()))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.subscribed.lock().unwrap().push(request.uri.clone());
        let updated = ResourceUpdatedNotificationParam::new(request.uri);
        cx.peer.notify_resource_updated(updated).await.map_err(internal)
    }
}
