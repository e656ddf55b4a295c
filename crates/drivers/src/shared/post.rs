//! What posts mail to handlers, from any thread.
//!
//! Only a [`Post`] makes mail, and it is handed out by the server whose handlers take that mail. So
//! what arrives is always of their type.

use std::marker::PhantomData;
use std::sync::Arc;

use session::WorkerId;

use super::mail::Mail;
use super::mailbox::Message;
use super::state::Shared;

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
        let mail = Message::Mail(Mail::new(mail));
        self.shared.worker(worker).is_some_and(|worker| worker.mailbox().post(mail))
    }
}

impl<M> Clone for Post<M> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), mail: PhantomData }
    }
}
