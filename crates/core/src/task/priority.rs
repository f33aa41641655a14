//! Which queued task begins first.

/// From 0 to 9. Of the queued tasks of a tool, those with the highest priority begin first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Priority(u8);

impl Priority {
    /// 9.
    pub const HIGHEST: Self = Self(9);
    /// How many there are.
    pub const COUNT: usize = Self::HIGHEST.0 as usize + 1;

    /// The priority with this number; `None` above 9.
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::HIGHEST.0).then_some(Self(number))
    }

    /// Its number.
    pub fn get(self) -> u8 {
        self.0
    }

    /// All of them, highest first.
    pub fn descending() -> impl Iterator<Item = Self> {
        (0..=Self::HIGHEST.0).rev().map(Self)
    }
}
