//! Recorded values: the time, randomness, and the version of the code.

use crate::{TaskContext, time::Timestamp};
use longhaul_core::BoxFuture;
use longhaul_runtime::{JournalError, TaskContext as Journaled};

impl TaskContext {
    /// The time when this was first reached: the same in every replay. A durable function must use it instead of the system's clock.
    ///
    /// ```
    /// # async fn f(cx: longhaul::TaskContext) -> longhaul::ToolResult<()> {
    /// use longhaul::time::hours;
    /// let due = cx.now().await? + hours(48);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`JournalError`]; in a tool that is not [durable](crate::Tool::durable), [`JournalError::None`].
    pub async fn now(&self) -> Result<Timestamp, JournalError> {
        self.journal().draw_now().await.map(Timestamp)
    }

    /// A random number, or random bytes, from the system's cryptographic source: the same in every replay.
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

    /// Whether to run changed code: `false` for tasks that had passed this point before the change, and `true` for all others. The answer is
    /// recorded.
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

/// What [`random`](TaskContext::random) returns: integers of 32 to 128 bits, and arrays of bytes.
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
