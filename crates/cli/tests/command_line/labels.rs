//! Labels of tasks in the built program.

use super::support::*;
use serde_json::json;

const DEPLOY: &str = r#"
[[tool]]
name = "deploy"
description = "deploys a branch"
command = ["true"]
input = { branch = { type = "string", default = "main" }, team = { type = "string" } }
optional = ["branch", "team"]
labels = { branch = "{branch}", team = "{team}", env = "prod" }
"#;

fn admin(served: &Served, words: &[&str]) -> std::process::Output {
    served.on_file(&["admin", "tasks"], words).output().unwrap()
}

/// The ids of the tasks with these labels, newest first.
fn labelled(served: &Served, labels: &[&str]) -> Vec<String> {
    let words = labels.iter().flat_map(|label| ["--label", label]);
    let found = json(&admin(served, &words.chain(["--json"]).collect::<Vec<_>>()));
    let tasks = found["tasks"].as_array().unwrap().iter();
    tasks.map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tasks_are_listed_by_their_labels_also_after_a_restart() {
    let mut served = Served::start_with(DEPLOY);
    let deploy = |words: &[&str]| {
        let call = run(&[&["call", &served.url, "deploy", "--detach"], words].concat());
        stdout(&call).trim().to_owned()
    };
    let of_infra = deploy(&["team=infra"]);
    let of_nobody = deploy(&["branch=a, b"]);
    let kept = json!({"branch": "main", "env": "prod", "team": "infra"});
    for _ in 0..2 {
        assert_eq!(labelled(&served, &["team=infra"]), [&*of_infra]);
        assert_eq!(labelled(&served, &["branch=a, b", "env=prod"]), [&*of_nobody]);
        assert_eq!(labelled(&served, &["env=prod"]).len(), 2);
        assert_eq!(labelled(&served, &["team=infra", "branch=a, b"]), [""; 0]);
        let task = json(
            &served
                .on_file(&["admin", "task"], &[&of_infra, "--json"])
                .output()
                .unwrap(),
        );
        assert_eq!(task["labels"], kept);
        served.kill();
        served.restart();
    }
    admin(&served, &["--label", "env=prod"]).prints("branch=main env=prod team=infra");
    let wrong = admin(&served, &["--label", "infra"]);
    assert_eq!(exit(&wrong), 2);
    assert!(
        stderr(&wrong).contains("a label is a name and a value, such as team=infra"),
        "{wrong:?}"
    );
}
