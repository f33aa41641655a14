//! TLS to the database.

use crate::server::Server;
use longhaul_store_postgres::{DatabaseReport, PostgresOpenError, PostgresOptions, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

/// An authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate of these names, or for a client, and its key.
    fn issue(&self, names: &[&str], client: Option<&str>, folder: &Path, file: &str) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        if let Some(client) = client {
            params.distinguished_name.push(DnType::CommonName, client);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        write(&folder.join(format!("{file}.crt")), &certificate.pem());
        write(&folder.join(format!("{file}.key")), &key.serialize_pem());
    }
}

/// PostgreSQL refuses keys that everybody can read.
fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

async fn inspect(address: &str) -> Result<DatabaseReport, PostgresOpenError> {
    PostgresStore::inspect(address, PostgresOptions::default()).await
}

/// What keeps a server from using this address.
async fn refusal(address: &str) -> String {
    inspect(address).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sslmode_is_what_libpq_says() {
    let folder = tempfile::Builder::new().prefix("lh-tls").tempdir_in("/tmp").unwrap();
    let files = folder.path();
    // PostgreSQL, which may run as another user, reads some of them.
    fs::set_permissions(files, fs::Permissions::from_mode(0o755)).unwrap();
    let (authority, stranger) = (Authority::new("ours"), Authority::new("another"));
    fs::write(files.join("root.crt"), authority.0.pem()).unwrap();
    fs::write(files.join("other.crt"), stranger.0.pem()).unwrap();
    fs::set_permissions(files.join("root.crt"), fs::Permissions::from_mode(0o644)).unwrap();
    authority.issue(&["localhost"], None, files, "server");
    authority.issue(&[], Some("certified"), files, "client");
    if rustix::process::geteuid().is_root() {
        for file in ["server.crt", "server.key"] {
            std::os::unix::fs::chown(files.join(file), Some(65_534), Some(65_534)).unwrap();
        }
    }
    let path = |file: &str| files.join(file).display().to_string();
    let settings = [
        ("ssl", "on"),
        ("ssl_cert_file", &*path("server.crt")),
        ("ssl_key_file", &path("server.key")),
        ("ssl_ca_file", &path("root.crt")),
    ];
    let access = "hostssl all certified 127.0.0.1/32 cert\nhostnossl all all 127.0.0.1/32 reject";
    let server = Server::private_with(&settings, access).await;
    let at = |host: &str, query: &str| format!("postgres://longhaul@{host}:{}/postgres?{query}", server.port());
    let root = format!("sslrootcert={}", path("root.crt"));
    let other = format!("sslrootcert={}", path("other.crt"));

    for (host, query) in [
        ("localhost", "sslmode=prefer".to_owned()),
        ("localhost", "sslmode=require".to_owned()),
        ("localhost", format!("sslmode=verify-full&{root}")),
        ("localhost", root.clone()),
        ("127.0.0.1", format!("sslmode=verify-ca&{root}")),
        ("127.0.0.1", format!("sslmode=require&{root}")),
        // The certificate of the server itself.
        ("localhost", format!("sslrootcert={}", path("server.crt"))),
    ] {
        inspect(&at(host, &query))
            .await
            .unwrap_or_else(|error| panic!("{query}: {error}"));
    }
    for (host, query, wanted) in [
        ("localhost", "sslmode=disable".to_owned(), "pg_hba.conf"),
        (
            "127.0.0.1",
            format!("sslmode=verify-full&{root}"),
            "its certificate is for DnsName(\"localhost\"), and not for 127.0.0.1",
        ),
        (
            "localhost",
            format!("sslmode=verify-full&{other}"),
            "name a file with that authority's certificate in `sslrootcert`",
        ),
        (
            "localhost",
            format!("sslmode=verify-ca&{other}"),
            "name a file with that authority's certificate",
        ),
        (
            "localhost",
            format!("sslmode=require&{other}"),
            "name a file with that authority's certificate",
        ),
        (
            "localhost",
            "sslmode=verify-full".to_owned(),
            "name a file with that authority's certificate",
        ),
        (
            "localhost",
            "sslmode=verify-ca".to_owned(),
            "`sslmode=verify-ca` needs `sslrootcert`",
        ),
        (
            "localhost",
            "sslrootcert=/nowhere/root.crt".to_owned(),
            "`sslrootcert`: /nowhere/root.crt cannot be read",
        ),
        (
            "localhost",
            format!("sslrootcert={}", path("client.key")),
            "has no certificate in PEM",
        ),
    ] {
        let said = refusal(&at(host, &query)).await;
        assert!(said.contains(wanted), "{query}: {said}");
    }

    // A whole store, its events included, and one that proves who it is by a certificate.
    let schema = crate::server::Schema {
        address: server.address.clone(),
        name: format!("longhaul_test_{:016x}", fastrand::u64(..)),
    };
    let store = PostgresStore::open(&at("localhost", &root), schema.options())
        .await
        .unwrap();
    let node = crate::tasks::open_node(&store, "here").await;
    longhaul_core::store::TaskStore::create(&store, crate::tasks::new_task("a", node))
        .await
        .unwrap();
    let (client, connection) = tokio_postgres::connect(&server.address, tokio_postgres::NoTls)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let without_tls = "SELECT count(*) FILTER (WHERE NOT ssl), count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'longhaul%'";
    let listens = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'longhaul events'";
    while client.query_one(listens, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    let counts = client.query_one(without_tls, &[]).await.unwrap();
    assert_eq!(counts.get::<_, i64>(0), 0);
    assert!(counts.get::<_, i64>(1) >= 2);
    client.batch_execute("CREATE ROLE certified LOGIN").await.unwrap();
    connection.abort();
    let certified = |query: &str| {
        format!(
            "postgres://certified@localhost:{}/postgres?{root}{query}",
            server.port()
        )
    };
    let files = format!("&sslcert={}&sslkey={}", path("client.crt"), path("client.key"));
    // It is admitted, and has no rights.
    assert!(matches!(
        inspect(&certified(&files)).await,
        Err(PostgresOpenError::Rights { .. })
    ));
    let said = refusal(&certified("")).await;
    assert!(said.contains("certificate"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_told_from_one_that_is_away() {
    let server = Server::private().await;
    let at = |query: &str| format!("postgres://longhaul@127.0.0.1:{}/postgres{query}", server.port());
    inspect(&at("")).await.unwrap();
    inspect(&at("?sslmode=prefer")).await.unwrap();
    let said = refusal(&at("?sslmode=require")).await;
    assert!(
        said.contains("its server has no TLS") && !said.contains("does not answer"),
        "{said}"
    );
    let warned = inspect(&at("")).await.unwrap().warnings;
    assert!(warned.is_empty(), "{warned:?}");
}
