//! The permits of this node, where the limits of tools are shared with other nodes: work of a tool with a limit begins only with a permit.

use crate::{engine::Inner, node::StoreTrouble};
use longhaul_core::store::{PermitReport, StoreError};
use std::{sync::Arc, time::Duration};

/// How long permits are kept that are not used, and how often a node that lacks some asks again, since events may be lost.
const PAUSE: Duration = Duration::from_secs(10);
/// How soon it asks again for the first time: by then others must share with it.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// After an error of the store.
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// Asks for permits and gives them back until the node stops.
pub(crate) async fn run(inner: Arc<Inner>) {
    let node = &inner.node;
    let mut number = 0;
    let mut pause = PAUSE;
    let mut holds_none = true;
    let mut trouble = StoreTrouble::new("how much may run at once beside other servers could not be read");
    loop {
        tokio::select! {
            biased;
            () = node.slots.permits_due() => {}
            () = node.ports.clock.sleep(pause) => {}
        }
        // What waits here is for others, if nothing begins here.
        let queued = match inner.begins_work() {
            true => node.queues.ready(node.now()),
            false => Vec::new(),
        };
        let requests = node.slots.permit_requests(queued, |tool| inner.concurrency(tool));
        if requests.is_empty() && holds_none {
            pause = PAUSE;
            continue;
        }
        number += 1;
        holds_none = requests.is_empty();
        let is_short = match report(&inner, PermitReport { number, requests }).await {
            Ok(is_short) => {
                trouble.is_over(node.ports.clock.monotonic());
                is_short
            }
            Err(StoreError::LeaseLost) => return,
            Err(error) => {
                trouble.failed(&error, node.ports.clock.monotonic());
                // Nothing more begins until the next report is answered.
                node.ports.clock.sleep(PAUSE_AFTER_ERROR).await;
                pause = Duration::ZERO;
                holds_none = false;
                continue;
            }
        };
        pause = match is_short {
            true if pause == PAUSE => FIRST_PAUSE,
            _ => PAUSE,
        };
    }
}

/// Makes a report and acts on the answer. Returns whether the node wants more than it got.
async fn report(inner: &Inner, report: PermitReport) -> Result<bool, StoreError> {
    let node = &inner.node;
    let wanted: usize = report.requests.iter().map(|request| request.wanted).sum();
    let permits = node.store.share_permits(node.id, report).await?;
    let got: usize = permits.iter().map(|permits| permits.count).sum();
    node.slots.set_permits(permits);
    Ok(got < wanted)
}
