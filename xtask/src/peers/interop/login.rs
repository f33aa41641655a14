//! Logins: an authorization server of others, our server that accepts its tokens, and clients that begin without one.

use super::{
    InteropError,
    peer::{self, Peer},
    server_peer::Programs,
};
use crate::peers::node::Node;
use harness::server::Server;
use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
};

/// Who logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginClient {
    /// A client of others.
    Peer(Peer),
    /// The `longhaul` command.
    Command,
}

/// What the access tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    /// The server verifies them by itself.
    Jwt,
    /// The server asks the issuer about them.
    Opaque,
}

/// As whom the server asks about opaque tokens; `authorization_server.mjs` knows it.
const CLIENT_ID: &str = "longhaul";
const CLIENT_SECRET: &str = "the secret of longhaul";

impl LoginClient {
    pub(super) fn name(self, tokens: Tokens) -> String {
        let client = match self {
            Self::Peer(peer) => peer.name(),
            Self::Command => "longhaul".to_owned(),
        };
        let tokens = match tokens {
            Tokens::Jwt => "jwt",
            Tokens::Opaque => "opaque",
        };
        format!("login/{client} {tokens}")
    }

    /// Installs what the client and the authorization server need, and returns the command of the client.
    pub(super) fn command(self) -> Result<Command, InteropError> {
        let scripts = peer::node_scripts("login")?;
        match self {
            Self::Peer(peer) => peer.command(),
            Self::Command => {
                let mut command = Node::install()?.command();
                command.arg(scripts.join("command.mjs"));
                Ok(command)
            }
        }
    }

    /// Starts both servers, and completes the command of the client.
    pub(super) fn connect(
        self,
        tokens: Tokens,
        client: &mut Command,
        programs: &Programs,
        folder: &Path,
    ) -> Result<[Server; 2], InteropError> {
        // The authorization server is told what its tokens are for before that listens.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let url = format!("http://{address}/mcp");
        let mut issuer = Node::install()?.command();
        issuer.arg(peer::node_scripts("login")?.join("authorization_server.mjs"));
        issuer.args(["--resource", &url]);
        if tokens == Tokens::Opaque {
            issuer.arg("--opaque");
        }
        let mut issuer = Server::start(&mut issuer, &folder.join("issuer.log"))?;
        let origin = format!("http://{}", issuer.ready()?);

        let keys = match tokens {
            Tokens::Jwt => format!("jwks = \"{origin}/jwks\""),
            Tokens::Opaque => {
                fs::write(folder.join("secret"), CLIENT_SECRET)?;
                format!(
                    "introspection = \"{origin}/token/introspection\"\nclient_id = \"{CLIENT_ID}\"\nclient_secret_file = \"secret\""
                )
            }
        };
        let config = folder.join("login.toml");
        fs::write(
            &config,
            format!(
                r#"
[server]
name = "login"
listen = "{address}"
public_url = "{url}"
data_dir = "data"
[server.auth]
same_user = false
[[server.auth.issuer]]
issuer = "{origin}"
{keys}
[[tool]]
name = "build"
description = "Builds for two seconds."
task = "optional"
command = ["sh", "-c", "sleep 2; echo done"]
"#
            ),
        )?;
        let mut serve = Command::new(&programs.longhaul);
        let mut server = Server::start(serve.arg("serve").arg(config), &folder.join("server.log"))?;
        server.ready()?;
        client.args(["--url", &url, "--browser", &format!("{origin}/browser")]);
        if self == Self::Command {
            client.arg("--program").arg(&programs.longhaul);
            client.arg("--home").arg(folder.join("homes"));
        }
        Ok([server, issuer])
    }
}
