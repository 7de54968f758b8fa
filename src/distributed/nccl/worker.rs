//! A thread that calls NCCL for a group: such a call may wait for other processes for ever, and then the thread is left
//! to itself while the group fails in time.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};

use crate::distributed::Outcome;

type Job = Box<dyn FnOnce() + Send>;

/// The thread.
pub struct Worker(Sender<Job>);

/// What a call will have come to.
pub struct Pending<T>(Receiver<Outcome<T>>);

impl Worker {
    pub fn new() -> Outcome<Worker> {
        let (ask, asked) = mpsc::channel::<Job>();
        let run = move || asked.into_iter().for_each(|job| job());
        std::thread::Builder::new().name("mlx-nccl".into()).spawn(run).map_err(|e| e.to_string())?;
        Ok(Worker(ask))
    }

    /// Begins a call.
    pub fn begin<T: Send + 'static>(&self, f: impl FnOnce() -> Outcome<T> + Send + 'static) -> Pending<T> {
        let (tell, told) = mpsc::channel();
        // A thread that is gone is told of by the closed channel.
        let _ = self.0.send(Box::new(move || drop(tell.send(f()))));
        Pending(told)
    }
}

impl<T> Pending<T> {
    /// What the call came to, once it has ended.
    pub fn look(&self) -> Outcome<Option<T>> {
        match self.0.try_recv() {
            Ok(done) => done.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err("the thread of NCCL is gone".into()),
        }
    }
}
