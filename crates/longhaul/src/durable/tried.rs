//! What work returns that may fail.

/// A [`Result`]: what the work of a [`step`](crate::TaskContext::step) and the look of a [`poll_until`](crate::TaskContext::poll_until)
/// return. No other type is one; the trait is there so that the compiler says so in words.
///
/// ```
/// use longhaul::{StepFault, TaskContext, ToolResult};
/// # async fn f(cx: TaskContext) -> ToolResult<u32> {
/// let seats = cx.step("count", async || Ok::<_, StepFault>(42)).await?; // cannot fail, and says with what it does not
/// # Ok(seats) }
/// ```
#[diagnostic::on_unimplemented(
    message = "a try must return a `Result`, and this one returns `{Self}`",
    label = "this work returns no `Result`",
    note = "work that cannot fail returns `Ok::<_, longhaul::StepFault>(value)`"
)]
pub trait Tried {
    /// What came of it.
    type Value;
    /// Why nothing came of it.
    type Fault;

    /// Itself.
    ///
    /// # Errors
    /// The fault.
    fn tried(self) -> Result<Self::Value, Self::Fault>;
}

impl<T, E> Tried for Result<T, E> {
    type Value = T;
    type Fault = E;

    fn tried(self) -> Self {
        self
    }
}
