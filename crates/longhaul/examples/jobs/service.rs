//! A small job service: `POST /jobs` with an `Idempotency-Key` submits `{"scene":…,"seconds":…}` and answers `{"id":…}`;
//! `GET /jobs/ID` answers `{"state":"running"}` with `Retry-After`, or `{"state":"done","result":…}`; `GET /jobs` counts the jobs. It
//! forgets everything when it ends.

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::HashMap,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// Serves until the process ends.
pub async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, routes()).await?)
}

fn routes() -> Router {
    Router::new()
        .route("/jobs", post(submit).get(count))
        .route("/jobs/{id}", get(show))
        .with_state(Service::default())
}

type Service = Arc<Mutex<Jobs>>;

#[derive(Default)]
struct Jobs {
    all: Vec<Job>,
    /// The job that was submitted under a key.
    by_key: HashMap<String, usize>,
}

struct Job {
    scene: String,
    done: Instant,
}

#[derive(Deserialize)]
struct Submission {
    scene: String,
    seconds: u64,
}

async fn submit(State(service): State<Service>, headers: HeaderMap, body: String) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, "the header Idempotency-Key is missing").into_response();
    };
    let Ok(submission) = serde_json::from_str::<Submission>(&body) else {
        return (StatusCode::BAD_REQUEST, "the body needs a scene and seconds").into_response();
    };
    let mut jobs = service.lock();
    let id = match jobs.by_key.get(key) {
        Some(id) => *id,
        None => jobs.begin(key, submission),
    };
    (StatusCode::ACCEPTED, json!({"id": id}).to_string()).into_response()
}

impl Jobs {
    fn begin(&mut self, key: &str, submission: Submission) -> usize {
        let id = self.all.len();
        let done = now() + Duration::from_secs(submission.seconds);
        let scene = submission.scene;
        println!("job {id} begins: {scene}");
        self.all.push(Job { scene, done });
        self.by_key.insert(key.to_owned(), id);
        id
    }
}

async fn show(State(service): State<Service>, Path(id): Path<usize>) -> Response {
    let jobs = service.lock();
    match jobs.all.get(id) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(job) if now() < job.done => {
            ([(RETRY_AFTER, "1")], json!({"state": "running"}).to_string()).into_response()
        }
        Some(job) => {
            let result = format!("renders/{id}-{}.png", job.scene);
            json!({"state": "done", "result": result}).to_string().into_response()
        }
    }
}

async fn count(State(service): State<Service>) -> String {
    let jobs = service.lock();
    json!({"jobs": jobs.all.len()}).to_string()
}

#[expect(clippy::disallowed_methods, reason = "the service stands for another system")]
fn now() -> Instant {
    Instant::now()
}
