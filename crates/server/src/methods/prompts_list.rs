//! `prompts/list`.

use super::Methods;
use crate::{
    admission::request::AdmittedRequest,
    catalog::pages::{self, CatalogList},
    response::Answer,
};
use longhaul_wire::RpcError;

pub(crate) fn answer(methods: &Methods, request: &AdmittedRequest<'_>) -> Result<Answer, RpcError> {
    pages::list_page(&methods.lists, request, CatalogList::Prompts)
}
