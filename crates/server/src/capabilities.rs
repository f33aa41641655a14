//! What a client has declared that it can be asked: the one place where the protocol's capabilities meet the engine's.

use longhaul_runtime::{Abilities, Ability};
use longhaul_wire::{Capability, ClientCapabilities, InputRequest};

/// What a client that declares these can be asked.
pub(crate) fn from_declared(declared: &ClientCapabilities) -> Abilities {
    Abilities {
        elicit_form: declared.elicitation_form,
        elicit_url: declared.elicitation_url,
        sampling: declared.sampling,
        sampling_tools: declared.sampling_tools,
        roots: declared.roots,
        hosts_elicitation: declared.hosts_elicitation,
        hosts_sampling: declared.hosts_sampling,
    }
}

/// Whether a client that has declared these may be sent the request (G1-42).
pub(crate) fn allow(declared: &Abilities, request: &InputRequest<'_>) -> bool {
    match request.capability() {
        Capability::ElicitationForm => declared.has(Ability::ElicitForm),
        Capability::ElicitationUrl => declared.has(Ability::ElicitUrl),
        Capability::Sampling => declared.has(Ability::Sampling),
        Capability::SamplingTools => declared.has(Ability::SamplingTools),
        Capability::Roots => declared.has(Ability::Roots),
        Capability::Tasks => false,
    }
}

/// Whether a client that has declared these may answer the request with a task of its own (G1-04).
pub(crate) fn allow_client_task(declared: &Abilities, request: &InputRequest<'_>) -> bool {
    match request.capability() {
        Capability::ElicitationForm | Capability::ElicitationUrl => declared.hosts_elicitation,
        Capability::Sampling | Capability::SamplingTools => declared.hosts_sampling,
        Capability::Roots | Capability::Tasks => false,
    }
}

/// The protocol's name of what a client would have had to declare.
pub(crate) fn required(missing: Ability) -> Capability {
    match missing {
        Ability::ElicitForm => Capability::ElicitationForm,
        Ability::ElicitUrl => Capability::ElicitationUrl,
        Ability::Sampling => Capability::Sampling,
        Ability::SamplingTools => Capability::SamplingTools,
        Ability::Roots => Capability::Roots,
    }
}

/// The declared ones in the order of their bits in a session id.
fn flags(declared: &mut Abilities) -> [&mut bool; 7] {
    [
        &mut declared.elicit_form,
        &mut declared.elicit_url,
        &mut declared.sampling,
        &mut declared.sampling_tools,
        &mut declared.roots,
        &mut declared.hosts_elicitation,
        &mut declared.hosts_sampling,
    ]
}

/// As a session id carries them.
pub(crate) fn to_bits(mut declared: Abilities) -> u8 {
    let set = flags(&mut declared).into_iter().enumerate();
    set.fold(0, |bits, (bit, flag)| bits | (u8::from(*flag) << bit))
}

/// As a session id carried them.
pub(crate) fn from_bits(bits: u8) -> Abilities {
    let mut declared = Abilities::default();
    for (bit, flag) in flags(&mut declared).into_iter().enumerate() {
        *flag = bits & (1 << bit) != 0;
    }
    declared
}
