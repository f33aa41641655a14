//! Lists of a server, page by page, and what they name.

use crate::{Connection, RequestError, TaskSnapshot, connection::Request, era::Era, error::excerpt};
use http::HeaderMap;
use longhaul_core::Json;
use longhaul_wire::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What kind of result it is; legacy servers do not say.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultKind {
    result_type: Option<String>,
}

impl ResultKind {
    /// Only calls of tools have results of other kinds (G2-11, G2-12).
    fn ensure_complete(&self) -> Result<(), RequestError> {
        match self.result_type.as_deref() {
            None | Some("complete") => Ok(()),
            Some(other) => Err(RequestError::Invalid(format!(
                "unexpected resultType {:?}",
                excerpt(other)
            ))),
        }
    }
}

/// A longer list is refused as endless.
const MAX_PAGES: usize = 10_000;

impl Connection {
    /// All resources, as the server lists them.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Invalid`] also for an endless list.
    pub async fn list_resources(&self) -> Result<Vec<Value>, RequestError> {
        self.list(Method::ResourcesList, "resources").await
    }

    /// The tasks that a legacy server lists. Modern servers have no such list, and legacy ones need not have it.
    ///
    /// # Errors
    /// As [`list_resources`](Self::list_resources); [`RequestError::Rpc`] if the server has no such list.
    pub async fn list_tasks(&self) -> Result<Vec<TaskSnapshot>, RequestError> {
        let tasks = self.list(Method::TasksList, "tasks").await?;
        tasks.iter().map(|task| TaskSnapshot::read(&task.to_string())).collect()
    }

    /// All resource templates, as the server lists them.
    ///
    /// # Errors
    /// As [`list_resources`](Self::list_resources).
    pub async fn list_resource_templates(&self) -> Result<Vec<Value>, RequestError> {
        self.list(Method::ResourceTemplatesList, "resourceTemplates").await
    }

    /// All prompts, as the server lists them.
    ///
    /// # Errors
    /// As [`list_resources`](Self::list_resources).
    pub async fn list_prompts(&self) -> Result<Vec<Value>, RequestError> {
        self.list(Method::PromptsList, "prompts").await
    }

    /// Reads a resource. The result has `contents`.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Rpc`] with −32602 or −32002 if there is no such resource.
    pub async fn read_resource(&self, uri: &str) -> Result<Json, RequestError> {
        let params = Map::from_iter([("uri".to_owned(), uri.into())]);
        self.request_rounds(Method::ResourcesRead, params).await
    }

    /// A prompt, filled in. The result has `messages`. What the server asks before it answers goes to
    /// [`Options::inputs`](crate::Options::inputs).
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn get_prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Json, RequestError> {
        let params = Map::from_iter([
            ("name".to_owned(), name.into()),
            ("arguments".to_owned(), arguments.clone().into()),
        ]);
        self.request_rounds(Method::PromptsGet, params).await
    }

    /// Completes an argument of a prompt, or a variable of a resource template: `reference` is `{"type": "ref/prompt", "name": …}` or
    /// `{"type": "ref/resource", "uri": …}`. Returns the values that may follow what was typed, at most 100.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn complete(&self, reference: Value, argument: &str, typed: &str) -> Result<Vec<String>, RequestError> {
        let params = Map::from_iter([
            ("ref".to_owned(), reference),
            ("argument".to_owned(), json!({"name": argument, "value": typed})),
        ]);
        let result = self.request(Method::CompletionComplete, params).await?;
        let result: Value = serde_json::from_str(result.as_str())
            .map_err(|error| RequestError::Invalid(format!("its completion: {error}")))?;
        let values = result["completion"]["values"].as_array().into_iter().flatten();
        Ok(values.filter_map(|value| value.as_str().map(str::to_owned)).collect())
    }

    async fn request_rounds(&self, method: Method, params: Map<String, Value>) -> Result<Json, RequestError> {
        let build = |_: &Era| Request {
            method: method.as_str().to_owned(),
            params: params.clone(),
            headers: HeaderMap::new(),
            timeout: Some(self.options().request_timeout),
            wants_progress: false,
        };
        let (result, _) = self.exchange_rounds(build, &mut |_| {}, None).await?;
        let kind: ResultKind = serde_json::from_str(result.as_str())
            .map_err(|error| RequestError::Invalid(format!("its result: {error}")))?;
        kind.ensure_complete()?;
        Ok(result)
    }

    /// All entries of a list.
    pub(crate) async fn list(&self, method: Method, member: &str) -> Result<Vec<Value>, RequestError> {
        let invalid = |what: &str| RequestError::Invalid(format!("its list of {member} {what}"));
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor
                .iter()
                .map(|cursor| ("cursor".to_owned(), cursor.as_str().into()))
                .collect();
            let page = self.request(method, params).await?;
            let mut page: Map<String, Value> =
                serde_json::from_str(page.as_str()).map_err(|error| invalid(&format!("cannot be read: {error}")))?;
            let Some(Value::Array(listed)) = page.remove(member) else {
                return Err(invalid(&format!("has no `{member}`")));
            };
            entries.extend(listed);
            match page.remove("nextCursor") {
                // An empty string is a valid cursor (U-07).
                Some(Value::String(next)) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                Some(Value::String(_)) => return Err(invalid("repeats a cursor")),
                _ => return Ok(entries),
            }
        }
        Err(invalid("does not end"))
    }
}
