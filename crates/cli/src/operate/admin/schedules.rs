//! `longhaul admin schedules`.

use super::{api::Api, percent_encode, show, table::table};
use crate::{
    args::{AdminSchedules, ScheduleAction},
    exit::{failure::Failure, result::Exit},
    output,
};
use longhaul_admin_api::{ActionReport, SchedulePage, ScheduleQuery, ScheduleView, to_url};
use serde_json::{Value, json};

/// What stands in a cell without a value.
const NOTHING: &str = "-";

pub(super) async fn run(asked: &AdminSchedules) -> Result<Exit, Failure> {
    let api = Api::of(&asked.of)?;
    match asked.action {
        None => list(&api, asked.of.json).await,
        Some(action) => act(&api, action, &asked.names, asked.of.json).await,
    }
}

async fn list(api: &Api, as_json: bool) -> Result<Exit, Failure> {
    let (mut found, mut json) = (Vec::new(), Vec::new());
    let mut query = ScheduleQuery {
        limit: "500".to_owned(),
        ..ScheduleQuery::default()
    };
    loop {
        let page = api
            .get::<SchedulePage>(&format!("/api/schedules?{}", to_url(&query)))
            .await?;
        json.extend(page.json["schedules"].as_array().into_iter().flatten().cloned());
        found.extend(page.read.schedules);
        match page.read.next {
            Some(next) => query.after = next,
            None => break,
        }
    }
    match as_json {
        true => output::json_line(&json!({"schedules": Value::Array(json)})),
        false if found.is_empty() => output::note("this server has no schedules"),
        false => output::text(&shown(&found, show::width())),
    }
    Ok(Exit::Answered)
}

async fn act(api: &Api, action: ScheduleAction, names: &[String], as_json: bool) -> Result<Exit, Failure> {
    let word = match action {
        ScheduleAction::Pause => "pause",
        ScheduleAction::Resume => "resume",
        ScheduleAction::Trigger => "trigger",
    };
    let mut done = Vec::new();
    for name in names {
        let path = format!("/api/schedules/{}/{word}", percent_encode(name));
        let report = api.post::<ActionReport>(&path).await?.read;
        if !as_json {
            output::text(&match &report.task {
                Some(task) => format!("{name}: started as {task}"),
                None => format!("{name}: {word}d"),
            });
        }
        done.push(json!({"schedule": name, "task": report.task}));
    }
    if as_json {
        output::json_line(&json!({"schedules": done}));
    }
    Ok(Exit::Answered)
}

fn shown(schedules: &[ScheduleView], width: usize) -> String {
    let or_nothing = |text: Option<&str>| text.unwrap_or(NOTHING).to_owned();
    let row = |schedule: &ScheduleView| {
        let next = match (schedule.paused, schedule.offered) {
            (true, _) => "paused".to_owned(),
            (false, false) => "of another server".to_owned(),
            (false, true) => or_nothing(schedule.next.first().map(String::as_str)),
        };
        let last = match (&schedule.last_state, &schedule.last_end) {
            (Some(state), Some(end)) => format!("{state} {end}"),
            (Some(state), None) => state.to_string(),
            (None, _) => or_nothing(schedule.last_start.as_deref()),
        };
        [
            schedule.name.clone(),
            next,
            last,
            or_nothing(schedule.last_task.as_deref()),
            schedule.started.to_string(),
            schedule.skipped.to_string(),
            schedule.missed.to_string(),
            schedule.plan.clone(),
        ]
    };
    let rows: Vec<[String; 8]> = schedules.iter().map(row).collect();
    let header = [
        "SCHEDULE", "NEXT", "LAST", "TASK", "STARTED", "SKIPPED", "MISSED", "PLAN",
    ];
    table(header, &rows, width)
}
