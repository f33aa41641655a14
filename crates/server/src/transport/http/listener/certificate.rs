//! The certificate and the key of a server, read from files.

use longhaul_core::UnixMillis;
use rustls::{
    CertificateError, Error, InconsistentKeys, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject as _},
    },
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// A certificate that ends this soon should have been renewed.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * SECONDS_PER_DAY);
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
/// Others than the owner and the group can read the file.
const READABLE_BY_ALL: u32 = 0o004;
const WRITABLE_BY_ALL: u32 = 0o002;

/// The certificate or the key of a server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is not PEM.
    #[error("{path} is not sound PEM: {reason}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file has no certificate.
    #[error(
        "{0} has no certificate: it must be PEM, with the server's `BEGIN CERTIFICATE` first and those of its authorities behind it"
    )]
    NoCertificate(PathBuf),
    /// A file has no key that can be used.
    #[error(
        "{0} has no private key: it must be PEM (`BEGIN PRIVATE KEY`, `BEGIN RSA PRIVATE KEY` or `BEGIN EC PRIVATE KEY`), without a passphrase"
    )]
    NoKey(PathBuf),
    /// The certificate or the key is of no kind that TLS can use.
    #[error("{path} cannot be used: {reason}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// They do not belong together.
    #[error("the key in {key} is not that of the first certificate in {certificate}")]
    Mismatch {
        /// The file with the certificates.
        certificate: PathBuf,
        /// The file with the key.
        key: PathBuf,
    },
}

/// Where the certificate and the key of a server are.
#[derive(Debug, Clone)]
pub(super) struct CertificateFiles {
    /// The server's certificate and those of its authorities.
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl CertificateFiles {
    /// Reads both, and checks that they belong together.
    pub(super) fn read(&self) -> Result<CertifiedKey, TlsError> {
        let (certificate, key) = (&self.certificate, &self.key);
        let chain = read_chain(certificate)?;
        let private_key = read_key(key)?;
        CertifiedKey::from_der(chain, private_key, &provider()).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError::Mismatch {
                certificate: certificate.clone(),
                key: key.clone(),
            },
            Error::InvalidCertificate(error) => TlsError::Unusable {
                path: certificate.clone(),
                reason: error.to_string(),
            },
            error => TlsError::Unusable {
                path: key.clone(),
                reason: error.to_string(),
            },
        })
    }

    /// What is probably a mistake.
    pub(super) fn warnings(&self, certified: &CertifiedKey, now: UnixMillis) -> Vec<String> {
        let mut warnings = Vec::new();
        let mode = fs::metadata(&self.key).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & (READABLE_BY_ALL | WRITABLE_BY_ALL) != 0) {
            warnings.push(format!(
                "every user of this machine can read or replace the key {}: `chmod o-rw` it",
                self.key.display()
            ));
        }
        warnings.extend(self.describe(certified, now, describe_validity));
        warnings
    }

    /// Why no client would accept the certificate at this time.
    pub(super) fn fault(&self, certified: &CertifiedKey, now: UnixMillis) -> Option<String> {
        self.describe(certified, now, describe_fault)
    }

    /// Whom the certificate is for, if it is not for this host.
    pub(super) fn describe_other_host(&self, certified: &CertifiedKey, host: &str) -> Option<String> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host).ok()?;
        let certificate = ParsedCertificate::try_from(certified.end_entity_cert().ok()?).ok()?;
        let whose = match verify_server_name(&certificate, &name).err()? {
            Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. })
                if !presented.is_empty() =>
            {
                // Shown as `DnsName("example.com")` and `IpAddress(10.1.2.3)`.
                let names = presented.iter().map(|name| {
                    let inside = name.split_once('(').map_or(name.as_str(), |(_, inside)| inside);
                    inside.trim_end_matches(')').trim_matches('"')
                });
                format!("it is for {}", names.collect::<Vec<_>>().join(", "))
            }
            _ => "it names no host".to_owned(),
        };
        let file = self.certificate.display();
        Some(format!("the certificate {file} is not for {host}; {whose}"))
    }

    fn describe(
        &self,
        certified: &CertifiedKey,
        now: UnixMillis,
        description: fn(&CertificateDer<'_>, Duration) -> Option<String>,
    ) -> Option<String> {
        let now = Duration::from_millis(now.0.try_into().unwrap_or_default());
        let said = description(certified.end_entity_cert().ok()?, now)?;
        Some(format!("the certificate {} {said}", self.certificate.display()))
    }
}

/// The one provider of cryptography in this workspace.
pub(super) fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// The certificates in a file.
pub(super) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let chain = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| not_pem(path, &error))?;
    match chain.is_empty() {
        true => Err(TlsError::NoCertificate(path.to_owned())),
        false => Ok(chain),
    }
}

/// The key in a file.
pub(super) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(path.to_owned()),
        error => not_pem(path, &error),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    longhaul_private_dir::read_named(path).map_err(|source| TlsError::Read {
        path: path.to_owned(),
        source,
    })
}

fn not_pem(path: &Path, error: &pem::Error) -> TlsError {
    TlsError::Pem {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// What is wrong with a certificate.
fn describe_fault(certificate: &CertificateDer<'_>, now: Duration) -> Option<String> {
    match check_at(certificate, now) {
        CertificateError::ExpiredContext { not_after, .. } => {
            let days = now.as_secs().saturating_sub(not_after.as_secs()) / SECONDS_PER_DAY;
            Some(format!("expired {} ago", count_days(days)))
        }
        CertificateError::NotValidYetContext { .. } => {
            Some("is not valid yet; is the clock of this machine right?".to_owned())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            Some("is not for servers (extended key usage)".to_owned())
        }
        _ => None,
    }
}

/// The same, or what soon will be wrong with its time.
fn describe_validity(certificate: &CertificateDer<'_>, now: Duration) -> Option<String> {
    match (
        describe_fault(certificate, now),
        check_at(certificate, now + EXPIRES_SOON),
    ) {
        (Some(fault), _) => Some(fault),
        (None, CertificateError::ExpiredContext { not_after, .. }) => {
            let days = not_after.as_secs().saturating_sub(now.as_secs()) / SECONDS_PER_DAY;
            Some(format!("expires in {}", count_days(days)))
        }
        _ => None,
    }
}

fn count_days(days: u64) -> String {
    match days {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

/// Verifies a certificate at a time, with no authority that is trusted: its time is checked before its issuer is looked for.
fn check_at(certificate: &CertificateDer<'_>, time: Duration) -> CertificateError {
    let verified = ParsedCertificate::try_from(certificate).and_then(|certificate| {
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &RootCertStore::empty(),
            &[],
            UnixTime::since_unix_epoch(time),
            provider().signature_verification_algorithms.all,
        )
    });
    match verified {
        Err(Error::InvalidCertificate(error)) => error,
        _ => CertificateError::UnknownIssuer,
    }
}
