//! Each command carried out: the layers of settings are laid over each other, then the part that
//! does the work is called. Every failure passes through [`Failure`], which has its exit code.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::args::{Cli, Command, ConfigCommand, LayerArgs, UpArgs, WitnessArgs};
use crate::config::{
    Assignment, ConfigError, Listen, Loaded, check_joins, default_toml, environment, file, load,
    show_json, show_text,
};
use crate::ctl::ctl;
use crate::logging;
use crate::memcached;
use crate::run::{LaunchOptions, WantedWitness, serve, witness};
use crate::up::{Wanted, up};

/// Settings or flags that cannot be served; the code of `EX_USAGE`.
const EXIT_USAGE: u8 = 64;
/// Anything that fails later.
const EXIT_FAILURE: u8 = 1;

/// Why a command ends before its work is done.
struct Failure {
    code: u8,
    message: String,
}

impl From<Vec<ConfigError>> for Failure {
    fn from(errors: Vec<ConfigError>) -> Self {
        let lines: Vec<_> = errors.iter().map(ConfigError::to_string).collect();
        Self { code: EXIT_USAGE, message: lines.join("\nvolvox: ") }
    }
}

impl From<Box<dyn Error>> for Failure {
    fn from(error: Box<dyn Error>) -> Self {
        Self { code: EXIT_FAILURE, message: error.to_string() }
    }
}

impl From<OsString> for Failure {
    fn from(word: OsString) -> Self {
        let message = format!("{}: not UTF-8; flags must be", word.to_string_lossy());
        Self { code: EXIT_USAGE, message }
    }
}

/// Runs the command line `words`, the program's name first.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = carry_out(words.into_iter().collect());
    logging::finish();
    match done {
        Ok(code) => code.into(),
        Err(Failure { code, message }) => {
            // If standard error is closed too, the code alone says that something failed.
            let _ = writeln!(io::stderr().lock(), "volvox: {message}");
            code.into()
        }
    }
}

fn carry_out(words: Vec<OsString>) -> Result<u8, Failure> {
    if called_memcached(words.first()) {
        let flags = words.into_iter().skip(1).map(OsString::into_string);
        return memcached(&flags.collect::<Result<Vec<_>, _>>()?);
    }
    match Cli::parse_from(words).command {
        Command::Up(args) => Ok(up(&wanted(args))?),
        Command::Witness(args) => Ok(witness(&wanted_witness(args)?)?),
        Command::Ctl(args) => Ok(ctl(&args.into())?),
        Command::Serve(layers) => Ok(serve(layered(layers)?, LaunchOptions::default())?),
        Command::Join(layers) => join(layered(layers)?),
        Command::Memcached { flags } => memcached(&flags),
        Command::Config(command) => config(command),
        #[cfg(feature = "lab")]
        Command::Measure(measure) => Ok(if measure.run()? { 0 } else { EXIT_FAILURE }),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "volvox", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Version => {
            let (version, release) = (env!("CARGO_PKG_VERSION"), memcached::COMPATIBLE_VERSION);
            print(&format!("volvox {version}\nfollows memcached {release}\n"))
        }
    }
}

fn join(loaded: Loaded) -> Result<u8, Failure> {
    let directory = loaded.settings.ring.directory.as_ref();
    let entries = directory.and_then(|directory| directory.read_dir().ok());
    let is_new = entries.is_none_or(|mut entries| entries.next().is_none());
    check_joins(&loaded, is_new)?;
    Ok(serve(loaded, LaunchOptions::default())?)
}

fn wanted(args: UpArgs) -> Wanted {
    let UpArgs { cells, spares, copies, port, directory, stay_ended, json, flags } = args;
    Wanted { cells, spares, copies, port, directory, stays_ended: stay_ended, json, flags }
}

fn wanted_witness(args: WitnessArgs) -> Result<WantedWitness, Failure> {
    let WitnessArgs { directory, listen, seeds, secret_file } = args;
    let read = |flag: &str, text: &str| {
        let read =
            Listen::parse(text, 0).map_err(|reason| format!("{flag} {text}: {reason}")).and_then(
                |listen| {
                    let is_fixed = listen.port != 0 && listen.host.is_some();
                    is_fixed.then_some(listen).ok_or_else(|| {
                format!("{flag} {text}: cells must know it: name one host and a port that is not 0")
            })
                },
            );
        read.map_err(|message| Failure { code: EXIT_USAGE, message })
    };
    let seeds = seeds.iter().map(|seed| read("--seeds", seed)).collect::<Result<_, _>>()?;
    Ok(WantedWitness { directory, listen: read("--listen", &listen)?, seeds, secret_file })
}

fn called_memcached(name: Option<&OsString>) -> bool {
    let name = name.and_then(|name| Path::new(name).file_name());
    name.is_some_and(|name| name == "memcached" || name == "memcached-debug")
}

fn memcached(flags: &[String]) -> Result<u8, Failure> {
    let start = match memcached::parse(flags) {
        Ok(memcached::Command::Help) => return print(&memcached::help()),
        Ok(memcached::Command::License) => return print(&memcached::license()),
        Ok(memcached::Command::Version) => return print(&memcached::version()),
        Ok(memcached::Command::Start(start)) => start,
        Err(message) => return Err(Failure { code: EXIT_USAGE, message }),
    };
    let mut layers = layers_below(None, memcached::defaults())?;
    layers.extend(start.assignments);
    let options =
        LaunchOptions { as_memcached: true, notes: start.notes, reported: start.reported };
    Ok(serve(load(&layers)?, options)?)
}

fn config(command: ConfigCommand) -> Result<u8, Failure> {
    match command {
        ConfigCommand::Default => print(&default_toml()),
        ConfigCommand::Check { file } => {
            layered(LayerArgs { config: file, ..LayerArgs::default() })?;
            print("ok\n")
        }
        ConfigCommand::Show { json, layers } => {
            let loaded = layered(layers)?;
            print(&if json { show_json(&loaded) } else { show_text(&loaded) })
        }
    }
}

/// `defaults`, then the file named by `config` or the environment, then the environment.
fn layers_below(
    config: Option<PathBuf>,
    defaults: Vec<Assignment>,
) -> Result<Vec<Assignment>, Vec<ConfigError>> {
    let mut layers = defaults;
    if let Some(path) = config.or_else(|| env::var_os(environment::CONFIG_FILE).map(PathBuf::from))
    {
        layers.extend(file::read(&path)?);
    }
    // Our variables are ASCII. One that is not UTF-8 is not ours, or its value is out of range.
    let lossy = |word: OsString| word.to_string_lossy().into_owned();
    let variables = env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
    layers.extend(environment::parse(variables)?);
    Ok(layers)
}

fn layered(args: LayerArgs) -> Result<Loaded, Vec<ConfigError>> {
    let mut layers = layers_below(args.config, Vec::new())?;
    layers.extend(args.settings.assignments);
    load(&layers)
}

/// Prints `text`; a reader that went away, as `head` does, is no failure.
fn print(text: &str) -> Result<u8, Failure> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure { code: EXIT_FAILURE, message: format!("standard output: {error}") })
        }
        _ => Ok(0),
    }
}
