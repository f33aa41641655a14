//! What every store must pass.
