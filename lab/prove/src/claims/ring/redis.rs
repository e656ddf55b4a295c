//! The failover of a Redis Cluster, beside that of a ring: three masters with a replica each, and
//! a time-out of half a second.
//!
//! ```text
//! six servers, a cluster   SIGKILL of a master          its replica answers for its keys
//!            |                  |<------------- read ------------->|
//! ```
//!
//! A Redis Cluster acknowledges a write before its replica has it, so writes are lost with a
//! master: the times alone are compared. Each kill has a cluster of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::counting::times;
use crate::claim::{Claim, Measured};
use crate::instruments::Client;
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::{Launch, Server, accepts};
use measure::stats::quantile;
use measure::tools;

/// Kills, in the quick and the full form.
const KILLS: [usize; 2] = [3, 20];
/// Servers of a cluster: as many masters as replicas.
const SERVERS: usize = 6;
/// How long a server may be silent, in milliseconds.
const TIME_OUT_MS: u32 = 500;
/// Longest a cluster may take to form, and a replica to answer.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Keys among which one of the first master is looked for.
const KEYS: u32 = 1_000;
/// How often it is looked.
const POLL: Duration = Duration::from_millis(1);

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("failover.redis", "a Redis Cluster, time-out 500 ms: a master killed")
        .bar("reported")
        .by(run)];

fn run(lab: &Lab) -> Result<Measured> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for kill in 0..lab.form(KILLS) {
        lab.detail(&format!("kill {}", kill + 1));
        let [read, write] = one(lab).with_context(|| format!("kill {}", kill + 1))?;
        reads.push(read);
        writes.push(write);
    }
    let text = format!("reads: {}; writes: {}", times(&reads), times(&writes));
    Ok(Measured::new(text, quantile(&writes, 0.5).unwrap_or_default(), true))
}

/// A cluster whose master is killed. After how many milliseconds its keys are read and written.
fn one(lab: &Lab) -> Result<[f64; 2]> {
    let servers = (0..SERVERS).map(|_| start(lab)).collect::<Result<Vec<_>>>()?;
    let all: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let create = ["--cluster", "create"].into_iter().map(str::to_owned).chain(all);
    let flags = ["--cluster-replicas", "1", "--cluster-yes"].map(str::to_owned);
    Exec::new(tools::REDIS_CLI.need()?).args(create.chain(flags)).capture(WAIT_MAX)?;
    let first = servers[0].address();
    for server in &servers {
        until("the cluster has not formed", || {
            Ok(asked(server.address(), &["cluster", "info"])?.contains("cluster_state:ok"))
        })?;
    }
    let replica = replica_of(&asked(first, &["cluster", "nodes"])?, first)?;
    until("the replica has no copy", || {
        Ok(asked(replica, &["info", "replication"])?.contains("master_link_status:up"))
    })?;
    let mut master = Client::connect(first)?;
    let mut is_its = |number: &u32| is_done(&mut master, &format!("SET key{number} value"));
    let key = (0..KEYS).find(|number| is_its(number).is_ok_and(|is_its| is_its));
    let key = key.context("no key is of the first master")?;
    let mut client = Client::connect(replica)?;
    let pid = i32::try_from(servers[0].pid()).ok().and_then(Pid::from_raw);
    let killed = Instant::now();
    kill_process(pid.context("no process")?, Signal::KILL)?;
    let requests = [format!("GET key{key}"), format!("SET key{key} other")];
    let mut taken = [None; 2];
    until("the replica does not take over", || {
        for (request, taken) in requests.iter().zip(&mut taken) {
            if taken.is_none() && is_done(&mut client, request)? {
                *taken = Some(killed.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(taken.iter().all(Option::is_some))
    })?;
    Ok(taken.map(Option::unwrap_or_default))
}

fn start(lab: &Lab) -> Result<Server> {
    let program = tools::REDIS.need()?.display().to_string();
    let folder = lab.folder().join("redis");
    let words = |port: u16| {
        // An earlier cluster had the same ports.
        let nodes = folder.join(format!("nodes-{port}.conf"));
        let _ = fs::remove_file(&nodes);
        let (bus, nodes, folder) = (port + 1, nodes.display(), folder.display());
        let text = format!(
            "{program} --port {port} --bind 127.0.0.1 --appendonly no --dir {folder} \
             --cluster-enabled yes --cluster-port {bus} --cluster-node-timeout {TIME_OUT_MS} \
             --cluster-config-file {nodes} --save"
        );
        let words = text.split(' ').map(str::to_owned);
        // It saves at no points in time.
        words.chain([String::new()]).collect()
    };
    Launch::new().more_ports(1).start("redis", &folder, words, accepts)
}

/// What a server answers to a command.
fn asked(server: SocketAddr, words: &[&str]) -> Result<String> {
    let at = ["-p".to_owned(), server.port().to_string()];
    let exec = Exec::new(tools::REDIS_CLI.need()?).args(at).args(words);
    exec.capture(WAIT_MAX)
}

/// The replica of `master`, by what `cluster nodes` prints.
fn replica_of(nodes: &str, master: SocketAddr) -> Result<SocketAddr> {
    let rows: Vec<Vec<&str>> = nodes.lines().map(|line| line.split(' ').collect()).collect();
    let at = |row: &[&str]| row.get(1)?.split('@').next()?.parse::<SocketAddr>().ok();
    let id = rows.iter().find(|row| at(row) == Some(master)).map(|row| row[0]);
    let id = id.context("the first server is not in the cluster")?;
    let replica = rows.iter().find(|row| row.get(3) == Some(&id));
    replica.and_then(|row| at(row)).context("the first server has no replica")
}

/// Whether a request was carried out: not sent elsewhere, nor refused.
fn is_done(client: &mut Client, request: &str) -> Result<bool> {
    client.send(format!("{request}\r\n").as_bytes())?;
    let line = client.line()?;
    if line.starts_with('$') && line != "$-1" {
        client.line()?;
    }
    Ok(line.starts_with(['+', '$']))
}

fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > WAIT_MAX {
            bail!("{what} after {} s", WAIT_MAX.as_secs());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replica_is_the_one_that_names_its_master() {
        let nodes = "aa 127.0.0.1:7001@7002 myself,master - 0 1 1 connected 0-5460\n\
                     bb 127.0.0.1:7003@7004 slave cc 0 2 2 connected\n\
                     dd 127.0.0.1:7005@7006,host slave aa 0 2 1 connected\n";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(replica_of(nodes, at(7001)).unwrap(), at(7005));
        assert!(replica_of(nodes, at(7005)).is_err() && replica_of(nodes, at(9)).is_err());
    }
}
