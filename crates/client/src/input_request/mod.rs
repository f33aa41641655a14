//! A question of a server, as it came.

pub(crate) mod invalid_answer;
pub(crate) mod request_ref;

use crate::RequestRef;
use longhaul_core::ParsedJson;
use longhaul_wire::{Form, InvalidForm};
use serde_json::{Map, Value};
use std::sync::Arc;

const ELICITATION: &str = "elicitation/create";
/// The longest scheme of a URL that is shown.
const LONGEST_SCHEME: usize = 32;

fn is_of_scheme(char: char) -> bool {
    char.is_ascii_alphanumeric() || "+-.".contains(char)
}

/// A request to the client's user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputRequest {
    /// Its name among the input requests of its call or task. A request of a legacy server has one if it is recorded: see
    /// [`TaskHandle::recorded_questions`](crate::TaskHandle::recorded_questions).
    pub key: Option<String>,
    /// The task that asks, if it is one.
    pub task: Option<String>,
    /// The [number](crate::CallOptions::source) of the call or request that asks, if it has one and the server asks in a response to it, or on its stream.
    pub source: Option<u64>,
    /// By what it can be answered from another process, if it is a request of a legacy server over HTTP: see
    /// [`TaskHandle::with_earlier_requests`](crate::TaskHandle::with_earlier_requests).
    pub request: Option<Box<RequestRef>>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The request's params, as they came.
    pub params: ParsedJson,
    /// Whether the server refuses the call until the user has been to its page.
    pub(crate) refuses_call: bool,
    /// `None` if it has no form.
    pub(crate) form: Option<Arc<Result<Form, InvalidForm>>>,
}

impl InputRequest {
    pub(crate) fn new(key: Option<String>, task: Option<String>, request: impl Into<ParsedJson>) -> Self {
        let request: ParsedJson = request.into();
        let method = request["method"].as_str().unwrap_or_default();
        let params = request.member("params").map(ParsedJson::from).unwrap_or_default();
        Self {
            key,
            task,
            ..Self::of(method.to_owned(), params)
        }
    }

    /// One that is known by nothing but what it asks: the method and the params of a request.
    pub fn of(method: String, params: ParsedJson) -> Self {
        let is_form = method == ELICITATION && params["mode"] != "url";
        let form = is_form.then(|| Form::of_params(params.as_json().as_str())).flatten();
        Self {
            key: None,
            task: None,
            source: None,
            request: None,
            method,
            params,
            refuses_call: false,
            form: form.map(Arc::new),
        }
    }

    /// The text that the user is shown; empty if there is none.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }

    /// The page that the user is sent to, if this is a URL elicitation.
    pub fn url(&self) -> Option<&str> {
        self.params["url"].as_str().filter(|_| self.params["mode"] == "url")
    }

    /// Why its page must not be opened, or shown as one that can be, if it is a URL elicitation: only pages of `http://` and `https://` are pages of the web. An
    /// address such as `javascript:…`, `data:…` or `file:…` can do something on the user's machine. Decline it.
    ///
    /// ```no_run
    /// # fn example(question: &longhaul_client::InputRequest) -> longhaul_client::InputResponse {
    /// use longhaul_client::InputResponse;
    /// if let Some(problem) = question.page_problem() {
    ///     eprintln!("{problem}");
    ///     return InputResponse::decline();
    /// }
    /// # InputResponse::accept_url()
    /// # }
    /// ```
    pub fn page_problem(&self) -> Option<String> {
        let url = self.url()?.trim_start();
        let is_of_web = ["http://", "https://"].iter().any(|scheme| {
            url.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        if is_of_web {
            return None;
        }
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        let is_name = |name: &&str| !name.is_empty() && name.len() <= LONGEST_SCHEME && name.chars().all(is_of_scheme);
        let begins = match scheme.filter(is_name) {
            Some(scheme) => format!("begins with `{scheme}:`"),
            None => "has no scheme".to_owned(),
        };
        Some(format!(
            "the address that it asks to open is no web page: it {begins}, and only http:// and https:// are opened"
        ))
    }

    /// Whether a legacy server refuses the call until the user has been to the page (2025-11-25, error −32042). The tool has not run. Where nobody can be asked, answer with
    /// an error: the call ends with [`RequestError::PageRequired`](crate::RequestError::PageRequired).
    pub fn refuses_call(&self) -> bool {
        self.refuses_call
    }

    /// By what a legacy server knows the page of a URL elicitation (2025-11-25): see [`Connection::page_finished`](crate::Connection::page_finished).
    pub fn elicitation_id(&self) -> Option<&str> {
        self.params["elicitationId"].as_str().filter(|_| self.url().is_some())
    }

    /// The form, if it has one. No value fits one that MCP does not allow: decline the question.
    ///
    /// # Errors
    /// [`InvalidForm`] says what is wrong with it.
    pub fn form(&self) -> Option<Result<&Form, &InvalidForm>> {
        self.form.as_deref().map(Result::as_ref)
    }

    /// The defaults of the form's fields: an answer that leaves all of them as they are.
    pub fn defaults(&self) -> Map<String, Value> {
        let form = self.form().and_then(Result::ok);
        form.map(Form::defaults).unwrap_or_default()
    }

    /// Whether it is an elicitation.
    pub fn is_elicitation(&self) -> bool {
        self.method == ELICITATION
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_pages_of_the_web_are_opened() {
        let problem = |url: &str| {
            let request = json!({"method": "elicitation/create", "params": {"mode": "url", "url": url}});
            InputRequest::new(None, None, request).page_problem()
        };
        for url in [
            "https://a.example/x",
            "HTTP://a.example",
            "https://a.example/javascript:1",
        ] {
            assert_eq!(problem(url), None, "{url}");
        }
        for (url, begins) in [
            ("javascript:alert(1)", "it begins with `javascript:`"),
            (" \tJavaScript:alert(1)//https://", "it begins with `JavaScript:`"),
            ("data:text/html,x", "it begins with `data:`"),
            ("file:///etc/passwd", "it begins with `file:`"),
            ("http:a.example", "it begins with `http:`"),
            ("a\u{1b}[2J:x", "it has no scheme"),
            ("//a.example", "it has no scheme"),
            ("", "it has no scheme"),
        ] {
            assert!(problem(url).unwrap().contains(begins), "{url}");
        }
        let form = json!({"method": "elicitation/create", "params": {"message": "?", "url": "javascript:1"}});
        assert_eq!(InputRequest::new(None, None, form).page_problem(), None);
    }
}
