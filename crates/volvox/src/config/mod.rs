//! Every setting of a cell: its type, its meaning, and where its value came from.
//!
//! A value comes from one of four places, and later ones win: the default, a TOML file, the
//! environment (`VOLVOX_SECTION_KEY`), the command line. One table, [`KEYS`], names each setting
//! once. The file format, the environment, the flags, `config default` and `config show` are all
//! made from it, so they cannot differ.
//!
//! Nothing here opens a socket or changes the process. [`load()`] is a pure function of the
//! sources; only [`file::read`] touches the disk. Sizes are bytes, times are seconds, unless a
//! name ends otherwise.

mod choice;
mod database;
pub mod environment;
mod error;
mod field;
pub mod file;
mod flags;
mod keys;
mod layers;
mod listen;
mod prefix;
mod render;
mod settings;
mod units;

pub use choice::{Driver, EffectLog, Level};
pub use database::{Database, Place};
pub use error::{ConfigError, Origin};
pub use field::{Choice, Field, Refusal, Rule, Unit, Value};
pub use flags::SettingFlags;
pub use keys::{KEYS, Key, key_index, nearest_key};
pub use layers::{Assignment, Loaded, check_joins, load};
pub use listen::Listen;
pub use prefix::KeyPrefix;
pub use render::{default_toml, show_json, show_text};
pub use settings::{
    LogSettings, MemorySettings, ProcessSettings, ProtocolSettings, RingSettings, ServerSettings,
    Settings, TierSettings,
};
pub use units::{parse_size, show_size};
