//! Why TLS with the database has failed.

use rustls::{CertificateError, Error};
use std::io;

/// What is wrong, in words, if a handshake has failed.
pub(crate) fn describe(error: &tokio_postgres::Error) -> Option<String> {
    /// The driver does not say in another way which of its errors it is.
    const HANDSHAKE: &str = "error performing TLS handshake";
    if !error.to_string().starts_with(HANDSHAKE) {
        return None;
    }
    let source = std::error::Error::source(error)?;
    let inner = source.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<Error>()) else {
        return Some(match source.to_string() {
            none if none.contains("does not support TLS") => {
                "its server has no TLS (`ssl = off` in postgresql.conf), which the address asks for; `sslmode=disable` asks for none".to_owned()
            }
            why => format!("TLS with its server failed: {why}"),
        });
    };
    let Error::InvalidCertificate(fault) = tls else {
        return Some(format!("TLS with its server failed: {tls}"));
    };
    Some(match fault {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "an authority that is not trusted here has issued its certificate: name a file with that authority's certificate in `sslrootcert`".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "its certificate is for {}, and not for {}: connect to such a name, or write `sslmode=verify-ca`",
            match presented.is_empty() {
                true => "no name (`subjectAltName`)".to_owned(),
                false => presented.join(", "),
            },
            expected.to_str()
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is one of an authority: name it in `sslrootcert`, or give the server another one".to_owned()
        }
        fault => format!("its certificate is not accepted: {fault}"),
    })
}
