//! Job-style toolsets, when the gateway is killed.

use crate::support::*;
use std::fs;

/// A server whose jobs are files: it is a child of the gateway and ends with it.
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../gateway/tests/it/jobs.sh");

/// The gateway is killed while it follows a job: the next one asks for the same job, and submits none.
#[test]
fn a_killed_gateway_goes_on_with_a_job_that_was_submitted_once() {
    let folder = folder();
    let folder = folder.path();
    let config = format!(
        r#"
[server]
name = "gateway"
listen = "127.0.0.1:0"
data_dir = "gateway-data"

[upstream.studio]
command = ["sh", {SERVER:?}]
env = {{ JOBS = {folder:?} }}

[upstream.studio.job.render]
submit = "submit_render"
status = "render_status"
cancel = "cancel_render"
result = "render_result"
id = "/job/id"
id_argument = "job_id"
state = "/state"
done = ["completed"]
failed = ["failed"]
result_at = "/video"
poll = "20ms"
"#
    );
    fs::write(folder.join("gateway.toml"), config).unwrap();
    let submitted = || {
        let noted = fs::read_to_string(folder.join("submitted")).unwrap_or_default();
        noted.lines().count()
    };
    let gateway = serve(folder, &["gateway.toml"]);
    let id = done(folder, &["call", &gateway.url, "render", "--detach"]);
    // The id of the job is recorded before its state is asked for.
    let shows = |url: &str, what: &str| done(folder, &["task", url, &id, "--json"]).contains(what);
    until("the state of the job", || shows(&gateway.url, "running"));
    drop(gateway);

    let gateway = serve(folder, &["gateway.toml"]);
    until("the state of the job", || shows(&gateway.url, "\"working\""));
    fs::write(folder.join("job-1.done"), "").unwrap();
    done(folder, &["task", &gateway.url, &id, "--wait", "--json"]).has(r#""of":"job-1""#);
    assert_eq!(submitted(), 1, "no job is submitted twice");
}
