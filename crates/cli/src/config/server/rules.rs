//! What must hold across the keys of `[server]`, and what is probably a mistake. A key with a mistake of its own breaks no rule.

use super::{Listen, Way, admits_same_user, auth::UNAUTHENTICATED, check_exposure, keys::ServerKeys};
use longhaul::auth::oauth::OAuthAuthenticator;
use longhaul_server::http::TrustedProxy;

const NO_HOST_NAME: &str = "requests that name this server by a host name get 403: set public_url, or allowed_hosts";

impl ServerKeys<'_> {
    /// Reports what breaks a rule.
    pub(super) fn check(&self) {
        self.check_socket_mode();
        self.check_public_url();
        self.check_issuers();
        self.check_listen();
        self.check_access();
        self.check_proxies();
    }

    /// Whether the server knows a host name of its own.
    fn is_named(&self) -> bool {
        self.public_url.as_ref().is_none_or(Option::is_some)
            || self.allowed_hosts.as_ref().is_none_or(|hosts| !hosts.is_empty())
    }

    fn check_socket_mode(&self) {
        let Some(entry) = self.section.get("socket_mode") else {
            return;
        };
        match (&self.listen, &self.auth, self.socket_mode) {
            (Some(Listen::Address(_)), ..) => {
                entry.warn("`socket_mode` means something only with `listen = \"unix:…\"`".to_owned());
            }
            (Some(Listen::Unix(_)), Some(auth), Some(mode)) if auth.unauthenticated => {
                if let Some(who) = others_that_may_connect(mode) {
                    entry.warn(format!(
                        "`socket_mode`: {who} may call every tool, since `unauthenticated` asks nobody for credentials"
                    ));
                }
            }
            _ => {}
        }
    }

    fn check_public_url(&self) {
        let (Some(Some(url)), Some(Some(tls))) = (&self.public_url, &self.tls) else {
            return;
        };
        if let Some(entry) = self
            .section
            .get("public_url")
            .filter(|_| url.as_str().starts_with("http:"))
        {
            entry.warn(
                "`public_url` begins with http:// and the server has TLS: clients that use this address cannot connect, and tokens are for it. Write https://"
                    .to_owned(),
            );
        }
        // Behind a proxy clients see another certificate.
        if (self.trusted_proxies.as_ref()).is_some_and(Vec::is_empty)
            && let Some(entry) = self.section.get("tls")
            && let Some(other) = tls.describe_other_host(url.host())
        {
            entry.warn(format!(
                "{other}, and `public_url` is {}: clients refuse it",
                url.as_str()
            ));
        }
    }

    fn check_issuers(&self) {
        if let (Some(auth), Some(Some(public_url)), Some(entry)) =
            (&self.auth, &self.public_url, self.section.get("auth"))
            && !auth.issuers.is_empty()
        {
            let checked = OAuthAuthenticator::check(public_url.as_str(), &auth.issuers);
            checked.unwrap_or_else(|error| entry.report(format!("[[server.auth.issuer]]: {error}")));
        }
    }

    fn check_listen(&self) {
        let (Some(listen), Some(auth), Some(entry)) = (&self.listen, &self.auth, self.section.get("listen")) else {
            return;
        };
        if let Some(plain_http) = self.plain_http {
            // A mistake in the section is one already.
            let proxies = self.trusted_proxies.as_deref();
            let way = Way {
                has_tls: self.tls.as_ref().is_none_or(Option::is_some),
                has_proxies: proxies.is_none_or(|proxies| !proxies.is_empty()),
                has_everyone_as_proxy: proxies.is_some_and(TrustedProxy::are_everyone),
                plain_http,
            };
            if let Listen::Unix(path) = listen
                && let Some(folder) = path.parent().filter(|folder| !folder.is_dir())
                && !matches!(&self.data_dir, Some(Ok(data_dir)) if data_dir == folder)
            {
                // A service manager may make it when it starts the server.
                let folder = folder.display();
                entry.warn(format!(
                    "`listen`: there is no folder {folder}; it must be there when the server starts"
                ));
            }
            if matches!(listen, Listen::Unix(_)) && self.section.get("tls").is_some() {
                let message = "`listen`: a Unix socket has no TLS: remove [server.tls], or listen on an address";
                entry.report(message.to_owned());
            }
            match check_exposure(listen, auth, way) {
                Ok(warnings) => warnings.into_iter().for_each(|warning| entry.warn(warning)),
                Err(error) => entry.report(format!("`listen`: {error}")),
            }
            if listen.is_exposed() && !self.is_named() {
                entry.warn(NO_HOST_NAME.to_owned());
            }
        }
        if auth.same_user == Some(true) && !admits_same_user(listen, &[]) {
            entry.warn(
                "`same_user = true` means nothing here: only programs that connect to a loopback address are told apart by their user, and this address is none"
                    .to_owned(),
            );
        }
    }

    fn check_access(&self) {
        let (Some(listen), Some(auth), Some(entry)) = (&self.listen, &self.auth, self.section.get("auth")) else {
            return;
        };
        if listen.is_exposed() {
            return;
        }
        if auth.same_user == Some(false) && !auth.admits_remote() {
            entry.report(format!(
                "`same_user = false` alone leaves nobody who may come in: add `api_keys = true` or an [[server.auth.issuer]], remove it, or say `unauthenticated = \"{UNAUTHENTICATED}\"`"
            ));
        } else if auth.unauthenticated && listen.address().is_some() {
            entry.warn("every user of this machine may call every tool".to_owned());
        }
    }

    fn check_proxies(&self) {
        let (Some(listen), Some(auth), Some(proxies)) = (&self.listen, &self.auth, &self.trusted_proxies) else {
            return;
        };
        let Some(entry) = self.section.get("trusted_proxies") else {
            return;
        };
        // A proxy passes on the name by which it was reached.
        if !proxies.is_empty() && !self.is_named() && !listen.is_exposed() {
            entry.warn(NO_HOST_NAME.to_owned());
        }
        for wide in proxies.iter().filter(|proxy| proxy.is_wide()) {
            entry.warn(format!(
                "`trusted_proxies`: {wide} has addresses of strangers, who can say there which address theirs is"
            ));
        }
        let has_loopback = admits_same_user(listen, &[]);
        if auth.same_user != Some(false) && !auth.unauthenticated && has_loopback && !admits_same_user(listen, proxies)
        {
            let nobody = match auth.admits_remote() {
                true => "",
                false => ", and so nobody is served",
            };
            entry.warn(format!(
                "`trusted_proxies`: no program of this machine can be taken for one of this user, since its requests come from the address of a proxy{nobody}"
            ));
        }
    }
}

/// Who beside this user may connect to a Unix socket whose file has this mode: those who may write to it.
fn others_that_may_connect(mode: u32) -> Option<&'static str> {
    match (mode & 0o020 != 0, mode & 0o002 != 0) {
        (_, true) => Some("every user of this machine"),
        (true, false) => Some("every user of the socket's group"),
        (false, false) => None,
    }
}
