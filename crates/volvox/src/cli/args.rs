//! The grammar of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

#[cfg(feature = "lab")]
use super::measure::Measure;
use crate::config::SettingFlags;

const EXAMPLES: &str = "\
Examples:
  volvox serve --memory-limit 1G                    serve this machine on port 11211
  volvox serve --config volvox.toml --listen '*'    settings from a file, every interface
  volvox memcached -m 1024 -c 4096 -t 2             memcached's own flags
  volvox config default > volvox.toml               a commented file of all settings
  volvox config show --config volvox.toml           what is in force, and why
  volvox load run --populate --ratio 9:1            measure the server on this machine
  volvox lab                                        measure the four drivers side by side";

const SERVE_EXAMPLES: &str = "\
Every setting can also stand in the file or in the environment; flags win.

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
    /// Serve clients, configured by memcached's own flags; see volvox memcached -h
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
    Measure(Measure),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version, and the release of memcached that is followed
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
    /// File of settings, in TOML [environment: VOLVOX_CONFIG]; none is looked for by itself
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One flag per setting.
    #[command(flatten)]
    pub settings: SettingFlags,
}
