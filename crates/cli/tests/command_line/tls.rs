//! HTTPS: a certificate in the configuration, and the command as its client.

use super::support::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

const TLS: &str = "[server]\ntls = { cert = \"chain.pem\", key = \"key.pem\" }\n";

/// A folder with a configuration, its certificate, and the authority of that in `authority.pem`.
fn folder(server: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("authority.pem", &authority.pem());
    write("chain.pem", &certificate.pem());
    write("key.pem", &key.serialize_pem());
    write(
        "jobs.toml",
        &JOBS.replacen("[server]\n", &format!("{TLS}{server}\n"), 1),
    );
    folder
}

fn file(folder: &Path) -> PathBuf {
    folder.join("jobs.toml")
}

/// The command, which trusts the authority.
fn trusting(folder: &Path, words: &[&str]) -> Command {
    let mut command = longhaul(words);
    command.env("SSL_CERT_FILE", folder.join("authority.pem"));
    command
}

/// A server that is killed with this value.
struct Https {
    child: Child,
    address: SocketAddr,
}

impl Https {
    fn start(folder: &Path, listen: &str) -> Self {
        let (child, address) = serve(folder, listen);
        Self { child, address }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        self.kill();
    }
}

#[test]
fn a_call_over_https_outlives_kill_9() {
    let folder = folder("");
    let folder = folder.path();
    let mut server = Https::start(folder, "127.0.0.1:0");
    let url = format!("https://localhost:{}/mcp", server.address.port());
    let refused = longhaul(&["call", &url, "echo", "words=a"])
        .env("SSL_CERT_FILE", "/dev/null")
        .output()
        .unwrap();
    assert_ne!(exit(&refused), 0, "the certificate is not trusted: {refused:?}");

    let call = trusting(folder, &["call", &url, "gate", "code=0"]).spawn().unwrap();
    let mut call = Waiting::new(call);
    let line = call.line_with("task ");
    assert!(line.contains(&url), "{line}");
    server.kill();
    fs::write(folder.join("gate"), "").unwrap();
    let restarted = Https::start(folder, &server.address.to_string());
    let (status, result, notes) = call.finish();
    assert_eq!((status, result.trim_end()), (0, "through"), "{notes}");
    drop(restarted);
}

#[test]
fn check_and_start_say_that_there_is_tls_and_what_is_wrong_with_it() {
    let good =
        folder("listen = \"0.0.0.0:0\"\npublic_url = \"https://localhost:7411/mcp\"\nauth = { api_keys = true }");
    let path = file(good.path());
    let checked = run(&["check", path.to_str().unwrap()]);
    checked.ends(0).prints("https://0.0.0.0:0/mcp");

    let data = good.path().join("data");
    let words = ["serve", path.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let mut child = longhaul(&words).stdout(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|line| line.contains(" serves "));
    assert!(line.is_some_and(|line| line.contains("https://0.0.0.0:")));
    let lock = fs::read_to_string(data.join("lock")).unwrap();
    assert!(lock.contains("https://0.0.0.0:"), "{lock}");
    child.kill().unwrap();
    child.wait().unwrap();

    let other = folder("");
    fs::copy(other.path().join("key.pem"), good.path().join("key.pem")).unwrap();
    for words in [&words[..], &["check", path.to_str().unwrap()]] {
        let refused = run(words);
        refused.ends(2).says("jobs.toml:3: the key in ");
        refused.says("is not that of the first certificate in");
    }
}
