//! Buckets of emulators of S3 and GCS keep the promises of all objects; and what follows when an
//! emulator is gone.
//!
//! The emulators are installed by pip the first time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keys;
mod scratch;
mod suite;

use backend::{Bucket, BucketConfig, Service};
use keys::Opened;
use measure::process::emulators::{BUCKET, Emulator, REGION};
use measure::process::{Server, accepts};
use pages::{Objects, Pages, PagesConfig};
use scratch::Scratch;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use suite::object;
use tier::{Backend, Failure};

/// Longest a request may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Changes of a random run: each is followed by a read of every key, and an emulator answers some
/// hundred requests in a second.
const CHANGES: usize = keys::CHANGES / 8;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulators")
}

fn start(service: Service) -> Server {
    let emulator = match service {
        Service::S3 => Emulator::S3,
        Service::Gcs => Emulator::Gcs,
    };
    emulator.start(&folder()).unwrap()
}

fn config(service: Service, address: SocketAddr, root: &str, timeout: Duration) -> BucketConfig {
    BucketConfig {
        service,
        bucket: BUCKET.to_owned(),
        root: root.to_owned(),
        endpoint: Some(format!("http://{address}")),
        region: Some(REGION.to_owned()),
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
        bucket.create_all(&[object("k", "x"), object("l", "x")]).map(drop),
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

/// The promises of what keeps keys, where these lie in pages of a bucket.
fn keeps_keys(service: Service) {
    let server = start(service);
    for (promise, check) in keys::PROMISES {
        let begun = Instant::now();
        let name = format!("keys-{service:?}-{promise}");
        check(
            &|_| in_pages(&config(service, server.address(), &name, TIMEOUT)),
            &Scratch::new(&name),
        );
        println!("{promise}: {} ms", begun.elapsed().as_millis());
    }
    server.stop().unwrap();
}

fn in_pages(config: &BucketConfig) -> Opened {
    let pages = PagesConfig { page_bytes: 16_000, apart_from: 8_000, cache_bytes: 100_000 };
    let pages = Pages::open(Arc::new(open(config)), pages).unwrap();
    pages.begin().unwrap();
    Opened { backend: Box::new(pages), directory: None, changes: CHANGES }
}

#[test]
fn pages_in_a_bucket_of_s3_keep_keys() {
    keeps_keys(Service::S3);
}

#[test]
fn pages_in_a_bucket_of_gcs_keep_keys() {
    keeps_keys(Service::Gcs);
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
