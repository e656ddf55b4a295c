//! Reports: of one run, of the results that are kept, and the README's tables made of those.

pub mod kept;
pub mod readme;
pub mod run;
