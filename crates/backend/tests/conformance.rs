//! What every backend does alike: one suite, run over each of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "those of buckets are listed, these are named one by one")]
mod keys;
mod scratch;

use backend::{Directory, FilesBackend, MemoryBackend, RedbBackend};
use keys::{CHANGES, Opened};
use pages::{MemoryObjects, Pages, PagesConfig};
use scratch::Scratch;
use std::path::Path;
use std::sync::Arc;
use tier::Backend;

fn memory(_: &Path) -> Opened {
    Opened { backend: Box::new(MemoryBackend::new()), directory: None, changes: CHANGES }
}

fn files(path: &Path) -> Opened {
    Opened {
        backend: Box::new(FilesBackend::open(path).unwrap()),
        directory: None,
        changes: CHANGES,
    }
}

fn redb(path: &Path) -> Opened {
    let directory = Directory::open(path, "the test").unwrap();
    let backend = Box::new(RedbBackend::open(&directory, "keys.redb", 1 << 20).unwrap());
    Opened { backend, directory: Some(directory), changes: CHANGES }
}

fn pages(_: &Path) -> Opened {
    let config = PagesConfig { page_bytes: 2_000, apart_from: 1_000, cache_bytes: 10_000 };
    let pages = Pages::open(Arc::new(MemoryObjects::new()), config).unwrap();
    pages.begin().unwrap();
    Opened { backend: Box::new(pages), directory: None, changes: CHANGES }
}

/// Runs each named promise over each named backend.
macro_rules! conformance {
    ($backends:tt: $($promise:ident)*) => {
        $(conformance!(@each $promise $backends);)*
    };
    (@each $promise:ident [$($backend:ident)*]) => {
        mod $promise {
            $(#[test]
            fn $backend() {
                let name = concat!(stringify!($promise), "-", stringify!($backend));
                super::keys::$promise(&super::$backend, &super::Scratch::new(name));
            })*
        }
    };
}

conformance! { [memory files redb pages]:
    a_key_has_the_last_record_that_was_put
    keys_are_any_bytes_and_records_any_length
    keys_of_other_lengths_are_refused
    one_apply_carries_out_many_changes
    notes_are_kept_and_are_no_keys
    a_note_is_claimed_once
    gets_during_applies_see_whole_records_and_never_older_ones
    all_that_is_kept_is_shown
    a_random_run_equals_a_map
}

conformance! { [files redb]:
    all_is_found_again
}
