//! How the gateway logs in at its upstreams.

use crate::{authorization_server::Protected, support::*};
use std::{fs, io::Write, path::Path, process::Stdio};

/// An upstream that lets nobody in without a key of `longhaul keys add`.
fn let_in_by_keys(folder: &Path) {
    let upstream = fs::read_to_string(folder.join("upstream.toml")).unwrap();
    let upstream = upstream.replace(
        "[[tool]]\nname = \"gate\"",
        "[server.auth]\napi_keys = true\nsame_user = false\n\n[[tool]]\nname = \"gate\"",
    );
    fs::write(folder.join("upstream.toml"), upstream).unwrap();
}

/// Keeps a key for this user, or for a principal of the user's server.
fn log_in(folder: &Path, url: &str, key: &str, more: &[&str]) {
    let mut login = longhaul(folder)
        .args(["login", url, "--key"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    login.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    assert!(login.wait().unwrap().success());
}

/// The gateway shows the key that `longhaul login` has kept, and without it the upstream lets nobody in.
#[test]
fn an_upstream_is_logged_in_at_as_the_user_is() {
    let folder = folder();
    let folder = folder.path();
    let_in_by_keys(folder);
    let key = text(&run(folder, &["keys", "add", "upstream.toml", "gateway"]));
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    let refused = text(&run(folder, &["check", "gateway.toml"]));
    assert!(refused.contains("requires a login or a key"), "{refused}");

    let config = fs::read_to_string(folder.join("gateway.toml")).unwrap() + "auth = { login = true }\n";
    fs::write(folder.join("gateway.toml"), config).unwrap();
    log_in(folder, &upstream.url, &key, &[]);
    let gateway = serve(folder, &["gateway.toml"]);
    assert_eq!(text(&run(folder, &["call", &gateway.url, "greet"])), "Hello");
}

/// Each principal is shown to the upstream as itself, and one without a login as nobody.
#[test]
fn each_principal_has_a_login_of_its_own() {
    let folder = folder();
    let folder = folder.path();
    let_in_by_keys(folder);
    let key_of = |file: &str, name: &str| text(&run(folder, &["keys", "add", file, name]));
    let at_upstream = ["gateway", "ann-there"].map(|name| key_of("upstream.toml", name));
    let upstream = serve(folder, &["upstream.toml"]);
    gateway_config(folder, &upstream.url);
    let config = fs::read_to_string(folder.join("gateway.toml")).unwrap()
        + "auth = { login = \"per-principal\" }\n[server.auth]\napi_keys = true\n";
    fs::write(folder.join("gateway.toml"), config).unwrap();
    // The lists are read as the user who runs the gateway.
    log_in(folder, &upstream.url, &at_upstream[0], &[]);
    let keys = ["ann", "bob"].map(|name| key_of("gateway.toml", name));
    let gateway = serve(folder, &["gateway.toml"]);
    let servers = ["ann", "bob"].iter().zip(&keys).map(|(name, key)| {
        format!(
            "[servers.{name}]\nurl = {:?}\nheaders = {{ Authorization = \"Bearer {key}\" }}\n",
            gateway.url
        )
    });
    fs::create_dir_all(folder.join("config/longhaul")).unwrap();
    fs::write(folder.join("config/longhaul/servers.toml"), servers.collect::<String>()).unwrap();
    let greet = |name: &str| {
        let output = run(folder, &["call", name, "greet"]);
        let said = match output.status.success() {
            true => output.stdout,
            false => [output.stdout, output.stderr].concat(),
        };
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };

    let (_, said) = greet("ann");
    let advice = format!(
        "there is no login of `key:ann`; whoever runs this server makes one with `longhaul login {} --for key:ann`",
        upstream.url
    );
    assert!(said.contains(&advice), "{said}");
    log_in(folder, &upstream.url, &at_upstream[1], &["--for", "key:ann"]);
    let known = run(folder, &["whoami", &upstream.url, "--for", "key:ann", "--json"]);
    assert!(text(&known).contains("\"loggedIn\":true"), "{known:?}");
    // The gateway finds it without a restart.
    assert_eq!(greet("ann"), (true, "Hello\n".to_owned()));
    let (is_let_in, said) = greet("bob");
    assert!(!is_let_in && said.contains("there is no login of `key:bob`"), "{said}");

    // That of the user who runs the gateway is still good, and not used for her.
    assert!(
        run(folder, &["keys", "revoke", "upstream.toml", "ann-there"])
            .status
            .success()
    );
    // A call that is running when the key ends says something else.
    until("the key of the upstream to end", || {
        greet("ann").1.contains("it does not accept the login of `key:ann`")
    });
    assert_eq!(text(&run(folder, &["call", &gateway.url, "greet"])), "Hello");
}

/// Without a user: the gateway logs in as a client of its own, again when its token is refused, and not at every start.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_is_logged_in_at_as_a_client_of_its_own() {
    let protected = Protected::start().await;
    let folder = folder();
    let folder = folder.path();
    gateway_config(folder, &protected.url());
    let config = fs::read_to_string(folder.join("gateway.toml")).unwrap()
        + "auth = { client_id = \"gateway\", client_secret = \"${UPSTREAM_SECRET}\" }\n";
    fs::write(folder.join("gateway.toml"), config).unwrap();
    let start = || {
        let mut serving = longhaul(folder);
        serving.env("UPSTREAM_SECRET", "s3cret");
        started(serving, &["gateway.toml"], Stdio::null())
    };
    let logins = || protected.issued(|issued| issued.clients_asked.clone());

    let gateway = start();
    let call = |url: &str| run(folder, &["call", url, "deploy"]);
    text(&call(&gateway.url));
    assert_eq!(logins(), ["gateway s3cret"]);
    protected.issued(|issued| issued.access.clear());
    text(&call(&gateway.url));
    assert_eq!(logins().len(), 2);

    drop(gateway);
    let gateway = start();
    text(&call(&gateway.url));
    assert_eq!(logins().len(), 2, "the token is kept");
    // Apart from what the user has.
    assert!(!folder.join("state/longhaul/.client/tokens.json").exists());
}
