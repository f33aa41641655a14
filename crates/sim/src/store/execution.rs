//! Executes operations on the disk: with the planted faults, checked, and logged.

use crate::{checker::describe, disk, executor::Process, planted_fault::PlantedFault, world::World};
use longhaul_core::{
    Event, Fence, InputKey, Task, TaskId,
    store::{
        ApplyError, Change, Claimed, CreateError, Created, NewTask, Record, ScheduleAdvance, ScheduleConflict,
        ScheduleStore as _, StoreError, TaskStore as _, UnwrittenCall,
    },
};
use std::sync::Arc;

impl World {
    pub(super) fn create(&self, process: Process, new: NewTask) -> Result<Created, CreateError> {
        let parent = new.lineage.as_ref().and_then(|lineage| self.task(&lineage.parent));
        let unique = new.unique.filter(|_| self.plant != Some(PlantedFault::ForgottenValue));
        let mut created = disk::now(self.disk.create(NewTask { unique, ..new.clone() }));
        if self.plant == Some(PlantedFault::ForgottenRow)
            && created == Err(CreateError::Schedule(ScheduleConflict::Moved))
        {
            created = disk::now(self.disk.create(NewTask {
                schedule: None,
                ..new.clone()
            }));
        }
        if matches!(created, Ok(Created::New(_))) {
            self.check(|checker| checker.created(&self.disk, process, &new, parent.as_ref()));
        }
        self.note(process, |checker| {
            let what = match &created {
                Ok(Created::New(task)) => format!("{:?}", task.state),
                Ok(Created::Existing(task) | Created::Joined(task)) => format!("was {}", checker.name(&task.id)),
                Err(error) => error.to_string(),
            };
            format!("creates {} {}: {what}", checker.name(&new.id), new.tool)
        });
        created
    }

    /// A call that was in the memory of a process is seen for the first time.
    pub(super) fn write_call(&self, process: Process, call: UnwrittenCall, change: Change) -> Result<Task, ApplyError> {
        let written = self.task(&call.task.id).is_some();
        let before = call.task.clone();
        let result = disk::now(self.disk.write_call(call.clone(), change.clone()));
        if !written && result.is_ok() {
            self.check(|checker| {
                checker.call_written(&self.disk, &call);
                checker.applied(&self.disk, process, &change, Some(&before), &result);
            });
        }
        self.note(process, |checker| {
            let what = match &result {
                Ok(task) => format!("{:?} v{}", task.state, task.version),
                Err(error) => error.to_string(),
            };
            format!(
                "writes {} {}: {what}",
                checker.name(&change.task),
                describe(&change.events)
            )
        });
        result
    }

    pub(super) fn advance_schedule(
        &self,
        process: Process,
        name: &Arc<str>,
        plan: &str,
        advance: &ScheduleAdvance,
    ) -> Result<bool, StoreError> {
        let advanced = disk::now(self.disk.advance_schedule(name, plan, advance.clone()))?;
        if advanced {
            self.check(|checker| checker.schedule_advanced(&self.disk, name, advance));
        }
        self.note(process, |_| format!("{name}: {advance:?}: {advanced}"));
        Ok(advanced)
    }

    pub(super) fn apply(&self, process: Process, mut change: Change) -> Result<Task, ApplyError> {
        self.unalias(&mut change);
        let before = self.task(&change.task);
        let mut result = disk::now(self.disk.apply(change.clone()));
        if self.plant == Some(PlantedFault::MissingFence) && result == Err(ApplyError::Stale) {
            result = disk::now(
                self.disk.apply(Change {
                    fence: before
                        .as_ref()
                        .and_then(Task::active_attempt)
                        .map(longhaul_core::Attempt::fence),
                    ..change.clone()
                }),
            );
        }
        self.check(|checker| checker.applied(&self.disk, process, &change, before.as_ref(), &result));
        self.alias(&change, result.as_ref().ok());
        self.note(process, |checker| {
            let what = match &result {
                Ok(task) => format!("{:?} v{}", task.state, task.version),
                Err(error) => error.to_string(),
            };
            let fence = change
                .fence
                .map_or(String::new(), |Fence { node, epoch }| format!("({},{epoch}) ", node.0));
            format!(
                "{} {fence}{}: {what}",
                checker.name(&change.task),
                describe(&change.events)
            )
        });
        result
    }

    fn task(&self, id: &TaskId) -> Option<Task> {
        disk::record(&self.disk, id).map(|record| record.task)
    }

    pub(super) fn log_claimed(&self, process: Process, how: &str, tasks: &[Claimed]) {
        if tasks.is_empty() {
            return;
        }
        self.check(|checker| checker.taken(&self.disk, tasks.iter().map(|claimed| claimed.task.id.clone())));
        self.note(process, |checker| {
            let names = tasks.iter().map(|claimed| checker.name(&claimed.task.id));
            format!("{how} {}", names.collect::<Vec<_>>().join(" "))
        });
    }

    /// Under [`PlantedFault::ReusedKey`]: a question of a later attempt is shown under the key of the first question.
    fn alias(&self, change: &Change, task: Option<&Task>) {
        let Some(attempt) = task.and_then(Task::active_attempt) else {
            return;
        };
        if self.plant != Some(PlantedFault::ReusedKey) || attempt.epoch == 1 {
            return;
        }
        for event in &change.events {
            if let Event::InputRequested { key, .. } = event
                && *key != InputKey::nth(1)
            {
                self.aliases
                    .lock()
                    .insert((change.task.clone(), key.clone()), InputKey::nth(1));
            }
        }
    }

    fn unalias(&self, change: &mut Change) {
        let aliases = self.aliases.lock();
        if aliases.is_empty() {
            return;
        }
        let Some(task) = self.task(&change.task) else { return };
        for event in &mut change.events {
            if let Event::InputAnswered { key, .. } = event {
                let open = task.open_inputs.iter();
                let mut shown = open.filter(|open| aliases.get(&(change.task.clone(), (*open).clone())) == Some(key));
                if let Some(real) = shown.next() {
                    *key = real.clone();
                }
            }
        }
    }

    pub(super) fn aliased(&self, mut record: Record) -> Record {
        let aliases = self.aliases.lock();
        let id = record.task.id.clone();
        let shown = |key: &mut InputKey| {
            if let Some(alias) = aliases.get(&(id.clone(), key.clone())) {
                *key = alias.clone();
            }
        };
        record.task.open_inputs.iter_mut().for_each(shown);
        record.inputs.iter_mut().for_each(|input| shown(&mut input.key));
        record
    }
}
