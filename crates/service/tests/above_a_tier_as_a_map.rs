//! A cell above a tier answers as a plain map does: random commands of every kind about keys of all
//! levels, with evictions, restarts, flushes of all and a database that is away.
//!
//! One thread does what the workers and the threads of the tier do. `TIER_OPERATIONS` sets how many
//! operations there are, and `TIER_SEED` the seed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "map/mod.rs"]
mod map;
mod support;

use backend::{Fault, MemoryBackend};
use base::{MemoryBudget, Now, SliceId, Version};
use engine::EngineConfig;
use faulty::disk::SimDisk;
use map::{Map, Reply, START_S, VALUE_BYTES_MAX};
use measure::rng::Rng;
use memcache::Limits;
use service::{
    Cell, ConnectionReport, Connections, EffectLogOptions, Host, LimitChange, Loader, Options,
    Rusage, Service, Tiered,
};
use session::{Bounds, ConnId, Context, Flow, Handler, Resources, Session, WorkerId};
use std::fmt::Write as _;
use std::sync::Arc;
use tier::{ACK_NAMES, Ack, Backend, Failure, Policy, PrefixRule, Recovered, Rules, TierConfig};

/// The limit on memory: a part of what the keys take.
const LIMIT_BYTES: u64 = 4 << 20;
const KEYS: u64 = 700;
/// A request that waits for more turns than this is stuck.
const TURNS_MAX: usize = 2_000;

struct NoHost;

impl Host for NoHost {
    fn connections(&self) -> Connections {
        Connections::default()
    }
    fn reports(&self) -> Vec<ConnectionReport> {
        Vec::new()
    }
    fn rusage(&self) -> Rusage {
        Rusage::default()
    }
    fn shutdown(&self, _: bool) {}
    fn set_verbosity(&self, _: u32) {}
    fn limit_changed(&self, _: LimitChange) {}
}

/// A process.
struct Process {
    session: Session,
    context: Context<Service>,
    tiered: Arc<Tiered>,
    loader: Loader,
}

fn rules(base: Ack) -> Rules {
    let rule = |(name, ack): &(&str, Ack)| PrefixRule {
        prefix: format!("{}-", &name[..1]),
        policy: Policy::Kept(*ack),
    };
    Rules::new(base, ACK_NAMES.iter().map(rule).collect()).unwrap()
}

fn begin(disk: &SimDisk, backend: &Arc<MemoryBackend>, base: Ack, now: Now) -> Process {
    let disk: Arc<dyn tier::Disk> = Arc::new(disk.clone());
    let below: Arc<dyn Backend> = backend.clone();
    let value_bytes_max = VALUE_BYTES_MAX as u64;
    let config = TierConfig {
        adopts: false,
        in_ring: false,
        rules: Arc::new(rules(base)),
        salvages: false,
        journal_bytes: 40 << 20,
        index_bytes: 1 << 20,
        value_bytes_max,
        age_ns: 300_000_000,
        lookups_max: 64,
        missing_max: 100,
    };
    let first = |_: SliceId| Version::from_raw(1000);
    let names = ([7; 16], [9; 16]);
    let recovered = Recovered::find(&disk, below, config, names, first).unwrap();
    let log =
        EffectLogOptions { lanes: 2, workers: 3, value_bytes_max, gates: true, has_readers: true };
    let limits = Limits { value_bytes_max, ..Limits::default() };
    let options = Options { effect_log: Some(log), limits, ..support::options() };
    let budget = MemoryBudget::new(LIMIT_BYTES);
    let engine =
        EngineConfig { value_bytes_max: VALUE_BYTES_MAX, ..EngineConfig::new(LIMIT_BYTES) };
    let cell = Cell::new(engine, budget.clone(), options, Box::new(NoHost), now).unwrap();
    let tiered = cell.put_above(recovered, now).unwrap();
    let id = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    let handler = Service::new(cell.clone(), true);
    let resources = Resources { bounds: Bounds::default(), budget };
    let loader = Loader::new(cell.clone()).unwrap();
    let context = Context::new(handler, now, resources);
    Process { session: Session::new(id), context, tiered, loader }
}

impl Process {
    /// Sends a request, and returns its whole reply. The database is there again when a request
    /// has waited for some turns.
    fn send(&mut self, request: &[u8], backend: &MemoryBackend) -> String {
        self.session.receive(request, &mut self.context);
        let mut sent = Vec::new();
        let is_quiet = request.windows(10).any(|it| it == b" noreply\r\n");
        for turn in 0..TURNS_MAX {
            self.context.handler.end_batch(self.context.now, || self.context.now);
            let (session, context) = (&mut self.session, &mut self.context);
            support::take_output(session, context, &mut sent);
            context.out.clear(0);
            match session.flow() {
                Flow::Again | Flow::Full => _ = session.resume(context),
                // A reply that is held has not left yet.
                Flow::Idle if is_quiet || !sent.is_empty() => {
                    return String::from_utf8(sent).unwrap();
                }
                Flow::Close => panic!("closed after {:?}", String::from_utf8_lossy(request)),
                _ => self.turn(turn, backend),
            }
        }
        let request = String::from_utf8_lossy(&request[..request.len().min(60)]).into_owned();
        panic!("{request:?} is not answered: {:?}", self.tiered.tier().report());
    }

    /// What the threads of the tier do while a request waits.
    fn turn(&mut self, turn: usize, backend: &MemoryBackend) {
        if turn == 4 {
            backend.clear_faults();
        }
        self.context.now.mono_ns += 1_000_000;
        let now = self.context.now;
        if self.tiered.tier().report().lookups > 0 {
            self.loader.run(|| now);
        }
        self.tiered.sync(now);
        self.write_back(turn > 2);
        if self.session.flow() == Flow::Parked {
            self.session.resume(&mut self.context);
        }
        if turn > 4 {
            self.context.now.mono_ns += 60_000_000;
        }
    }

    /// Items that were evicted.
    fn evictions(&mut self, backend: &MemoryBackend) -> u64 {
        let stats = self.send(b"stats\r\n", backend);
        let (_, rest) = stats.split_once("STAT evictions ").unwrap();
        rest.split("\r\n").next().unwrap().parse().unwrap()
    }

    fn write_back(&mut self, all: bool) {
        let now = self.context.now;
        let _ = self.tiered.tier().flush_through(now);
        let _ = self.tiered.tier().flush(now, all);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// One request of one kind.
fn request(rng: &mut Rng, map: &Map) -> String {
    let letter = ["m", "o", "d", "b", "k"][rng.below(5) as usize];
    let number = if rng.below(4) == 0 { rng.below(8) } else { rng.below(KEYS) };
    let key = format!("{letter}-{number}");
    let flags = rng.below(1 << 16);
    let exptime = match rng.below(12) {
        0 => -1,
        1..4 => 1 + rng.below(40) as i64,
        _ => 0,
    };
    let bytes = match rng.below(10) {
        0..6 => rng.below(VALUE_BYTES_MAX as u64),
        6 => 0,
        _ => rng.below(300),
    };
    let value = match rng.below(6) {
        0 => rng.below(1 << 30).to_string(),
        _ => char::from(b'a' + rng.below(26) as u8).to_string().repeat(bytes as usize),
    };
    let quiet = if rng.below(10) == 0 { " noreply" } else { "" };
    let length = value.len();
    let store =
        |verb: &str| format!("{verb} {key} {flags} {exptime} {length}{quiet}\r\n{value}\r\n");
    let token = match rng.below(4) {
        0 => 1,
        _ => map.token(&key).unwrap_or(2),
    };
    match rng.below(28) {
        0..6 => store("set"),
        6 => store("add"),
        7 => store("replace"),
        8 if length < 2000 => store("append"),
        9 if length < 2000 => store("prepend"),
        10 => format!("cas {key} {flags} {exptime} {length} {token}{quiet}\r\n{value}\r\n"),
        11 => format!("incr {key} {}{quiet}\r\n", rng.below(1000)),
        12 => format!("decr {key} {}{quiet}\r\n", rng.below(1000)),
        13..15 => format!("delete {key}{quiet}\r\n"),
        15 => format!("touch {key} {exptime}{quiet}\r\n"),
        16 => format!("gat {exptime} {key}\r\n"),
        17 => format!("gats {exptime} {key}\r\n"),
        18..20 => format!("gets {key}\r\n"),
        20 => format!("get {key} {letter}-{} {letter}-1\r\n", rng.below(KEYS)),
        21 => format!("mg {key} v f t c\r\n"),
        22 => format!("ms {key} {length} F{flags} T{exptime} c\r\n{value}\r\n"),
        23 => format!("md {key}\r\n"),
        24 => format!("ma {key} D{} v\r\n", rng.below(1000)),
        _ => format!("get {key}\r\n"),
    }
}

/// The database is away for some calls, or carries them out and does not say so.
fn begin_outage(rng: &mut Rng, backend: &MemoryBackend) {
    let failure = [Failure::Transient, Failure::Unknown, Failure::Full];
    let fault = match rng.below(4) {
        3 => Fault::CarriedOut,
        at => Fault::Refused(failure[at as usize]),
    };
    backend.fail_gets(1 + rng.below(400) as usize, fault);
    backend.fail_applies(1 + rng.below(400) as usize, fault);
}

/// The begin of a request, of its reply, and of what that should be.
fn shown(texts: [&String; 3]) -> String {
    let mut what = "request, reply, and what it should be\n".to_owned();
    for text in texts {
        let _ = writeln!(what, "{:?}", text.chars().take(200).collect::<String>());
    }
    what
}

#[test]
fn a_cell_above_a_tier_answers_as_a_map_does() {
    let seed = number("TIER_SEED").unwrap_or(1);
    let operations = number("TIER_OPERATIONS").unwrap_or(20_000);
    let mut rng = Rng::new(seed, 0);
    let (disk, backend) = (SimDisk::new(seed), Arc::new(MemoryBackend::new()));
    let mut now = Now { mono_ns: 1_000_000_000, expiry_s: START_S };
    let mut process = begin(&disk, &backend, Ack::Os, now);
    let mut map = Map::new();
    let [mut restarts, mut flushes, mut outages, mut evictions, mut found] = [0; 5];
    let mut below = 0;
    for operation in 0..operations {
        match rng.below(3_000) {
            0 => {
                let base = Ack::ALL[rng.below(4) as usize];
                match rng.below(3) {
                    // What is at `memory` may be lost, unless it was written.
                    0 => process.tiered.write(),
                    _ => process.tiered.sync(process.context.now),
                }
                (restarts, now) = (restarts + 1, process.context.now);
                evictions += process.evictions(&backend);
                below += process.tiered.tier().report().loads_below;
                process.tiered.end();
                drop(process);
                backend.clear_faults();
                disk.kill();
                process = begin(&disk, &backend, base, now);
            }
            1 => {
                flushes += 1;
                let delay = if rng.below(2) == 0 { 0 } else { rng.below(20) as u32 };
                let request = match delay {
                    0 => "flush_all\r\n".to_owned(),
                    _ => format!("flush_all {delay}\r\n"),
                };
                assert_eq!(process.send(request.as_bytes(), &backend), "OK\r\n");
                map.flush(process.context.now.expiry_s, delay);
            }
            2..8 => {
                outages += 1;
                begin_outage(&mut rng, &backend);
            }
            8..50 => {
                let seconds = rng.below(4) as u32;
                process.context.now.expiry_s += seconds;
                process.context.now.mono_ns += u64::from(seconds) * 1_000_000_000 + 1;
                process.tiered.sync(process.context.now);
                process.write_back(false);
            }
            _ => {}
        }
        let request = request(&mut rng, &map);
        let now_s = process.context.now.expiry_s;
        let reply = process.send(request.as_bytes(), &backend);
        found += u64::from(reply.starts_with("VALUE"));
        if let Reply::Wrong(wanted) = map.take(&request, &reply, now_s) {
            panic!("seed {seed}, operation {operation}: {}", shown([&request, &reply, &wanted]));
        }
    }
    evictions += process.evictions(&backend);
    below += process.tiered.tier().report().loads_below;
    println!(
        "{operations} operations agree: {found} found, {below} loads from below, {evictions} \
         evictions, {restarts} restarts, {flushes} flushes of all, {outages} outages"
    );
    assert!(number("TIER_SEED").is_some() || evictions > 0 && restarts > 0 && flushes > 0);
    assert!(number("TIER_SEED").is_some() || outages > 0 && below > 0 && found > 100);
}
