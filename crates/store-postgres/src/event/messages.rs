//! Texts from one node to another that are too long for a notification.

use crate::{
    connection::{Work, quoted},
    statement::{Execute, Fault, Tx, encode, row},
};
use std::sync::Arc;
use tokio_postgres::Client;

const KEEP: &str = "INSERT INTO messages (id, text) VALUES ($1, $2)";
/// Their readers have died, or they were for all.
const FORGET: &str = "DELETE FROM messages WHERE at < now() - interval '1 minute'";

/// Keeps a text until it is read.
pub(crate) struct Keep {
    pub(crate) id: i64,
    pub(crate) text: Arc<str>,
}

impl Work for Keep {
    type Answer = ();

    async fn run(&self, tx: &Tx<'_>) -> Result<(), Fault> {
        tx.execute(FORGET, &[]).await?;
        tx.execute(KEEP, &[&self.id, &encode(&self.text)]).await.map(drop)
    }
}

/// Takes a text that was kept, on a connection whose search path is not set.
pub(crate) async fn take(client: &Client, schema: &str, id: i64) -> Result<Option<Arc<str>>, Fault> {
    let schema = quoted(schema);
    find(
        client,
        &format!("DELETE FROM {schema}.messages WHERE id = $1 RETURNING text"),
        id,
    )
    .await
}

/// As [`take`], of a text that is for others, too: it stays until it is forgotten.
pub(crate) async fn read(client: &Client, schema: &str, id: i64) -> Result<Option<Arc<str>>, Fault> {
    let schema = quoted(schema);
    find(client, &format!("SELECT text FROM {schema}.messages WHERE id = $1"), id).await
}

async fn find(client: &Client, sql: &str, id: i64) -> Result<Option<Arc<str>>, Fault> {
    let found = client.query_opt(sql, &[&id]).await?;
    found.map(|found| row::text(&found, 0)).transpose()
}
