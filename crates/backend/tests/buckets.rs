//! Buckets of emulators of S3 and GCS keep the promises of all objects; and what follows when an
//! emulator is gone.
//!
//! The emulators are installed by pip the first time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod suite;

use backend::{Bucket, BucketConfig, Service};
use measure::process::{Launch, Server, accepts};
use measure::tools::{FAKE_GCS, MOTO};
use pages::Objects;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use suite::object;
use tier::Failure;

/// The bucket of all tests, which is made before them.
const BUCKET: &str = "volvox-test";
/// Longest a request may take.
const TIMEOUT: Duration = Duration::from_secs(20);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulators")
}

/// Starts an emulator, and makes a bucket there.
fn start(service: Service) -> Server {
    let words = |words: &[&str], path: PathBuf| -> Vec<String> {
        let words = words.iter().map(|word| (*word).to_owned());
        [path.to_str().unwrap().to_owned()].into_iter().chain(words).collect()
    };
    let (name, make) = match service {
        Service::S3 => ("moto", format!("PUT /{BUCKET} HTTP/1.0\r\nContent-Length: 0\r\n\r\n")),
        Service::Gcs => ("fake-gcs-server", {
            let body = format!("{{\"name\":\"{BUCKET}\"}}");
            let head = "POST /storage/v1/b HTTP/1.0\r\nContent-Type: application/json";
            format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }),
    };
    let path = match service {
        Service::S3 => MOTO.need(&folder()).unwrap(),
        Service::Gcs => FAKE_GCS.need(&folder()).unwrap(),
    };
    let command = |port: u16| match service {
        Service::S3 => words(&["-H", "127.0.0.1", "-p", &port.to_string()], path),
        Service::Gcs => {
            let port = port.to_string();
            let flags = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1"];
            words(&[&flags[..], &["-port", &port]].concat(), path)
        }
    };
    let server = Launch::new().start(name, &folder().join("logs"), command, accepts).unwrap();
    let mut connection = TcpStream::connect(server.address()).unwrap();
    connection.set_read_timeout(Some(TIMEOUT)).unwrap();
    connection.write_all(make.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.lines().next().unwrap().contains(" 200 "), "{answer}");
    server
}

fn config(service: Service, address: SocketAddr, root: &str, timeout: Duration) -> BucketConfig {
    BucketConfig {
        service,
        bucket: BUCKET.to_owned(),
        root: root.to_owned(),
        endpoint: Some(format!("http://{address}")),
        region: Some("us-east-1".to_owned()),
        timeout,
    }
}

fn open(config: &BucketConfig) -> Bucket {
    Bucket::open_in(config, &|name| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("test".to_owned()),
        "STORAGE_EMULATOR_HOST" => config.endpoint.clone(),
        _ => None,
    })
    .unwrap()
}

/// Each promise over a root of its own, and the first one without a root.
fn keeps_every_promise(service: Service) {
    let server = start(service);
    for (index, (promise, check)) in suite::PROMISES.into_iter().enumerate() {
        let root = if index == 0 { String::new() } else { format!("root/{index}") };
        let begun = Instant::now();
        let bucket = open(&config(service, server.address(), &root, TIMEOUT));
        check(&bucket);
        println!("{promise}: {} ms", begun.elapsed().as_millis());
    }
    server.stop().unwrap();
}

/// What a call says when there is no bucket, and when there is no server any more.
fn says_what_is_wrong(service: Service) {
    const SHORT: Duration = Duration::from_secs(4);
    let server = start(service);
    let mut other = config(service, server.address(), "", SHORT);
    other.bucket = "volvox-none".to_owned();
    let none = open(&other);
    let refused = none.create(&object("k", "x")).unwrap_err();
    assert_eq!(refused.failure, Failure::Permanent, "{refused}");
    assert!(refused.what.ends_with("; create the bucket, or correct its name"), "{refused}");
    assert_eq!(none.list("", "", 1).unwrap_err().failure, Failure::Permanent);

    let bucket = open(&config(service, server.address(), "", SHORT));
    bucket.create(&object("k", "x")).unwrap();
    let address = server.address();
    drop(server);
    assert!(accepts(address).is_err(), "the server is gone");
    let begun = Instant::now();
    let names = ["k".to_owned(), "l".to_owned()];
    let errors = [
        bucket.create(&object("k", "x")).map(drop),
        bucket.create_all(&[object("k", "x"), object("l", "x")]),
        bucket.get("k").map(drop),
        bucket.get_all(&names).map(drop),
        bucket.list("", "", 9).map(drop),
        bucket.delete(&names),
    ];
    assert!(begun.elapsed() < SHORT * 6, "every call ends");
    for error in errors {
        let error = error.unwrap_err();
        println!("{error}");
        assert!([Failure::Transient, Failure::Unknown].contains(&error.failure), "{error}");
        assert!(!error.what.contains('\n') && error.what.contains(BUCKET), "{error}");
    }
}

#[test]
fn a_bucket_of_s3_keeps_every_promise() {
    keeps_every_promise(Service::S3);
}

#[test]
fn a_bucket_of_gcs_keeps_every_promise() {
    keeps_every_promise(Service::Gcs);
}

#[test]
fn a_bucket_of_s3_says_what_is_wrong() {
    says_what_is_wrong(Service::S3);
}

#[test]
fn a_bucket_of_gcs_says_what_is_wrong() {
    says_what_is_wrong(Service::Gcs);
}
