//! Authentication by text: a file of `user:password` lines, and the check of a client's
//! credentials.
//!
//! The limits are memcached's: at most 8 users, and lines of at most 255 bytes. memcached cuts off
//! what exceeds them without a message; here it is an error. A password ends with its line and may
//! hold colons and spaces; a user may hold neither. A comparison takes the same time wherever the
//! first wrong byte is. Nothing here prints or logs a password.

use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::{fs, io};

use subtle::{Choice, ConstantTimeEq};

/// Users a file may hold.
pub const USERS_MAX: usize = 8;
/// Bytes a line may hold, without its line ending.
pub const LINE_BYTES_MAX: usize = 255;

/// What is wrong with the content of a file.
#[derive(Debug)]
pub enum AuthError {
    /// The line with this number is not `user:password`.
    Malformed(usize),
    /// The line with this number has this many bytes, which is too long.
    TooLong(usize, usize),
    /// This many users, which is too many.
    TooMany(usize),
    /// No user at all.
    Empty,
}

impl Display for AuthError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(line) => {
                write!(f, "line {line}: not user:password; correct or remove the line")
            }
            Self::TooLong(line, bytes) => write!(
                f,
                "line {line}: {bytes} bytes; at most {LINE_BYTES_MAX} are allowed, shorten the line"
            ),
            Self::TooMany(users) => {
                write!(f, "{users} users; at most {USERS_MAX} are allowed, remove some")
            }
            Self::Empty => f.write_str("no users; write at least one user:password line"),
        }
    }
}

impl std::error::Error for AuthError {}

struct User {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// The users of one file.
pub struct Users(Vec<User>);

impl Users {
    /// Parses the content of a file.
    ///
    /// # Errors
    /// The first line that is malformed, or the limit that is exceeded.
    pub fn parse(content: &[u8]) -> Result<Self, AuthError> {
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        if content.is_empty() {
            return Err(AuthError::Empty);
        }
        let lines = content.split(|byte| *byte == b'\n').enumerate();
        let users = lines.map(|(index, line)| parse_line(index + 1, line));
        let users: Vec<_> = users.collect::<Result<_, _>>()?;
        if users.len() > USERS_MAX { Err(AuthError::TooMany(users.len())) } else { Ok(Self(users)) }
    }

    /// Whether `credentials` are `user password` of a known user: the value of the `set` by which a
    /// client authenticates.
    #[must_use]
    pub fn check(&self, credentials: &[u8]) -> bool {
        let Some(space) = credentials.iter().position(|byte| *byte == b' ') else {
            return false;
        };
        let (name, password) = (&credentials[..space], &credentials[space + 1..]);
        // Every user is compared, also after a match, so that the time depends on no match.
        let matches = |user: &User| user.name.ct_eq(name) & user.password.ct_eq(password);
        self.0.iter().fold(Choice::from(0), |known, user| known | matches(user)).into()
    }
}

fn parse_line(number: usize, line: &[u8]) -> Result<User, AuthError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_BYTES_MAX {
        return Err(AuthError::TooLong(number, line.len()));
    }
    let colon = line.iter().position(|byte| *byte == b':').filter(|colon| *colon > 0);
    let colon = colon.ok_or(AuthError::Malformed(number))?;
    let (name, password) = (&line[..colon], &line[colon + 1..]);
    let forbidden = |byte: &u8| matches!(byte, 0 | b'\r');
    if line.iter().any(forbidden) || name.contains(&b' ') {
        return Err(AuthError::Malformed(number));
    }
    Ok(User { name: name.to_vec(), password: password.to_vec() })
}

/// The users of a file that can be read again while the cell runs.
pub struct AuthFile {
    path: PathBuf,
    users: RwLock<Users>,
}

impl AuthFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// That it cannot be read, or what [`Users::parse`] finds; the message names the file.
    pub fn load(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), users: RwLock::new(read(path)?) })
    }

    /// Reads the file again; on an error the users stay the same.
    ///
    /// # Errors
    /// As [`AuthFile::load`].
    pub fn reload(&self) -> io::Result<()> {
        let users = read(&self.path)?;
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = users;
        Ok(())
    }

    /// [`Users::check`] with the users last read.
    #[must_use]
    pub fn check(&self, credentials: &[u8]) -> bool {
        self.users.read().unwrap_or_else(PoisonError::into_inner).check(credentials)
    }
}

fn read(path: &Path) -> io::Result<Users> {
    let content = fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{error}; name a readable file")));
    content
        .and_then(|content| Users::parse(&content).map_err(io::Error::other))
        .map_err(|error| io::Error::other(format!("server.auth_file {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn credentials_are_checked() {
        let users = Users::parse(b"foo:bar\nbaaaz:quux\r\nempty:\np:a b:c").expect("well formed");
        let cases: [(&[u8], bool); 10] = [
            (b"foo bar", true),
            (b"baaaz quux", true),
            (b"empty ", true),
            (b"p a b:c", true),
            (b"foo ba", false),
            (b"foo barr", false),
            (b"foo quux", false),
            (b" bar", false),
            (b"foobar", false),
            (b"", false),
        ];
        for (credentials, known) in cases {
            assert_eq!(users.check(credentials), known, "{}", String::from_utf8_lossy(credentials));
        }
    }

    #[test]
    fn bad_files_are_refused() {
        let long = format!("a:b\nu:{}", "p".repeat(LINE_BYTES_MAX));
        let cases = [
            (String::new(), "no users"),
            ("\n".to_owned(), "no users"),
            ("foo\n".to_owned(), "line 1: not user:password"),
            ("a:b\n\nc:d\n".to_owned(), "line 2: not user:password"),
            (":p".to_owned(), "line 1: not user:password"),
            ("a b:p".to_owned(), "line 1: not user:password"),
            ("a:p\0".to_owned(), "line 1: not user:password"),
            (long, "line 2: 257 bytes; at most 255"),
            ("u:p\n".repeat(9), "9 users; at most 8"),
        ];
        for (content, message) in cases {
            let error = Users::parse(content.as_bytes()).err().expect("refused").to_string();
            assert!(error.starts_with(message), "{content:?}: {error}");
        }
    }

    #[test]
    fn a_bad_reload_changes_nothing() {
        let scratch = Scratch::new("auth");
        let path = scratch.path("users");
        fs::write(&path, "a:1\n").expect("writable");
        let file = AuthFile::load(&path).expect("well formed");
        fs::write(&path, "nonsense").expect("writable");
        assert!(file.reload().is_err());
        assert!(file.check(b"a 1"));
        fs::write(&path, "b:2\n").expect("writable");
        file.reload().expect("well formed");
        assert!(!file.check(b"a 1") && file.check(b"b 2"));
    }
}
