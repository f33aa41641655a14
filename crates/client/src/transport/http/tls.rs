//! TLS: whom the client trusts, and why it does not.

use reqwest::Url;
use rustls::{
    CertificateError, ClientConfig, Error, InvalidMessage, RootCertStore, crypto::CryptoProvider, pki_types::UnixTime,
};
use rustls_platform_verifier::Verifier;
use std::{fs::File, io, path::Path, sync::Arc};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
compile_error!("TLS needs cryptography: enable the feature `aws-lc-rs`, which is on by default, or `ring`");

/// The provider of cryptography: ring if the feature is on, which must be asked for.
fn provider() -> CryptoProvider {
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    use rustls::crypto::aws_lc_rs as chosen;
    #[cfg(feature = "ring")]
    use rustls::crypto::ring as chosen;
    chosen::default_provider()
}

/// Makes the provider of cryptography of this crate's connections the one that [rustls](https://docs.rs/rustls) uses by default in this process, if it has
/// none yet.
///
/// Every connection over HTTP does this when it is created. A program needs it only if it has turned the feature `aws-lc-rs` off, uses `reqwest` without a
/// provider of its own, and builds a `reqwest::Client` before its first [`Connection`](crate::Connection): then building a client panics as long as there is
/// no default provider.
///
/// A program that wants another default provider installs it first: this one does not replace it.
///
/// ```
/// longhaul_client::install_tls_provider();
/// let before_any_connection = reqwest::Client::new();
/// ```
pub fn install_tls_provider() {
    if CryptoProvider::get_default().is_none() {
        // Fails if another thread was faster, and then there is one.
        let _ = provider().install_default();
    }
}

/// The TLS settings for a server. Those for `http://` trust nobody: reading the system's certificates takes milliseconds.
///
/// # Errors
/// Why the system's certificates cannot be used.
pub(crate) fn config(url: &Url) -> Result<ClientConfig, String> {
    install_tls_provider();
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let mut config = if url.scheme() == "https" {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier(provider)?))
            .with_no_client_auth()
    } else {
        builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn verifier(provider: Arc<CryptoProvider>) -> Result<Verifier, String> {
    // The verifier would only say that it has no certificates.
    if let Some(file) = std::env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty())
        && let Err(error) = File::open(&file)
    {
        let file = Path::new(&file).display();
        return Err(format!("SSL_CERT_FILE names {file}, which cannot be read: {error}"));
    }
    Verifier::new(provider).map_err(|error| match error {
        Error::General(reason) => {
            format!("{reason}; SSL_CERT_FILE can name a file with certificates of authorities")
        }
        error => error.to_string(),
    })
}

/// The error of TLS inside another error.
pub(crate) fn find_error<'a>(outer: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    let mut error = Some(outer);
    while let Some(current) = error {
        if let Some(found) = current.downcast_ref::<Error>() {
            return Some(found);
        }
        // An I/O error hides what it is made of from `source`.
        let inner = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error = inner.map_or_else(|| current.source(), |inner| Some(inner));
    }
    None
}

/// Why the server's certificate is refused, if that is the error.
pub(crate) fn describe_certificate(error: &Error) -> Option<String> {
    let Error::InvalidCertificate(error) = error else {
        return None;
    };
    Some(match error {
        // The signature is another one if the authority has the name of one that is trusted.
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "an authority that is not trusted here has issued its certificate; if you trust it, name its certificate in SSL_CERT_FILE".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            format!("its certificate is for {}, and not for {}", list(presented), expected.to_str())
        }
        CertificateError::NotValidForName => "its certificate is for another name".to_owned(),
        CertificateError::Expired => "its certificate has expired".to_owned(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("its certificate expired {} ago", days(*not_after, *time))
        }
        CertificateError::NotValidYet => "its certificate is not valid yet; is the clock of this machine right?".to_owned(),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "its certificate becomes valid in {}; is the clock of this machine right?",
            days(*time, *not_before)
        ),
        CertificateError::Revoked => "its certificate was revoked".to_owned(),
        CertificateError::BadEncoding => "its certificate is damaged".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not one for servers".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. } => {
            "its certificate is signed with an algorithm that is not accepted here".to_owned()
        }
        CertificateError::Other(other) => describe_other(&other.to_string()),
        // What is in it are bytes.
        error => {
            let error = format!("{error:?}");
            let kind = error.split(|char: char| !char.is_alphanumeric()).next();
            format!("its certificate is not accepted: {}", kind.unwrap_or_default())
        }
    })
}

/// What rustls has no word of its own for.
fn describe_other(error: &str) -> String {
    if error.contains("CaUsedAsEndEntity") {
        "its certificate is that of an authority (CA:TRUE), and a server needs one with CA:FALSE".to_owned()
    } else if ["extended key usage", "invalid extensions"]
        .iter()
        .any(|part| error.contains(part))
    {
        "its certificate is not one for servers".to_owned()
    } else {
        let kind = error.split(|char: char| !char.is_alphanumeric()).next();
        format!("its certificate is not accepted: {}", kind.unwrap_or_default())
    }
}

/// Whether the server answered in something else than TLS.
pub(crate) fn is_not_tls(error: &Error) -> bool {
    matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType))
}

/// The names in a certificate, which rustls shows as `DnsName("example.com")` and `IpAddress(10.1.2.3)`.
fn list(presented: &[String]) -> String {
    const SHOWN: usize = 3;
    let names = presented.iter().map(|name| {
        let inside = name.split_once('(').map_or(name.as_str(), |(_, inside)| inside);
        inside.trim_end_matches(')').trim_matches('"')
    });
    let mut shown = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if presented.is_empty() {
        shown.push_str("no name");
    } else if presented.len() > SHOWN {
        shown.push_str(", …");
    }
    shown
}

fn days(from: UnixTime, to: UnixTime) -> String {
    match to.as_secs().saturating_sub(from.as_secs()) / SECONDS_PER_DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{OtherError, pki_types::ServerName};

    #[test]
    fn no_refusal_of_a_certificate_shows_bytes() {
        let unsupported = || CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![6, 8, 42],
            public_key_algorithm_id: vec![6, 7, 42],
        };
        for (error, expected) in [
            (CertificateError::UnknownIssuer, "an authority that is not trusted here"),
            // The authority has the name of one that is trusted, and another kind of key.
            (unsupported(), "an authority that is not trusted here"),
            (
                CertificateError::UnsupportedSignatureAlgorithmContext {
                    signature_algorithm_id: vec![6, 8, 42],
                    supported_algorithms: Vec::new(),
                },
                "an algorithm that is not accepted",
            ),
            (CertificateError::BadEncoding, "damaged"),
            (
                CertificateError::UnhandledCriticalExtension,
                "UnhandledCriticalExtension",
            ),
            (
                CertificateError::Other(OtherError(Arc::new(std::io::Error::other("CaUsedAsEndEntity")))),
                "CA:FALSE",
            ),
            (
                CertificateError::Other(OtherError(Arc::new(std::io::Error::other(
                    "certificate had invalid extensions",
                )))),
                "not one for servers",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: ServerName::try_from("localhost").unwrap(),
                    presented: vec!["DnsName(\"a.example\")".to_owned(), "IpAddress(10.1.2.3)".to_owned()],
                },
                "is for a.example, 10.1.2.3, and not for localhost",
            ),
        ] {
            let said = describe_certificate(&Error::InvalidCertificate(error)).unwrap();
            assert!(said.contains(expected) && !said.contains('['), "{said}");
        }
    }
}
