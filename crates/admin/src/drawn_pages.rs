//! Pages that many watch are drawn once.

use axum::response::{Html, IntoResponse, Response};
use longhaul_core::UnixMillis;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Pages at once. When there are more, all are forgotten.
const MOST: usize = 64;
/// A page shows ages, so it is drawn anew after this, in milliseconds, also if nothing has changed.
const LONGEST: u64 = 1_000;

/// Pages by their address, as they were drawn last.
#[derive(Default)]
pub(crate) struct DrawnPages(Mutex<HashMap<String, Drawn>>);

struct Drawn {
    version: u64,
    at: UnixMillis,
    text: Arc<str>,
}

impl DrawnPages {
    /// The page at `address`, if it was drawn at this version of what it shows and not long ago; else what `draw` makes.
    pub(crate) async fn page<E>(
        &self,
        (version, now): (u64, UnixMillis),
        address: String,
        draw: impl Future<Output = Result<String, E>>,
    ) -> Result<Response, E> {
        let is_fresh = |drawn: &&Drawn| drawn.version == version && now.since(drawn.at) < LONGEST;
        let found = self
            .0
            .lock()
            .get(&address)
            .filter(is_fresh)
            .map(|drawn| Arc::clone(&drawn.text));
        let text = match found {
            Some(text) => text,
            None => {
                let text: Arc<str> = draw.await?.into();
                let mut pages = self.0.lock();
                if pages.len() >= MOST {
                    pages.clear();
                }
                let drawn = Drawn {
                    version,
                    at: now,
                    text: Arc::clone(&text),
                };
                pages.insert(address, drawn);
                text
            }
        };
        Ok(Html(text.to_string()).into_response())
    }
}
