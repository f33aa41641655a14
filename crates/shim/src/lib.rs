//! Faults of the operating system, injected from outside into a process that was built without them: see README.md.

#[cfg(target_os = "linux")]
mod page;
#[cfg(target_os = "linux")]
mod preload;
