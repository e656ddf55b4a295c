//! What one thread waits for, and others ask it for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Something that is asked for or not, however often.
#[derive(Default)]
pub(crate) struct Press {
    is_pressed: Mutex<bool>,
    pressed: Condvar,
}

impl Press {
    /// Asks for it.
    pub(crate) fn press(&self) {
        if !std::mem::replace(&mut *self.lock(), true) {
            self.pressed.notify_one();
        }
    }

    /// Whether it is asked for.
    pub(crate) fn is_pressed(&self) -> bool {
        *self.lock()
    }

    /// Waits until it is asked for, for `most`, or until all `has_ended`. Returns whether it was,
    /// once.
    pub(crate) fn wait(&self, most: Duration, has_ended: impl Fn() -> bool) -> bool {
        let waits = |is_pressed: &mut bool| !*is_pressed && !has_ended();
        let waited = self.pressed.wait_timeout_while(self.lock(), most, waits);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Wakes who waits, to see whether all has ended.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.pressed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_pressed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn what_was_asked_for_is_not_waited_for_and_is_given_once() {
        let press = Press::default();
        press.press();
        press.press();
        assert!(press.is_pressed() && press.wait(LONG, || false));
        assert!(!press.is_pressed());
        assert!(!press.wait(Duration::ZERO, || false), "it was given");
        assert!(!press.wait(LONG, || true), "all has ended");
    }

    #[test]
    fn who_waits_is_woken() {
        let press = Press::default();
        let is_given = std::thread::scope(|scope| {
            let waits = scope.spawn(|| press.wait(LONG, || false));
            press.press();
            waits.join().expect("it ends")
        });
        assert!(is_given);
    }
}
