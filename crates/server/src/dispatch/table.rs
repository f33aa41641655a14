//! Which methods are served, and what answers each: the only list of them.

use crate::{
    admission::request::AdmittedRequest,
    methods::{
        Methods, calls_cancel, completion_complete,
        legacy::{
            initialize, logging_set_level, ping, resources_subscribe, resources_unsubscribe, tasks_list, tasks_result,
        },
        modern::{server_discover, subscriptions_listen, tasks_update},
        prompts_get, prompts_list, resources_list, resources_read, resources_templates_list, tasks_cancel,
        tasks_delete, tasks_get, tools_call, tools_list,
    },
    response::Answer,
};
use longhaul_core::BoxFuture;
use longhaul_runtime::Completeness;
use longhaul_wire::{Method, RpcError};

type AnswerResult = Result<Answer, RpcError>;

/// What answers the requests of one method.
enum Handler {
    /// It waits for nothing.
    Sync(fn(&Methods, &AdmittedRequest<'_>) -> AnswerResult),
    /// It waits for nothing once what is asked for is known.
    Offered(Completeness, fn(&Methods, &AdmittedRequest<'_>) -> AnswerResult),
    /// Boxed, because its future is large and the future of a request is moved several times on its way through HTTP.
    Boxed(for<'a> fn(&'a Methods, &'a AdmittedRequest<'_>) -> BoxFuture<'a, AnswerResult>),
    /// `tasks/get` outnumbers all others and its future is small.
    TasksGet,
}

fn handler(method: Method) -> Option<Handler> {
    use Completeness::WithoutTools;
    use Handler::{Boxed, Offered, Sync, TasksGet};
    Some(match method {
        Method::Initialize => Offered(WithoutTools, initialize::answer),
        Method::Discover => Offered(WithoutTools, server_discover::answer),
        Method::Ping => Sync(ping::answer),
        Method::ToolsList => Boxed(|methods, request| Box::pin(tools_list::answer(methods, request))),
        Method::ToolsCall => Boxed(|methods, request| Box::pin(tools_call::answer(methods, request))),
        Method::TasksGet => TasksGet,
        Method::TasksResult => Boxed(|methods, request| Box::pin(tasks_result::answer(methods, request))),
        Method::TasksList => Boxed(|methods, request| Box::pin(tasks_list::answer(methods, request))),
        Method::TasksCancel => Boxed(|methods, request| Box::pin(tasks_cancel::answer(methods, request))),
        Method::TasksDelete => Boxed(|methods, request| Box::pin(tasks_delete::answer(methods, request))),
        Method::CallsCancel => Boxed(|methods, request| Box::pin(calls_cancel::answer(methods, request))),
        Method::TasksUpdate => Boxed(|methods, request| Box::pin(tasks_update::answer(methods, request))),
        Method::ResourcesList => Offered(WithoutTools, resources_list::answer),
        Method::ResourceTemplatesList => Offered(WithoutTools, resources_templates_list::answer),
        Method::ResourcesRead => Boxed(|methods, request| Box::pin(resources_read::answer(methods, request))),
        Method::ResourcesSubscribe => Boxed(|methods, request| Box::pin(resources_subscribe::answer(methods, request))),
        Method::ResourcesUnsubscribe => Sync(resources_unsubscribe::answer),
        Method::LoggingSetLevel => Sync(logging_set_level::answer),
        Method::SubscriptionsListen => {
            Boxed(|methods, request| Box::pin(subscriptions_listen::answer(methods, request)))
        }
        Method::PromptsList => Offered(WithoutTools, prompts_list::answer),
        Method::PromptsGet => Sync(prompts_get::answer),
        Method::CompletionComplete => Sync(completion_complete::answer),
        // Notifications, and requests that servers send.
        _ => return None,
    })
}

pub(super) fn serves(method: Method) -> bool {
    handler(method).is_some()
}

/// Answers a request by its method.
pub(super) async fn call(methods: &Methods, method: Method, request: &AdmittedRequest<'_>) -> AnswerResult {
    match handler(method) {
        Some(Handler::TasksGet) => tasks_get::answer(methods, request).await,
        Some(Handler::Boxed(answer)) => answer(methods, request).await,
        Some(Handler::Sync(answer)) => answer(methods, request),
        Some(Handler::Offered(wanted, answer)) => {
            let catalog = methods.engine.catalog();
            if !catalog.is_known(wanted) {
                Box::pin(catalog.known(wanted)).await;
            }
            answer(methods, request)
        }
        None => Err(RpcError::method_not_found(request.caller.generation, method.as_str())),
    }
}
