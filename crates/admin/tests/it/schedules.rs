//! Schedules on the page, in the API and the metrics.

use crate::world::World;
use longhaul_core::{Json, Principal};
use longhaul_runtime::{CatchUp, Cron, Overlap, Recurrence, Schedule};
use serde_json::json;

fn nightly() -> Schedule {
    Schedule {
        name: "every night".into(),
        tool: "fails".into(),
        arguments: Json::trusted(r#"{"text":"no"}"#),
        principal: Principal::local(),
        recurrence: Recurrence::Cron(Cron::parse("30 2 * * *", "Europe/Berlin").unwrap()),
        jitter: 0,
        catch_up: CatchUp::None,
        overlap: Overlap::Queue,
    }
}

#[tokio::test]
async fn schedules_are_seen_and_started() {
    let world = World::new(true).await;
    assert!(!world.page("/tools").await.contains("/schedules"));
    let engine = world.server.engine().unwrap();
    engine.set_schedules(vec![nightly()]).await.unwrap();

    let (status, started) = world.act("/api/schedules/every%20night/trigger").await;
    assert_eq!(status, 200, "{started}");
    let task = started["task"].as_str().unwrap();
    world.state(task, "failed").await;
    assert_eq!(world.act("/api/schedules/every%20night/pause").await.0, 200);
    assert_eq!(world.act("/api/schedules/weekly/pause").await.0, 404);
    assert_eq!(world.act("/api/schedules/weekly/trigger").await.0, 404);

    let listed = world.json("/api/schedules").await;
    let schedule = &listed["schedules"][0];
    assert_eq!(
        (
            &schedule["name"],
            &schedule["paused"],
            &schedule["next"],
            &schedule["lastState"]
        ),
        (&json!("every night"), &json!(true), &json!([]), &json!("failed"))
    );
    assert_eq!((&schedule["started"], &schedule["lastTask"]), (&json!(1), &json!(task)));
    let page = world.page("/schedules").await;
    for part in [
        "cron 30 2 * * * Europe/Berlin",
        task,
        "action=\"/schedules/every%20night/resume\"",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let metrics = world.get("/metrics").await.text().await.unwrap();
    for line in [
        "longhaul_schedule_starts_total{schedule=\"every night\"} 1",
        "longhaul_schedule_paused{schedule=\"every night\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert_eq!(
        world.submit("/schedules/every%20night/resume", "").await,
        (303, "/schedules".to_owned())
    );
    let listed = world.json("/api/schedules").await;
    assert_eq!(listed["schedules"][0]["next"].as_array().unwrap().len(), 3);
    assert_eq!(
        world.json("/api/schedules?after=every%20night").await["schedules"],
        json!([])
    );
}
