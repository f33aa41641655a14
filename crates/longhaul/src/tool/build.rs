//! Tools, checked and bound to their server.

use super::{
    Implementation, Tool,
    call_text::{call_value, labels_of},
    confirm,
    executor::function_executor,
    name, secrets,
};
use crate::{DefinitionError, ServerHandle, handler::schema};
use longhaul_runtime::ConcurrencyKey;
use std::sync::Arc;

impl Tool {
    /// Checks the tool and binds it to `server`.
    pub(crate) fn build(self, server: &ServerHandle) -> Result<longhaul_runtime::Tool, DefinitionError> {
        let Self {
            mut settings,
            intake,
            unique,
            labels,
            concurrency_key,
            confirm,
            confirm_by,
        } = self;
        let name = Arc::clone(&settings.name);
        let wrong = |why: String| DefinitionError {
            what: format!("tool `{name}`"),
            why,
        };
        name::check(&name).map_err(wrong)?;
        schema::check_arguments(&mut settings.input_schema).map_err(wrong)?;
        if !settings.secrets.is_empty() && intake.is_some() {
            return Err(wrong(
                "`secrets` cannot be combined with `ask_before`, whose arguments are recorded".to_owned(),
            ));
        }
        secrets::mark(&settings.secrets, &mut settings.input_schema).map_err(wrong)?;
        let (schema, secrets) = (&settings.input_schema, &settings.secrets);
        let value = |key: &str, template: Option<String>| {
            call_value(key, template.as_deref(), schema, secrets, intake.is_some()).map_err(wrong)
        };
        let (unique, group) = (value("unique", unique)?, value("concurrency_key", concurrency_key)?);
        settings.labels = labels_of(&labels, schema, secrets).map_err(wrong)?;
        settings.unique = unique;
        settings.concurrency_key = group.map(|value| ConcurrencyKey {
            value,
            limit: settings.concurrency.take().unwrap_or(1),
        });
        let confirm = confirm::settings(confirm.as_deref(), confirm_by, &settings, intake.is_some());
        settings.confirm = confirm.map_err(wrong)?;
        if settings.description.is_empty() {
            // That in the schema of the arguments.
            settings.description = settings.input_schema["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
        }
        settings.intake = intake.map(|make| make(server.clone()));
        let output = settings.output_schema.clone();
        let settings = settings.map_executor(|implementation| match implementation {
            Implementation::Executor(executor) => Ok(executor),
            Implementation::Function { handler, durable } => {
                function_executor(&name, handler, durable, output.as_ref(), server.clone())
            }
        });
        longhaul_runtime::Tool::new(settings.map_err(wrong)?).map_err(|error| wrong(error.to_string()))
    }
}
