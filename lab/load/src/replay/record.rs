//! Recorded traces: records read one after another, whatever their number.
//!
//! ```text
//! oracleGeneral   24 bytes a record, little endian, nothing between:
//!                 | second u32 | id u64 | bytes u32 | next access i64, not used |
//! csv             a line per record; settings name the columns of second, id and bytes
//! ```
//!
//! Both are libCacheSim's. An id is a number; other text is hashed to one. An empty line is no
//! record. Bound: one record or line in memory, a line of at most [`LINE_BYTES_MAX`]. Invariant:
//! nothing follows the first error.

use std::io::{BufRead, Read as _};

use measure::Error;
use measure::rng::mix;

/// The longest line of a CSV trace.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of a record of oracleGeneral.
const RECORD_BYTES: usize = 24;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Second of the trace's own clock.
    pub at_s: u32,
    /// The object.
    pub id: u64,
    /// Its length.
    pub bytes: u32,
}

/// The form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// libCacheSim's binary form.
    OracleGeneral,
    /// Lines of columns.
    Csv(Columns),
}

/// The columns of a record in a line; they count from 1, as those of libCacheSim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The second; 0 for none.
    pub time: usize,
    /// The id.
    pub id: usize,
    /// The length; 0 for none, and every object has one byte.
    pub size: usize,
    /// What separates columns.
    pub delimiter: u8,
    /// Whether the first line names the columns.
    pub header: bool,
}

/// The records of one trace, in order.
pub struct Records<R> {
    name: String,
    reader: R,
    form: Form,
    /// Records, or lines, read so far.
    at: u64,
    line: Vec<u8>,
    /// Nothing follows: the trace has ended, or an error was found.
    ended: bool,
}

impl<R: BufRead> Records<R> {
    /// The records of `reader` in `form`; errors name it `name`.
    ///
    /// ```
    /// use load::replay::{Columns, Form, Records};
    ///
    /// let columns = Columns { time: 1, id: 2, size: 3, delimiter: b',', header: false };
    /// let mut records = Records::new("trace", &b"7,42,300\n"[..], Form::Csv(columns));
    /// let record = records.next().expect("a line")?;
    /// assert_eq!((record.at_s, record.id, record.bytes), (7, 42, 300));
    /// # Ok::<(), measure::Error>(())
    /// ```
    pub fn new(name: impl Into<String>, reader: R, form: Form) -> Self {
        Self { name: name.into(), reader, form, at: 0, line: Vec::new(), ended: false }
    }

    fn wrong(&self, what: &str) -> Error {
        let unit = if self.form == Form::OracleGeneral { "record" } else { "line" };
        Error::Setting(format!("{}, {unit} {}: {what}", self.name, self.at))
    }

    fn binary(&mut self) -> Result<Option<Record>, Error> {
        self.at += 1;
        self.line.clear();
        let read = self.reader.by_ref().take(RECORD_BYTES as u64).read_to_end(&mut self.line);
        match read.map_err(|error| Error::io(format!("cannot read {}", self.name), error))? {
            0 => return Ok(None),
            RECORD_BYTES => {}
            have => {
                let what = format!("only {have} of {RECORD_BYTES} bytes; the file is cut off");
                return Err(self.wrong(&what));
            }
        }
        let record = &self.line;
        let word = |from: usize| {
            u32::from_le_bytes(record[from..from + 4].try_into().expect("invariant: four bytes"))
        };
        let id = u64::from(word(4)) | u64::from(word(8)) << 32;
        Ok(Some(Record { at_s: word(0), id, bytes: word(12) }))
    }

    /// Reads the next line; `false` at the end.
    fn read_line(&mut self) -> Result<bool, Error> {
        self.at += 1;
        self.line.clear();
        let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| Error::io(format!("cannot read {}", self.name), error))?;
        if read > LINE_BYTES_MAX {
            return Err(self.wrong(&format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(read > 0)
    }

    fn text(&mut self, columns: Columns) -> Result<Option<Record>, Error> {
        // The line with the names of columns is no record.
        if self.at == 0 && columns.header && !self.read_line()? {
            return Ok(None);
        }
        while self.read_line()? {
            let line = self.line.trim_ascii_end();
            if !line.is_empty() {
                return parse(line, columns).map(Some).map_err(|what| self.wrong(&what));
            }
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = match self.form {
            Form::OracleGeneral => self.binary(),
            Form::Csv(columns) => self.text(columns),
        };
        self.ended = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

/// The record of one line.
fn parse(line: &[u8], columns: Columns) -> Result<Record, String> {
    let column = |nth: usize, what: &str| {
        let field = line.split(|byte| *byte == columns.delimiter).nth(nth - 1);
        field.map(<[u8]>::trim_ascii).ok_or_else(|| format!("no column {nth} for the {what}"))
    };
    let number = |nth: usize, what: &str| -> Result<f64, String> {
        let field = column(nth, what)?;
        let text = String::from_utf8_lossy(field);
        let value = text.parse::<f64>().ok().filter(|value| *value >= 0.0);
        value.ok_or_else(|| format!("{text:?} in column {nth} is no {what}"))
    };
    // A cast of a number that is too large gives the largest.
    let at_s = if columns.time == 0 { 0 } else { number(columns.time, "second")? as u32 };
    let bytes = if columns.size == 0 { 1 } else { number(columns.size, "size")? as u32 };
    let id = column(columns.id, "id")?;
    let numeric = std::str::from_utf8(id).ok().and_then(|text| text.parse().ok());
    Ok(Record { at_s, id: numeric.unwrap_or_else(|| hash(id)), bytes })
}

/// A number for an id that is text.
fn hash(id: &[u8]) -> u64 {
    id.iter().fold(id.len() as u64, |hash, byte| mix(hash.rotate_left(8) ^ u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: Columns = Columns { time: 1, id: 2, size: 3, delimiter: b',', header: false };

    fn read(content: &[u8], form: Form) -> Result<Vec<Record>, String> {
        let records = Records::new("x", content, form);
        records.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    #[test]
    fn binary_records_are_read() {
        let mut content = Vec::new();
        for (at_s, id, bytes) in [(7u32, u64::MAX, 300u32), (8, 1, 0)] {
            content.extend_from_slice(&at_s.to_le_bytes());
            content.extend_from_slice(&id.to_le_bytes());
            content.extend_from_slice(&bytes.to_le_bytes());
            content.extend_from_slice(&(-1i64).to_le_bytes());
        }
        let expected =
            [Record { at_s: 7, id: u64::MAX, bytes: 300 }, Record { at_s: 8, id: 1, bytes: 0 }];
        assert_eq!(read(&content, Form::OracleGeneral).unwrap(), expected);
        content.pop();
        let error = read(&content, Form::OracleGeneral).unwrap_err();
        assert!(error.contains("record 2: only 23 of 24 bytes"), "{error}");
    }

    #[test]
    fn lines_are_read_wherever_their_columns_stand() {
        let plain = Record { at_s: 5, id: 42, bytes: 100 };
        for (columns, content) in [
            (COLUMNS, "5,42,100\n"),
            (COLUMNS, "5,42,100\n\n"),
            (COLUMNS, "\n5,42,100\r\n\r\n  \n"),
            (COLUMNS, "5.9, 42 ,100\r\n"),
            (Columns { header: true, ..COLUMNS }, "time,id,size\n5,42,100"),
            (Columns { delimiter: b'\t', id: 1, size: 2, time: 4, ..COLUMNS }, "42\t100\tx\t5\n"),
        ] {
            assert_eq!(read(content.as_bytes(), Form::Csv(columns)), Ok(vec![plain]));
        }
        let bare = Columns { time: 0, size: 0, id: 1, ..COLUMNS };
        let read = read(b"a\nb\na\n", Form::Csv(bare)).unwrap();
        assert_eq!((read[0], read[0].bytes), (read[2], 1));
        assert_ne!(read[0].id, read[1].id);
    }

    #[test]
    fn what_is_no_record_is_named() {
        let form = Form::Csv(COLUMNS);
        for (content, word) in [
            (&b"1,2\n"[..], "line 1: no column 3 for the size"),
            (b"1,2,3\n\nx,2,3\n", "line 3: \"x\" in column 1 is no second"),
            (b"1,2,-3\n", "is no size"),
            (&vec![b'1'; LINE_BYTES_MAX + 2], "more than 65536 bytes"),
        ] {
            let error = read(content, form).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        // The rest of a line of names that is too long is not read as a record.
        let names = [&vec![b'n'; LINE_BYTES_MAX][..], b"\n1,2,3\n"].concat();
        let form = Form::Csv(Columns { header: true, ..COLUMNS });
        let mut records = Records::new("x", &names[..], form);
        let error = records.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("line 1: a line of more than 65536 bytes"), "{error}");
        assert!(records.next().is_none());
    }
}
