//! Job-style toolsets as one durable tool.

use crate::{
    client::{Client, end, says},
    upstream::Tasks,
    world::{RunningGateway, guarded, until},
};
use longhaul_client::{ChildOptions, Outcome, TaskHandle, TaskStatus};
use longhaul_gateway::{JobStates, JobTools, Target, UpstreamOptions};
use longhaul_runtime::FOLLOW_TOOLS;
use serde_json::{Value, json};
use std::path::Path;

/// A gateway before the child, whose jobs are in this directory, too.
async fn gateway(directory: &Path) -> RunningGateway {
    RunningGateway::start(directory, vec![options(directory)]).await
}

fn options(directory: &Path) -> UpstreamOptions {
    let mut child = ChildOptions::new("sh", ["-c", include_str!("jobs.sh")]);
    child.env = vec![("JOBS".into(), directory.to_string_lossy().into_owned())];
    let render = JobTools {
        name: "render".to_owned(),
        description: Some("Renders a video".to_owned()),
        submit: "submit_render".to_owned(),
        status: "render_status".to_owned(),
        cancel: Some("cancel_render".to_owned()),
        result: Some("render_result".to_owned()),
        id: "/job/id".to_owned(),
        id_argument: "job_id".to_owned(),
        states: JobStates {
            state: Some("/state".to_owned()),
            // The child writes them in lower case.
            done: vec!["COMPLETED".to_owned()],
            failed: vec!["Failed".to_owned()],
            result_at: Some("/video".to_owned()),
            error_at: Some("/error".to_owned()),
            ..JobStates::default()
        },
        poll: 20,
    };
    UpstreamOptions {
        jobs: vec![render],
        ..UpstreamOptions::new("child", Target::Command(child))
    }
}

/// Begins a job, and waits until its state is known.
async fn begin(client: &Client) -> TaskHandle {
    let task = client.task("render", json!({"frames": 3})).await;
    says(&task, "the state of the job", |message| message == "running").await;
    task
}

async fn result(task: &TaskHandle) -> Value {
    match end(task).await {
        Outcome::Result { json, .. } => serde_json::from_str(json.as_str()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn touch(directory: &Path, name: &str) {
    std::fs::write(directory.join(name), "").unwrap();
}

fn submitted(directory: &Path) -> usize {
    let noted = std::fs::read_to_string(directory.join("submitted")).unwrap_or_default();
    noted.lines().count()
}

#[tokio::test]
async fn a_job_is_one_tool_and_its_parts_are_hidden() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    for tasks in [Tasks::Legacy, Tasks::Modern] {
        let client = Client::connect(&gateway.url, tasks);
        let tools = guarded("the tools", client.connection.list_tools()).await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        // A client of 2025-11-25 decides with each call whether it is a task.
        let follow_tools: &[&str] = if tasks == Tasks::Legacy { &FOLLOW_TOOLS } else { &[] };
        assert_eq!(names, [&["render", "other"], follow_tools].concat());
        assert_eq!(tools[0].description, "Renders a video");
        let before = submitted(directory.path());
        let task = begin(&client).await;
        let job = format!("job-{}", before + 1);
        std::fs::write(directory.path().join(format!("{job}.message")), "frame 3").unwrap();
        says(&task, "the message of the job", |message| message == "running: frame 3").await;
        touch(directory.path(), &format!("{job}.done"));
        assert_eq!(result(&task).await["structuredContent"], json!({"of": job}));
    }
    gateway.stop().await;
}

/// The child is another process after the restart, and the job is the same.
#[tokio::test]
async fn a_job_is_followed_again_after_a_restart_and_submitted_once() {
    let directory = tempfile::tempdir().unwrap();
    let before = gateway(directory.path()).await;
    let task = begin(&Client::connect(&before.url, Tasks::Modern)).await;
    let id = task.id().to_owned();
    before.stop().await;
    let after = gateway(directory.path()).await;
    let task = Client::connect(&after.url, Tasks::Modern).connection.task(id);
    assert_eq!(task.get().await.unwrap().status, TaskStatus::Working);
    touch(directory.path(), "job-1.done");
    assert_eq!(result(&task).await["structuredContent"], json!({"of": "job-1"}));
    assert_eq!(submitted(directory.path()), 1);
    after.stop().await;
}

#[tokio::test]
async fn a_job_fails_in_words_and_is_cancelled_at_its_upstream() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = begin(&client).await;
    touch(directory.path(), "job-1.failed");
    let result = result(&task).await;
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "The job has ended as \"failed\": no ink");

    let task = begin(&client).await;
    task.cancel().await.unwrap();
    until("the cancellation", || directory.path().join("job-2.cancelled").exists()).await;
    let outcome = end(&task).await;
    assert_eq!(outcome, Outcome::Cancelled);
    // What came of it is on the task, and the request counts the gateways that it has passed.
    let told = guarded("the task", task.get())
        .await
        .unwrap()
        .message
        .unwrap_or_default();
    assert_eq!(told, "upstream `child` has taken the cancellation of the job");
    let request = std::fs::read_to_string(directory.path().join("job-2.cancelled")).unwrap();
    assert!(request.contains(r#""dev.longhaul/hops":1"#), "{request}");
    gateway.stop().await;
}

/// The answer that names the job comes after the cancellation.
#[tokio::test]
async fn a_job_that_is_being_submitted_is_cancelled_once_it_is_named() {
    let directory = tempfile::tempdir().unwrap();
    touch(directory.path(), "slow");
    let gateway = gateway(directory.path()).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = client.task("render", json!({"frames": 3})).await;
    until("the submission", || submitted(directory.path()) == 1).await;
    task.cancel().await.unwrap();
    touch(directory.path(), "named");
    until("the cancellation", || directory.path().join("job-1.cancelled").exists()).await;
    let outcome = end(&task).await;
    assert_eq!(outcome, Outcome::Cancelled);
    gateway.stop().await;
}

/// Nobody can cancel it, and that is said.
#[tokio::test]
async fn a_job_whose_gateway_ended_before_it_was_named_may_go_on() {
    let directory = tempfile::tempdir().unwrap();
    touch(directory.path(), "slow");
    let before = gateway(directory.path()).await;
    let client = Client::connect(&before.url, Tasks::Modern);
    let task = client.task("render", json!({"frames": 3})).await;
    until("the submission", || submitted(directory.path()) == 1).await;
    task.cancel().await.unwrap();
    before.stop().await;
    let after = gateway(directory.path()).await;
    let task = Client::connect(&after.url, Tasks::Modern).connection.task(task.id());
    let outcome = end(&task).await;
    assert_eq!(outcome, Outcome::Cancelled);
    let told = guarded("the task", task.get())
        .await
        .unwrap()
        .message
        .unwrap_or_default();
    assert!(told.ends_with("one may go on"), "{told}");
    assert_eq!(submitted(directory.path()), 1);
    after.stop().await;
}

/// Its task is over by then.
#[tokio::test]
async fn a_job_is_cancelled_once_its_upstream_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = gateway(directory.path()).await;
    let client = Client::connect(&gateway.url, Tasks::Modern);
    let task = begin(&client).await;
    touch(directory.path(), "away");
    task.cancel().await.unwrap();
    let outcome = end(&task).await;
    assert_eq!(outcome, Outcome::Cancelled);
    let told = guarded("the task", task.get()).await.unwrap().message;
    let told = told.unwrap_or_default();
    assert!(told.ends_with(". It is tried again"), "{told}");
    std::fs::remove_file(directory.path().join("away")).unwrap();
    until("the cancellation", || directory.path().join("job-1.cancelled").exists()).await;
    gateway.stop().await;
}

/// By a configuration that comes while one job runs and one waits.
#[tokio::test]
async fn what_is_not_configured_any_more_is_not_submitted_and_what_runs_is_followed() {
    for is_upstream_gone in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(directory.path());
        options.concurrency = Some(1);
        let gateway = RunningGateway::start(directory.path(), vec![options.clone()]).await;
        let client = Client::connect(&gateway.url, Tasks::Modern);
        let first = begin(&client).await;
        let second = client.task("render", json!({"frames": 3})).await;
        gateway.has_waiting().await;
        options.jobs.clear();
        let left = if is_upstream_gone { Vec::new() } else { vec![options] };
        gateway.reload(left).await.unwrap();
        let refused = guarded("its end", second.wait(&mut |_| {})).await.unwrap();
        let refused = format!("{refused:?}");
        assert!(refused.contains("can no longer run the tool"), "{refused}");
        assert_eq!(submitted(directory.path()), 1);
        touch(directory.path(), "job-1.done");
        assert_eq!(result(&first).await["structuredContent"], json!({"of": "job-1"}));
        gateway.stop().await;
    }
}
