//! Mail: a message of a type that the handler chooses, in a mailbox that does not know the type.

use std::any::Any;

use base::Now;
use session::Handler;

/// Something for the handler of a worker.
pub(crate) struct Mail(Box<dyn Any + Send>);

impl Mail {
    /// Wraps `mail`, which must be of the type that the handlers of its server take.
    pub(super) fn new(mail: impl Send + 'static) -> Self {
        Self(Box::new(mail))
    }

    /// Delivers it.
    pub(crate) fn deliver<H: Handler>(self, handler: &mut H, now: Now) {
        let mail = self.0.downcast().expect("a post of this server has made it");
        handler.deliver(now, *mail);
    }
}
