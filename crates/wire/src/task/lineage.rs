//! What is said of a task in `_meta`: the parent and root of a child task, labels, and how the command of a cancelled one ended.

use crate::{
    json,
    meta::{EXIT, LABELS, PARENT, ROOT},
};
use longhaul_core::{Lineage, Task};

/// Key of the parents and roots of the tasks of a list.
const LINEAGE: &str = "dev.longhaul/lineage";

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
    if !task.labels.is_empty() {
        out.push_str(&format!(r#","{LABELS}":{}"#, task.labels.to_json().as_str()));
    }
    if let Some(exit) = exit {
        out.push_str(&format!(r#","{EXIT}":{exit}"#));
    }
}

/// Appends `,"_meta":{…}` with the lineage and the labels of each task that has some by id, since a task in a list has no `_meta` of its own.
pub(crate) fn push_list_meta(out: &mut String, tasks: &[Task]) {
    let mut meta = String::new();
    push_by_id(&mut meta, LINEAGE, tasks, |out, task| {
        let Some(lineage) = &task.lineage else { return };
        out.push('{');
        push_members(out, lineage);
        out.push('}');
    });
    push_by_id(&mut meta, LABELS, tasks, |out, task| {
        if !task.labels.is_empty() {
            out.push_str(task.labels.to_json().as_str());
        }
    });
    if let Some(members) = meta.strip_prefix(',') {
        out.push_str(&format!(r#","_meta":{{{members}}}"#));
    }
}

/// Appends `,"key":{"id":…}` of the tasks of which `push` appends something.
fn push_by_id(out: &mut String, key: &str, tasks: &[Task], push: impl Fn(&mut String, &Task)) {
    let mut members = String::new();
    for task in tasks {
        let mut value = String::new();
        push(&mut value, task);
        if !value.is_empty() {
            members.push_str(if members.is_empty() { "" } else { "," });
            json::push_string(&mut members, task.id.as_str());
            members.push(':');
            members.push_str(&value);
        }
    }
    if !members.is_empty() {
        out.push_str(&format!(r#","{key}":{{{members}}}"#));
    }
}
