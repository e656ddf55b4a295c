//! Whether a ring serves: every cell answers for keys of every range. Another process may listen
//! where a cell was to: so each says first which process it is.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::plan::Plan;

/// How long a cell may take to answer.
const ANSWER: Duration = Duration::from_millis(2500);
/// Lines of statistics that are read.
const LINES_MAX: usize = 1000;
/// Keys that are asked for: enough that every range of a small ring has some.
const KEYS: usize = 32;

/// Whether every cell answers, each as one of `processes`.
pub(super) fn serves(plan: &Plan, processes: impl Iterator<Item = u32>) -> bool {
    let mut cells = plan.cells.iter().zip(processes);
    cells.all(|(cell, process)| answers(cell.clients, process).unwrap_or(false))
}

fn answers(at: SocketAddr, process: u32) -> std::io::Result<bool> {
    let stream = TcpStream::connect_timeout(&at, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let mut stream = BufReader::new(stream);
    let keys: Vec<_> = (0..KEYS).map(|key| format!("volvox:{key}")).collect();
    let text = format!("stats\r\nget {}\r\n", keys.join(" "));
    stream.get_mut().write_all(text.as_bytes())?;
    let (mut is_it, mut line) = (false, String::new());
    for _ in 0..LINES_MAX {
        line.clear();
        stream.read_line(&mut line)?;
        is_it |= line.trim_end() == format!("STAT pid {process}");
        if !line.starts_with("STAT ") {
            break;
        }
    }
    // The end of the statistics.
    line.clear();
    stream.read_line(&mut line)?;
    Ok(is_it && (line == "END\r\n" || line.starts_with("VALUE ")))
}
