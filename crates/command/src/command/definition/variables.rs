//! The variables of a command whose values are made of the caller's arguments.

use super::{
    CommandDefinition,
    argument_error::CommandArgumentError,
    arguments::{ArgumentValue, Arguments},
    script::HarmlessValues,
    template::{Rules, Template},
};
use std::collections::BTreeMap;

/// Variables by which programs load code, find programs, or take options and settings that name programs. In capitals: some programs read them in any case.
const LOAD_CODE: &str = "\
    ANSIBLE_CONFIG AWKLIBPATH AWKPATH AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE BASHOPTS BASH_ENV BROWSER BUNDLE_GEMFILE CC CFLAGS CLASSPATH CXX \
    CXXFLAGS DOCKER_CONFIG DOTNET_STARTUP_HOOKS EDITOR EMACSLOADPATH ENV ERL_AFLAGS ERL_FLAGS ERL_LIBS ERL_ZFLAGS EXINIT FPATH GCONV_PATH \
    GDK_PIXBUF_MODULE_FILE GEM_HOME GEM_PATH GIO_EXTRA_MODULES GIO_MODULE_DIR GIT_ASKPASS GIT_DIR GIT_EDITOR GIT_EXEC_PATH GIT_EXTERNAL_DIFF GIT_PAGER \
    GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_TEMPLATE_DIR GNUMAKEFLAGS GOFLAGS GOROOT GRADLE_OPTS GTK_MODULES GTK_PATH HOME \
    JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS KUBECONFIG LESSCLOSE LESSOPEN MAKEFILES MAKEFLAGS MANPAGER MAVEN_OPTS MFLAGS MYSQL_HOME NODE_OPTIONS \
    NODE_PATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES PAGER PATH PERL5DB PERL5LIB PERL5OPT PERLLIB PHPRC PHP_INI_SCAN_DIR PROMPT_COMMAND PS4 PSQLRC \
    PSQL_EDITOR PSQL_PAGER QT_PLUGIN_PATH RSYNC_RSH RUBYLIB RUBYOPT RUSTC RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER RUSTDOC RUSTFLAGS R_ENVIRON R_ENVIRON_USER \
    R_LIBS R_LIBS_USER R_PROFILE R_PROFILE_USER SHELL SHELLOPTS SSH_ASKPASS SUDO_ASKPASS TAR_OPTIONS TCLLIBPATH VIM VIMINIT VISUAL XDG_CONFIG_DIRS \
    XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME ZDOTDIR ZSH_ENV _JAVA_OPTIONS";
/// What the names of further ones begin with.
const LOAD_CODE_PREFIXES: &str = "\
    ANSIBLE_ BASH_FUNC_ CARGO_ CORECLR_ COR_ DYLD_ GIT_CONFIG LD_ LUA_CPATH LUA_INIT LUA_PATH NPM_CONFIG_ PIP_ PYTHON UV_";

/// A placeholder in a variable by which a caller could make programs run code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{{{property}}}` stands in a variable by which programs find or load code, so a caller could run any code; name the values it may have with `enum`, or pass it \
     in another variable; `allow_placeholders_in_scripts = true` accepts it as it is"
)]
pub struct CodeVariablePlaceholder {
    /// The variable.
    pub variable: String,
    /// The property.
    pub property: String,
}

/// The placeholder of a variable that a caller could run code by, if it has one. A text that is no template has none.
pub fn placeholder_in_code_variable(
    variable: &str,
    text: &str,
    harmless: &HarmlessValues,
) -> Option<CodeVariablePlaceholder> {
    let name = variable.to_ascii_uppercase();
    let loads_code = LOAD_CODE.split(' ').any(|variable| variable == name)
        || LOAD_CODE_PREFIXES.split(' ').any(|prefix| name.starts_with(prefix));
    if !loads_code {
        return None;
    }
    let template = Template::parse(text).ok()?;
    let property = template
        .properties()
        .find(|property| !harmless.fixed.contains(*property))?;
    Some(CodeVariablePlaceholder {
        variable: variable.to_owned(),
        property: property.to_owned(),
    })
}

impl CommandDefinition {
    /// The first placeholder in a variable that programs load code by.
    pub(super) fn code_variable_placeholder(&self, harmless: &HarmlessValues) -> Option<CodeVariablePlaceholder> {
        let mut variables = self.env_templates.iter();
        variables.find_map(|(name, text)| placeholder_in_code_variable(name, text, harmless))
    }
}

/// The variables that have values: one that is nothing but a placeholder without a value is left out.
pub(super) fn expand(
    templates: &BTreeMap<String, Template>,
    arguments: &Arguments<'_>,
    rules: &Rules<'_>,
) -> Result<BTreeMap<String, String>, CommandArgumentError> {
    let mut variables = BTreeMap::new();
    for (name, template) in templates {
        let value = template.expand_text(arguments, rules)?;
        let is_left_out =
            template.placeholders().any(|placeholder| placeholder.is_whole) && has_absent(template, arguments)?;
        if !is_left_out {
            variables.insert(name.clone(), value);
        }
    }
    Ok(variables)
}

/// Whether a property in the template has no value.
pub(super) fn has_absent(template: &Template, arguments: &Arguments<'_>) -> Result<bool, CommandArgumentError> {
    for name in template.properties() {
        if matches!(arguments.get(name)?, ArgumentValue::Absent) {
            return Ok(true);
        }
    }
    Ok(false)
}
