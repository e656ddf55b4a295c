//! What `stats settings` answers: memcached's names with our values.
//!
//! A setting that does not exist here has memcached's default, or the value of the flag that was
//! noted, because monitors compare it with the command line.

use crate::config::Settings;

/// Name and value of every line.
///
/// `reported` is what the command line collected in [`super::Start::reported`]; `driver` and
/// `workers` are those that serve.
#[must_use]
pub fn stats_settings(
    settings: &Settings,
    reported: &[(&'static str, String)],
    driver: &str,
    workers: usize,
) -> Vec<(&'static str, String)> {
    let mut lines = ours(settings, driver, workers);
    lines.extend(FIXED.iter().map(|(name, value)| (*name, (*value).to_owned())));
    for (name, value) in reported {
        match lines.iter_mut().find(|(line, _)| line == name) {
            Some(line) => line.1.clone_from(value),
            None => lines.push((name, value.clone())),
        }
    }
    lines
}

fn ours(settings: &Settings, driver: &str, workers: usize) -> Vec<(&'static str, String)> {
    let Settings { server, memory, protocol, .. } = settings;
    let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
    let or_null = |text: Option<String>| text.unwrap_or_else(|| "NULL".to_owned());
    let hosts: Vec<_> = server.listen.iter().filter_map(|listen| listen.host.clone()).collect();
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    vec![
        ("maxbytes", memory.limit.to_string()),
        ("maxconns", server.connections_max.to_string()),
        ("tcpport", server.listen.first().map_or(0, |listen| listen.port).to_string()),
        ("udpport", "0".to_owned()),
        ("inter", or_null(Some(hosts.join(",")).filter(|hosts| !hosts.is_empty()))),
        ("verbosity", settings.log.level.verbosity().to_string()),
        ("evictions", if memory.evict { "on" } else { "off" }.to_owned()),
        ("domain_socket", or_null(path(&server.unix_socket))),
        ("umask", format!("{:o}", server.unix_mode)),
        ("shutdown_command", yes(protocol.allow_shutdown)),
        ("num_threads", workers.to_string()),
        ("reqs_per_event", server.requests_per_turn.to_string()),
        ("tcp_backlog", server.backlog.to_string()),
        ("auth_enabled_ascii", path(&server.auth_file).unwrap_or_else(|| yes(false))),
        ("item_size_max", memory.item_bytes_max.to_string()),
        ("maxconns_fast", yes(server.maxconns_fast)),
        ("flush_enabled", yes(protocol.allow_flush_all)),
        ("dump_enabled", yes(protocol.allow_dump)),
        ("idle_timeout", server.idle_timeout_s.to_string()),
        ("driver", driver.to_owned()),
    ]
}

/// Settings that do not exist here, at memcached's defaults.
const FIXED: &[(&str, &str)] = &[
    ("oldest", "0"),
    ("stat_key_prefix", ":"),
    ("detail_enabled", "no"),
    ("track_sizes", "no"),
    ("watch_enabled", "no"),
    ("growth_factor", "1.25"),
    ("chunk_size", "48"),
    ("num_threads_per_udp", "0"),
    ("cas_enabled", "yes"),
    ("binding_protocol", "ascii"),
    ("auth_enabled_sasl", "no"),
    ("hashpower_init", "0"),
    ("slab_reassign", "yes"),
    ("slab_automove", "1"),
    ("slab_automove_ratio", "0.80"),
    ("slab_automove_window", "10"),
    ("slab_chunk_max", "524288"),
    ("lru_crawler", "yes"),
    ("lru_crawler_sleep", "100"),
    ("lru_crawler_tocrawl", "0"),
    ("tail_repair_time", "0"),
    ("hash_algorithm", "murmur3"),
    ("lru_maintainer_thread", "yes"),
    ("lru_segmented", "yes"),
    ("hot_lru_pct", "20"),
    ("warm_lru_pct", "40"),
    ("hot_max_factor", "0.20"),
    ("warm_max_factor", "2.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "61"),
    ("watcher_logbuf_size", "262144"),
    ("worker_logbuf_size", "65536"),
    ("read_buf_mem_limit", "0"),
    ("inline_ascii_response", "no"),
    ("num_napi_ids", "0"),
    ("memory_file", "(null)"),
    ("client_flags_size", "4"),
];
