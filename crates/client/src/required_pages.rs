//! Pages that the user must have been to before a legacy server takes a call (MCP 2025-11-25, Elicitation, "URL Elicitation Required Error").

use crate::{
    Connection, InputRequest, RequestError, RpcFailure, call_record::CallRecord, era::Era, error::excerpt,
    request::Request, response::OnNotification,
};
use longhaul_core::{Json, Millis};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{pin::pin, sync::Arc};

/// The code of the error with which a server says so. The tool has not run.
const PAGES_REQUIRED: i32 = -32042;
/// How often a call is made that the server refuses for want of pages.
const MAX_CALLS: usize = 8;
/// The pages of one refusal.
const MAX_PAGES: usize = 16;
/// When the call is made again if neither the server nor the user says that the page is finished, in milliseconds.
const LONGEST_VISIT: Millis = 600_000;

#[derive(Deserialize)]
struct Required {
    elicitations: Vec<Value>,
}

impl Connection {
    /// As [`exchange_rounds`](Self::exchange_rounds); sends the user to the pages that the server requires, and makes the call again.
    pub(crate) async fn exchange_with_pages(
        &self,
        build: impl Fn(&Era) -> Request,
        on_notification: OnNotification<'_>,
        source: Option<u64>,
        record: Option<&CallRecord>,
    ) -> Result<(Json, Arc<Era>), RequestError> {
        for _ in 0..MAX_CALLS {
            let failure = match self.exchange_rounds(&build, on_notification, source, record).await {
                Err(RequestError::Rpc(failure)) if failure.code == PAGES_REQUIRED => failure,
                answered => return answered,
            };
            let Some(pages) = self.required_pages(&failure).await else {
                return Err(RequestError::Rpc(failure));
            };
            for mut page in pages {
                page.source = source;
                self.visit(page).await?;
            }
        }
        Err(RequestError::Invalid(format!(
            "it has required pages to be opened for each of {MAX_CALLS} calls"
        )))
    }

    /// The user has finished with the page of a URL elicitation that they have agreed to open ([`InputRequest::elicitation_id`]). A legacy server refuses a call
    /// until then (2025-11-25, error −32042), and not every server notices: the call, which waits for this, is made again at once.
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
        let required: Required = serde_json::from_str(failure.data.as_ref()?.as_str()).ok()?;
        let pages = required.elicitations.into_iter().map(|page| {
            let request = json!({"method": "elicitation/create", "params": page});
            InputRequest::new(None, None, request)
        });
        let pages: Vec<_> = pages.collect();
        let is_usable = (1..=MAX_PAGES).contains(&pages.len()) && pages.iter().all(|page| page.url().is_some());
        (is_legacy && takes_pages && is_usable).then_some(pages)
    }

    /// Asks the user to open the page, and waits until they have finished with it. The call is given up if they do not agree.
    async fn visit(&self, page: InputRequest) -> Result<(), RequestError> {
        let Some(inputs) = &self.options().inputs else {
            return Ok(());
        };
        let url = excerpt(page.url().unwrap_or_default());
        let given_up = |reason: &str| RequestError::Unanswered {
            method: page.method.clone(),
            reason: format!("{reason}; the call is refused until {url} was opened"),
        };
        let mut finished = pin!(async {
            match page.params["elicitationId"].as_str() {
                Some(id) => self.listening().finished_pages.until(id).await,
                None => std::future::pending().await,
            }
        });
        let answer = tokio::select! {
            biased;
            () = &mut finished => return Ok(()),
            answer = self.ask(page.clone()) => answer,
        };
        match answer {
            Ok(answer) if answer.as_value()["action"] == "accept" => {}
            Ok(_) => return Err(given_up("the user has not agreed to open it")),
            Err(RequestError::Unanswered { reason, .. }) => return Err(given_up(&reason)),
            Err(error) => return Err(error),
        }
        let has_finished = tokio::select! {
            biased;
            () = &mut finished => true,
            has_finished = inputs.page_finished(&page) => has_finished,
            () = self.sleep(LONGEST_VISIT) => true,
        };
        match has_finished {
            true => Ok(()),
            false => Err(given_up("the user has not finished with the page")),
        }
    }
}
