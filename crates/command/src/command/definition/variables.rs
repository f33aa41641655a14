//! The variables of a command whose values are made of the caller's arguments.

use super::{
    CommandDefinition,
    argument_error::CommandArgumentError,
    arguments::Arguments,
    harmless::HarmlessValues,
    template::{Rules, Template},
};
use std::collections::BTreeMap;

/// Variables by which programs load code, find programs, or take options and settings that name programs. In capitals: some programs read them in any case.
const LOAD_CODE: &str = "\
    ANSIBLE_CONFIG AR AS AWKLIBPATH AWKPATH AWS_CONFIG_FILE AWS_PAGER AWS_SHARED_CREDENTIALS_FILE BASHOPTS BASH_ENV BORG_PASSCOMMAND BORG_RSH BROWSER \
    BUNDLE_GEMFILE CC CCACHE_CONFIGPATH CCACHE_PREFIX CFLAGS CLASSPATH CPP CPPFLAGS CURL_HOME CVS_RSH CXX CXXFLAGS DOCKER_CONFIG DOTNET_STARTUP_HOOKS \
    EDITOR EMACSLOADPATH ENV ERL_AFLAGS ERL_FLAGS ERL_LIBS ERL_ZFLAGS EXINIT FC FCFLAGS FFLAGS FPATH GCONV_PATH GDK_PIXBUF_MODULE_FILE GEM_HOME \
    GEM_PATH GH_BROWSER GH_EDITOR GH_PAGER GIO_EXTRA_MODULES GIO_MODULE_DIR GIT_ASKPASS GIT_COMMON_DIR GIT_DIR GIT_EDITOR GIT_EXEC_PATH \
    GIT_EXTERNAL_DIFF GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_PAGER GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND GIT_TEMPLATE_DIR \
    GIT_WORK_TREE GNUMAKEFLAGS GOENV GOFLAGS GOPATH GOROOT GRADLE_OPTS GRADLE_USER_HOME GTK_MODULES GTK_PATH HELM_PLUGINS HOME JAVA_HOME JAVA_OPTS \
    JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS KUBECONFIG KUBE_EDITOR LD LDFLAGS LDLIBS LESS LESSCLOSE LESSKEY LESSOPEN LIBS M2_HOME MAKEFILES MAKEFLAGS \
    MAKESHELL MANPAGER MAVEN_OPTS MFLAGS MYSQL_HOME NM NODE_OPTIONS NODE_PATH NPM_CONFIG_PREFIX OBJCOPY OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES \
    PAGER PATH PERL5DB PERL5LIB PERL5OPT PERLLIB PGPASSFILE PGSERVICEFILE PGSYSCONFDIR PHPRC PHP_INI_SCAN_DIR PROMPT_COMMAND PS4 PSQLRC PSQL_EDITOR \
    PSQL_PAGER QT_PLUGIN_PATH RANLIB RCLONE_CONFIG RCLONE_PASSWORD_COMMAND RESTIC_PASSWORD_COMMAND RSYNC_CONNECT_PROG RSYNC_RSH RUBYLIB RUBYOPT RUSTC \
    RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER RUSTDOC RUSTFLAGS R_ENVIRON R_ENVIRON_USER R_LIBS R_LIBS_USER R_PROFILE R_PROFILE_USER SHELL SHELLOPTS \
    SQLITE_INIT SSH_ASKPASS STRIP SUDO_ASKPASS SVN_EDITOR SVN_SSH SYSTEMD_EDITOR SYSTEMD_PAGER TAR_OPTIONS TCLLIBPATH TERRAFORM_CONFIG \
    TF_CLI_CONFIG_FILE TF_PLUGIN_CACHE_DIR VIM VIMINIT VIRTUAL_ENV VISUAL WGETRC XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME \
    YARN_YARN_PATH ZDOTDIR ZSH_ENV _JAVA_OPTIONS";
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
            template.placeholders().any(|placeholder| placeholder.is_whole) && has_absent(template, arguments);
        if !is_left_out {
            variables.insert(name.clone(), value);
        }
    }
    Ok(variables)
}

/// Whether a property in the template has no value.
pub(super) fn has_absent(template: &Template, arguments: &Arguments<'_>) -> bool {
    template.properties().any(|name| arguments.json(name).is_none())
}
