//! What is said of a task in `_meta`: the parent and root of a child task, and how the command of a cancelled one ended.

use crate::{
    json,
    meta::{EXIT, PARENT, ROOT},
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

/// Appends what there is to say of `task`, after a comma each. `exit`: how its command ended, as JSON.
pub(crate) fn push_more_members(out: &mut String, task: &Task, exit: Option<&str>) {
    if let Some(lineage) = &task.lineage {
        out.push(',');
        push_members(out, lineage);
    }
    if let Some(exit) = exit {
        out.push_str(&format!(r#","{EXIT}":{exit}"#));
    }
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
