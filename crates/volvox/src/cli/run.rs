//! Commands carried out.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use super::args::{Cli, Command, ConfigCommand, LayerArgs};
use crate::config::{
    Assignment, ConfigError, Loaded, default_toml, environment, file, load, show_json, show_text,
};
use crate::launch::{Manner, Prepared, prepare};
use crate::memcached;
use crate::run_files::PORT_FILE_VARIABLE;
use crate::serve::serve;

/// Settings or flags that cannot be served; the code of `EX_USAGE`.
const EXIT_USAGE: u8 = 64;
/// Anything that fails later.
const EXIT_FAILURE: u8 = 1;

/// Runs the command line `words`, the program's name first.
pub fn run(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    if called_memcached(words.first()) {
        return match words.into_iter().skip(1).map(OsString::into_string).collect() {
            Ok(flags) => memcached(flags),
            Err(word) => fail(EXIT_USAGE, &format!("{}: not UTF-8", word.to_string_lossy())),
        };
    }
    match Cli::parse_from(words).command {
        Command::Serve(layers) => with(layered(layers), |loaded| {
            let port_file = env::var_os(PORT_FILE_VARIABLE).map(PathBuf::from);
            start(loaded, Manner { port_file, ..Manner::default() })
        }),
        Command::Memcached { flags } => memcached(flags),
        Command::Config(command) => config(command),
        Command::Load(args) => match ::load::cli::run(&args) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => EXIT_FAILURE.into(),
            Err(error) => fail(EXIT_FAILURE, &error.to_string()),
        },
        Command::Lab(args) => match env::current_exe().map(|own| lab::run(&args, &own)) {
            Ok(Ok(true)) => ExitCode::SUCCESS,
            Ok(Ok(false)) => EXIT_FAILURE.into(),
            Ok(Err(error)) => fail(EXIT_FAILURE, &error.to_string()),
            Err(error) => fail(EXIT_FAILURE, &format!("cannot find this program: {error}")),
        },
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "volvox", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Version => {
            let release = memcached::COMPATIBLE_VERSION;
            let version = env!("CARGO_PKG_VERSION");
            print(&format!("volvox {version}\nfollows memcached {release}\n"))
        }
    }
}

fn called_memcached(name: Option<&OsString>) -> bool {
    let name = name.and_then(|name| Path::new(name).file_name());
    name.is_some_and(|name| name == "memcached" || name == "memcached-debug")
}

fn memcached(flags: Vec<String>) -> ExitCode {
    let asked = match memcached::parse(&flags) {
        Ok(memcached::Command::Help) => return print(&memcached::help()),
        Ok(memcached::Command::License) => return print(&memcached::license()),
        Ok(memcached::Command::Version) => return print(&memcached::version()),
        Ok(memcached::Command::Start(asked)) => asked,
        Err(reason) => return fail(EXIT_USAGE, &reason),
    };
    let layers = layers_below(None, memcached::defaults()).map(|mut layers| {
        layers.extend(asked.assignments);
        layers
    });
    with(layers.and_then(|layers| load(&layers)), |loaded| {
        let manner = Manner {
            as_memcached: true,
            notes: asked.notes,
            reported: asked.reported,
            port_file: env::var_os(PORT_FILE_VARIABLE).map(PathBuf::from),
        };
        start(loaded, manner)
    })
}

fn config(command: ConfigCommand) -> ExitCode {
    match command {
        ConfigCommand::Default => print(&default_toml()),
        ConfigCommand::Check { file } => {
            with(layered(LayerArgs { config: file, ..LayerArgs::default() }), |_| print("ok\n"))
        }
        ConfigCommand::Show { json, layers } => with(layered(layers), |loaded| {
            print(&if json { show_json(&loaded) } else { show_text(&loaded) })
        }),
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
    // Variables of ours are ASCII; what is not UTF-8 belongs to others, or fails its range check.
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

fn with<T>(loaded: Result<T, Vec<ConfigError>>, then: impl FnOnce(T) -> ExitCode) -> ExitCode {
    match loaded {
        Ok(loaded) => then(loaded),
        Err(errors) => {
            let lines: Vec<_> = errors.iter().map(ConfigError::to_string).collect();
            fail(EXIT_USAGE, &lines.join("\nvolvox: "))
        }
    }
}

fn start(loaded: Loaded, manner: Manner) -> ExitCode {
    match prepare(loaded, manner) {
        Ok(Prepared::Elsewhere(code)) => code.into(),
        Ok(Prepared::Ready(launch)) => match serve(*launch) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(EXIT_FAILURE, &error.to_string()),
        },
        Err(error) => fail(EXIT_FAILURE, &error.to_string()),
    }
}

/// Prints `text`; a reader that went away, as `head` does, is no failure.
fn print(text: &str) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_FAILURE, &format!("standard output: {error}")),
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    // With nowhere left to complain, the code alone must tell.
    let _ = writeln!(io::stderr().lock(), "volvox: {message}");
    code.into()
}
