//! The `[server.tls]` section: the certificate of the server.

use crate::config::{
    paths::Environment,
    section::{Entry, Section},
};
use longhaul::{Tls, TlsError};
use std::path::{Path, PathBuf};

/// Where the certificate and its key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// Absolute, as the other.
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl TlsConfig {
    /// Whom the certificate is for, if it is not for this host.
    pub(crate) fn describe_other_host(&self, host: &str) -> Option<String> {
        Tls::from_pem_files(&self.cert, &self.key)
            .ok()?
            .describe_other_host(host)
    }
}

/// Reads the section, and the files it names; `None` after a problem.
pub(crate) fn read(section: &Section<'_>, environment: &Environment) -> Option<TlsConfig> {
    let read = |entry: Entry<'_>, check: fn(&Path) -> Result<(), TlsError>| {
        let resolved = environment.resolve(entry.text()?, section.file().folder());
        let path = resolved.map_err(|error| entry.report(format!("`{}`: {error}", entry.key())));
        let path = path.ok()?;
        let checked = check(&path).map_err(|error| entry.report(format!("`{}`: {error}", entry.key())));
        checked.ok().map(|()| path)
    };
    let cert = section.require("cert");
    let cert = cert.and_then(|entry| read(entry, Tls::check_certificate_file));
    let key = section.require("key");
    let key = key.and_then(|entry| read(entry, Tls::check_key_file));
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
