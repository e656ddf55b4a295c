//! Places of a network on this machine that can be cut off from each other.
//!
//! ```text
//! hub: clients, 10.77.0.254 ---bridge---+--- place 0: 10.77.0.1
//!                                       +--- place 1: 10.77.0.2
//! ```
//!
//! Each place is a network namespace and a mount namespace of a process that only sleeps, its
//! keeper. They end with the keeper, and that with the thread that has made the network: nothing
//! is left of them, however this process ends. A cut is a rule of the place that receives, so a
//! sender sees silence. Neighbours are fixed, so that ARP does not need the way back.
//!
//! It needs root. Invariant: the thread that made the network is in the hub until the network is
//! dropped, and what that thread starts is there too.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::exec::{Exec, Running};

/// The most places.
const PLACES_MAX: usize = 64;
/// The number of the hub among the addresses.
const HUB: usize = 253;
/// Longest one step of the setup may take.
const STEP_MAX: Duration = Duration::from_secs(20);
/// Longest a keeper lives, whatever happens.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How often it is looked whether a keeper is where it should be.
const POLL: Duration = Duration::from_millis(2);
/// The rank of the rules that cut: they are asked before the table of local addresses.
const CUT_RANK: &str = "10";
/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Places and the hub that joins them.
pub struct Network {
    places: Vec<Running>,
    hub: Running,
    /// For each place, the rules that cut it off.
    cuts: BTreeMap<usize, usize>,
    /// Where this thread was before.
    outside: File,
}

impl Network {
    /// A network of some places, and moves this thread into its hub.
    pub fn new(places: usize) -> Result<Self> {
        ensure!(places <= PLACES_MAX, "{places} places, at most {PLACES_MAX}");
        let outside = File::open(OWN).with_context(|| format!("open {OWN}"))?;
        let hub = keeper().context("network namespaces are not allowed here: run it as root")?;
        let places = (0..places).map(|_| keeper()).collect::<Result<Vec<_>>>()?;
        let network = Self { places, hub, cuts: BTreeMap::new(), outside };
        let inside = File::open(link(&network.hub, "net"))?;
        move_into_link_name_space(inside.as_fd(), Some(LinkNameSpaceType::Network))
            .context("move into the hub")?;
        let hub = format!(
            "ip link set lo up; ip link add hub address {} type bridge; ip link set hub up; \
             ip addr add {}/24 dev hub",
            hardware(HUB),
            Self::address(HUB)
        );
        script(&hub)?;
        (0..network.places.len()).try_for_each(|place| network.connect(place))?;
        Ok(network)
    }

    /// Where a place is reached.
    #[must_use]
    pub fn address(place: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, place as u8 + 1)
    }

    /// The words before those of a program that is to run at a place. It is killed when this thread
    /// ends.
    pub fn words(&self, place: usize) -> Vec<String> {
        let keeper = &self.places[place];
        let nets = ["net", "mnt"].map(|kind| link(keeper, kind));
        let at = format!("--net={} --mount={}", nets[0], nets[1]);
        let words = format!("setpriv --pdeathsig KILL nsenter {at}");
        words.split(' ').map(str::to_owned).collect()
    }

    /// Mounts a disk of some bytes at a folder, which only programs at that place see; the path at
    /// which this process does.
    pub fn mount(&self, place: usize, folder: &Path, bytes: u64) -> Result<PathBuf> {
        let mount = format!("mount -t tmpfs -o size={bytes} tmpfs {}", folder.display());
        let words = [self.words(place), mount.split(' ').map(str::to_owned).collect()].concat();
        Exec::new(&words[0]).args(&words[1..]).capture(STEP_MAX)?;
        let root = PathBuf::from(format!("/proc/{}/root", self.places[place].pid()));
        Ok(root.join(folder.strip_prefix("/").context("the folder has no absolute path")?))
    }

    /// From now on `to` gets nothing that `from` sends.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        let rule = format!("pref {CUT_RANK} from {} blackhole", Self::address(from));
        script(&format!("{} ip rule add {rule}", self.enter(to)))?;
        *self.cuts.entry(to).or_default() += 1;
        Ok(())
    }

    /// Ends all cuts.
    pub fn join(&mut self) -> Result<()> {
        for (place, cuts) in std::mem::take(&mut self.cuts) {
            let remove = format!("{} ip rule del pref {CUT_RANK}; ", self.enter(place));
            script(&remove.repeat(cuts))?;
        }
        Ok(())
    }

    /// Joins a place to the hub.
    fn connect(&self, place: usize) -> Result<()> {
        let (name, pid) = (format!("place{place}"), self.places[place].pid());
        let (own, enter) = (hardware(place), self.enter(place));
        let address = Self::address(place);
        let mut lines = vec![
            format!("ip link add {name} type veth peer name out address {own} netns {pid}"),
            format!("ip link set {name} master hub up"),
            format!("{enter} ip addr add {address}/24 dev out"),
            format!("{enter} ip link set out up"),
            format!("{enter} ip link set lo up"),
            // Rules are asked for every packet, before the table of local addresses.
            format!("{enter} sysctl -q -w net.ipv4.ip_early_demux=0"),
            format!("{enter} ip rule add pref 100 lookup local"),
            format!("{enter} ip rule del pref 0"),
            format!("ip neigh replace {address} lladdr {own} dev hub"),
        ];
        let others = (0..self.places.len()).filter(|other| *other != place).chain([HUB]);
        lines.extend(others.map(|other| {
            let (address, hardware) = (Self::address(other), hardware(other));
            format!("{enter} ip neigh replace {address} lladdr {hardware} dev out")
        }));
        script(&lines.join("; "))
    }

    fn enter(&self, place: usize) -> String {
        format!("nsenter --net={}", link(&self.places[place], "net"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Without it, what this thread starts later has no network.
        let _ = move_into_link_name_space(self.outside.as_fd(), Some(LinkNameSpaceType::Network));
    }
}

/// A process with namespaces of its own, which does nothing else.
fn keeper() -> Result<Running> {
    let own = fs::read_link(OWN).with_context(|| format!("read {OWN}"))?;
    let words = ["--pdeathsig", "KILL", "unshare", "--net", "--mount", "sleep"];
    let exec = Exec::new("setpriv").args(words).arg(KEPT.as_secs().to_string());
    let (mut keeper, began) = (exec.start(KEPT)?, Instant::now());
    // It has both when it sleeps.
    let name = format!("/proc/{}/comm", keeper.pid());
    while !fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep") {
        if !keeper.is_alive() {
            bail!("`{exec}` failed: {}", keeper.said()?.complaints.trim());
        }
        ensure!(began.elapsed() < STEP_MAX, "`{exec}` does not begin");
        thread::sleep(POLL);
    }
    ensure!(fs::read_link(link(&keeper, "net"))? != own, "`{exec}` has no network of its own");
    Ok(keeper)
}

fn link(keeper: &Running, kind: &str) -> String {
    format!("/proc/{}/ns/{kind}", keeper.pid())
}

fn hardware(place: usize) -> String {
    format!("02:00:00:00:77:{:02x}", place + 1)
}

/// Runs lines, up to the first that fails.
fn script(lines: &str) -> Result<()> {
    Exec::new("sh").args(["-e", "-c", lines]).capture(STEP_MAX).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpStream;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Whether `from` reaches `to` by ICMP or TCP: a connection that is refused has been answered.
    fn reaches(network: &Network, from: usize, to: usize) -> bool {
        let words = network.words(from);
        let to = format!("timeout 0.5 bash -c 'exec 3<>/dev/tcp/{}/9'", Network::address(to));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["sh", "-c", &to]).stderr(Stdio::null());
        // 124 is a time-out; 1 a refusal.
        command.status().unwrap().code() == Some(1)
    }

    fn child(network: &Network, place: usize) -> Child {
        let words = network.words(place);
        let mut command = Command::new(&words[0]);
        let ready = "echo ready; exec sleep 600";
        command.args(&words[1..]).args(["sh", "-c", ready]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// Where namespaces are not allowed, there is nothing to test.
    fn network(places: usize) -> Option<Network> {
        Network::new(places).ok()
    }

    #[test]
    fn a_cut_is_silent_in_one_direction_and_ends() {
        let Some(mut network) = network(3) else { return };
        assert!(reaches(&network, 0, 1) && reaches(&network, 1, 0));
        network.cut(0, 1).unwrap();
        // A connection needs both directions.
        assert!(!reaches(&network, 0, 1) && !reaches(&network, 1, 0));
        assert!(reaches(&network, 0, 2) && reaches(&network, 2, 1));
        network.join().unwrap();
        assert!(reaches(&network, 0, 1));
    }

    #[test]
    fn a_mounted_disk_is_seen_at_its_place_alone_and_is_full_at_its_size() {
        let Some(network) = network(2) else { return };
        let folder = std::env::temp_dir().join(format!("mounted-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let seen = network.mount(0, &folder, 64 << 10).unwrap();
        assert!(fs::write(seen.join("large"), vec![0; 128 << 10]).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "outside it is empty");
        assert_eq!(fs::read_dir(&seen).unwrap().count(), 1);
        drop(network);
        fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_network() {
        let before = fs::read_link(OWN).unwrap();
        let Some(network) = network(1) else { return };
        assert_ne!(fs::read_link(OWN).unwrap(), before);
        let pid = network.places[0].pid();
        let mut child = child(&network, 0);
        assert!(TcpStream::connect((Network::address(0), 9)).is_err(), "it is refused, not lost");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(network);
        assert_eq!(fs::read_link(OWN).unwrap(), before);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
