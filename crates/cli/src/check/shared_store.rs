//! What the database of `store` is like.

use crate::config::Config;
use longhaul_store_postgres::{DatabaseReport, PostgresOpenError, PostgresStore};
use serde_json::{Value, json};

/// A database, and what was found in it.
pub(super) struct InspectedDatabase {
    /// Without a password.
    address: String,
    pub(super) report: Result<DatabaseReport, PostgresOpenError>,
}

/// Connects to the database, if there is one.
pub(super) async fn look(config: &Config) -> Option<InspectedDatabase> {
    let shared = config.server.shared_store.as_ref()?;
    Some(InspectedDatabase {
        address: shared.shown(),
        report: PostgresStore::inspect(&shared.address, shared.options()).await,
    })
}

impl InspectedDatabase {
    /// Why a server cannot use it.
    pub(super) fn problem(&self) -> Option<String> {
        self.report.as_ref().err().map(|error| format!("`store`: {error}"))
    }

    pub(super) fn warnings(&self) -> &[String] {
        self.report.as_ref().map_or(&[], |report| &report.warnings)
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        let Ok(report) = &self.report else {
            return String::new();
        };
        let schema = match report.schema_version {
            None => "which the first start makes".to_owned(),
            Some(version) if version < report.known_version => {
                format!("version {version}, which a start brings to {}", report.known_version)
            }
            Some(version) => format!("version {version}"),
        };
        format!(
            "store {} ({schema}), PostgreSQL {}\n",
            self.address, report.server_version
        )
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.report {
            Ok(report) => json!({
                "address": self.address,
                "serverVersion": report.server_version,
                "schemaVersion": report.schema_version,
                "knownVersion": report.known_version,
            }),
            Err(_) => json!({"address": self.address}),
        }
    }
}
