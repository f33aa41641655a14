//! A notice that the server has not answered yet.

use crate::{output, servers::masked};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_client::SystemClock;
use longhaul_core::Clock;
use std::{
    io::{self, IsTerminal},
    pin::pin,
    time::Duration,
};

/// How long a server may be silent before the user is told.
const SILENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// Does the work. If it takes longer than a second, standard error says that the server is waited for.
pub(crate) async fn with_notice<T>(address: &str, work: impl Future<Output = T>) -> T {
    with_notice_until(address, work, std::future::pending()).await
}

/// As [`with_notice`]. The server is no longer what is waited for when `answered` completes.
pub(crate) async fn with_notice_until<T>(
    address: &str,
    work: impl Future<Output = T>,
    answered: impl Future<Output = ()>,
) -> T {
    let (mut work, mut answered) = (pin!(work), pin!(answered));
    let is_silent = tokio::select! {
        biased;
        done = &mut work => return done,
        () = &mut answered => false,
        () = SystemClock.sleep(SILENCE) => true,
    };
    if is_silent {
        let _notice = Notice::show(&format!(
            "waiting for {} to answer",
            output::plain(&masked(address), "")
        ));
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = answered => {}
        }
    }
    work.await
}

/// Removed from a terminal when it is dropped.
struct Notice(Option<ProgressBar>);

impl Notice {
    fn show(line: &str) -> Self {
        if !io::stderr().is_terminal() {
            output::note(line);
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}");
        let spinner = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        spinner.set_message(line.to_owned());
        spinner.enable_steady_tick(TICK);
        Self(Some(spinner))
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}
