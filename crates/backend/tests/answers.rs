//! What a bucket sends, and what follows from each answer: over a server that answers as a test
//! says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use backend::{Bucket, BucketConfig, OBJECT_BYTES_MAX, Service};
use pages::{Created, Object, Objects};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tier::{BackendError, Failure};

/// Longest a request may take here.
const TIMEOUT: Duration = Duration::from_millis(800);

/// What every request is answered.
#[derive(Clone, Copy)]
enum Answer {
    /// A status, and what follows the head.
    Status(u16, &'static str),
    /// Nothing, until the bucket gives up.
    Never,
    /// The connection is closed after the request was read.
    Closed,
    /// An answer with one byte more than an object may have.
    Longer,
}

/// A server that gives one answer to all.
struct Canned {
    address: SocketAddr,
    /// The head of each request, and the bytes of its body.
    requests: Arc<Mutex<Vec<(String, usize)>>>,
}

impl Canned {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::default();
        let found = Arc::clone(&requests);
        // It ends with the test.
        thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, found) = (connection.unwrap(), Arc::clone(&found));
                thread::spawn(move || answer_one(&connection, answer, &found));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn answer_one(mut connection: &TcpStream, answer: Answer, found: &Mutex<Vec<(String, usize)>>) {
    let mut reader = BufReader::new(connection);
    let (mut head, mut bytes) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            bytes = length.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).unwrap();
    found.lock().unwrap().push((head, bytes));
    match answer {
        Answer::Status(status, body) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} It\r\nContent-Length: {length}");
            let _ = write!(connection, "{head}\r\nConnection: close\r\n\r\n{body}");
        }
        Answer::Never => thread::sleep(TIMEOUT * 3),
        Answer::Closed => {}
        Answer::Longer => {
            let length = OBJECT_BYTES_MAX + 1;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}");
            let _ = write!(connection, "{head}\r\nConnection: close\r\n\r\n");
            let _ = connection.write_all(&vec![b'x'; length]);
        }
    }
}

fn bucket(service: Service, address: SocketAddr) -> Bucket {
    let endpoint = format!("http://{address}");
    let config = BucketConfig {
        service,
        bucket: "bucket".to_owned(),
        root: "root".to_owned(),
        endpoint: Some(endpoint.clone()),
        region: Some("us-east-1".to_owned()),
        timeout: TIMEOUT,
    };
    let variables = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("secret".to_owned()),
        "STORAGE_EMULATOR_HOST" => Some(endpoint.clone()),
        _ => None,
    };
    Bucket::open_in(&config, &variables).unwrap()
}

fn object(bytes: usize) -> Object {
    Object { name: "k".to_owned(), bytes: vec![b'x'; bytes] }
}

/// The errors of a create, a get, a list and a delete.
fn errors(bucket: &Bucket) -> [BackendError; 4] {
    [
        bucket.create(&object(1)).unwrap_err(),
        bucket.get("k").unwrap_err(),
        bucket.list("", "", 1).unwrap_err(),
        bucket.delete(&["k".to_owned()]).unwrap_err(),
    ]
}

#[test]
fn each_answer_has_its_failure() {
    use Failure::{Full, Permanent, Transient, Unknown};
    let doubt = [Unknown, Transient, Transient, Unknown];
    let cases = [
        (Answer::Status(429, ""), [Transient; 4]),
        (Answer::Status(503, "<Error><Code>SlowDown</Code></Error>"), [Transient; 4]),
        (Answer::Status(409, ""), [Transient; 4]),
        (Answer::Status(500, ""), doubt),
        (Answer::Status(502, ""), doubt),
        (Answer::Never, doubt),
        (Answer::Closed, doubt),
        (Answer::Status(507, ""), [Full; 4]),
        (Answer::Status(403, ""), [Permanent; 4]),
        (Answer::Status(400, ""), [Permanent; 4]),
        (Answer::Status(301, ""), [Permanent; 4]),
        (Answer::Status(404, "<Error><Code>NoSuchBucket</Code></Error>"), [Permanent; 4]),
    ];
    for service in [Service::S3, Service::Gcs] {
        for (answer, failures) in cases {
            let server = Canned::start(answer);
            let begun = Instant::now();
            let errors = errors(&bucket(service, server.address));
            assert!(begun.elapsed() < TIMEOUT * 6, "every call ends");
            assert_eq!(server.requests().len(), 4, "nothing is tried twice: {}", errors[0]);
            let found = errors.each_ref().map(|error| error.failure);
            assert_eq!(found, failures, "{service:?} {}", errors[0]);
            for error in errors {
                println!("{error}");
                assert!(!error.what.contains("secret") && !error.what.contains('\n'), "{error}");
                assert!(error.what.contains("://bucket/root: cannot "), "{error}");
            }
        }
    }
}

#[test]
fn an_object_is_created_by_one_request_with_its_condition() {
    for bytes in [1, 5 << 20, OBJECT_BYTES_MAX] {
        for service in [Service::S3, Service::Gcs] {
            let server = Canned::start(Answer::Status(412, ""));
            let bucket = bucket(service, server.address);
            assert_eq!(bucket.create(&object(bytes)), Ok(Created::Before));
            bucket.create_all(&[object(bytes)]).unwrap();
            let requests = server.requests();
            assert_eq!(requests.len(), 2);
            for (head, sent) in requests {
                let first = head.lines().next().unwrap();
                if service == Service::S3 {
                    assert_eq!((first, sent), ("PUT /bucket/root/k HTTP/1.1", bytes));
                    assert!(head.to_ascii_lowercase().contains("if-none-match: *"), "{head}");
                } else {
                    let expected = "POST /upload/storage/v1/b/bucket/o?uploadType=multipart\
                                    &name=root%2Fk&ifGenerationMatch=0 HTTP/1.1";
                    assert_eq!(first, expected);
                    assert!(sent > bytes);
                }
            }
        }
    }
}

#[test]
fn at_most_some_requests_are_under_way_and_none_begins_after_a_failure() {
    for service in [Service::S3, Service::Gcs] {
        let server = Canned::start(Answer::Never);
        let bucket = bucket(service, server.address);
        let named = |index| Object { name: format!("k/{index}"), ..object(1) };
        let objects: Vec<Object> = (0..100).map(named).collect();
        assert_eq!(bucket.create_all(&objects).unwrap_err().failure, Failure::Unknown);
        assert_eq!(server.requests().len(), backend::REQUESTS_MAX);
    }
}

#[test]
fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    for service in [Service::S3, Service::Gcs] {
        let server = Canned::start(Answer::Longer);
        let refused = bucket(service, server.address).get("k").unwrap_err();
        assert_eq!(refused.failure, Failure::Permanent, "{refused}");
        assert!(refused.what.ends_with("the answer is longer than an object may be"), "{refused}");
    }
}

#[test]
fn a_configuration_that_cannot_work_is_refused_with_the_remedy() {
    let config = BucketConfig {
        service: Service::S3,
        bucket: "bucket".to_owned(),
        root: String::new(),
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        region: None,
        timeout: TIMEOUT,
    };
    let cases = [
        (
            config.clone(),
            "s3://bucket: cannot use it: it has no region: set \
             tier.bucket_region, or AWS_REGION",
        ),
        (
            BucketConfig { root: "a/".to_owned(), ..config.clone() },
            "s3://bucket/a/: cannot use it: its root \"a/\" must be the beginning of a name, of at \
             most 100 bytes, without a slash at its end",
        ),
        (
            BucketConfig { service: Service::Gcs, bucket: String::new(), ..config.clone() },
            "gs://: cannot use it: \"\" cannot be the name of a bucket: correct it",
        ),
        (
            BucketConfig { service: Service::Gcs, endpoint: Some("a:1".to_owned()), ..config },
            "gs://bucket: cannot use it: its endpoint \"a:1\" must begin with http:// or https://",
        ),
    ];
    for (config, text) in cases {
        let refused = Bucket::open_in(&config, &|_| None).unwrap_err();
        assert_eq!((refused.failure, refused.what.as_str()), (Failure::Permanent, text));
    }
}
