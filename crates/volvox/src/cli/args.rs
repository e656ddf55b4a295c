//! The grammar of the command line: commands, their arguments and the text of `--help`.
//!
//! Only the shape is checked here. The flags of settings come from the table of settings, and their
//! values are checked when the layers are laid over each other. memcached's flags pass through as
//! they are.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use super::ctl::{self, CtlArgs};
use crate::config::SettingFlags;

const EXAMPLES: &str = "\
Examples:
  volvox up --cells 3                               a ring on this machine, ports 11211 to 11213
  volvox ctl ring                                   what the ring is, cell by cell
  volvox join --config volvox.toml                  a cell of a ring on several machines
  volvox serve --memory-limit 1G                    one cell, on port 11211
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

const UP_EXAMPLES: &str = "\
Examples:
  volvox up                                         three cells, clients on 11211, 11212 and 11213
  volvox up --cells 5 --directory ring              the same cells again the next time
  volvox up --copies 3 -- --memory-limit 1G         flags of volvox serve, for every cell";

const JOIN_EXAMPLES: &str = "\
The file has a section [ring]. The cell that states ring.cells and no ring.seeds founds the ring;
the others name it, or any cell of the ring, in ring.seeds. The ring forms when ring.cells have
joined. Started again with its directory, a cell returns to its ring.

Examples:
  volvox join --config /etc/volvox/volvox.toml
  volvox join --ring-directory /var/lib/volvox --ring-secret-file /etc/volvox/secret \\
    --listen 10.0.0.2:11211 --ring-listen 10.0.0.2:12211 --ring-links 10.0.0.2:13211 \\
    --ring-seeds 10.0.0.1:12211";

const WITNESS_EXAMPLES: &str = "\
With a witness, a ring of two cells has three voters, so either cell may end.

Examples:
  volvox witness --directory /var/lib/volvox --listen 10.0.0.3:12211 \\
    --seeds 10.0.0.1:12211,10.0.0.2:12211 --secret-file /etc/volvox/secret";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a ring of cells on this machine, until Ctrl-C
    #[command(after_help = UP_EXAMPLES)]
    Up(UpArgs),
    /// Ask a ring what it is and where keys are; move a range, stop a cell, look after a tier
    #[command(after_help = ctl::EXAMPLES)]
    Ctl(CtlArgs),
    /// Vote in a ring, and hold no items
    #[command(after_help = WITNESS_EXAMPLES)]
    Witness(WitnessArgs),
    /// Serve clients
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(LayerArgs),
    /// Serve clients as a cell of a ring
    #[command(after_help = JOIN_EXAMPLES)]
    Join(LayerArgs),
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

/// A voter without items.
#[derive(Args, Debug)]
pub struct WitnessArgs {
    /// Directory of the witness: who it is, and its part of the agreement
    #[arg(long)]
    pub directory: PathBuf,
    /// Where cells reach it: one host and a fixed port
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// ring.listen of cells of the ring
    #[arg(long, required = true, value_name = "HOST:PORT", value_delimiter = ',')]
    pub seeds: Vec<String>,
    /// File with the secret of the ring
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
}

/// A ring on one machine.
#[derive(Args, Debug)]
pub struct UpArgs {
    /// Cells, each a process
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub cells: u16,
    /// Cells that join once the ring has formed, and lead nothing at first
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    pub spares: u16,
    /// Copies of everything, the primary included
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub copies: u8,
    /// Port for clients of the first cell; the others follow
    #[arg(long, default_value_t = 11211, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Directory of the cells and their logs; a temporary one if absent
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Do not start a cell again that ends
    #[arg(long)]
    pub stay_ended: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Flags of volvox serve, for every cell
    #[arg(last = true)]
    pub flags: Vec<String>,
}
