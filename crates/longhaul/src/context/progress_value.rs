//! Numbers that progress is reported with.

/// A number to report progress with, or none: `()` and `None` mean that it is unknown. See [`RequestContext::progress`](crate::RequestContext::progress).
pub trait ProgressValue {
    /// The number; integers above 2^53 are rounded.
    fn value(self) -> Option<f64>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl ProgressValue for $number {
            fn value(self) -> Option<f64> {
                Some(self as f64)
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

impl ProgressValue for () {
    fn value(self) -> Option<f64> {
        None
    }
}

impl<T: ProgressValue> ProgressValue for Option<T> {
    fn value(self) -> Option<f64> {
        self?.value()
    }
}
