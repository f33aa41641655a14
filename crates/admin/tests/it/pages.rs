//! The pages, as a browser without scripts has them.

use crate::world::World;
use reqwest::{Method, Response, header};
use serde_json::json;

impl World {
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let text = answer.text().await.unwrap();
        assert!(
            !text.contains("<script>") && !text.contains(" style=") && !text.contains(" onclick="),
            "{text}"
        );
        text
    }

    async fn send_form(&self, path: &str, form: &str) -> Response {
        let request = self
            .request(Method::POST, path)
            .header(header::ORIGIN, format!("http://{}", self.address));
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        request.body(form.to_owned()).send().await.unwrap()
    }

    /// Sends an empty form; returns the status and the page.
    async fn sent(&self, path: &str) -> (u16, String) {
        let answer = self.send_form(path, "").await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Sends a form; returns the status and where it leads to.
    pub(crate) async fn submit(&self, path: &str, form: &str) -> (u16, String) {
        let answer = self.send_form(path, form).await;
        let location = answer
            .headers()
            .get("location")
            .map(|location| location.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location.unwrap_or_default())
    }
}

#[tokio::test]
async fn the_list_shows_tasks_and_no_markup_of_theirs() {
    let world = World::new(true).await;
    let id = world.ended("fails", json!({"text": "<script>alert(1)</script>"})).await;
    let page = world.page("/").await;
    assert!(
        page.contains(&format!(
            r#"<a class="id" href="/tasks/{id}" title="{id}">…{}</a>"#,
            &id[28..]
        )),
        "{page}"
    );
    assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    assert!(!world.page("/?state=live").await.contains(&id));
    let wrong = world.get("/?older=long").await;
    assert_eq!(wrong.status(), 400);
    assert!(wrong.text().await.unwrap().contains("`older` cannot be"));
    assert!(
        world
            .page("/tools")
            .await
            .contains(r#"<a href="/?tool=fails">fails</a>"#)
    );
}

#[tokio::test]
async fn a_question_is_answered_with_its_form() {
    let world = World::new(true).await;
    let (id, key) = world.asking().await;
    let page = world.page(&format!("/tasks/{id}")).await;
    assert!(page.contains("It asks: Are you &#60;b&#62;sure"), "{page}");
    assert!(page.contains(r#"<input type="checkbox" name="field.sure""#), "{page}");
    let path = format!("/tasks/{id}/answer");
    for (count, problem) in [
        ("many", "does not fit; it must be a whole number"),
        ("-1", "does not fit; it must be a whole number"),
    ] {
        let form = format!("key={key}&action=accept&field.sure=true&field.count={count}");
        let refused = world.send_form(&path, &form).await;
        assert_eq!(refused.status(), 400, "{count}");
        let page = refused.text().await.unwrap();
        assert!(
            page.contains("Not answered: see below") && page.contains(problem),
            "{page}"
        );
        assert!(page.contains(&format!(r#"value="{count}""#)), "{page}");
        assert!(page.contains(r#"name="field.sure" value="true" checked"#), "{page}");
        assert!(
            page.contains(&format!(r#"data-source="/tasks/{id}""#)),
            "it follows the task: {page}"
        );
    }
    let form = format!("key={key}&action=accept&field.sure=true&field.count=2");
    assert_eq!(world.submit(&path, &form).await, (303, format!("/tasks/{id}")));
    world.state(&id, "succeeded").await;
    let page = world.page(&format!("/tasks/{id}")).await;
    assert!(page.contains("sure: true, 2 times"), "{page}");
    assert_eq!(world.submit(&path, &form).await.0, 409, "it asks no more");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_a_page() {
    let world = World::new(true).await;
    let id = world.running("runs").await;
    let get = async |path: String| world.get(&path).await;
    for (answer, status, why) in [
        (get(format!("/tasks/{id}/reset")).await, 400, "missing field `before`"),
        (get(format!("/tasks/{id}/reset?before=x")).await, 400, "invalid digit"),
        (get("/audit?task=%ff&task=2".to_owned()).await, 400, "duplicate field"),
        (
            get(format!("/tasks/{id}/cancel")).await,
            405,
            "the address of an action",
        ),
        (get("/nothing".to_owned()).await, 404, "no such page"),
        (
            world.send_form(&format!("/tasks/{id}/reset"), "before=").await,
            422,
            "cannot parse",
        ),
    ] {
        let path = answer.url().path().to_owned();
        assert_eq!(answer.status(), status, "{path}");
        let page = answer.text().await.unwrap();
        assert!(page.contains("<h1>") && page.contains(why), "{path}: {page}");
        assert!(
            !page.contains("deserialize") && !page.contains("data-source"),
            "{path}: {page}"
        );
    }
}

#[tokio::test]
async fn a_task_offers_what_can_be_done_with_it() {
    let world = World::new(true).await;
    let running = world.running("runs").await;
    let offered = async |id: &str| {
        let page = world.page(&format!("/tasks/{id}")).await;
        ["cancel", "retry", "release", "delete"]
            .map(|action| page.contains(&format!(r#"action="/tasks/{id}/{action}""#)))
    };
    assert_eq!(offered(&running).await, [true, false, false, false]);
    assert_eq!(
        world.submit(&format!("/tasks/{running}/cancel"), "").await,
        (303, format!("/tasks/{running}"))
    );
    world.state(&running, "cancelled").await;
    assert_eq!(offered(&running).await, [false, true, false, true]);
    let (status, new) = world.submit(&format!("/tasks/{running}/retry"), "").await;
    assert_eq!(status, 303);
    assert!(
        world
            .page(&new)
            .await
            .contains(&format!(r#"Retry of</dt><dd><a class="id" href="/tasks/{running}">"#))
    );
    assert_eq!(
        world.submit(&format!("/tasks/{running}/delete"), "").await,
        (303, "/".to_owned())
    );
    assert_eq!(world.get(&format!("/tasks/{running}")).await.status(), 404);
    assert_eq!(world.submit(&format!("/tasks/{running}/cancel"), "").await.0, 404);
    assert_eq!(world.submit(&format!("/tasks/{running}/explode"), "").await.0, 404);
}

#[tokio::test]
async fn many_tasks_are_acted_on_after_a_question() {
    let world = World::new(true).await;
    let running = world.running("runs").await;
    let failed = world.ended("fails", json!({"text": "no"})).await;
    assert!(
        !world.page("/").await.contains("/bulk/"),
        "not for a list of everything"
    );
    let list = world.page("/?tool=gated").await;
    let link = "/bulk/cancel?tool=gated";
    assert!(list.contains(link), "{list}");
    let failures = world.page("/?state=failed").await;
    assert!(
        failures.contains("/bulk/retry?") && failures.contains("/bulk/delete?") && !failures.contains("/bulk/cancel"),
        "{failures}"
    );
    let asks = world.page(link).await;
    assert!(
        asks.contains("Cancel 1 task") && asks.contains("<dd>gated</dd>"),
        "{asks}"
    );
    world.state(&running, "running").await;
    let (status, done) = world.sent(link).await;
    assert!(status == 200 && done.contains("Cancelled: 1."), "{status} {done}");
    assert!(
        asks.contains("data-source") && !done.contains("data-source"),
        "a result is not drawn anew"
    );
    world.state(&running, "cancelled").await;
    let (status, done) = world.sent("/bulk/delete?state=failed").await;
    assert!(status == 200 && done.contains("Deleted: 1."), "{status} {done}");
    assert_eq!(world.get(&format!("/api/tasks/{failed}")).await.status(), 404);
}

#[tokio::test]
async fn principals_are_listed_with_their_live_tasks() {
    let world = World::new(true).await;
    assert!(world.page("/principals").await.contains("No live tasks"));
    world.running("runs").await;
    loop {
        let page = world.page("/principals").await;
        if page.contains("/bulk/cancel?state=live&amp;principal=") {
            break;
        }
        assert!(page.contains("No live tasks"), "{page}");
    }
}

#[tokio::test]
async fn a_server_is_stopped_from_its_page_which_is_drawn_whole() {
    let world = World::new(true).await;
    let page = world.page("/nodes").await;
    assert!(page.contains(r#"<form method="post" action="/nodes/drain">"#), "{page}");
    let foreign = world
        .request(Method::POST, "/nodes/drain")
        .header(header::ORIGIN, "https://evil.example.com");
    assert_eq!(foreign.send().await.unwrap().status(), 403);
    assert!(world.audit.lines().iter().all(|line| line["action"] != "drain"));
    let (status, page) = world.sent("/nodes/drain").await;
    assert!(
        status == 200 && page.contains("<h1>The server stops</h1>"),
        "{status} {page}"
    );
    assert_eq!(world.get("/assets/style.css").await.status(), 200);
    world.stop.cancelled().await;
    assert_eq!(world.audit.lines().last().unwrap()["action"], "drain");
}
