//! Numbers that say how far something is.

/// A number, or none: how far the work has come, and how far it has to go. `()` and `None` say that nobody knows.
pub trait Figure {
    /// The number; figures beyond 2^53 lose their last digits.
    fn figure(self) -> Option<f64>;
}

macro_rules! figures {
    ($($number:ty)*) => {$(
        impl Figure for $number {
            fn figure(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )*};
}
figures!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

impl Figure for () {
    fn figure(self) -> Option<f64> {
        None
    }
}

impl<T: Figure> Figure for Option<T> {
    fn figure(self) -> Option<f64> {
        self?.figure()
    }
}
