//! Telling progress to a client that asked for it, on the response stream of its own call (U-01, U-03).

use crate::answer::KeptId;
use longhaul_core::{Progress, Task};
use longhaul_wire::{Meta, RpcError, notification};

/// What one client has been told.
pub(crate) struct ProgressNews {
    token: Option<KeptId>,
    told: Option<f64>,
}

impl ProgressNews {
    /// What the sender of `meta` wants to hear: nothing without a token.
    ///
    /// # Errors
    /// −32602 if the token is neither string nor integer.
    pub(crate) fn wanted(meta: &Meta<'_>) -> Result<Self, RpcError> {
        Ok(Self {
            token: meta.progress_token()?.map(KeptId::of),
            told: None,
        })
    }

    /// The notification about `task`, if its figure has risen since the last one: it must, and a tool may say anything.
    pub(crate) fn about(&mut self, task: &Task) -> Option<String> {
        let token = self.token.as_ref()?;
        let progress @ Progress { current, .. } = task.progress?;
        let risen = current.is_finite() && self.told.is_none_or(|told| current > told);
        if !risen {
            return None;
        }
        self.told = Some(current);
        let mut text = String::new();
        notification::write_progress(&mut text, token.get(), progress, task.status.as_deref(), None);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::{Json, NodeId, Origin, Owner, Principal, SpecId, UnixMillis, store::NewTask};
    use longhaul_wire::Params;
    use serde_json::value::RawValue;

    fn task_at(current: f64) -> Task {
        let new = NewTask {
            id: "t1".parse().unwrap(),
            owner: Owner {
                principal: Principal::local(),
                session: None,
            },
            tool: "tool".into(),
            spec: SpecId::named("spec"),
            origin: Origin::Modern,
            front: NodeId(1),
            announced: false,
            arguments: Json::trusted("{}"),
            at: UnixMillis(0),
            deadline: None,
            queue_timeout: None,
            retention: 1,
            claim: None,
            outcome: None,
        };
        let (task, _, _) = new.into_task();
        Task {
            progress: Some(Progress { current, total: None }),
            ..task
        }
    }

    fn wanted(params: &str) -> ProgressNews {
        let raw: Box<RawValue> = RawValue::from_string(params.to_owned()).unwrap();
        let params = Params::read(Some(&raw)).unwrap();
        ProgressNews::wanted(&params.meta().unwrap()).unwrap()
    }

    #[test]
    fn only_what_rises_is_told_whatever_the_tool_says() {
        let mut news = wanted(r#"{"_meta":{"progressToken":"t"}}"#);
        let said = [f64::NAN, 5.0, 5.0, 4.0, f64::NAN, f64::INFINITY, 6.0, -1.0, 6.5];
        let told = said.map(|current| news.about(&task_at(current)).is_some());
        assert_eq!(told, [false, true, false, false, false, false, true, false, true]);
    }

    #[test]
    fn nothing_is_told_without_a_token() {
        assert_eq!(wanted("{}").about(&task_at(1.0)), None);
    }
}
