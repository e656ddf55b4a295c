//! The grammar of the command line: commands, their arguments and the text of `--help`.
//!
//! Only the shape is checked here. The flags of settings come from the table of settings, and their
//! values are checked when the layers are laid over each other. memcached's flags pass through as
//! they are.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::SettingFlags;

const EXAMPLES: &str = "\
Examples:
  volvox serve --memory-limit 1G                    serve this machine on port 11211
  volvox serve --config volvox.toml --listen '*'    settings from a file, every interface
  volvox memcached -m 1024 -c 4096 -t 2             memcached's own flags
  volvox config default > volvox.toml               a commented file of all settings
  volvox config show --config volvox.toml           what is in force, and why";

const SERVE_EXAMPLES: &str = "\
Every setting can also stand in a file or in the environment; flags win over both.

Examples:
  volvox serve
  volvox serve --listen 127.0.0.1:11211,[::1]:11211 --workers 2 --memory-limit 4G
  volvox serve --listen '' --unix-socket cache.sock --unix-mode 770
  VOLVOX_LOG_LEVEL=debug volvox serve --config volvox.toml --evict=false";

const CONFIG_EXAMPLES: &str = "\
Examples:
  volvox config default > volvox.toml
  volvox config check volvox.toml
  volvox config show --json --config volvox.toml --workers 2";

/// An elastic memory that speaks memcached's protocol.
#[derive(Debug, Parser)]
#[command(name = "volvox", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve clients
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(LayerArgs),
    /// Serve clients, with memcached's own flags; see volvox memcached -h
    #[command(disable_help_flag = true)]
    Memcached {
        /// memcached's flags
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
    /// Write, check or show settings
    #[command(subcommand, after_help = CONFIG_EXAMPLES)]
    Config(ConfigCommand),
    /// Measure servers
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Measure(super::measure::Measure),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version, and the release of memcached that it follows
    Version,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a commented file with every setting at its default
    Default,
    /// Check a file (or VOLVOX_CONFIG) together with the environment
    Check {
        /// The file
        file: Option<PathBuf>,
    },
    /// Print the settings in force and where each came from
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// The layers above the defaults.
        #[command(flatten)]
        layers: LayerArgs,
    },
}

/// A file and flags.
#[derive(Args, Debug, Default)]
pub struct LayerArgs {
    /// File of settings, in TOML [environment: VOLVOX_CONFIG]; no other file is read
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One flag per setting.
    #[command(flatten)]
    pub settings: SettingFlags,
}
