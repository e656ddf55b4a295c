//! Mail: messages of a type that the handler chooses, from any thread to the handler of a worker.
//!
//! A mailbox does not know that type. Only a [`Post`] makes mail, and it is handed out by the server
//! whose handlers take it, so what arrives is always of their type.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use base::Now;
use session::{Handler, WorkerId};

use super::mailbox::Message;
use super::state::Shared;

/// Something for the handler of a worker.
pub(crate) struct Mail(Box<dyn Any + Send>);

impl Mail {
    /// Delivers it.
    pub(crate) fn deliver<H: Handler>(self, handler: &mut H, now: Now) {
        let mail = self.0.downcast().expect("a post of this server has made it");
        handler.deliver(now, *mail);
    }
}

/// Posts mail to the handlers of a server, from any thread.
pub struct Post<M> {
    shared: Arc<Shared>,
    mail: PhantomData<fn(M)>,
}

impl<M: Send + 'static> Post<M> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, mail: PhantomData }
    }

    /// Posts `mail` to the handler of `worker`, and wakes the worker. `false` when the worker is
    /// gone or its mailbox is full. Under [`Driver::Threads`](crate::Driver::Threads) the thread of
    /// a client takes its mail before it receives the next time; worker 0 takes it at once.
    pub fn send(&self, worker: WorkerId, mail: M) -> bool {
        let mail = Message::Mail(Mail(Box::new(mail)));
        self.shared.worker(worker).is_some_and(|worker| worker.mailbox().post(mail))
    }
}

impl<M> Clone for Post<M> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), mail: PhantomData }
    }
}
