//! A cell, one worker and one connection without sockets: requests in, replies out.

#![allow(dead_code, reason = "no test uses all of it")]

use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard};

use base::{MemoryBudget, Now};
use engine::EngineConfig;
use memcache::Limits;
use service::{Cell, ConnectionReport, Connections, Host, LimitChange, Options, Rusage, Service};
use session::{Bounds, ConnId, Context, Flow, Handler, Resources, Session, WorkerId};

/// Second at which every test starts.
pub const START_S: u32 = 1_800_000_000;

/// The longest value, in bytes. It is short, so that a value that is too long is short too.
pub const VALUE_BYTES_MAX: u64 = 1000;

/// The limit on memory, in bytes. It can be raised to twice that.
pub const LIMIT_BYTES: u64 = 8 << 20;

/// A session that wants more turns than this is stuck.
const TURNS_MAX: usize = 10_000;

/// What the service requested from its process.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HostCalls {
    /// A shutdown, and whether it is graceful.
    pub shutdown: Option<bool>,
    /// A verbosity.
    pub verbosity: Option<u32>,
    /// A limit on memory.
    pub limit: Option<LimitChange>,
}

struct FakeHost(Arc<Mutex<HostCalls>>);

impl Host for FakeHost {
    fn connections(&self) -> Connections {
        Connections {
            max: 1024,
            open: 1,
            accepting: true,
            accepted: 3,
            rejected: 1,
            threads: 4,
            ..Default::default()
        }
    }

    fn reports(&self) -> Vec<ConnectionReport> {
        vec![ConnectionReport {
            number: 27,
            address: "tcp:127.0.0.1:36090".into(),
            listener: "tcp:127.0.0.1:11211".into(),
            state: "conn_read",
            idle_s: 5,
        }]
    }

    fn rusage(&self) -> Rusage {
        Rusage { user_us: 1_000_002, system_us: 30 }
    }

    fn shutdown(&self, graceful: bool) {
        lock(&self.0).shutdown = Some(graceful);
    }

    fn set_verbosity(&self, level: u32) {
        lock(&self.0).verbosity = Some(level);
    }

    fn limit_changed(&self, change: LimitChange) {
        lock(&self.0).limit = Some(change);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

/// The options of a cell without a log.
pub fn options() -> Options {
    Options {
        version: "1.6.45".into(),
        limits: Limits { value_bytes_max: VALUE_BYTES_MAX, ..Limits::default() },
        allow_flush: true,
        allow_shutdown: false,
        allow_policy: true,
        allow_discard: true,
        allow_dump: true,
        authenticate: None,
        connections_part: 4,
        keep_leases: true,
        effect_log: None,
        settings: vec![("maxbytes", "0".into()), ("maxconns", "1024".into())],
    }
}

/// Appends to `sent` what may leave now.
pub fn take_output(session: &mut Session, context: &mut Context<Service>, sent: &mut Vec<u8>) {
    if context.has_held() && !context.held_may_leave() {
        let leaving = session.withhold(context.out.whole(), context);
        context.out.cut_after(leaving);
        context.forget_held();
    }
    session.release(context);
    let mut slices = [IoSlice::new(&[]); 8];
    let count = context.out.slices(context.out.whole(), &mut slices);
    sent.extend(slices[..count].iter().flat_map(|slice| slice.iter()));
}

/// Everything around one connection.
pub struct Rig {
    session: Session,
    context: Context<Service>,
    host_calls: Arc<Mutex<HostCalls>>,
    /// What the session wants next, after the latest request.
    pub flow: Flow,
    /// Bytes of the longest output of one turn.
    pub longest_turn: usize,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A cell that answers with an error when its memory is full.
    pub fn without_eviction() -> Self {
        Self::of(false, |_| {})
    }

    pub fn with(choose: impl FnOnce(&mut Options)) -> Self {
        Self::of(true, choose)
    }

    fn of(evict: bool, choose: impl FnOnce(&mut Options)) -> Self {
        let mut options = options();
        choose(&mut options);
        let budget = MemoryBudget::new(LIMIT_BYTES);
        let config = EngineConfig {
            // Tokens count from one in every slice, so that a table of cases can name them.
            epoch: 0,
            version_seed: None,
            evict,
            value_bytes_max: VALUE_BYTES_MAX as usize,
            reserve_bytes: 2 * LIMIT_BYTES,
            ..EngineConfig::new(LIMIT_BYTES)
        };
        let now = Now { mono_ns: 0, expiry_s: START_S };
        let host_calls = Arc::new(Mutex::new(HostCalls::default()));
        let host = Box::new(FakeHost(host_calls.clone()));
        let cell = Cell::new(config, budget.clone(), options, host, now).expect("a valid config");
        let id = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
        let (handler, resources) =
            (Service::new(cell, false), Resources { bounds: Bounds::default(), budget });
        Self {
            session: Session::new(id),
            context: Context::new(handler, now, resources),
            host_calls,
            flow: Flow::Idle,
            longest_turn: 0,
        }
    }

    /// Moves the time forward.
    pub fn wait_s(&mut self, seconds: u32) {
        self.context.now.expiry_s += seconds;
        self.context.now.mono_ns += u64::from(seconds) * 1_000_000_000;
    }

    /// What the service requested from its process since the last call of this function.
    pub fn host_calls(&self) -> HostCalls {
        std::mem::take(&mut *lock(&self.host_calls))
    }

    /// Sends `request` in one piece and returns everything that comes back.
    pub fn send(&mut self, request: impl AsRef<[u8]>) -> String {
        self.session.receive(request.as_ref(), &mut self.context);
        self.go_on(true)
    }

    /// The same, while the reader of the log stands still: what comes back shows nothing that is
    /// in the log alone.
    pub fn send_unread(&mut self, request: impl AsRef<[u8]>) -> String {
        self.session.receive(request.as_ref(), &mut self.context);
        self.go_on(false)
    }

    /// Lets the reader of the log go on. Returns everything that comes back.
    pub fn read_log(&mut self) -> String {
        let mut sent = self.go_on(true);
        while self.session.flow() == Flow::Parked {
            self.session.resume(&mut self.context);
            sent += &self.go_on(true);
        }
        sent
    }

    /// Does what a driver does, until the connection waits. The reader of the log is at the end of
    /// a batch.
    fn go_on(&mut self, reads: bool) -> String {
        let (session, context) = (&mut self.session, &mut self.context);
        let mut sent = Vec::new();
        for _ in 0..TURNS_MAX {
            if reads {
                context.handler.end_batch(context.now, || context.now);
            }
            take_output(session, context, &mut sent);
            self.longest_turn = self.longest_turn.max(context.out.len());
            context.out.clear(0);
            if !matches!(session.flow(), Flow::Again | Flow::Full) {
                break;
            }
            session.resume(context);
        }
        self.flow = session.flow();
        String::from_utf8_lossy(&sent).into_owned()
    }

    /// Whether the connection closed after the latest reply.
    pub fn is_closed(&self) -> bool {
        self.flow == Flow::Close
    }

    /// Sends one request after the other and compares the replies. `|` stands for the end of a
    /// line.
    #[track_caller]
    pub fn converse(&mut self, table: &[(&str, &str)]) {
        for (request, want) in table {
            let got = self.send(request.replace('|', "\r\n"));
            assert_eq!(got, want.replace('|', "\r\n"), "after {request}");
        }
    }
}
