//! The parent and root of a child task, in `_meta`.

use crate::{
    json,
    meta::{PARENT, ROOT},
};
use longhaul_core::{Lineage, Task};

/// Parent and root as JSON strings.
pub(crate) fn texts(lineage: &Lineage) -> [String; 2] {
    [&lineage.parent, &lineage.root].map(|task| {
        let mut text = String::new();
        json::push_string(&mut text, task.as_str());
        text
    })
}

/// Appends `"dev.longhaul/parent":…,"dev.longhaul/root":…`.
pub(crate) fn push_members(out: &mut String, lineage: &Lineage) {
    let [parent, root] = texts(lineage);
    out.push_str(&format!(r#""{PARENT}":{parent},"{ROOT}":{root}"#));
}

/// Appends `,"_meta":{…}` with the lineage of each child task by id, since a task in a list has no `_meta` of its own.
pub(crate) fn push_list_meta(out: &mut String, tasks: &[Task]) {
    let mut open = r#","_meta":{"dev.longhaul/lineage":{"#;
    for (task, lineage) in tasks.iter().filter_map(|task| Some((task, task.lineage.as_ref()?))) {
        out.push_str(std::mem::replace(&mut open, ","));
        json::push_string(out, task.id.as_str());
        out.push_str(":{");
        push_members(out, lineage);
        out.push('}');
    }
    if open == "," {
        out.push_str("}}");
    }
}
