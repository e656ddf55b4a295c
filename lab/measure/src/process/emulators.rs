//! Servers that behave like a service that cannot be had here.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::launch::Launch;
use super::server::{Server, accepts};
use super::tools::{FAKE_GCS, MOTO};

/// The bucket that an emulator begins with.
pub const BUCKET: &str = "volvox-test";
/// What the emulator of S3 takes for a region.
pub const REGION: &str = "us-east-1";
/// What runs a program at the lowest priority.
const YIELDS: [&str; 3] = ["nice", "-n", "19"];
/// Longest an emulator may take to make its bucket.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Whose service it behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emulator {
    /// Amazon S3: moto.
    S3,
    /// Google Cloud Storage: fake-gcs-server.
    Gcs,
}

impl Emulator {
    /// Starts one that keeps objects in memory, with an empty bucket. It is installed by pip in
    /// `folder` the first time; logs lie there too.
    ///
    /// # Errors
    /// When it cannot be installed, does not start, or makes no bucket.
    pub fn start(self, folder: &Path) -> Result<Server> {
        self.launch(folder, &[])
    }

    /// The same beside something that is measured: it has the processors that this leaves idle, as
    /// if it were on another machine.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_beside(self, folder: &Path) -> Result<Server> {
        self.launch(folder, &YIELDS)
    }

    fn launch(self, folder: &Path, before: &[&str]) -> Result<Server> {
        let (name, program) = match self {
            Self::S3 => ("moto", MOTO.need(folder)?),
            Self::Gcs => ("fake-gcs-server", FAKE_GCS.need(folder)?),
        };
        let words = |port: u16| {
            let flags = match self {
                Self::S3 => format!("-H 127.0.0.1 -p {port}"),
                Self::Gcs => format!("-scheme http -backend memory -host 127.0.0.1 -port {port}"),
            };
            let flags = flags.split(' ').map(str::to_owned);
            let before = before.iter().copied().map(str::to_owned);
            before.chain([program.display().to_string()]).chain(flags).collect()
        };
        let server = Launch::new().start(name, &folder.join("logs"), words, accepts)?;
        self.make_bucket(server.address()).with_context(|| format!("make a bucket in {name}"))?;
        Ok(server)
    }

    fn make_bucket(self, address: SocketAddr) -> Result<()> {
        let request = match self {
            Self::S3 => format!("PUT /{BUCKET} HTTP/1.0\r\nContent-Length: 0\r\n\r\n"),
            Self::Gcs => {
                let body = format!("{{\"name\":\"{BUCKET}\"}}");
                let head = "POST /storage/v1/b HTTP/1.0\r\nContent-Type: application/json";
                format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            }
        };
        let mut connection = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
        connection.set_read_timeout(Some(ANSWER_MAX))?;
        connection.write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let status = answer.lines().next().unwrap_or_default();
        ensure!(status.contains(" 200 "), "it answers {status:?}");
        Ok(())
    }

    /// What a program needs in its environment to reach it.
    #[must_use]
    pub fn environment(self, address: SocketAddr) -> Vec<(&'static str, String)> {
        let url = format!("http://{address}");
        match self {
            Self::S3 => vec![
                ("AWS_ACCESS_KEY_ID", "test".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
                ("AWS_REGION", REGION.to_owned()),
                ("AWS_ENDPOINT_URL", url),
            ],
            Self::Gcs => vec![("STORAGE_EMULATOR_HOST", url)],
        }
    }
}
