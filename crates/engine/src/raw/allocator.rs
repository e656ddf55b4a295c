//! What the allocator of the process keeps of buffers that were freed.
//!
//! Left to itself, that of glibc learns from what is freed: once a buffer of 1 MiB was freed, it
//! keeps twice as much at the end of each of its arenas, of which there are eight for each core,
//! and takes buffers of that length from them, so that they lie scattered. Buffers of connections
//! are taken from the budget, but what was kept of them was not: some 20 MiB where many clients
//! have long values. With fixed numbers it learns nothing, and keeps little.
//!
//! The numbers are such that a worker which receives and sends values of up to nearly 1 MiB, one
//! after the other, takes no memory from the kernel each time.

/// What is set, and to what.
#[cfg(target_env = "gnu")]
const SETTINGS: [(libc::c_int, libc::c_int); 3] = [
    // Longer buffers are memory of their own, which the kernel has back as soon as they are freed.
    (libc::M_MMAP_THRESHOLD, 1 << 20),
    // Bytes that an arena keeps free at its end, at most.
    (libc::M_TRIM_THRESHOLD, 3 << 19),
    // Arenas, at most. No short request allocates anything.
    (libc::M_ARENA_MAX, 2),
];

/// Bounds what the allocator of this process keeps of buffers that were freed. To be called before
/// there are other threads, and before anything long is allocated. Other allocators than that of
/// glibc are left as they are.
pub fn bound_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in SETTINGS {
        // SAFETY: it takes two numbers and no pointer, may be called at any time, and locks what it
        // changes. A number that it does not take changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
