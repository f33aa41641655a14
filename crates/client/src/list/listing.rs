//! Lists of a server, page by page, and what they name.

use crate::{
    Completion, Connection, RequestError, TaskSnapshot,
    connect::{
        era::Era,
        request::{Request, origin::Origin},
    },
};
use futures_util::{Stream, TryStreamExt, stream};
use longhaul_core::Json;
use longhaul_wire::Method;
use serde_json::{Map, Value, json, value::RawValue};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// A longer list is refused as endless.
const MAX_PAGES: usize = 1_000;
/// How long the server may take for all pages of a list, as a multiple of the timeout of one request.
const LONGEST_LIST: u32 = 2;
/// As is one that has so many pages in a row without an entry.
const MAX_EMPTY_PAGES: usize = 100;

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
        self.tasks().try_collect().await
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

    /// The resources, as the server lists them, page by page: a page is requested when it is needed.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// use futures_util::{TryStreamExt, pin_mut};
    /// let resources = connection.resources();
    /// pin_mut!(resources);
    /// while let Some(resource) = resources.try_next().await? {
    ///     println!("{}", resource["uri"]);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Each item may be an error, after which there is no other: any [`RequestError`]; [`RequestError::Invalid`] also for a list of more bytes than
    /// [`Options::max_response`](crate::Options::max_response), and for an endless one.
    pub fn resources(&self) -> impl Stream<Item = Result<Value, RequestError>> + Send + 'static {
        self.entries(Method::ResourcesList, "resources")
    }

    /// The resource templates, as [`resources`](Self::resources).
    pub fn resource_templates(&self) -> impl Stream<Item = Result<Value, RequestError>> + Send + 'static {
        self.entries(Method::ResourceTemplatesList, "resourceTemplates")
    }

    /// The prompts, as [`resources`](Self::resources).
    pub fn prompts(&self) -> impl Stream<Item = Result<Value, RequestError>> + Send + 'static {
        self.entries(Method::PromptsList, "prompts")
    }

    /// The tasks of this session on a legacy server, as [`resources`](Self::resources). Modern servers list no tasks.
    pub fn tasks(&self) -> impl Stream<Item = Result<TaskSnapshot, RequestError>> + Send + 'static {
        self.entries(Method::TasksList, "tasks")
            .and_then(|task| std::future::ready(TaskSnapshot::read(&task.to_string())))
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
    /// `{"type": "ref/resource", "uri": …}`. `known` are the other arguments that have values already, by which a server can suggest less.
    ///
    /// ```no_run
    /// # async fn example(connection: longhaul_client::Connection) -> Result<(), longhaul_client::RequestError> {
    /// use serde_json::json;
    /// let prompt = json!({"type": "ref/prompt", "name": "review"});
    /// let completion = connection.complete(prompt, "framework", "fl", &[("language", "python")]).await?;
    /// println!("{:?}, and more: {}", completion.values, completion.has_more);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub async fn complete(
        &self,
        reference: Value,
        argument: &str,
        typed: &str,
        known: &[(&str, &str)],
    ) -> Result<Completion, RequestError> {
        let mut params = Map::from_iter([
            ("ref".to_owned(), reference),
            ("argument".to_owned(), json!({"name": argument, "value": typed})),
        ]);
        if !known.is_empty() {
            let known = known
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
            let known: Map<String, Value> = known.collect();
            params.insert("context".to_owned(), json!({"arguments": known}));
        }
        let result = self.request(Method::CompletionComplete, params).await?;
        Completion::read(result.as_str())
    }

    async fn request_rounds(&self, method: Method, params: Map<String, Value>) -> Result<Json, RequestError> {
        let build = |_: &Era| Request {
            timeout: Some(self.options().request_timeout),
            ..Request::new(method.as_str(), params.clone())
        };
        let (result, _) = self.exchange_rounds(build, &mut |_| {}, Origin::default()).await?;
        Ok(result)
    }

    /// The pages of a list, as the server writes them. An error ends them. A cursor that the server gives a second time ends them, too: it would never come to an
    /// end, and has given what it has.
    pub fn list_pages(
        &self,
        method: Method,
        member: &'static str,
    ) -> impl Stream<Item = Result<ListPage, RequestError>> + Send + 'static {
        let pages = Pages {
            connection: self.clone(),
            method,
            member,
            next: Some(None),
            used: HashSet::new(),
            previous: None,
            read: 0,
            empty: 0,
            bytes: 0,
            waited: Duration::ZERO,
        };
        stream::try_unfold(pages, |mut pages| async move {
            let page = pages.read_next().await?;
            Ok::<_, RequestError>(page.map(|page| (page, pages)))
        })
    }

    /// All entries of a list.
    pub(crate) async fn list(&self, method: Method, member: &'static str) -> Result<Vec<Value>, RequestError> {
        self.entries(method, member).try_collect().await
    }

    /// The entries of a list, page by page.
    pub(crate) fn entries(
        &self,
        method: Method,
        member: &'static str,
    ) -> impl Stream<Item = Result<Value, RequestError>> + Send + 'static {
        let entries = move |page: ListPage| {
            let entries: Vec<Result<Value, RequestError>> = page
                .entries
                .iter()
                .map(|entry| {
                    serde_json::from_str(entry.as_str()).map_err(|error| {
                        RequestError::Invalid(format!("an entry of its list of {member} cannot be read: {error}"))
                    })
                })
                .collect();
            stream::iter(entries)
        };
        self.list_pages(method, member).map_ok(entries).try_flatten()
    }
}

/// One page of a list.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ListPage {
    /// The entries on it, as the server writes them.
    pub entries: Vec<Json>,
    /// The whole result.
    pub result: Json,
}

/// A list that is being read.
struct Pages {
    connection: Connection,
    method: Method,
    member: &'static str,
    /// The cursor of the next page; `None` behind the last one.
    next: Option<Option<String>>,
    used: HashSet<String>,
    /// The entries of the page before, as text.
    previous: Option<Json>,
    read: usize,
    /// The pages without an entry since the last one with any.
    empty: usize,
    bytes: usize,
    /// How long the server has taken for the pages so far.
    waited: Duration,
}

impl Pages {
    async fn read_next(&mut self) -> Result<Option<ListPage>, RequestError> {
        let Some(cursor) = self.next.take() else {
            return Ok(None);
        };
        let invalid = |what: &str| RequestError::Invalid(format!("its list of {} {what}", self.member));
        let limit = self.connection.options().max_response;
        if self.empty == MAX_EMPTY_PAGES {
            return Err(invalid(&format!(
                "does not end: {MAX_EMPTY_PAGES} pages in a row were empty"
            )));
        }
        let longest = self.connection.options().request_timeout * LONGEST_LIST;
        if self.read == MAX_PAGES || self.bytes > limit || self.waited > longest {
            return Err(invalid(&format!(
                "does not end within {MAX_PAGES} pages, {limit} bytes or {} s",
                longest.as_secs()
            )));
        }
        let params = cursor
            .iter()
            .map(|cursor| ("cursor".to_owned(), cursor.as_str().into()));
        let clock = Arc::clone(&self.connection.options().clock);
        let begun = clock.monotonic();
        let result = self.connection.request(self.method, params.collect()).await;
        self.waited += clock.monotonic().saturating_sub(begun);
        let result = match result {
            // An empty string is a valid cursor, and to some servers the end of a list.
            Err(RequestError::Rpc(_)) if cursor.as_deref() == Some("") => return Ok(None),
            result => result?,
        };
        self.read += 1;
        self.bytes += result.as_str().len();
        let page: HashMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(result.as_str()).map_err(|error| invalid(&format!("cannot be read: {error}")))?;
        let listed = page.get(self.member).map(|listed| listed.get()).unwrap_or("null");
        let listed = Json::trusted(listed);
        let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(listed.as_str()) else {
            return Err(invalid(&format!("has no `{}`", self.member)));
        };
        let entries: Vec<Json> = entries.into_iter().map(Json::from).collect();
        self.empty = if entries.is_empty() { self.empty + 1 } else { 0 };
        // Some servers ignore the cursor.
        if cursor.is_some() && !entries.is_empty() && self.previous.as_ref() == Some(&listed) {
            tracing::warn!(
                list = self.member,
                "a server gives the same page for every cursor; its list ends with the first"
            );
            return Ok(None);
        }
        self.previous = Some(listed);
        self.used.extend(cursor);
        let next: Option<String> = (page.get("nextCursor")).and_then(|next| serde_json::from_str(next.get()).ok());
        match next {
            Some(next) if self.used.contains(&next) => {
                tracing::warn!(
                    list = self.member,
                    "a server gives a cursor a second time; its list ends there"
                );
            }
            Some(next) => self.next = Some(Some(next)),
            None => {}
        }
        Ok(Some(ListPage { entries, result }))
    }
}
