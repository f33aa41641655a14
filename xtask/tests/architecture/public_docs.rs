//! Requirement ids in the documentation of public items. Readers of rustdoc do not have the pages that list them.

use crate::source::Module;
use syn::{
    Attribute, Expr, ExprLit, Field, ImplItem, ImplItemFn, Item, ItemEnum, ItemFn, ItemStruct, ItemTrait, Lit, Meta,
    TraitItem, Visibility,
    visit::{self, Visit},
};

/// What the ids begin with, before a hyphen and digits.
const KINDS: [&str; 9] = ["G1", "G2", "T", "U", "X", "C", "D", "S", "L"];

/// The lines of public documentation in a module, and in those within it, that name requirement ids.
pub(crate) fn with_ids(module: &Module) -> Vec<String> {
    let mut docs = Docs::default();
    docs.check(&module.public_attributes);
    module.items.iter().for_each(|item| docs.visit_item(item));
    let here = docs.found.into_iter().map(|line| format!("{}: {line}", module.file));
    here.chain(module.modules.iter().flat_map(with_ids)).collect()
}

fn names_an_id(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.any(|word| {
        let id = word.split_once('-');
        id.is_some_and(|(kind, number)| {
            KINDS.contains(&kind) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

#[derive(Default)]
struct Docs {
    found: Vec<String>,
}

impl Docs {
    fn check(&mut self, attributes: &[Attribute]) {
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
            if let Meta::NameValue(value) = &attribute.meta
                && let Expr::Lit(ExprLit {
                    lit: Lit::Str(line), ..
                }) = &value.value
                && names_an_id(&line.value())
            {
                self.found.push(line.value().trim().to_owned());
            }
        }
    }

    fn check_if_public(&mut self, visibility: &Visibility, attributes: &[Attribute]) {
        if matches!(visibility, Visibility::Public(_)) {
            self.check(attributes);
        }
    }
}

impl Visit<'_> for Docs {
    fn visit_item(&mut self, item: &Item) {
        match item {
            Item::Const(item) => self.check_if_public(&item.vis, &item.attrs),
            Item::Type(item) => self.check_if_public(&item.vis, &item.attrs),
            Item::Static(item) => self.check_if_public(&item.vis, &item.attrs),
            Item::Mod(item) => self.check_if_public(&item.vis, &item.attrs),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &ItemFn) {
        self.check_if_public(&item.vis, &item.attrs);
    }

    fn visit_item_struct(&mut self, item: &ItemStruct) {
        self.check_if_public(&item.vis, &item.attrs);
        visit::visit_item_struct(self, item);
    }

    fn visit_field(&mut self, field: &Field) {
        self.check_if_public(&field.vis, &field.attrs);
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        if !matches!(item.vis, Visibility::Public(_)) {
            return;
        }
        self.check(&item.attrs);
        for variant in &item.variants {
            self.check(&variant.attrs);
            variant.fields.iter().for_each(|field| self.check(&field.attrs));
        }
    }

    fn visit_item_trait(&mut self, item: &ItemTrait) {
        if !matches!(item.vis, Visibility::Public(_)) {
            return;
        }
        self.check(&item.attrs);
        for item in &item.items {
            if let TraitItem::Fn(method) = item {
                self.check(&method.attrs);
            }
        }
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        if let ImplItem::Fn(ImplItemFn { vis, attrs, .. }) = item {
            self.check_if_public(vis, attrs);
        }
    }
}
