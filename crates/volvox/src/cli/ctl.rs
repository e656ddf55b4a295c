//! The grammar of `volvox ctl`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::ctl::{
    Balance, By, DEFAULT_SERVER, Division, Leave, Movement, Question, Restart, Wanted,
};

/// The longest time-out and the longest pause, in seconds.
const SECONDS_MAX: f64 = 3600.0;

pub(super) const EXAMPLES: &str = "\
Examples:
  volvox ctl ring                                   the ring of the cell at 127.0.0.1:11211
  volvox ctl ring --server 10.0.0.1:11211,10.0.0.2:11211 --watch 1
  volvox ctl who-has user:1 user:2                  where two keys are
  volvox ctl keys --prefix user: --limit 100        keys that begin with user:
  volvox ctl drain 2                                empty a cell before it is stopped
  volvox ctl log --json | jq .cause                 why the map has changed
  volvox ctl tier drain --wait 60                   write back everything that is dirty
  volvox ctl tier policy os order:=disk             what answers promise, from now on";

/// A question to a ring.
#[derive(Args, Debug)]
pub struct CtlArgs {
    #[command(subcommand)]
    command: CtlCommand,
    /// Cells to ask, the first that answers; the others are found by its map
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = DEFAULT_SERVER
    )]
    server: Vec<String>,
    /// How long a cell may take for an answer
    #[arg(long, global = true, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    timeout: Duration,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Draw the ring, and show each cell and what is wrong
    ///
    /// Example: volvox ctl ring --wait 60
    Ring {
        /// Wait until each cell answers, each range has its copies, and nothing is under way; the
        /// exit code is 1 if that is not so by then
        #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "watch")]
        wait: Option<Duration>,
        /// Show it again and again
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        watch: Option<Duration>,
    },
    /// Show the range of keys, who leads and copies it, and which cells hold them
    WhoHas {
        /// The keys
        #[arg(required = true)]
        keys: Vec<String>,
        /// The keys are written in hexadecimal digits, as keys --json shows those that are no text
        #[arg(long)]
        hex: bool,
    },
    /// List every key once, whatever cell has it
    Keys {
        /// Only keys that begin like this
        #[arg(long, default_value = "")]
        prefix: String,
        /// At most this number of keys; 0 lists all
        #[arg(long, default_value_t = 10_000)]
        limit: u64,
    },
    /// End a cell, unless that would lose or evict items, or stop the agreement; it must allow
    /// shutdown
    Stop {
        /// Its number, as ctl ring shows it
        #[arg(value_parser = number)]
        cell: u32,
        /// Skip the check of items, memory and voters
        #[arg(long)]
        yes: bool,
    },
    /// Have a cell lead a range: no client sees an error, or a miss
    ///
    /// Example: volvox ctl move 1 2
    Move {
        /// The number of the range, as ctl ring shows it
        #[arg(value_parser = number)]
        range: u32,
        /// The number of the cell
        #[arg(value_parser = number)]
        cell: u32,
        /// Also where the memory of the cell would be short, and items would be evicted
        #[arg(long)]
        force: bool,
        /// How long to wait, also until a copy is there that the range lacks; after that the order
        /// stands
        #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
        wait: Duration,
    },
    /// Make two of a range of a cell, and have a spare lead one of them: no client sees an error,
    /// or a miss
    ///
    /// Example: volvox ctl divide 1 --by load
    Divide {
        /// The number of the cell, as ctl ring shows it
        #[arg(value_parser = number)]
        cell: u32,
        /// The range; without it the one with the most slices, or load
        #[arg(long, value_name = "RANGE", value_parser = number)]
        range: Option<u32>,
        /// The cell that is to lead one half; without it one that has no part in any range
        #[arg(long, value_name = "CELL", value_parser = number)]
        to: Option<u32>,
        /// Of what both halves are to have as much: slices, or load, which is counted for three
        /// seconds
        #[arg(long, default_value = "slices")]
        by: By,
        /// Also where the memory of that cell would be short, and items would be evicted
        #[arg(long)]
        force: bool,
        /// How long to wait; after that the order stands
        #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
        wait: Duration,
    },
    /// Have cells lead as much as others, one step after the other: no client sees an error, or a
    /// miss
    ///
    /// Keys are spread over the slices evenly, so bytes follow the slices; the load does where no
    /// key is asked for far more often than others. Ranges move as a whole where that makes two
    /// cells even, and are divided else. Example: volvox ctl balance --all
    Balance {
        /// Of what each is to have as much: slices, or load, which is counted for three seconds
        #[arg(long, default_value = "slices")]
        by: By,
        /// Cells that have nothing get something, too
        #[arg(long)]
        all: bool,
        /// Only show the steps
        #[arg(long)]
        dry_run: bool,
        /// Also steps after which the memory of a cell would be short, and items be evicted
        #[arg(long)]
        force: bool,
        /// How long to wait for all of it; what was ordered stands after that
        #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
        wait: Duration,
    },
    /// Have other cells take all that a cell has, before it is stopped: no client sees an error, or
    /// a miss; its ranges come back to it once it has started again
    ///
    /// Example: volvox ctl drain 2 && volvox ctl stop 2
    Drain(LeaveArgs),
    /// Have other cells take all that a cell has, for good: its ranges become one with their
    /// neighbours
    ///
    /// Example: volvox ctl absorb 4 && volvox ctl stop 4
    Absorb(LeaveArgs),
    /// Have the ring forget a cell that has ended and will not return: it must have no part in any
    /// range
    ///
    /// Example: volvox ctl absorb 4 && volvox ctl stop 4 && volvox ctl remove 4
    Remove {
        /// The number of the cell, as ctl ring shows it
        #[arg(value_parser = number)]
        cell: u32,
        /// How long to wait, also until another cell has its vote
        #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
        wait: Duration,
    },
    /// Show what is under way: cells that leave, and ranges that move, are divided, or become one
    Ops,
    /// Have cells begin again, one after the other, each with the program that stands now where its
    /// own one stood; each is emptied before, and takes its place again
    ///
    /// The cells must allow it: protocol.allow_shutdown. It stops at the first fault, and says how
    /// to go on. Example: volvox ctl restart
    Restart {
        /// The numbers of the cells, in this order; without, all of them
        #[arg(value_parser = number)]
        cells: Vec<u32>,
        /// Whatever speaks against it: a cell whose ring has no room for what it has is not
        /// emptied, and its copies go on without it until it is back
        #[arg(long)]
        force: bool,
        /// How long to wait for each cell
        #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
        wait: Duration,
    },
    /// Begin a range again empty whose copies are all lost
    Forgive {
        /// Its number, as ctl ring shows it
        #[arg(value_parser = number)]
        range: u32,
        /// Do it; without, only say what would be lost
        #[arg(long)]
        yes: bool,
    },
    /// Make a cell the only voter, where more than half of the voters are lost for ever
    Recover {
        /// Its number, as ctl ring shows it
        #[arg(value_parser = number)]
        cell: u32,
        /// Do it; without, only say what would be lost
        #[arg(long)]
        yes: bool,
    },
    /// Show the tier of a cell, or have it written back
    #[command(subcommand)]
    Tier(TierCommand),
    /// Show how the map has changed, and why
    Log {
        /// At most this number of changes, the latest; 0 shows all
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
}

#[derive(Args, Debug)]
struct LeaveArgs {
    /// The number of the cell, as ctl ring shows it
    #[arg(value_parser = number)]
    cell: u32,
    /// Whatever speaks against it: items may be evicted, and ranges may have fewer copies
    #[arg(long)]
    force: bool,
    /// The cell stays in the ring after all
    #[arg(long)]
    undo: bool,
    /// How long to wait; after that it goes on
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    wait: Duration,
}

impl LeaveArgs {
    fn question(self, is_absorbed: bool) -> Question {
        let Self { cell, force: is_forced, undo: is_undone, wait } = self;
        Question::Leave(Leave { cell, is_absorbed, is_forced, is_undone, wait })
    }
}

#[derive(Debug, Subcommand)]
enum TierCommand {
    /// Show what is dirty, what was loaded and written back, and what is wrong
    Status {
        /// Show it again and again
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        watch: Option<Duration>,
    },
    /// Show what answers promise, or change it until the cell ends: a level, and those of prefixes
    Policy {
        /// LEVEL [PREFIX=LEVEL ...], in place of all that hold now; nothing: show them
        #[arg(value_name = "LEVEL")]
        rules: Vec<String>,
    },
    /// Have everything that is dirty written back now, and do not wait for it
    Flush,
    /// Try at once to write back, without the pause after what has failed, and say what came of it
    ///
    /// The exit code is 1 if the database still refuses. Example: volvox ctl tier retry --wait 5
    Retry {
        /// How long to wait for what comes of it
        #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
        wait: Duration,
    },
    /// Give up changes that cannot be written back: each key has its value in the database then
    ///
    /// The cell must allow it: protocol.allow_tier_discard. The exit code is 1 if some are left.
    /// Examples: volvox ctl tier discard --i-lose-data KEY; ... --prefix session:; ... --run 3f
    Discard {
        /// The keys
        keys: Vec<String>,
        /// All keys that begin like this
        #[arg(long)]
        prefix: Option<String>,
        /// All keys of this run of a bucket, as it stands in map/RUN: hexadecimal
        #[arg(long, value_parser = run)]
        run: Option<u32>,
        /// Do it; without, only say how many changes are not written back in all
        #[arg(long)]
        i_lose_data: bool,
        /// How long to wait for what comes of it
        #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
        wait: Duration,
    },
    /// Check whether all can be read that lies below memory, and is what was written
    ///
    /// It reads the journal, and all keys of the database, and changes nothing. The exit code is 1
    /// if something is wrong, or not all was checked. Example: volvox ctl tier check --json
    Check {
        /// How long to wait for what comes of it
        #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds)]
        wait: Duration,
    },
    /// Have everything that is dirty written back, and wait until nothing is dirty
    Drain {
        /// How long to wait
        #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
        wait: Duration,
    },
}

fn run(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16)
        .map_err(|_| "expected the hexadecimal number in the name map/RUN/...".to_owned())
}

/// Reads the number of a cell or a range.
fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a number from 0 on, as ctl ring shows it".to_owned())
}

/// Reads a time of 0.001 to 3,600 seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=SECONDS_MAX).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("expected seconds, 0.001 to {SECONDS_MAX}"))?;
    Ok(Duration::from_secs_f64(seconds))
}

impl From<CtlArgs> for Wanted {
    fn from(args: CtlArgs) -> Self {
        let CtlArgs { command, server, timeout, json } = args;
        let question = match command {
            CtlCommand::Ring { wait: Some(wait), .. } => Question::RingAtRest { wait },
            CtlCommand::Ring { watch, .. } => Question::Ring { every: watch },
            CtlCommand::WhoHas { keys, hex } => Question::WhoHas { keys, are_hex: hex },
            CtlCommand::Keys { prefix, limit } => Question::Keys { prefix, limit },
            CtlCommand::Stop { cell, yes } => Question::Stop { cell, is_certain: yes },
            CtlCommand::Move { range, cell, force: is_forced, wait } => {
                Question::Move(Movement { range, cell, is_forced, wait })
            }
            CtlCommand::Divide { cell, range, to, by, force: is_forced, wait } => {
                Question::Divide(Division { cell, range, to, by, is_forced, wait })
            }
            CtlCommand::Balance { by, all, dry_run: is_dry, force: is_forced, wait } => {
                Question::Balance(Balance { by, takes_spares: all, is_dry, is_forced, wait })
            }
            CtlCommand::Remove { cell, wait } => Question::Remove { cell, wait },
            CtlCommand::Ops => Question::Operations,
            CtlCommand::Restart { cells, force: is_forced, wait } => {
                Question::Restart(Restart { cells, is_forced, wait })
            }
            CtlCommand::Drain(args) => args.question(false),
            CtlCommand::Absorb(args) => args.question(true),
            CtlCommand::Forgive { range, yes } => Question::Forgive { range, is_certain: yes },
            CtlCommand::Recover { cell, yes } => Question::Recover { cell, is_certain: yes },
            CtlCommand::Tier(TierCommand::Status { watch }) => Question::Tier { every: watch },
            CtlCommand::Tier(TierCommand::Retry { wait }) => Question::TierRetry { wait },
            CtlCommand::Tier(TierCommand::Discard { keys, prefix, run, i_lose_data, wait }) => {
                Question::TierDiscard { keys, prefix, run, is_certain: i_lose_data, wait }
            }
            CtlCommand::Tier(TierCommand::Policy { rules }) => Question::TierPolicy { rules },
            CtlCommand::Tier(TierCommand::Check { wait }) => Question::TierCheck { wait },
            CtlCommand::Tier(TierCommand::Flush) => Question::TierFlush { wait: None },
            CtlCommand::Tier(TierCommand::Drain { wait }) => {
                Question::TierFlush { wait: Some(wait) }
            }
            CtlCommand::Log { limit } => Question::Log { limit },
        };
        Self { servers: server, timeout, json, question }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Whole {
        #[command(flatten)]
        _args: CtlArgs,
    }

    #[test]
    fn what_is_no_number_is_named_with_what_is_expected() {
        for words in [
            &["stop"][..],
            &["forgive"],
            &["recover"],
            &["move"],
            &["move", "1"],
            &["divide"],
            &["drain"],
        ] {
            let command = words.join(" ");
            let words = ["ctl"].iter().chain(words).chain(&["x"]);
            let error = Whole::try_parse_from(words).expect_err("it is none");
            let error = error.to_string();
            let names = error.contains("invalid value 'x'") && error.contains("expected a number");
            assert!(names, "{command}: {error}");
        }
    }
}
