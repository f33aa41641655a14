//! Keys that sign what clients carry.

use crate::{
    connection::{Work, take_turn},
    statement::{Execute, Fault, PostgresRow, Tx, row},
};
use longhaul_core::store::{SigningKey, StoreError};
use longhaul_store::task_row;

/// [`longhaul_core::store::SessionStore::signing_keys`].
pub(crate) struct RotateKeys {
    pub(crate) purpose: String,
    pub(crate) fresh: SigningKey,
}

impl Work for RotateKeys {
    type Answer = Vec<SigningKey>;

    async fn run(&self, tx: &Tx<'_>) -> Result<Vec<SigningKey>, Fault> {
        take_turn(tx, "signing_keys").await?;
        let known = tx
            .rows(
                "SELECT id, secret FROM signing_keys WHERE purpose = $1 ORDER BY id DESC",
                &[&self.purpose],
            )
            .await?;
        let known: Vec<SigningKey> = known.iter().map(key).collect::<Result<_, _>>()?;
        let keys = SigningKey::rotate(known.clone(), self.fresh.clone());
        for gone in known.iter().filter(|key| !keys.contains(key)) {
            let id = i64::from(gone.id);
            tx.execute(
                "DELETE FROM signing_keys WHERE purpose = $1 AND id = $2",
                &[&self.purpose, &id],
            )
            .await?;
        }
        for new in keys.iter().filter(|key| !known.contains(key)) {
            let (id, secret) = (i64::from(new.id), &new.secret[..]);
            tx.execute(
                "INSERT INTO signing_keys (purpose, id, secret) VALUES ($1, $2, $3)",
                &[&self.purpose, &id, &secret],
            )
            .await?;
        }
        Ok(keys)
    }
}

fn key(row: &tokio_postgres::Row) -> Result<SigningKey, Fault> {
    let secret: &[u8] = row.try_get(1)?;
    Ok(SigningKey {
        id: task_row::count(&PostgresRow(row), 0)?,
        secret: secret.try_into().map_err(|_| {
            StoreError::Failed(format!(
                "the signing key {} has no 32 bytes",
                row::number(row, 0).unwrap_or_default()
            ))
        })?,
    })
}
