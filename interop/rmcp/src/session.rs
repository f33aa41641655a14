//! A session with the server under test.

use crate::{steps::Deviation, user::User};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient,
    service::RunningService,
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};

/// A session with the server.
pub(crate) type Session = RunningService<RoleClient, User>;

/// How to reach the server.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Server {
    /// Its endpoint
    #[arg(long)]
    url: Option<String>,
    /// The program and its arguments
    #[arg(long, num_args = 1.., allow_hyphen_values = true)]
    stdio: Vec<String>,
}

impl Server {
    /// Its endpoint, over HTTP.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Connects as `user`; `lifecycle` decides the protocol era.
    pub(crate) async fn connect(&self, user: User, lifecycle: ClientLifecycleMode) -> Result<Session, Deviation> {
        if let Some(url) = &self.url {
            let transport = StreamableHttpClientTransport::from_uri(url.as_str());
            return Ok(user.serve_with_lifecycle(transport, lifecycle).await?);
        }
        let (program, arguments) = self.stdio.split_first().ok_or("no program")?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments);
        Ok(user
            .serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle)
            .await?)
    }
}
