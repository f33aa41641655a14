//! What a batch shows on standard error: bars on a terminal, else a line for each call that has ended.

use crate::{call::waiting::Display, output};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use longhaul_client::Event;
use std::{
    io::{self, IsTerminal},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

/// The calls that have a bar of their own at the same time.
const MOST_BARS: usize = 10;

/// The bars of a batch.
pub(super) struct Bars {
    /// On a terminal: the table, and the bar of the whole batch below it.
    table: Option<(MultiProgress, ProgressBar)>,
    shown: AtomicUsize,
    /// It was said that the server does not answer, and not yet that it does again.
    is_away: AtomicBool,
}

impl Bars {
    pub(super) fn new(total: usize) -> Self {
        let table = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed} [{bar:30}] {pos} of {len} lines done{msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let table = MultiProgress::new();
            let whole = table.add(ProgressBar::new(total as u64).with_style(style));
            whole.enable_steady_tick(Duration::from_millis(500));
            (table, whole)
        });
        Self {
            table,
            shown: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
        }
    }

    /// Says once for all calls that the server does not answer, and once that it does again.
    fn note_outage(&self, event: &Event<'_>) {
        match event {
            Event::Retrying { error, .. } if !self.is_away.swap(true, Ordering::Relaxed) => {
                self.print(|| output::note(&format!("{error}; trying again")));
            }
            Event::Recovered if self.is_away.swap(false, Ordering::Relaxed) => {
                self.print(|| output::note("the server answers again"));
            }
            _ => {}
        }
    }

    /// A bar for the call of this line, if there is room.
    pub(super) fn begin(&self, line: usize) -> Bar<'_> {
        let display = self.table.as_ref().filter(|_| {
            let has_room = |shown: usize| (shown < MOST_BARS).then_some(shown + 1);
            let shown = self.shown.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room);
            shown.is_ok()
        });
        let display = display.map(|(table, whole)| {
            let bar = table.insert_before(whole, ProgressBar::new_spinner());
            Display::in_table(bar, format!("line {line}: "))
        });
        Bar { display, bars: self }
    }

    /// Prints above the bars.
    pub(super) fn print(&self, print: impl FnOnce()) {
        match &self.table {
            Some((table, _)) => table.suspend(print),
            None => print(),
        }
    }

    /// A line has ended: `ended` of `total` so far, some of them with another exit than success, which `others` counts.
    pub(super) fn ended(&self, line: usize, how: &str, ended: usize, total: usize, others: &str) {
        match &self.table {
            Some((_, whole)) => {
                if !others.is_empty() {
                    whole.set_message(format!(": {others}"));
                }
                whole.set_position(ended as u64);
            }
            None => {
                output::note(&format!("line {line}: {how} ({ended} of {total})"));
            }
        }
    }

    pub(super) fn finish(&self) {
        if let Some((table, _)) = &self.table {
            let _ = table.clear();
        }
    }
}

/// The bar of a call; removed when it is dropped.
pub(super) struct Bar<'a> {
    display: Option<Display>,
    bars: &'a Bars,
}

impl Bar<'_> {
    pub(super) fn show(&mut self, event: &Event<'_>) {
        match &mut self.display {
            Some(display) => display.show(event),
            None => self.bars.note_outage(event),
        }
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        let Some(display) = &mut self.display else { return };
        display.finish();
        if let (Some(bar), Some((table, _))) = (display.bar(), &self.bars.table) {
            table.remove(&bar);
        }
        self.bars.shown.fetch_sub(1, Ordering::Relaxed);
    }
}
