//! The machine that the figures were measured on.
//!
//! What the kernel does not say is "unknown" or 0: a report is never refused for it. Memory is in
//! MiB, stolen time in nanoseconds over all cores.

use std::fs;

use procfs::{CpuInfo, Current, CurrentSI, KernelStats, Meminfo};
use serde::{Deserialize, Serialize};

const NS_PER_S: u64 = 1_000_000_000;

/// A machine, as far as figures depend on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Its processor.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its kernel.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let processor = CpuInfo::current().ok();
        let processor = processor.as_ref().and_then(|all| all.model_name(0)).unwrap_or("unknown");
        Self {
            processor: processor.to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: Meminfo::current().map_or(0, |memory| memory.mem_total >> 20),
            kernel: format!("Linux {}", release.trim()),
        }
    }

    /// In a line.
    pub fn line(&self) -> String {
        let Self { processor, cores, memory_mib, kernel } = self;
        format!("{cores} cores of {processor}, {memory_mib} MiB, {kernel}")
    }
}

/// Time that a hypervisor has taken from all cores of this machine since it started.
pub fn stolen_ns() -> u64 {
    let ticks = KernelStats::current().ok().and_then(|stats| stats.total.steal).unwrap_or(0);
    ticks * (NS_PER_S / procfs::ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::here();
        assert!(machine.memory_mib > 0 && machine.cores > 0);
        assert!(machine.kernel.starts_with("Linux ") && machine.line().contains(" cores of "));
    }
}
