//! `[[schedule]]` in the built program.

use super::support::*;
use std::{fs, thread};

const SECOND: i64 = 1_000;
/// So many are due at once.
const SCHEDULES: usize = 8;
const KILLS: usize = 8;
/// They go on for so many seconds.
const SECONDS: i64 = 4;

fn every_second() -> String {
    let tool = "\n[[tool]]\nname = \"tick\"\ndescription = \"ticks\"\ntask = \"always\"\n\
        command = [\"sh\", \"-c\", \"echo \\\"$1\\\" >> ticks\", \"sh\", \"{of}\"]\ninput = { of = { type = \"string\" } }\n";
    let schedules = (0..SCHEDULES).map(|nth| {
        format!(
            "\n[[schedule]]\nname = \"s{nth}\"\ntool = \"tick\"\narguments = {{ of = \"s{nth}\" }}\nevery = \"1s\"\n\
             catch_up = \"all\"\noverlap = \"queue\"\nas = \"s{nth}\"\n"
        )
    });
    schedules.fold(tool.to_owned(), |text, schedule| text + &schedule)
}

fn schedules(served: &Served) -> Vec<serde_json::Value> {
    let listed = json(&served.on_file(&["admin", "schedules"], &["--json"]).output().unwrap());
    listed["schedules"].as_array().unwrap().clone()
}

fn tasks_of(served: &Served, principal: &str) -> usize {
    let words = ["--principal", principal, "--limit", "500", "--json"];
    let found = json(&served.on_file(&["admin", "tasks"], &words).output().unwrap());
    found["tasks"].as_array().unwrap().len()
}

fn next(schedule: &serde_json::Value) -> i64 {
    let next: jiff::Timestamp = schedule["next"][0].as_str().unwrap().parse().unwrap();
    next.as_millisecond()
}

/// Each second of each schedule has one task, however often the server is killed while it starts them.
#[test]
fn killed_servers_lose_and_double_no_start() {
    let mut served = Served::start_with(&every_second());
    let began: Vec<i64> = schedules(&served)
        .iter()
        .map(|schedule| next(schedule) - schedule["started"].as_i64().unwrap() * SECOND)
        .collect();
    let ticks = served.folder.path().join("ticks");
    let started = |served: &Served| schedules(served)[0]["started"].as_i64().unwrap();
    let mut kills = 0;
    while kills < KILLS || started(&served) < SECONDS {
        // When the first tasks of a second run, others of that second are being created.
        let before = fs::read(&ticks).unwrap_or_default().len();
        while fs::read(&ticks).unwrap_or_default().len() == before {
            thread::yield_now();
        }
        served.kill();
        served.restart();
        kills += 1;
    }
    // The row has both figures, so this holds at any moment.
    for (schedule, began) in schedules(&served).iter().zip(&began) {
        let planned = (next(schedule) - began + SECOND / 2) / SECOND;
        assert_eq!(schedule["started"], planned, "{schedule} since {began}");
        assert_eq!(
            (&schedule["skipped"], &schedule["missed"]),
            (&0.into(), &0.into()),
            "{schedule}"
        );
    }
    let names: Vec<String> = (0..SCHEDULES).map(|nth| format!("s{nth}")).collect();
    let words: Vec<&str> = ["pause"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let paused = served.on_file(&["admin", "schedules"], &words).output().unwrap();
    assert_eq!(exit(&paused), 0, "{paused:?}");
    for (schedule, name) in schedules(&served).iter().zip(&names) {
        assert_eq!(schedule["next"], serde_json::json!([]));
        assert_eq!(schedule["started"], tasks_of(&served, name), "{schedule}");
    }
}

#[test]
fn schedules_are_listed_paused_and_triggered() {
    let nightly = "\n[[schedule]]\nname = \"nightly\"\ntool = \"gate\"\narguments = { code = 0 }\ncron = \"30 2 * * *\"\nzone = \"Europe/Berlin\"\n";
    let served = Served::start_with(nightly);
    let admin = |words: &[&str]| served.on_file(&["admin", "schedules"], words).output().unwrap();
    let list = admin(&[]);
    stdout(&list).begins_with("SCHEDULE ");
    list.prints("cron 30 2 * * * Europe/Berlin");
    let triggered = json(&admin(&["--json", "trigger", "nightly"]));
    let task = triggered["schedules"][0]["task"].as_str().unwrap().to_owned();
    // The task is of the same user, and is live: the next one would be skipped.
    let listed = served.on_file(&["admin", "tasks"], &["--json"]).output().unwrap();
    assert!(stdout(&listed).contains(&task), "{listed:?}");
    let refused = admin(&["trigger", "nightly"]);
    assert_ne!(exit(&refused), 0);
    stderr(&refused).has("still live");
    admin(&["pause", "nightly"]).prints("nightly: paused");
    admin(&[]).prints("paused");
    admin(&["resume", "nightly"]).prints("nightly: resumed");
    assert_eq!(schedules(&served)[0]["next"].as_array().unwrap().len(), 3);
    let unknown = admin(&["pause", "weekly"]);
    assert_ne!(exit(&unknown), 0);
    stderr(&unknown).has("no such schedule");
    served.open_gate();
    while schedules(&served)[0]["lastState"] != "succeeded" {
        thread::yield_now();
    }
}
