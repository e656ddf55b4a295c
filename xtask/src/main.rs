//! The front door of the repository.
fn main() {}
