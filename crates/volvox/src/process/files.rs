//! Files by which other programs find a running cell: its process id, and the ports it listens on.
//!
//! A file appears whole or not at all: it is written under another name and renamed. The file of
//! the process id is removed when the cell ends; the file of ports stays, as memcached's does.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fs, io, process};

use nix::sys::signal::kill;
use nix::unistd::Pid;

/// The variable that names the file of ports, as in memcached.
pub const PORT_FILE_VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// A file with the id of this process, removed when dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file at `path`; also returns the other live process that it named, if any.
    ///
    /// # Errors
    /// That the file cannot be written.
    pub fn write(path: &Path) -> io::Result<(Self, Option<i32>)> {
        let alive = |pid: &i32| *pid > 0 && kill(Pid::from_raw(*pid), None).is_ok();
        let named = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let other = named.filter(alive).filter(|pid| i64::from(*pid) != i64::from(process::id()));
        replace("process.pid_file", path, "tmp", &format!("{}\n", process::id()))?;
        Ok((Self(path.to_owned()), other))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The process ends; a file that it cannot remove has to stay.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes the ports of `addresses`, one a line, as memcached does: `TCP INET: 11211`.
///
/// # Errors
/// That the file cannot be written.
pub fn write_ports(path: &Path, addresses: &[SocketAddr]) -> io::Result<()> {
    let mut lines = String::new();
    for address in addresses {
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        writeln!(lines, "TCP {family}: {}", address.port())
            .expect("invariant: writing to a string cannot fail");
    }
    replace(PORT_FILE_VARIABLE, path, "lck", &lines)
}

/// Writes `path`, which `name` gives, in one step.
fn replace(name: &str, path: &Path, suffix: &str, content: &str) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".");
    temporary.push(suffix);
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let message = format!("{name} {}: {error}; name a writable path", path.display());
        io::Error::new(error.kind(), message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_pid_file_lives_as_long_as_its_holder() {
        let scratch = Scratch::new("pid");
        let path = scratch.path("pid");
        fs::write(&path, "1\n").expect("writable");
        let (held, other) = PidFile::write(&path).expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("written"), format!("{}\n", process::id()));
        // Whether process 1 may be signalled depends on who runs the test.
        assert!(matches!(other, None | Some(1)));
        drop(held);
        assert!(!path.exists());
    }

    #[test]
    fn ports_are_written_as_memcached_does() {
        let scratch = Scratch::new("ports");
        let path = scratch.path("ports");
        let addresses = ["0.0.0.0:11211", "[::]:11211"].map(|a| a.parse().expect("address"));
        write_ports(&path, &addresses).expect("writable");
        let content = fs::read_to_string(&path).expect("written");
        assert_eq!(content, "TCP INET: 11211\nTCP INET6: 11211\n");
        assert!(!scratch.path("ports.lck").exists());
    }

    #[test]
    fn unwritable_paths_are_named() {
        let error = PidFile::write(Path::new("no/such/pid")).expect_err("no such folder");
        assert!(error.to_string().starts_with("process.pid_file no/such/pid: "), "{error}");
    }
}
