//! Which files of a crate have a text in their code.

use crate::source::Module;
use std::collections::BTreeSet;
use syn::{Attribute, LitStr, Macro, visit::Visit};

/// The files whose code has `text` in a string. Comments and attributes do not count.
pub(crate) fn files_with(text: &str, module: &Module) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = (module.modules.iter())
        .flat_map(|inner| files_with(text, inner))
        .collect();
    let mut search = Search { text, found: false };
    for item in &module.items {
        search.visit_item(item);
    }
    if search.found {
        found.insert(module.file.clone());
    }
    found
}

struct Search<'a> {
    text: &'a str,
    found: bool,
}

impl<'a> Visit<'a> for Search<'_> {
    fn visit_lit_str(&mut self, literal: &'a LitStr) {
        self.found |= literal.value().contains(self.text);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.found |= call.tokens.to_string().contains(self.text);
    }

    fn visit_attribute(&mut self, _: &'a Attribute) {}
}

#[test]
fn a_text_is_found_in_code_and_macros_and_not_in_comments() {
    let of = |text: &str| files_with("aForm", &crate::source::parse(text)).len();
    assert_eq!(of("fn f() { g(\"its aForm\") }"), 1);
    assert_eq!(of("mod m { fn f() { json!({\"aForm\": 1}) } }"), 1);
    assert_eq!(
        of("/// An `aForm`.\nfn f() {} #[cfg(test)] mod tests { const A: &str = \"aForm\"; }"),
        0
    );
}
