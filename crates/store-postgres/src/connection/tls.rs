//! TLS to the database, as libpq's `sslmode` has it.

use crate::PostgresOpenError;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use rustls_platform_verifier::Verifier;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// libpq's name for the certificates of the system.
const SYSTEM: &str = "system";

/// Whether connections use TLS, and how the database proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS if the server has it, of whoever it is.
    Prefer,
    /// TLS with whoever it is; with a root certificate as `VerifyCa`.
    Require,
    /// With one that has a certificate of an authority.
    VerifyCa,
    /// And for the name of the host.
    VerifyFull,
}

impl TlsMode {
    const ALL: [Self; 5] = [
        Self::Disable,
        Self::Prefer,
        Self::Require,
        Self::VerifyCa,
        Self::VerifyFull,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    pub(crate) fn read(word: &str) -> Result<Self, PostgresOpenError> {
        let found = Self::ALL.into_iter().find(|mode| mode.word() == word);
        found.ok_or(PostgresOpenError::Option(
            "`sslmode` in the address of the PostgreSQL database must be disable, prefer, require, verify-ca or verify-full",
        ))
    }
}

/// The files that an address names.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    /// Certificates of authorities, or the server's own.
    pub(crate) root: Option<PathBuf>,
    /// The certificate of this client, and those of its authorities.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// What makes TLS of a connection.
pub(crate) fn connector(mode: TlsMode, files: &TlsFiles) -> Result<MakeRustlsConnect, PostgresOpenError> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match mode {
        TlsMode::Disable | TlsMode::Prefer => Arc::new(AnyCertificateVerifier(provider.clone())),
        TlsMode::Require if files.root.is_none() => Arc::new(AnyCertificateVerifier(provider.clone())),
        TlsMode::Require | TlsMode::VerifyCa => roots(files, false, &provider)?,
        TlsMode::VerifyFull => roots(files, true, &provider)?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresOpenError::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates("sslcert", certificate)?;
            let read = PrivateKeyDer::from_pem_file(key);
            let key = read.map_err(|error| unreadable("sslkey", key, &error))?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| PostgresOpenError::Tls(format!("`sslcert` and `sslkey` cannot be used: {error}")))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The verifier that trusts the root certificates of an address, or those of the system.
fn roots(
    files: &TlsFiles,
    with_name: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, PostgresOpenError> {
    let Some(file) = files.root.as_deref().filter(|file| *file != Path::new(SYSTEM)) else {
        if !with_name {
            return Err(PostgresOpenError::Tls(
                "`sslmode=verify-ca` needs `sslrootcert`, a file with the certificate of your authority: everybody can get a certificate of a public \
                 one; or write `sslmode=verify-full`"
                    .to_owned(),
            ));
        }
        let verifier = Verifier::new(provider.clone());
        let verifier = verifier.map_err(|error| {
            PostgresOpenError::Tls(format!("the certificates of this system cannot be used: {error}"))
        })?;
        return Ok(Arc::new(verifier));
    };
    let trusted = certificates("sslrootcert", file)?;
    let mut store = RootCertStore::empty();
    for certificate in &trusted {
        let added = store.add(certificate.clone());
        added.map_err(|error| PostgresOpenError::Tls(format!("`sslrootcert`: {}: {error}", file.display())))?;
    }
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build();
    let inner = inner.map_err(|error| PostgresOpenError::Tls(format!("`sslrootcert`: {}: {error}", file.display())))?;
    Ok(Arc::new(FromFile {
        inner,
        trusted,
        with_name,
    }))
}

fn certificates(key: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, PostgresOpenError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(key, file, &error))?;
    match found.is_empty() {
        true => Err(PostgresOpenError::Tls(format!(
            "`{key}`: {} has no certificate in PEM",
            file.display()
        ))),
        false => Ok(found),
    }
}

fn unreadable(key: &str, file: &Path, error: &rustls::pki_types::pem::Error) -> PostgresOpenError {
    let why = match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => "it has none in PEM".to_owned(),
        error => error.to_string(),
    };
    PostgresOpenError::Tls(format!("`{key}`: {} cannot be read: {why}", file.display()))
}

/// Trusts the certificates of a file, and what they have issued.
#[derive(Debug)]
struct FromFile {
    inner: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
    with_name: bool,
}

impl ServerCertVerifier for FromFile {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = (self.inner).verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(Error::InvalidCertificate(fault)) = &verified else {
            return verified;
        };
        match fault {
            // The name comes last: the chain is sound.
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } if !self.with_name => {
                Ok(ServerCertVerified::assertion())
            }
            // The server's own certificate, which `openssl req -x509` makes one of an authority. Its time is checked before this.
            CertificateError::Other(_) | CertificateError::UnknownIssuer
                if self.trusted.iter().any(|one| one == end_entity) =>
            {
                if self.with_name {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            _ => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Takes any certificate, if only its key is the server's.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
