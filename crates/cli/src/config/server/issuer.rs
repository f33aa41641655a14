//! The `[[server.auth.issuer]]` sections: whose tokens are accepted.

use crate::config::{
    paths::{Environment, is_permitted_to_others},
    section::{Entry, Section},
};
use longhaul::auth::{
    Grant,
    oauth::{Introspection, Issuer, IssuerError, KeySource, OAuthAuthenticator, Scopes},
};
use longhaul_client::LoginOptions;
use longhaul_core::ToolPattern;
use std::{collections::BTreeMap, path::PathBuf};

/// A pattern of tools in a table of scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopePattern {
    pub(crate) line: usize,
    pub(crate) pattern: ToolPattern,
}

/// Reads an element of the array, and adds the patterns in it to `patterns`; `None` after a problem.
pub(crate) fn read(
    section: &Section<'_>,
    environment: &Environment,
    patterns: &mut Vec<ScopePattern>,
) -> Option<Issuer> {
    let mut shown_name = "without a name";
    let issuer = section.require("issuer").and_then(|entry| {
        let name = entry.text()?;
        shown_name = name;
        if !LoginOptions::can_choose(name) {
            entry.warn(format!(
                "`issuer`: {name} is an address of a private network; many clients follow no server there, and cannot log in: name it by a host name, here and in its tokens"
            ));
        }
        accepted(&entry, Issuer::new(name))
    });
    let jwks = section.optional("jwks", |entry| {
        let text = entry.text_like("a URL or the path of a file")?;
        let source = match text.contains("://") {
            true => accepted(entry, text.parse())?,
            false => {
                let file = path(entry, section, environment)?;
                if is_permitted_to_others(&file, 0o002) {
                    entry.warn(format!(
                        "`jwks`: every user of this machine can put a key into {}, and make tokens with it: take the permission away with `chmod o-w`",
                        file.display()
                    ));
                }
                KeySource::File(file)
            }
        };
        accepted(entry, OAuthAuthenticator::check_key_file(shown_name, &source))?;
        Some(source)
    });
    let client_id = section.optional_text("client_id");
    let client_secret = section.optional("client_secret_file", |entry| {
        let file = path(entry, section, environment)?;
        if is_permitted_to_others(&file, 0o006) {
            entry.warn(format!(
                "`client_secret_file`: every user of this machine can read or replace {}: take the permission away with `chmod o-rw`",
                file.display()
            ));
        }
        let secret = longhaul_private_dir::read_named_text(&file);
        let secret = secret.map_err(|error| entry.report(format!("`client_secret_file`: {}: {error}", file.display())));
        Some(secret.ok()?.trim_end().to_owned())
    });
    let introspection = section.optional("introspection", |entry| {
        let text = |read: &Option<Option<String>>| read.clone().flatten().unwrap_or_default();
        accepted(
            entry,
            Introspection::new(entry.text()?, text(&client_id), text(&client_secret)),
        )
    });
    let scopes = section.get_or("scopes", Scopes::default(), |entry| scopes(entry, patterns));
    section.finish();

    let has = |key: &'static str| section.get(key).is_some();
    let given = ["introspection", "client_id", "client_secret_file"].map(has);
    let is_whole = !given.contains(&true) || !given.contains(&false);
    if !is_whole {
        section.report(
            "`introspection`, `client_id` and `client_secret_file` belong together: as whom the server asks the issuer about tokens".to_owned(),
        );
    }
    if !has("jwks") && !has("introspection") {
        section.report(IssuerError::NoVerification(shown_name.to_owned()).to_string());
        return None;
    }
    let (mut issuer, introspection, _, _) = (issuer?.scopes(scopes?), introspection?, client_id?, client_secret?);
    if let Some(source) = jwks? {
        issuer = issuer.keys(source);
    }
    if let Some(introspection) = introspection {
        issuer = issuer.introspection(introspection);
    }
    is_whole.then_some(issuer)
}

/// What was made of an entry's value.
fn accepted<T>(entry: &Entry<'_>, made: Result<T, IssuerError>) -> Option<T> {
    made.map_err(|error| entry.report(error.to_string())).ok()
}

fn path(entry: &Entry<'_>, section: &Section<'_>, environment: &Environment) -> Option<PathBuf> {
    let path = environment.resolve(entry.text()?, section.file().folder());
    path.map_err(|error| entry.report(format!("`{}`: {error}", entry.key())))
        .ok()
}

/// `false`, or what each scope of the issuer permits.
fn scopes(entry: &Entry<'_>, patterns: &mut Vec<ScopePattern>) -> Option<Scopes> {
    const EXPECTED: &str = "false, or a table such as { \"their:scope\" = [\"tools:*\", \"tasks:write\"] }";
    if entry.is_false() {
        return Some(Scopes::Everything);
    }
    let mut mapped = Some(BTreeMap::new());
    let pairs = entry.pairs(EXPECTED)?;
    if pairs.is_empty() {
        entry.warn("`scopes` has no scope, so no token of this issuer permits anything".to_owned());
    }
    for (scope, grants) in pairs {
        let mut parse = |(entry, text): (Entry<'_>, &str)| {
            let grant = text.parse();
            let grant = grant.map_err(|error| entry.report(format!("`scopes`: {error}"))).ok()?;
            if let Grant::Tools(pattern) = &grant {
                patterns.push(ScopePattern {
                    line: entry.line(),
                    pattern: pattern.clone(),
                });
            }
            Some(grant)
        };
        // All of them first, so that every mistake is reported.
        let grants: Option<Vec<_>> = grants.texts().map(|texts| texts.into_iter().map(&mut parse).collect());
        match (&mut mapped, grants.and_then(|grants| grants.into_iter().collect())) {
            (Some(mapped), Some(grants)) => drop(mapped.insert(scope.to_owned(), grants)),
            _ => mapped = None,
        }
    }
    mapped.map(Scopes::Mapped)
}
