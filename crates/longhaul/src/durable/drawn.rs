//! What is drawn once and stays: time, randomness, the version of the code.

use crate::{TaskContext, time::Moment};
use longhaul_core::BoxFuture;
use longhaul_runtime::{JournalError, TaskContext as Journaled};

impl TaskContext {
    /// What time it was when this was first reached: the same in every attempt. The system's clock says something else each time the
    /// function is run, and must not decide what it does.
    ///
    /// # Errors
    /// [`JournalError`]; in a tool that is not [durable](crate::Tool::durable), [`JournalError::None`].
    pub async fn now(&self) -> Result<Moment, JournalError> {
        self.journal().draw_now().await.map(Moment)
    }

    /// A random number, or bytes, from the system's cryptographic source: the same in every attempt.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// let dice = cx.random::<u64>().await? % 6 + 1;
    /// let id: [u8; 16] = cx.random().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`now`](Self::now).
    pub async fn random<T: Random>(&self) -> Result<T, JournalError> {
        T::draw(self.journal()).await
    }

    /// Whether to do what the code does since it was changed. Tasks that had passed this point before the change go on as they began, and
    /// are told `false`; all others `true`, and stay with it.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// # async fn check() -> Result<(), std::io::Error> { Ok(()) }
    /// if cx.version("check-first").await? {
    ///     cx.step("check", || check()).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`now`](Self::now).
    pub async fn version(&self, name: &str) -> Result<bool, JournalError> {
        self.journal().version(name).await
    }
}

/// What can be drawn at random: integers of 32 to 128 bits, and arrays of bytes.
pub trait Random: Sized + Send + sealed::Sealed {
    #[doc(hidden)]
    fn draw(journal: &Journaled) -> BoxFuture<'_, Result<Self, JournalError>>;
}

mod sealed {
    pub trait Sealed {}
}

impl<const N: usize> sealed::Sealed for [u8; N] {}

impl<const N: usize> Random for [u8; N] {
    fn draw(journal: &Journaled) -> BoxFuture<'_, Result<Self, JournalError>> {
        Box::pin(journal.draw_random::<N>())
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl sealed::Sealed for $integer {}

        impl Random for $integer {
            fn draw(journal: &Journaled) -> BoxFuture<'_, Result<Self, JournalError>> {
                Box::pin(async { journal.draw_random().await.map(Self::from_le_bytes) })
            }
        }
    )*};
}
integers!(u32 u64 u128 i32 i64 i128);
