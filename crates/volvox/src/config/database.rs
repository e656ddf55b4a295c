//! What keeps what a tier writes back: a database beside its journal, or a bucket.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

use super::field::{Field, Refusal, Rule, Value};

/// What keeps what is written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// One file in the directory of the tier.
    Redb,
    /// A file for each key, in that directory.
    Files,
    /// Objects in a directory of their own, which behaves like a bucket.
    Directory(PathBuf),
    /// A bucket of S3, and what the names in it begin with.
    S3(Place),
    /// One of GCS.
    Gcs(Place),
}

/// A bucket, and what the names in it begin with: `BUCKET/ROOT`, or `BUCKET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of the bucket.
    pub bucket: String,
    /// What names begin with, without a slash at its end; may be empty.
    pub root: String,
}

impl Database {
    /// What it may be, in words.
    const FORMS: &'static str = "redb, files, s3://BUCKET/ROOT, gs://BUCKET/ROOT or file:DIRECTORY";

    /// Whether keys lie in pages there.
    #[must_use]
    pub fn has_pages(&self) -> bool {
        !matches!(self, Self::Redb | Self::Files)
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "redb" => Some(Self::Redb),
            None if text == "files" => Some(Self::Files),
            Some(("file", path)) if !path.is_empty() => Some(Self::Directory(path.into())),
            Some(("s3", rest)) => Place::parse(rest).map(Self::S3),
            Some(("gs", rest)) => Place::parse(rest).map(Self::Gcs),
            _ => None,
        }
    }
}

impl Display for Database {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Redb => f.write_str("redb"),
            Self::Files => f.write_str("files"),
            Self::Directory(path) => write!(f, "file:{}", path.display()),
            Self::S3(place) => write!(f, "s3://{place}"),
            Self::Gcs(place) => write!(f, "gs://{place}"),
        }
    }
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("//")?;
        let (bucket, root) = text.split_once('/').unwrap_or((text, ""));
        let root = root.trim_end_matches('/');
        let place = Self { bucket: bucket.to_owned(), root: root.to_owned() };
        (!bucket.is_empty()).then_some(place)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.bucket)?;
        if self.root.is_empty() { Ok(()) } else { write!(f, "/{}", self.root) }
    }
}

impl Field for Database {
    fn read(&mut self, value: &Value, _: &Rule) -> Result<(), Refusal> {
        let (Value::Word(text) | Value::Text(text)) = value else {
            return Err(Refusal("expected a string in quotes".to_owned()));
        };
        *self = Self::parse(text).ok_or_else(|| Refusal(format!("expected {}", Self::FORMS)))?;
        Ok(())
    }

    fn show(&self, _: &Rule) -> Value {
        Value::Text(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again_and_what_means_nothing_is_refused() {
        let all =
            ["redb", "files", "file:a/b", "file:/a", "s3://bucket", "s3://b/a/root", "gs://b/r"];
        for text in all {
            assert_eq!(Database::parse(text).expect("it means something").to_string(), text);
        }
        let place = Place { bucket: "b".to_owned(), root: "a/b".to_owned() };
        assert_eq!(Database::parse("s3://b/a/b/"), Some(Database::S3(place)));
        for text in ["", "RocksDB", "s3:", "s3://", "s3:/b", "gs:///root", "file:", "http://b"] {
            assert_eq!(Database::parse(text), None, "{text}");
        }
    }
}
