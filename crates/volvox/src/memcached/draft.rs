//! What the flags read so far mean, and the only code that acts on a flag.
//!
//! Most flags become an [`Assignment`] or a note at once. Flags that depend on each other (`-p`,
//! `-U`, `-l`, `-s`) are kept and settled in [`Draft::finish`], because they may come in any order.
//! Nothing here touches the process: the result is data.

use crate::config::{Assignment, Choice, Level, Listen, Origin, Value};

use super::row::{Action, Flag, Special, Stat};
use super::suboptions::SUBOPTIONS;

/// The longest tag of a listener, in bytes.
const TAG_BYTES_MAX: usize = 8;

/// What `stats settings` reports after `-o no_modern`.
const NO_MODERN: Stat = Stat::Fixed(&[
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("hash_algorithm", "jenkins"),
    ("lru_crawler", "no"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
]);

/// What a command line requests.
#[derive(Debug, Default)]
pub struct Start {
    /// Values for our settings.
    pub assignments: Vec<Assignment>,
    /// Lines to log at start: flags that are accepted and change nothing, or only a part.
    pub notes: Vec<String>,
    /// Values that `stats settings` repeats for such flags.
    pub reported: Vec<(&'static str, String)>,
}

/// memcached's defaults, where they differ from ours.
#[must_use]
pub fn defaults() -> Vec<Assignment> {
    let every_interface = Listen::new(None, Listen::PORT_DEFAULT).to_string();
    let word =
        |path, word: &str| Assignment::of(path, Value::Word(word.to_owned()), Origin::Memcached);
    vec![
        word("server.listen", &every_interface),
        word("server.workers", "4"),
        word("log.level", "warn"),
    ]
}

/// The flags read so far.
#[derive(Debug, Default)]
pub struct Draft {
    start: Start,
    /// The flag that is carried out, as messages call it.
    flag: String,
    /// As `-p` gives it: 0 for no TCP, -1 for a port that the system chooses.
    port: Option<i32>,
    udp_port: Option<i32>,
    /// As `-l` gives them: each a host, with a port or without.
    hosts: Vec<String>,
    unix_socket: Option<String>,
    /// How often `-v` was given.
    verbosity: u64,
    protocol: Option<String>,
    auth_file: bool,
}

impl Draft {
    /// Carries out `flag` with its `value`; an error follows both.
    pub(super) fn carry_out(&mut self, flag: &Flag, value: &str) -> Result<(), String> {
        self.flag = flag.spelling();
        if let Action::Refuse(reason) = flag.action {
            return Err(reason.to_owned());
        }
        flag.argument.check(value)?;
        match &flag.action {
            Action::Set(path, word) => self.assign(path, word),
            Action::Pass(path) => self.assign(path, value),
            Action::Run(special) => _ = self.run(*special, value)?,
            Action::RunPart(special, reason) => {
                let flag = self.flag.clone();
                if self.run(*special, value)? {
                    self.start.notes.push(format!("{flag}: {reason}"));
                }
            }
            Action::Note(reason, stat) => {
                self.note(reason);
                self.report(stat, value);
            }
            Action::Refuse(_) | Action::Help | Action::License | Action::Version => {}
        }
        Ok(())
    }

    /// Carries out `special`; `true` if it requests a part that does not exist here.
    fn run(&mut self, special: Special, value: &str) -> Result<bool, String> {
        match special {
            Special::Port => self.port = Some(number(value)?),
            Special::UdpPort => {
                let port = number(value)?;
                self.udp_port = Some(port);
                return Ok(port != 0);
            }
            Special::UnixSocket => self.unix_socket = Some(value.to_owned()),
            Special::Listen => self.listen(value)?,
            Special::Verbose => {
                self.verbosity += 1;
                return Ok(self.verbosity == 2);
            }
            Special::LargePages => {
                self.assign("memory.huge_pages", "true");
                self.assign("memory.prefault", "true");
            }
            Special::Protocol => {
                let spoken = if value == "auto" { "auto-negotiate" } else { "ascii" };
                self.start.reported.push(("binding_protocol", spoken.to_owned()));
                self.protocol = Some(value.to_owned());
                return Ok(value != "ascii");
            }
            Special::AuthFile => {
                self.auth_file = true;
                self.assign("server.auth_file", value);
            }
            Special::Extended => self.extended(value)?,
            Special::NoModern => {
                self.assign("server.maxconns_fast", "false");
                self.report(&NO_MODERN, "");
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn assign(&mut self, path: &str, word: &str) {
        let origin = Origin::Flag(self.flag.clone());
        self.start.assignments.push(Assignment::of(path, Value::Word(word.to_owned()), origin));
    }

    fn note(&mut self, reason: &str) {
        self.start.notes.push(format!("{} changes nothing: {reason}", self.flag));
    }

    fn report(&mut self, stat: &Stat, value: &str) {
        let reported = &mut self.start.reported;
        match stat {
            Stat::None => {}
            Stat::AsWritten(name) => reported.push((name, value.to_owned())),
            Stat::Fixed(pairs) => {
                reported.extend(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())));
            }
            Stat::Given(name, factor) => {
                let number = value.parse().unwrap_or(1_u64).saturating_mul(*factor);
                reported.push((name, number.to_string()));
            }
        }
    }

    fn listen(&mut self, value: &str) -> Result<(), String> {
        for address in value.split([',', ';']).filter(|address| !address.is_empty()) {
            let host = self.plain_address(address)?;
            if !self.hosts.contains(&host) {
                self.hosts.push(host);
            }
        }
        Ok(())
    }

    /// `address` without the prefixes that memcached allows: `proto[name]:` and `tag[name]:`.
    fn plain_address(&mut self, address: &str) -> Result<String, String> {
        for tls in ["notls", "btls", "mtls"] {
            if address.strip_prefix(tls).is_some_and(|rest| rest.starts_with(':')) {
                return Err(format!("{tls} needs TLS, which is not built in; leave it out"));
            }
        }
        let mut rest = address;
        if let Some(after) = rest.strip_prefix("proto[") {
            let (name, after) =
                after.split_once(']').ok_or("proto[ is not closed; write proto[ascii]:")?;
            match name {
                "ascii" | "negotiating" => {}
                _ => return Err(format!("protocol {name} is not spoken, choose ascii")),
            }
            rest = after.strip_prefix(':').unwrap_or(after);
        }
        if let Some(after) = rest.strip_prefix("tag[").or_else(|| rest.strip_prefix("tag_")) {
            let (name, after) =
                after.split_once([']', '_']).ok_or("the tag is not closed; write tag[name]:")?;
            if !(1..=TAG_BYTES_MAX).contains(&name.len()) {
                return Err(format!("tag \"{name}\" must have 1 to {TAG_BYTES_MAX} characters"));
            }
            self.note("listeners have no tags, which only a proxy uses");
            rest = after.strip_prefix(':').unwrap_or(after);
        }
        Listen::parse(rest, 0).map_err(|reason| format!("address \"{rest}\" {reason}"))?;
        Ok(rest.to_owned())
    }

    /// `-o name,name=value,...`
    fn extended(&mut self, value: &str) -> Result<(), String> {
        for option in value.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let flag = SUBOPTIONS.iter().find(|flag| flag.name == name).ok_or_else(|| {
                let nearest = Flag::nearest(SUBOPTIONS, name);
                format!("unknown option {name}; did you mean {nearest}?")
            })?;
            if value.is_empty() && flag.argument.name().is_some() {
                return Err(format!("{name} needs a value, as in {name}=..."));
            }
            self.carry_out(flag, value).map_err(|reason| format!("{option}: {reason}"))?;
        }
        Ok(())
    }

    /// Settles what depends on several flags.
    pub(super) fn finish(mut self) -> Result<Start, String> {
        if self.auth_file && self.protocol.as_deref().is_some_and(|name| name != "ascii") {
            return Err("-Y authenticates by text; use it with -B ascii, or leave -B out".into());
        }
        if let Some(path) = self.unix_socket.take() {
            "-s".clone_into(&mut self.flag);
            self.assign("server.listen", "");
            self.assign("server.unix_socket", &path);
        } else if self.port.is_some() || !self.hosts.is_empty() || self.udp_names_tcp().is_some() {
            self.settle_listen();
        }
        if self.verbosity > 0 {
            "-v".clone_into(&mut self.flag);
            let level = Level::of_verbosity(self.verbosity);
            self.assign("log.level", level.name());
        }
        Ok(self.start)
    }

    /// The TCP port that `-U` names if there is no `-p`.
    fn udp_names_tcp(&self) -> Option<i32> {
        self.udp_port.filter(|port| *port != 0 && self.port.is_none())
    }

    /// One list of addresses from `-p`, `-U` and `-l`.
    fn settle_listen(&mut self) {
        let default = i32::from(Listen::PORT_DEFAULT);
        let port = self.port.or(self.udp_names_tcp()).unwrap_or(default);
        let flag = if self.hosts.is_empty() { "-p" } else { "-l" };
        flag.clone_into(&mut self.flag);
        if port == 0 {
            return self.assign("server.listen", "");
        }
        let port = u16::try_from(port).unwrap_or(0);
        if self.hosts.is_empty() {
            self.hosts.push("*".to_owned());
        }
        let listen = |host: &String| {
            Listen::parse(host, port).expect("invariant: hosts were parsed once").to_string()
        };
        let list: Vec<_> = self.hosts.iter().map(listen).collect();
        self.assign("server.listen", &list.join(","));
    }
}

fn number(value: &str) -> Result<i32, String> {
    value.parse().map_err(|_| "expected a whole number".to_owned())
}
