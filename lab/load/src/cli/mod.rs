//! The command line: settings, one file per command, and the driver of all studies.

mod bench;
mod clients;
mod command;
mod compare;
mod honesty;
mod lambda_max;
mod matrix;
mod populate;
mod preset;
mod run;
mod settings;

pub use clients::ClientsArgs;
pub use command::{Args, Command, run, stop_on_signals};
pub use compare::CompareArgs;
pub use honesty::{HonestyArgs, Part};
pub use lambda_max::LambdaMaxArgs;
pub use matrix::MatrixArgs;
pub use populate::PopulateArgs;
pub use preset::Preset;
pub use run::RunArgs;
pub use settings::{Server, Settings, Subject};
