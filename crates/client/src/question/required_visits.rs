//! Pages that the user must have been to before a legacy server takes a call (MCP 2025-11-25, Elicitation, "URL Elicitation Required Error").

use crate::{
    Connection, InputRequest, RequestError, RpcFailure,
    connect::{
        era::Era,
        request::{Request, origin::Origin},
        response::OnNotification,
    },
    error::{PAGES_REQUIRED, excerpt},
};
use futures_util::future::try_join_all;
use longhaul_core::{BoxFuture, Json, Millis};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// How often a call is made that the server refuses for want of pages.
const MAX_CALLS: usize = 8;
/// The pages of one refusal.
const MAX_PAGES: usize = 16;
/// The pauses before the call is made again while neither the server nor the user says that the pages are finished, in milliseconds: about ten minutes. The tool has
/// not run, and few servers say it.
const PAUSES: [Millis; 4] = [2_000, 4_000, 8_000, 15_000];
const LATER_PAUSES: (Millis, usize) = (30_000, 19);

#[derive(Deserialize)]
struct RequiredElicitations {
    elicitations: Vec<Value>,
}

impl Connection {
    /// As [`exchange_rounds`](Self::exchange_rounds); sends the user to the pages that the server requires, and makes the call again.
    pub(crate) async fn exchange_with_pages(
        &self,
        build: impl Fn(&Era) -> Request,
        on_notification: OnNotification<'_>,
        origin: Origin<'_>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        let (mut visit, mut asked) = (None, 0);
        loop {
            let failure = match self.exchange_rounds(&build, on_notification, origin).await {
                Err(RequestError::Rpc(failure)) if failure.code == PAGES_REQUIRED => failure,
                answered => return answered,
            };
            let _asking = origin.asks();
            // Boxed, since it is rare.
            let begun = match visit {
                Some(visit) => visit,
                None if asked == MAX_CALLS => {
                    return Err(RequestError::Invalid(format!(
                        "it has required pages to be opened for each of {MAX_CALLS} calls"
                    )));
                }
                None => {
                    asked += 1;
                    let Some(pages) = self.required_pages(&failure).await else {
                        return Err(RequestError::Rpc(failure));
                    };
                    Box::pin(self.begin_visit(pages, origin.source)).await?
                }
            };
            visit = Box::pin(begun.wait(self)).await?;
        }
    }

    /// The user has finished with the page of a URL elicitation that they have agreed to open ([`InputRequest::elicitation_id`]). A legacy server refuses a call
    /// until then (2025-11-25, error −32042). The call is made again at once; without this, from time to time, at first after two seconds.
    ///
    /// ```no_run
    /// # async fn example(client: longhaul_client::Client, pages: longhaul_client::InputRequest) -> Result<(), longhaul_client::CallError> {
    /// let call = client.start("list_issues", serde_json::json!({})).await?;
    /// // The handler (`Inputs::open_url`) has opened the page, and the user has come back from it.
    /// if let Some(id) = pages.elicitation_id() {
    ///     client.connection().page_finished(id);
    /// }
    /// println!("{:?}", call.result().await?);
    /// # Ok(()) }
    /// ```
    pub fn page_finished(&self, elicitation_id: &str) {
        self.listening().finished_pages.note(elicitation_id);
    }

    /// `None` if the user cannot be sent to them.
    async fn required_pages(&self, failure: &RpcFailure) -> Option<Vec<InputRequest>> {
        let is_legacy = self.known_era().await?.legacy().is_some();
        let takes_pages = self.options().inputs.as_ref()?.capabilities().elicitation_url;
        let required: RequiredElicitations = serde_json::from_str(failure.data.as_ref()?.as_str()).ok()?;
        let pages = required.elicitations.into_iter().map(|page| {
            let request = json!({"method": "elicitation/create", "params": page});
            InputRequest::new(None, None, request)
        });
        let pages: Vec<_> = pages.collect();
        let is_usable = (1..=MAX_PAGES).contains(&pages.len()) && pages.iter().all(|page| page.url().is_some());
        (is_legacy && takes_pages && is_usable).then_some(pages)
    }

    /// Asks the user to open the pages.
    async fn begin_visit(&self, pages: Vec<InputRequest>, source: Option<u64>) -> Result<Visit<'_>, RequestError> {
        let mut opened = Vec::new();
        for mut page in pages {
            page.source = source;
            page.refuses_call = true;
            if !self.send_to(&page).await? {
                opened.push(page);
            }
        }
        let finished = try_join_all(opened.into_iter().map(|page| self.finished(page)));
        Ok(Visit {
            finished: Box::pin(async move { finished.await.map(drop) }),
            pauses: 0,
        })
    }

    /// Asks the user to open the page; returns whether they have finished with it already. The call is given up if they do not agree.
    async fn send_to(&self, page: &InputRequest) -> Result<bool, RequestError> {
        let answer = tokio::select! {
            biased;
            () = self.server_says_finished(page) => return Ok(true),
            answer = self.ask(page.clone()) => answer,
        };
        match answer {
            Ok(answer) if answer.as_value()["action"] == "accept" => Ok(false),
            Ok(_) => Err(given_up(page, "the user has not agreed to open it")),
            Err(RequestError::Unanswered { reason, .. }) => Err(given_up(page, &reason)),
            Err(error) => Err(error),
        }
    }

    /// Waits until the user has finished with a page. The call is given up if they say that they have not.
    async fn finished(&self, page: InputRequest) -> Result<(), RequestError> {
        let Some(inputs) = &self.options().inputs else {
            return Ok(());
        };
        let has_finished = tokio::select! {
            biased;
            () = self.server_says_finished(&page) => true,
            has_finished = inputs.page_finished(&page) => has_finished,
        };
        match has_finished {
            true => Ok(()),
            false => Err(given_up(&page, "the user has not finished with the page")),
        }
    }

    async fn server_says_finished(&self, page: &InputRequest) {
        match page.params["elicitationId"].as_str() {
            Some(id) => self.listening().finished_pages.until(id).await,
            None => std::future::pending().await,
        }
    }
}

/// The user is at the pages that a server requires.
struct Visit<'a> {
    finished: BoxFuture<'a, Result<(), RequestError>>,
    /// How many there were.
    pauses: usize,
}

impl Visit<'_> {
    /// Waits until the call is to be made again. It is over after that, and `None`, once somebody says that the user has finished, or after ten minutes: if the server
    /// refuses the call then, the user is asked again.
    async fn wait(mut self, connection: &Connection) -> Result<Option<Self>, RequestError> {
        let (later, count) = LATER_PAUSES;
        let pause = PAUSES.get(self.pauses).copied().unwrap_or(later);
        self.pauses += 1;
        let is_over = tokio::select! {
            biased;
            finished = &mut self.finished => {
                finished?;
                true
            }
            () = connection.sleep(pause) => self.pauses == PAUSES.len() + count,
        };
        Ok((!is_over).then_some(self))
    }
}

fn given_up(page: &InputRequest, reason: &str) -> RequestError {
    RequestError::PageRequired {
        page: describe(page),
        reason: reason.to_owned(),
    }
}

/// What the server says of the page, and its address: without characters that could be shown as something else, and only of a page of the web.
fn describe(page: &InputRequest) -> String {
    let message = excerpt(page.message().trim()).replace(char::is_control, " ");
    let address = match (page.page_problem(), page.url().map(Url::parse)) {
        (Some(problem), _) => problem,
        (None, Some(Ok(url))) => format!("it asks to open {}", excerpt(url.as_str())),
        (None, _) => "its address is no URL".to_owned(),
    };
    match message.as_str() {
        "" => address,
        message => format!("{message} ({address})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_the_web_is_shown_and_as_it_is_opened() {
        let shown = |url: &str| {
            let params = json!({"mode": "url", "url": url, "message": "Con\u{1b}nect"});
            describe(&InputRequest::new(
                None,
                None,
                json!({"method": "elicitation/create", "params": params}),
            ))
        };
        assert_eq!(
            shown("https://a.example/x?b=1"),
            "Con nect (it asks to open https://a.example/x?b=1)"
        );
        let shown_with_controls = shown("https://a.example/\u{202e}x\u{1b}[2J");
        assert_eq!(
            shown_with_controls,
            "Con nect (it asks to open https://a.example/%E2%80%AEx%1B[2J)"
        );
        let of_script = shown("javascript:alert(1)");
        assert!(
            of_script.contains("no web page") && !of_script.contains("alert"),
            "{of_script}"
        );
    }
}
