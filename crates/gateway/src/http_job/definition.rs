//! What is configured of an HTTP job, and stored with its tasks; and the same, checked.

use super::{
    body::Body,
    url::{UrlTemplate, Values, origin_of},
};
use crate::remote_job::states::{JobStates, text_at};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use longhaul_client::{Url, is_loopback};
use longhaul_command::{Arguments, Template};
use longhaul_core::{Json, Millis};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::collections::{BTreeMap, BTreeSet};

/// Headers that say where a request goes and where it ends.
const OF_THE_CONNECTION: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::TE,
    header::UPGRADE,
];

/// An HTTP job as the configuration says it. It is stored with every task; the headers, which may be secret, are not. A request is `METHOD URL`, or the URL alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpJobDefinition {
    /// Format of this record: 1.
    pub version: u32,
    /// The tool, whose headers are those of the configuration.
    pub tool: String,
    /// Submits a job: a URL with placeholders. By default a `POST`.
    pub submit: String,
    /// The JSON body of `submit`, whose texts have placeholders; exactly `json` is all arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Asks for the state: `Location`, a JSON pointer into the answer of `submit`, or a URL with placeholders. By default a `GET`.
    pub status: String,
    /// Asks for the result of a job that is done, if that is not in the last status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_from: Option<String>,
    /// Cancels a job. By default a `DELETE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// The header of `submit` that has a key of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_header: Option<String>,
    /// Each attempt has a key of its own, since a job that has failed is submitted again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub key_per_attempt: bool,
    /// There are headers in the configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_headers: bool,
    /// `http://` may lead to other machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
    /// Where the state and what belongs to it are in an answer.
    pub states: JobStates,
    /// The pause between two questions for the state, in milliseconds.
    pub poll: Millis,
    /// How long an answer may take, in milliseconds.
    pub request_timeout: Millis,
    /// The bytes that an answer may have.
    pub max_response: u64,
    /// Properties that may be absent.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub optional: BTreeSet<String>,
    /// Properties that are integers.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub integers: BTreeSet<String>,
    /// What stands for a property that is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub defaults: BTreeMap<String, Value>,
    /// Properties that are secret: they are in no URL.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
}

/// What is wrong with a key of an HTTP job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {problem}")]
pub struct HttpJobMistake {
    /// The key; a header is one of `headers`.
    pub key: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// A method, and where the URL is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobRequest {
    pub(super) method: Method,
    target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Location,
    Pointer(String),
    Url(UrlTemplate),
}

impl JobRequest {
    fn parse(text: &str, default: Method, optional: &BTreeSet<String>) -> Result<Self, String> {
        let (method, place) = match text.split_once(' ') {
            Some((method, place)) if method.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
                (method, place.trim_start())
            }
            _ => (default, text),
        };
        let target = match place {
            "Location" => Target::Location,
            place if place.starts_with('/') => Target::Pointer(place.to_owned()),
            place if place.contains("://") => Target::Url(UrlTemplate::parse(place, optional)?),
            _ => {
                return Err(format!(
                    "{place:?} must be a URL, \"Location\" for that header of the answer of `submit`, or a JSON pointer into this answer such as \"/urls/get\""
                ));
            }
        };
        Ok(Self { method, target })
    }

    fn template(&self) -> Option<&UrlTemplate> {
        match &self.target {
            Target::Url(template) => Some(template),
            _ => None,
        }
    }
}

/// What `submit` has answered.
pub(super) struct SubmitAnswer<'a> {
    pub(super) body: &'a Json,
    pub(super) headers: &'a HeaderMap,
    /// Where it was sent.
    pub(super) url: &'a Url,
}

/// An HTTP job, checked.
pub struct HttpJob {
    pub(super) definition: HttpJobDefinition,
    submit: (Method, UrlTemplate),
    body: Option<Body>,
    pub(super) status: JobRequest,
    pub(super) result_from: Option<JobRequest>,
    pub(super) cancel: Option<JobRequest>,
    headers: Vec<(HeaderName, Template)>,
    idempotency_header: Option<HeaderName>,
}

impl HttpJob {
    /// Checks a definition, with the templates of its headers.
    ///
    /// # Errors
    /// All mistakes.
    pub fn new(definition: HttpJobDefinition, headers: &BTreeMap<String, String>) -> Result<Self, Vec<HttpJobMistake>> {
        let mut mistakes = Vec::new();
        let mut note = |key: &'static str, problem: String| mistakes.push(HttpJobMistake { key, problem });
        let optional = &definition.optional;
        let mut read = |key: &'static str, text: Option<&String>, default: Method| {
            let parsed = JobRequest::parse(text?, default, optional);
            parsed.map_err(|problem| note(key, problem)).ok()
        };
        let submit = read("submit", Some(&definition.submit), Method::POST);
        let status = read("status", Some(&definition.status), Method::GET);
        let result_from = read("result_from", definition.result_from.as_ref(), Method::GET);
        let cancel = read("cancel", definition.cancel.as_ref(), Method::DELETE);
        let submit = submit.and_then(|request| match request.target {
            Target::Url(template) => Some((request.method, template)),
            _ => {
                note(
                    "submit",
                    "it must be a URL, such as \"POST https://api.example.com/jobs\"".to_owned(),
                );
                None
            }
        });
        let origin = submit
            .as_ref()
            .and_then(|(_, template)| origin_of(template.origin()).ok());
        if let Some(origin) = &origin {
            if origin.scheme() == "http" && !definition.plain_http && !is_loopback(origin) {
                note(
                    "submit",
                    "http:// would send headers and arguments to another machine unencrypted: use https://".to_owned(),
                );
            }
            let others = [("status", &status), ("result_from", &result_from), ("cancel", &cancel)];
            for (key, request) in others {
                let template = request.as_ref().and_then(JobRequest::template);
                let other = template.and_then(|template| origin_of(template.origin()).ok());
                if other.is_some_and(|other| other.origin() != origin.origin()) {
                    note(key, "it must have the scheme, the host and the port of `submit`, to which alone the headers are sent".to_owned());
                }
            }
        }
        let body = definition
            .body
            .as_ref()
            .and_then(|body| Body::parse(body).map_err(|problem| note("body", problem)).ok());
        let name = |name: &str| HeaderName::try_from(name).map_err(|_| format!("{name:?} is not the name of a header"));
        let idempotency_header = definition
            .idempotency_header
            .as_deref()
            .and_then(|header| name(header).map_err(|problem| note("idempotency_header", problem)).ok());
        let mut templates = Vec::new();
        for (header, text) in headers {
            // The text may be secret.
            let parsed = name(header).and_then(|name| match Template::parse(text) {
                Ok(_) if OF_THE_CONNECTION.contains(&name) => {
                    Err(format!("{header:?} is written by the server itself: leave it out"))
                }
                Ok(_) if text.contains(char::is_control) => Err(format!(
                    "the value of {header:?} has a line break or another control character"
                )),
                Ok(template) => Ok((name, template)),
                Err(error) => Err(format!("the value of {header:?}: {error}")),
            });
            match parsed {
                Ok(parsed) => templates.push(parsed),
                Err(problem) => note("headers", problem),
            }
        }
        match (submit, status, mistakes.is_empty()) {
            (Some(submit), Some(status), true) => Self {
                submit,
                body,
                status,
                result_from,
                cancel,
                headers: templates,
                idempotency_header,
                definition,
            }
            .without_exposed_secrets(),
            _ => Err(mistakes),
        }
    }

    /// Refuses secrets in URLs.
    fn without_exposed_secrets(self) -> Result<Self, Vec<HttpJobMistake>> {
        let is_exposed = |(key, name): &(&'static str, &str)| {
            !matches!(*key, "body" | "headers") && self.definition.secrets.contains(*name)
        };
        let exposed = self.names().into_iter().filter(is_exposed);
        let mistakes: Vec<_> = exposed
            .map(|(key, name)| HttpJobMistake {
                key,
                problem: format!(
                    "`{name}` is secret, and the logs of servers and proxies have the URLs of requests: put it into `headers` or `body`"
                ),
            })
            .collect();
        match mistakes.is_empty() {
            true => Ok(self),
            false => Err(mistakes),
        }
    }

    /// The properties that are used, and `submit`, `status`, `result_from`, `cancel`, `body` or `headers` for each.
    pub fn names(&self) -> Vec<(&'static str, &str)> {
        let mut names: Vec<_> = self.submit.1.names().map(|name| ("submit", name)).collect();
        for (key, request) in [
            ("status", Some(&self.status)),
            ("result_from", self.result_from.as_ref()),
            ("cancel", self.cancel.as_ref()),
        ] {
            let of_template = request.and_then(JobRequest::template).into_iter();
            let of_template = of_template.flat_map(UrlTemplate::names);
            // The others are places in an answer.
            let of_arguments = of_template.filter(|name| !name.starts_with('/'));
            names.extend(of_arguments.map(|name| (key, name)));
        }
        let of_body = self.body.iter().flat_map(Body::names).map(|name| ("body", name));
        names.extend(of_body);
        for (_, template) in &self.headers {
            names.extend(template.properties().map(|name| ("headers", name)));
        }
        names
    }

    /// Whether all arguments are the body.
    pub fn sends_all_arguments(&self) -> bool {
        self.body == Some(Body::Arguments)
    }

    /// The scheme, the host and the port of the server.
    pub(super) fn origin(&self) -> &str {
        self.submit.1.origin()
    }

    pub(super) fn has_idempotency_header(&self) -> bool {
        self.idempotency_header.is_some()
    }

    fn values<'a>(&'a self, arguments: &'a Arguments<'a>, answer: Option<&'a Json>) -> Values<'a> {
        Values {
            arguments,
            optional: &self.definition.optional,
            integers: &self.definition.integers,
            answer,
        }
    }

    /// The arguments, with the defaults of those that are left out. What is null stays so.
    pub(super) fn with_defaults(&self, arguments: Json) -> Json {
        if self.definition.defaults.is_empty() {
            return arguments;
        }
        // Of others than objects nothing can be sent, which is said where they are read.
        let Ok(mut all) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(arguments.as_str()) else {
            return arguments;
        };
        for (name, value) in &self.definition.defaults {
            if let (false, Ok(value)) = (all.contains_key(name), serde_json::value::to_raw_value(value)) {
                all.insert(name.clone(), value);
            }
        }
        serde_json::to_string(&all).map_or(arguments, Json::trusted)
    }

    /// The request that submits a job.
    ///
    /// # Errors
    /// Which argument does not fit, for the caller to read.
    pub(super) fn submit_request(&self, arguments: &Json, key: &str) -> Result<(Url, Request<Vec<u8>>), String> {
        let parsed = Arguments::parse(arguments.as_str()).map_err(|error| error.to_string())?;
        let values = self.values(&parsed, None);
        let url = self.submit.1.expand(&values)?;
        let body = self.body.as_ref().map(|body| body.expand(arguments.as_str(), &values));
        let mut request = self.request(&self.submit.0, &url, arguments)?;
        if let Some(body) = body.transpose()? {
            *request.body_mut() = body.into_bytes();
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().entry(header::CONTENT_TYPE).or_insert(json);
        }
        if let Some(name) = &self.idempotency_header {
            let key = HeaderValue::try_from(key).map_err(|error| error.to_string())?;
            request.headers_mut().insert(name, key);
        }
        Ok((url, request))
    }

    /// A request with the configured headers.
    ///
    /// # Errors
    /// Which argument cannot stand in a header.
    pub(super) fn request(&self, method: &Method, url: &Url, arguments: &Json) -> Result<Request<Vec<u8>>, String> {
        let parsed = Arguments::parse(arguments.as_str()).map_err(|error| error.to_string())?;
        let values = self.values(&parsed, None);
        let mut request = Request::builder().method(method).uri(url.as_str());
        let mut accepts = false;
        for (name, template) in &self.headers {
            let mut value = HeaderValue::try_from(values.text(template)?)
                .map_err(|_| format!("the header `{name}` takes printable ASCII characters only"))?;
            value.set_sensitive(true);
            accepts |= name == header::ACCEPT;
            request = request.header(name, value);
        }
        if !accepts {
            request = request.header(header::ACCEPT, "application/json");
        }
        request.body(Vec::new()).map_err(|error| error.to_string())
    }

    /// The URL of a request about a job.
    ///
    /// # Errors
    /// The answer does not name it, or it is at another server.
    pub(super) fn url_of(
        &self,
        request: &JobRequest,
        arguments: &Json,
        answer: &SubmitAnswer<'_>,
    ) -> Result<Url, String> {
        let (place, found) = match &request.target {
            Target::Url(template) => {
                let parsed = Arguments::parse(arguments.as_str()).map_err(|error| error.to_string())?;
                return template.expand(&self.values(&parsed, Some(answer.body)));
            }
            Target::Location => {
                let location = answer.headers.get(header::LOCATION);
                let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
                ("the header Location".to_owned(), location)
            }
            Target::Pointer(pointer) => {
                let found = text_at(answer.body, pointer);
                (format!("a URL at {pointer:?}"), found)
            }
        };
        let found = found.filter(|found| !found.is_empty());
        let found = found.ok_or_else(|| format!("the answer does not have {place}"))?;
        same_origin(answer.url, &found)
    }
}

/// A URL that a server has named, unless it is at another one, to which no headers may be sent.
pub(super) fn same_origin(base: &Url, named: &str) -> Result<Url, String> {
    let url = base
        .join(named)
        .map_err(|error| format!("the URL that it names is none: {error}"))?;
    if url.origin() != base.origin() {
        return Err(format!(
            "it names a URL at another server ({}), to which nothing is sent",
            url.origin().ascii_serialization()
        ));
    }
    Ok(url)
}
