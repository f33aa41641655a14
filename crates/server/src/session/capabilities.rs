//! Client capabilities in session ids, and which of them let a client answer with a task.

use longhaul_core::{Capability, ClientCapabilities};
use longhaul_wire::InputRequest;

/// Whether a client that has declared these may answer the request with a task of its own.
pub(crate) fn allow_client_task(declared: &ClientCapabilities, request: &InputRequest<'_>) -> bool {
    match request.capability() {
        Capability::ElicitationForm | Capability::ElicitationUrl => declared.elicitation_tasks,
        Capability::Sampling | Capability::SamplingTools => declared.sampling_tasks,
        Capability::Roots | Capability::Tasks => false,
    }
}

/// The declared ones in the order of their bits in a session id.
fn flags(declared: &mut ClientCapabilities) -> [&mut bool; 7] {
    [
        &mut declared.elicitation_form,
        &mut declared.elicitation_url,
        &mut declared.sampling,
        &mut declared.sampling_tools,
        &mut declared.roots,
        &mut declared.elicitation_tasks,
        &mut declared.sampling_tasks,
    ]
}

/// As a session id carries them.
pub(crate) fn to_bits(mut declared: ClientCapabilities) -> u8 {
    let set = flags(&mut declared).into_iter().enumerate();
    set.fold(0, |bits, (bit, flag)| bits | (u8::from(*flag) << bit))
}

/// As a session id carried them.
pub(crate) fn from_bits(bits: u8) -> ClientCapabilities {
    let mut declared = ClientCapabilities::default();
    for (bit, flag) in flags(&mut declared).into_iter().enumerate() {
        *flag = bits & (1 << bit) != 0;
    }
    declared
}
