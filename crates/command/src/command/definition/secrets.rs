//! Arguments that are secret: where they may stand, and what a command gets of them.

use super::{
    CommandDefinition,
    template::{Template, ValueForm},
};

/// A secret argument where others can see it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: `{name}` is secret, and {why}; pass it in `env`, in `stdin`, or as a file, `{{{name}:file}}`")]
pub struct ExposedSecret {
    /// Where it stands.
    pub place: String,
    /// The argument.
    pub name: String,
    /// Who would see it.
    pub why: &'static str,
}

/// Who sees the words of a command.
pub const SHOWN_BY_PS: &str = "every user of this machine sees the command line, as `ps` shows it";
const SHOWN_AS_FOLDER: &str = "every user of this machine may see in which folder a command runs";

impl CommandDefinition {
    /// The first secret in the command line or the folder.
    pub(super) fn exposed_secret(&self) -> Option<ExposedSecret> {
        let exposed = |place: String, name: &str, why| ExposedSecret {
            place,
            name: name.to_owned(),
            why,
        };
        for (index, element) in self.command.iter().enumerate().skip(1) {
            for (_, text) in element.parts() {
                let template = Template::parse(text).unwrap_or_default();
                let mut placeholders = template.placeholders();
                let found = placeholders
                    .find(|found| found.form != ValueForm::File && self.secrets.contains(found.name))
                    .map(|found| exposed(format!("`command` element {}", index + 1), found.name, SHOWN_BY_PS));
                if found.is_some() {
                    return found;
                }
            }
        }
        let folder = Template::parse(self.cwd_template.as_deref()?).ok()?;
        let name = folder.properties().find(|name| self.secrets.contains(*name))?;
        Some(exposed("`cwd`".to_owned(), name, SHOWN_AS_FOLDER))
    }

    /// Whether a secret stands in this text.
    pub(super) fn has_secret(&self, template: &Template) -> bool {
        template.properties().any(|name| self.secrets.contains(name))
    }
}
