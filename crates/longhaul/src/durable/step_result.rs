//! What the work of a step may return.

/// A [`Result`], and nothing else. The trait is there so that the compiler can say in words what is wrong with work that returns something
/// else.
#[diagnostic::on_unimplemented(
    message = "the work of a step or a poll must return a `Result`, and this one returns `{Self}`",
    label = "this work returns no `Result`",
    note = "work that cannot fail returns `Ok::<_, longhaul::StepError>(value)`"
)]
pub trait StepResult: sealed::Sealed {
    /// What is inside `Ok`.
    type Value;
    /// What is inside `Err`.
    type Error;

    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

mod sealed {
    pub trait Sealed {}
}

impl<T, E> sealed::Sealed for Result<T, E> {}

impl<T, E> StepResult for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}
