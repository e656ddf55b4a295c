//! What the kernel accounts: time and memory of a process, and the machine as a whole.

pub mod machine;
pub mod process;
