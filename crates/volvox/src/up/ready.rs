//! Whether a ring serves: every cell answers for keys of every range.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::plan::Plan;

/// How long a cell may take to answer.
const ANSWER: Duration = Duration::from_millis(2500);
/// Keys that are asked for: enough that every range of a small ring has some.
const KEYS: usize = 32;

/// Whether every cell answers.
pub(super) fn serves(plan: &Plan) -> bool {
    plan.cells.iter().all(|cell| answers(cell.clients).unwrap_or(false))
}

fn answers(at: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&at, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let keys: Vec<_> = (0..KEYS).map(|key| format!("volvox:{key}")).collect();
    stream.write_all(format!("get {}\r\n", keys.join(" ")).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line == "END\r\n" || line.starts_with("VALUE "))
}
