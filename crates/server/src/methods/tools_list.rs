//! `tools/list`.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    catalog::pages::{self, CatalogList},
    response::Answer,
};
use longhaul_runtime::Completeness;
use longhaul_wire::RpcError;

pub(crate) async fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    let catalog = methods.engine.catalog();
    if !catalog.is_known(Completeness::Complete) {
        Box::pin(catalog.known(Completeness::Complete)).await;
    }
    if let Some(visibility) = &catalog.snapshot().tool_visibility {
        let requestor = request.caller.requestor(request.meta)?;
        if let Some(known) = visibility.until_known(request.caller.listing(&requestor)) {
            known.await;
        }
    }
    pages::list_page(&methods.lists, request, CatalogList::Tools)
}
