//! Pages that many watch are drawn once.

use super::live::Live;
use axum::response::{Html, IntoResponse, Response};
use longhaul_core::{Clock, UnixMillis};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::Mutex;

/// Pages at once. When there are more, all are forgotten.
const MOST: usize = 64;
/// A page shows ages, so it is drawn anew after this, in milliseconds, also if nothing has changed.
const LONGEST: u64 = 1_000;

/// Pages by their address, as they were drawn last.
#[derive(Default)]
pub(crate) struct DrawnPages(Mutex<HashMap<String, DrawnPage>>);

struct DrawnPage {
    /// [`Live::count`] before it was read.
    count: u64,
    at: UnixMillis,
    text: Arc<str>,
}

impl DrawnPages {
    /// The page at `address`, if it was read after the latest change and not long ago; else what `draw` makes.
    ///
    /// One is drawn at a time: whoever asks meanwhile gets that one, unless something has changed since it was read.
    pub(crate) async fn page<E>(
        &self,
        live: &Live,
        clock: &dyn Clock,
        address: String,
        draw: impl Future<Output = Result<String, E>>,
    ) -> Result<Response, E> {
        let asked = live.count();
        let mut pages = self.0.lock().await;
        let (count, now) = (live.count(), clock.now());
        let is_fresh = |drawn: &&DrawnPage| drawn.count >= asked && now.since(drawn.at) < LONGEST;
        let found = pages
            .get(&address)
            .filter(is_fresh)
            .map(|drawn| Arc::clone(&drawn.text));
        let text = match found {
            Some(text) => text,
            None => {
                let text: Arc<str> = draw.await?.into();
                if pages.len() >= MOST {
                    pages.clear();
                }
                let drawn = DrawnPage {
                    count,
                    at: now,
                    text: Arc::clone(&text),
                };
                pages.insert(address, drawn);
                text
            }
        };
        drop(pages);
        Ok(Html(text.to_string()).into_response())
    }
}
