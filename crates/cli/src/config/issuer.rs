//! The `[[server.auth.issuer]]` sections: whose tokens are accepted.

use super::{
    paths::Environment,
    section::{Entry, Section},
};
use longhaul::auth::oauth::{Introspection, Issuer, IssuerError, OAuthAuthenticator, Scopes};
use longhaul_client::LoginOptions;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Reads an element of the array; `None` after a problem.
pub(super) fn read(section: &Section<'_>, environment: &Environment) -> Option<Issuer> {
    let name = section.require("issuer").and_then(|entry| {
        let name = entry.text()?;
        if !LoginOptions::can_choose(name) {
            entry.warn(format!(
                "`issuer`: {name} is an address of a private network; many clients follow no server there, and cannot log in: name it by a host name, here and in its tokens"
            ));
        }
        Some(name)
    });
    let jwks = section.optional("jwks", |entry| {
        let text = entry.text_like("a URL or the path of a file")?;
        match text.contains("://") {
            true => Some(text.to_owned()),
            false => {
                let file = path(&entry, section, environment)?;
                if is_permitted_to_others(&file, 0o002) {
                    entry.warn(format!(
                        "`jwks`: every user of this machine can put a key into {}, and make tokens with it: take the permission away with `chmod o-w`",
                        file.display()
                    ));
                }
                file.to_str().map(str::to_owned)
            }
        }
    });
    let introspection = section.optional("introspection", |entry| entry.text().map(str::to_owned));
    let client_id = section.optional("client_id", |entry| entry.filled_text().map(str::to_owned));
    let client_secret = section.optional("client_secret_file", |entry| {
        let file = path(&entry, section, environment)?;
        if is_permitted_to_others(&file, 0o006) {
            entry.warn(format!(
                "`client_secret_file`: every user of this machine can read or replace {}: take the permission away with `chmod o-rw`",
                file.display()
            ));
        }
        let secret = fs::read_to_string(&file);
        let secret = secret.map_err(|error| entry.report(format!("`client_secret_file`: {}: {error}", file.display())));
        Some(secret.ok()?.trim_end().to_owned())
    });
    let scopes = section.get_or("scopes", Scopes::default(), scopes);
    section.finish();

    let (name, introspection, client_id, client_secret) = (name?, introspection?, client_id?, client_secret?);
    let (jwks, scopes) = (jwks?, scopes?);
    let build = || -> Result<Issuer, IssuerError> {
        let mut issuer = Issuer::new(name)?.scopes(scopes);
        if let Some(jwks) = jwks {
            issuer = issuer.jwks(&jwks)?;
        }
        if let (Some(url), Some(id), Some(secret)) = (&introspection, &client_id, &client_secret) {
            issuer = issuer.introspection(Introspection::new(url, id, secret)?);
        }
        OAuthAuthenticator::check_key_file(&issuer)?;
        Ok(issuer)
    };
    let given = [introspection.is_some(), client_id.is_some(), client_secret.is_some()];
    if given.contains(&true) && given.contains(&false) {
        section.report(
            "`introspection`, `client_id` and `client_secret_file` belong together: as whom the server asks the issuer about tokens".to_owned(),
        );
        return None;
    }
    build().map_err(|error| section.report(error.to_string())).ok()
}

/// Whether users who are neither its owner nor of its group may do something of `mode` with a file.
#[cfg(unix)]
fn is_permitted_to_others(file: &Path, mode: u32) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file).is_ok_and(|file| file.permissions().mode() & mode != 0)
}

#[cfg(not(unix))]
fn is_permitted_to_others(_: &Path, _: u32) -> bool {
    false
}

fn path(entry: &Entry<'_>, section: &Section<'_>, environment: &Environment) -> Option<PathBuf> {
    let path = environment.resolve(entry.text()?, section.file().folder());
    path.map_err(|error| entry.report(format!("`{}`: {error}", entry.key())))
        .ok()
}

/// `false`, or what each scope of the issuer permits.
fn scopes(entry: Entry<'_>) -> Option<Scopes> {
    const EXPECTED: &str = "false, or a table such as { \"their:scope\" = [\"tools:*\", \"tasks:write\"] }";
    if entry.is_false() {
        return Some(Scopes::Everything);
    }
    let mut mapped = Some(BTreeMap::new());
    for (scope, grants) in entry.pairs(EXPECTED)? {
        let parse = |(entry, text): (Entry<'_>, &str)| {
            let grant = text.parse();
            grant.map_err(|error| entry.report(format!("`scopes`: {error}"))).ok()
        };
        // All of them first, so that every mistake is reported.
        let grants: Option<Vec<_>> = grants.texts().map(|texts| texts.into_iter().map(parse).collect());
        match (&mut mapped, grants.and_then(|grants| grants.into_iter().collect())) {
            (Some(mapped), Some(grants)) => drop(mapped.insert(scope.to_owned(), grants)),
            _ => mapped = None,
        }
    }
    mapped.map(Scopes::Mapped)
}
