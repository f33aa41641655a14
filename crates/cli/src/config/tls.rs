//! The `[server.tls]` section: the certificate of the server.

use super::{
    paths::Environment,
    section::{Entry, Section},
};
use longhaul::Tls;
use std::path::PathBuf;

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// Absolute, as the other.
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsConfig {
    /// Whom the certificate is for, if it is not for this host.
    pub(super) fn describe_other_host(&self, host: &str) -> Option<String> {
        Tls::from_pem_files(&self.cert, &self.key)
            .ok()?
            .describe_other_host(host)
    }
}

/// Reads the section, and the files it names; `None` after a problem.
pub(super) fn read(section: &Section<'_>, environment: &Environment) -> Option<TlsConfig> {
    let path = |entry: Entry<'_>| {
        let resolved = environment.resolve(entry.text()?, section.file().folder());
        resolved
            .map_err(|error| entry.report(format!("`{}`: {error}", entry.key())))
            .ok()
    };
    let (cert, key) = (
        section.require("cert").and_then(path),
        section.require("key").and_then(path),
    );
    section.finish();
    let config = TlsConfig { cert: cert?, key: key? };
    match Tls::from_pem_files(&config.cert, &config.key) {
        Ok(tls) => {
            let warnings = tls.warnings(environment.now);
            warnings.into_iter().for_each(|warning| section.warn(warning));
            Some(config)
        }
        Err(error) => {
            section.report(error.to_string());
            None
        }
    }
}
