//! Executes requests: what a command means, in terms of the engine.
//!
//! All threads share one [`Cell`]. Each worker has a [`Service`], which implements the session's
//! `Handler`. To read the code, begin with `cell` and `worker`, then `service` (where every request
//! arrives), `retrieve` and `store` (the classic commands), `meta`, and at last `stats`, `admin`
//! and `dump`.
//!
//! Nothing here owns a socket, a clock or a thread. The trait [`Host`] has what only the
//! process can know or do.
//!
//! A cell without sockets, and two requests:
//!
//! ```
//! use base::{MemoryBudget, Now};
//! use engine::EngineConfig;
//! use memcache::{Key, Limits, plain_store};
//! use service::{Cell, ConnectionReport, Connections, Host, LimitChange, Options, Rusage, Service};
//! use session::{Conn, ConnId, Handler, Reply, WorkerId};
//!
//! struct Process;
//!
//! impl Host for Process {
//!     fn connections(&self) -> Connections {
//!         Connections::default()
//!     }
//!     fn reports(&self) -> Vec<ConnectionReport> {
//!         Vec::new()
//!     }
//!     fn rusage(&self) -> Rusage {
//!         Rusage::default()
//!     }
//!     fn shutdown(&self, _graceful: bool) {}
//!     fn set_verbosity(&self, _level: u32) {}
//!     fn limit_changed(&self, _change: LimitChange) {}
//! }
//!
//! const LIMIT_BYTES: u64 = 8 << 20;
//! let options = Options {
//!     version: "1.6.45".into(),
//!     limits: Limits::default(),
//!     allow_flush: true,
//!     allow_shutdown: false,
//!     allow_policy: false,
//!     allow_discard: false,
//!     allow_dump: false,
//!     authenticate: None,
//!     connections_part: 4,
//!     keep_leases: true,
//!     settings: Vec::new(),
//!     effect_log: None,
//! };
//! let now = Now { mono_ns: 0, expiry_s: 1_800_000_000 };
//! let budget = MemoryBudget::new(LIMIT_BYTES);
//! let config = EngineConfig::new(LIMIT_BYTES);
//! let cell = Cell::new(config, budget, options, Box::new(Process), now).expect("8 MiB");
//!
//! let mut service = Service::new(cell.clone(), true);
//! let mut reply = Reply::new();
//! let (store, _) = plain_store(b"set greeting 0 0 5\r\nhello\r\n", 1 << 20).expect("a set");
//! service.store_now::<false>(now, &store, &mut reply);
//! let conn = Conn::new(ConnId { worker: WorkerId(0), index: 0, generation: 0 });
//! service.get_now::<false>(now, &conn, Key::new(b"greeting").expect("a key"), &mut reply);
//! service.end_batch(now, || now);
//! let want = b"STORED\r\nVALUE greeting 0 5\r\nhello\r\nEND\r\n";
//! assert_eq!(reply.bytes_mut().as_slice(), want);
//! assert_eq!((cell.counters().cmd_set, cell.counters().get_hits), (1, 1));
//! ```
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `counters` | nothing | what a worker counts |
//! | `host` | nothing | what the service needs from its process |
//! | `leases` | nothing | the engine's locals, leased to workers |
//! | `park` | nothing | a request that waits for its turn |
//! | `effect_log` | nothing | the log of all changes, where the cell has one |
//! | `cell` | `counters`, `effect_log`, `host`, `leases`, `tiered` | what all workers share |
//! | `fence` | nothing | the question to all copies whether they follow this cell still |
//! | `replies` | `effect_log`, `fence`, `park` | what replies wait for in that log |
//! | `press` | nothing | what one thread waits for, and others ask it for |
//! | `tasks` | nothing | what the threads of a tier have to do |
//! | `tiered` | `press`, `replies`, `tasks` | what lies below the memory, as workers and threads share it |
//! | `long` | `cell` | long values that arrive in pieces, and that are sent in parts |
//! | `worker` | `cell`, `counters`, `long`, `park`, `replies`, `tiered` | what a worker executes requests with |
//! | `loader` | `cell`, `tasks`, `tiered`, `worker` | what is not in memory, loaded from below |
//! | `facts` | nothing | what replies return about an item |
//! | `retrieve` | `long`, `park`, `tiered`, `worker` | `get`, `gets`, `gat`, `gats` |
//! | `store` | `park`, `worker` | the other classic commands |
//! | `meta` | `facts`, `long`, `park`, `store`, `tiered`, `worker` | the meta commands |
//! | `auth` | `worker` | the password before the first request |
//! | `dump` | `facts`, `worker` | lists of keys |
//! | `stats` | `cell`, `dump`, `tiered`, `worker` | the reports |
//! | `admin` | `cell`, `dump`, `facts`, `park`, `stats`, `worker` | commands about the cell |
//! | `service` | `admin`, `auth`, `cell`, `meta`, `park`, `receive`, `retrieve`, `store`, `worker` | the handler |
//! | `receive` | `meta`, `park`, `store`, `worker` | values that arrive in pieces |
//! | `repeat` | nothing | changes that may be asked for again, and their replies |
//! | `ring` | `cell`, `effect_log`, `fence`, `repeat`, `replies`, `service`, `worker` | a cell of a ring |
#![forbid(unsafe_code)]

mod admin;
mod auth;
mod cell;
mod counters;
mod dump;
mod effect_log;
mod facts;
mod fence;
mod host;
mod leases;
mod loader;
mod long;
mod meta;
mod park;
mod press;
mod receive;
mod repeat;
mod replies;
mod retrieve;
mod ring;
mod service;
mod stats;
mod store;
mod tasks;
#[cfg(test)]
mod testing;
mod tiered;
mod worker;

pub use cell::{Authenticate, Cell, CellError, Options};
pub use counters::Counters;
pub use effect_log::EffectLogOptions;
pub use host::{ConnectionReport, Connections, Host, LimitChange, Rusage};
pub use loader::Loader;
pub use ring::{
    AGE_MS_MAX, CopyReads, Finding, Flushing, Keeper, LeaveProgress, Link, Mail, NoLog, Reach,
    Rest, RingCell, RingConnection, RingHost, RingIdentity, RingService, RoutesOfMap,
    WrittenBackEntries,
};
pub use service::{Service, Woken};
pub use tiered::{Pressed, TierReach, Tiered};
