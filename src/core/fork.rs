//! What a forked child must know: it has one thread, a copy of the parent's memory, and none of the parent's other
//! threads. Locks that the library holds for all threads are taken before a fork and given back after it, on both
//! sides. What another thread was doing then (a kernel, an array's small lock) never ends in the child: whoever would
//! wait for it is told so instead.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How many forks lie between this process and the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How long a fork waits for the locks of the library, all together.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes a lock of the library for the time of a fork, if it is free by then.
pub type Hold = fn(until: Instant) -> Held;

/// A lock that is held, for as long as it lives.
pub type Held = Option<Box<dyn Any>>;

thread_local! {
    // What the thread that forks holds meanwhile.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// How many forks lie between this process and the one that loaded the library.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Holds a lock that all threads share; for the table of those that a fork waits for.
pub fn hold<T>(lock: &'static Mutex<T>, until: Instant) -> Held {
    try_until(lock, until).map(|guard| Box::new(guard) as Box<dyn Any>)
}

fn try_until<T>(lock: &Mutex<T>, until: Instant) -> Option<MutexGuard<'_, T>> {
    loop {
        match lock.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(e)) => return Some(e.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// Takes the lock of a single object. In a forked child one that another thread held at the fork stays taken.
///
/// # Panics
/// In a forked child, where the lock does not come free; that is a runtime error in Python.
#[inline]
pub fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    if generation() == 0 {
        return lock.lock().unwrap_or_else(|e| e.into_inner());
    }
    lock_in_child(lock)
}

#[cold]
fn lock_in_child<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    match try_until(lock, Instant::now() + PATIENCE) {
        Some(guard) => guard,
        // Not by `panic!`: there is nothing to report about the library.
        None => std::panic::resume_unwind(Box::new(String::from(
            "[fork] Another thread of the parent process was using this object when the process was forked. Wait for \
             it before the fork, or start the process with the spawn method.",
        ))),
    }
}

/// Counts forks from now on, and takes the locks of `table`, in its order, for the time of each. The first caller's
/// table counts.
#[cfg(unix)]
pub fn watch(table: &'static [Hold]) {
    use std::sync::OnceLock;
    static TABLE: OnceLock<&'static [Hold]> = OnceLock::new();

    extern "C" fn before() {
        let until = Instant::now() + PATIENCE;
        let locks = TABLE.get().into_iter().flat_map(|t| t.iter());
        // A thread that ends has no table any more, and no use for one.
        let _ = HELD.try_with(|held| held.borrow_mut().extend(locks.filter_map(|take| take(until))));
    }
    extern "C" fn after() {
        let _ = HELD.try_with(|held| while held.borrow_mut().pop().is_some() {});
    }
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        after();
    }
    type Hook = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Hook, parent: Hook, child: Hook) -> i32;
    }
    if TABLE.set(table).is_ok() {
        // SAFETY: the handlers live as long as the process and do not unwind: they take and release locks of a table of
        // ours, none of which the calling thread holds, for nothing forks under them.
        unsafe { pthread_atfork(Some(before), Some(after), Some(in_child)) };
    }
}

/// There are no forks here.
#[cfg(not(unix))]
pub fn watch(_: &'static [Hold]) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_held_while_they_can_be_had() {
        static FREE: Mutex<u32> = Mutex::new(1);
        static TAKEN: Mutex<u32> = Mutex::new(2);
        let soon = || Instant::now() + Duration::from_millis(20);
        let held = hold(&FREE, soon());
        assert!(held.is_some() && FREE.try_lock().is_err());
        drop(held);
        assert_eq!(*lock(&FREE), 1);
        let guard = TAKEN.lock().unwrap();
        assert!(std::thread::spawn(move || hold(&TAKEN, soon()).is_none()).join().unwrap());
        drop(guard);
    }
}
