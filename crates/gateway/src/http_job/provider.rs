//! The HTTP jobs of a configuration, and executors of stored calls.

use super::{
    HttpJobExecutor,
    definition::{HttpJob, HttpJobDefinition, HttpJobMistake},
    url::origin_of,
};
use longhaul_client::HttpExchange;
use longhaul_core::Json;
use longhaul_runtime::{Executor, Ports, Provider};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// The kind of executor, as kept with each tool's definition.
pub const HTTP_JOB_KIND: &str = "http_job";

/// The HTTP jobs that a configuration offers. Headers may be secret, so they are not stored with tasks: those of a stored call are the present ones of its tool.
pub struct HttpJobs {
    ports: Ports,
    /// By tool.
    headers: Mutex<BTreeMap<String, JobHeaders>>,
    /// By origin: to read the certificates of the system takes milliseconds.
    clients: Mutex<BTreeMap<String, Arc<HttpExchange>>>,
}

struct JobHeaders {
    /// The only server that they are sent to.
    origin: String,
    templates: BTreeMap<String, String>,
}

impl HttpJobs {
    /// None yet.
    pub fn new(ports: Ports) -> Self {
        Self {
            ports,
            headers: Mutex::default(),
            clients: Mutex::default(),
        }
    }

    /// What runs the calls of a tool with this definition and these templates of headers.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn executor(
        &self,
        definition: HttpJobDefinition,
        headers: BTreeMap<String, String>,
    ) -> Result<Arc<dyn Executor>, Vec<HttpJobMistake>> {
        let job = HttpJob::new(definition, &headers)?;
        let executor = self.executor_of(job).map_err(|problem| {
            let key = "submit";
            vec![HttpJobMistake { key, problem }]
        })?;
        let headers = JobHeaders {
            origin: executor.job.origin().to_owned(),
            templates: headers,
        };
        let tool = executor.job.definition.tool.clone();
        self.headers.lock().insert(tool, headers);
        Ok(executor)
    }

    fn executor_of(&self, job: HttpJob) -> Result<Arc<HttpJobExecutor>, String> {
        let mut clients = self.clients.lock();
        let http = match clients.get(job.origin()) {
            Some(http) => Arc::clone(http),
            None => {
                let http = HttpExchange::new(&origin_of(job.origin())?, Arc::clone(&self.ports.clock))?;
                let http = Arc::new(http);
                clients.insert(job.origin().to_owned(), Arc::clone(&http));
                http
            }
        };
        Ok(Arc::new(HttpJobExecutor {
            job,
            http,
            ports: self.ports.clone(),
        }))
    }

    fn headers_of(&self, definition: &HttpJobDefinition) -> Result<BTreeMap<String, String>, String> {
        if !definition.has_headers {
            return Ok(BTreeMap::new());
        }
        let headers = self.headers.lock();
        let headers = headers.get(&definition.tool).ok_or_else(|| {
            format!(
                "the tool `{}` is not in the configuration any more, which has its headers",
                definition.tool
            )
        })?;
        Ok(headers.templates.clone())
    }

    fn is_for(&self, job: &HttpJob) -> bool {
        let headers = self.headers.lock();
        let of_tool = headers.get(&job.definition.tool);
        !job.definition.has_headers || of_tool.is_some_and(|headers| headers.origin == job.origin())
    }
}

impl Provider for HttpJobs {
    fn kind(&self) -> &'static str {
        HTTP_JOB_KIND
    }

    fn revive(&self, definition: &Json) -> Result<Arc<dyn Executor>, String> {
        let definition: HttpJobDefinition =
            serde_json::from_str(definition.as_str()).map_err(|error| format!("its definition: {error}"))?;
        if definition.version != 1 {
            return Err("another version of Longhaul has written its definition".to_owned());
        }
        let tool = definition.tool.clone();
        let headers = self.headers_of(&definition)?;
        let job = HttpJob::new(definition, &headers).map_err(|mistakes| {
            let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            mistakes.join("; ")
        })?;
        if !self.is_for(&job) {
            return Err(format!(
                "the tool `{tool}` has another server by now, and its headers are not sent to the earlier one"
            ));
        }
        Ok(self.executor_of(job)?)
    }

    fn keeps_logs(&self) -> bool {
        false
    }
}
