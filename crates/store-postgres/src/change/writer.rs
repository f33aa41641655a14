//! Group commit: one tokio task makes all waiting changes of this process in one transaction, commits once, then answers all callers. While it does, the
//! next ones wait, and make the next batch. Changes that can wait are deferred for a little, and commit with the next change that cannot.

use super::{
    Part, Request,
    batch::{self, Done, KnownSpecs},
    quota_turns::NearQuotas,
    request::PendingRequest,
};
use crate::{
    connection::{Connections, locks},
    event::PublishedState,
    statement::{Fault, Retries},
};
use longhaul_core::store::{LONGEST_DEFERRAL, StoreEvent};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// Limits of one commit, so that no caller waits long for the changes of others.
const MOST_CHANGES: usize = 1024;
const MOST_BYTES: u64 = 4 << 20;

/// The state of the writer.
pub(crate) struct Writer {
    pub(crate) connections: Connections,
    pub(crate) queue: UnboundedReceiver<PendingRequest>,
    pub(crate) published: Arc<PublishedState>,
    pub(crate) specs: Arc<KnownSpecs>,
    pub(crate) near_quotas: NearQuotas,
    pub(crate) part: Part,
}

impl Writer {
    /// Runs until the store is dropped, and all that was sent before is made.
    pub(crate) async fn run(mut self) {
        while let Some(batch) = self.gather().await {
            self.commit_all(batch).await;
        }
        self.connections.close();
    }

    /// The changes to commit next; `None` when there are none any more.
    async fn gather(&mut self) -> Option<Vec<PendingRequest>> {
        let mut batch = vec![self.queue.recv().await?];
        if batch.iter().all(|pending| pending.request.can_be_deferred()) {
            self.wait_for_others(&mut batch).await;
        }
        let mut bytes: u64 = batch.iter().map(|pending| pending.request.size_hint_bytes()).sum();
        while batch.len() < MOST_CHANGES && bytes < MOST_BYTES {
            let Ok(pending) = self.queue.try_recv() else { break };
            bytes += pending.request.size_hint_bytes();
            batch.push(pending);
        }
        Some(batch)
    }

    /// Waits until a change comes that cannot wait, or until the time of those that can is over.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing but the load of the database depends on how long it waits"
    )]
    async fn wait_for_others(&mut self, batch: &mut Vec<PendingRequest>) {
        let others = async {
            while batch.len() < MOST_CHANGES {
                let Some(pending) = self.queue.recv().await else { break };
                let can_wait = pending.request.can_be_deferred();
                batch.push(pending);
                if !can_wait {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(LONGEST_DEFERRAL, others).await;
    }

    /// Commits the changes together if possible. If the database refuses one, each is tried alone: one that is bad must not fail the others.
    async fn commit_all(&self, batch: Vec<PendingRequest>) {
        match self.commit(&batch).await {
            Ok(done) => self.acknowledge(batch, done),
            Err(Fault::Refused(_) | Fault::Conflict(_)) if batch.len() > 1 => {
                for pending in batch {
                    let alone = vec![pending];
                    match self.commit(&alone).await {
                        Ok(done) => self.acknowledge(alone, done),
                        Err(fault) => refuse(alone, fault),
                    }
                }
            }
            Err(fault) => refuse(batch, fault),
        }
    }

    async fn commit(&self, batch: &[PendingRequest]) -> Result<Done, Fault> {
        let requests: Vec<&Request> = batch.iter().map(|pending| &pending.request).collect();
        let mut retries = Retries::default();
        loop {
            match self.commit_once(&requests).await {
                Err(fault) => retries.wait(locks::named(&self.connections, fault).await).await?,
                done => return done,
            }
        }
    }

    async fn commit_once(&self, requests: &[&Request]) -> Result<Done, Fault> {
        let mut connection = self.connections.get().await?;
        let outcome = batch::run(
            connection.begin(),
            requests,
            &self.specs,
            &self.near_quotas,
            &self.published.pauses,
            self.part,
        )
        .await;
        connection.settle(outcome)
    }

    fn acknowledge(&self, batch: Vec<PendingRequest>, done: Done) {
        self.published.commits.committed(batch.len());
        self.published.sessions_ended(done.sessions);
        for (pending, answer) in batch.into_iter().zip(done.answers) {
            pending.answer(answer);
        }
        self.published.committed(done.effects);
        if done.have_pauses_changed {
            self.published.tell(&[StoreEvent::PausesChanged]);
        }
    }
}

fn refuse(batch: Vec<PendingRequest>, fault: Fault) {
    let why = fault.into_store_error();
    tracing::warn!(%why, changes = batch.len(), "changes were not committed");
    for pending in batch {
        pending.refuse(why.clone());
    }
}
