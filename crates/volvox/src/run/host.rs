//! What the service reads from the process and the server, and what it requests of them.
//!
//! The server's side exists only after the start; until then there are no connections to count.
//! Times are in microseconds or seconds, as the names say.

use std::sync::{Arc, OnceLock};

use drivers::{Remote, Report};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use service::{ConnectionReport, Connections, Host, LimitChange, Rusage};

use crate::config::Level;
use crate::logging::Logging;
use crate::process::Request;

/// The host of the one cell of this process.
pub(super) struct CellHost {
    /// The server, once it has started.
    pub(super) remote: Arc<OnceLock<Remote>>,
    pub(super) logging: Logging,
    /// The level of the settings: no client makes the log say less.
    pub(super) level: Level,
    pub(super) connections_max: u64,
    pub(super) workers: u64,
}

impl Host for CellHost {
    fn connections(&self) -> Connections {
        let Some(remote) = self.remote.get() else { return Connections::default() };
        let counted = remote.snapshot();
        Connections {
            max: self.connections_max,
            open: u64::from(remote.open()),
            accepting: remote.is_accepting(),
            accepted: counted.accepted,
            rejected: counted.rejected,
            idle_kicks: counted.idle_kicks,
            stall_kicks: counted.stall_kicks,
            upload_kicks: counted.upload_kicks,
            memory_kicks: counted.memory_kicks,
            accept_stops: counted.accept_stops,
            yields: counted.yields,
            bytes_in: counted.bytes_in,
            bytes_out: counted.bytes_out,
            threads: self.workers,
            wait_calls: counted.wakeups,
            recv_calls: counted.recv_calls,
            send_calls: counted.send_calls,
            readable: counted.readable,
            signals_lost: counted.signals_lost,
        }
    }

    fn reports(&self) -> Vec<ConnectionReport> {
        let report = |report: Report| ConnectionReport {
            number: u64::try_from(report.fd).unwrap_or(0),
            address: report.address.to_string(),
            listener: report.listener.map_or_else(String::new, |address| address.to_string()),
            state: report.state.name(),
            idle_s: u64::from(report.idle_s),
        };
        self.remote
            .get()
            .map(|remote| remote.connections().into_iter().map(report).collect())
            .unwrap_or_default()
    }

    fn rusage(&self) -> Rusage {
        let micros = |time: TimeVal| (time.tv_sec() * 1_000_000 + time.tv_usec()).unsigned_abs();
        getrusage(UsageWho::RUSAGE_SELF)
            .map(|usage| Rusage {
                user_us: micros(usage.user_time()),
                system_us: micros(usage.system_time()),
            })
            .unwrap_or_default()
    }

    fn shutdown(&self, graceful: bool) {
        let request = if graceful { Request::Drain } else { Request::Stop };
        if let Err(error) = request.raise() {
            tracing::error!("shutdown: {error}");
        }
    }

    fn set_verbosity(&self, level: u32) {
        let level = Level::of_verbosity(u64::from(level));
        self.logging.set_level(level.max(self.level));
    }

    fn limit_changed(&self, LimitChange { from, to }: LimitChange) {
        let [from, to] = [from, to].map(|bytes| bytes >> 20);
        tracing::info!("the memory limit is {to} MiB; it was {from} MiB");
    }
}
