//! What a forked child must know: it has one thread, a copy of the parent's memory, and none of the parent's other
//! threads. What the library shares between threads is locked before a fork and given back after it, on both sides; what
//! could not be locked in time (a thread opens a device, or waits for a compiler, under it) is made anew in the child.
//! What another thread was doing then (a kernel, an array's small lock) never ends in the child: whoever would wait for
//! it is told so instead. Nothing that a child needs is a `OnceLock` with work to do, on which it could wait for ever.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How many forks lie between this process and the one that loaded the library.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many threads are about to fork, and wait for locks of the library.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// How long a fork waits for a lock of the library, and whoever needs that of an object in a child.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

thread_local! {
    // What the thread that forks holds meanwhile, and what it could not get.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    static MISSED: RefCell<Vec<&'static dyn Hold>> = const { RefCell::new(Vec::new()) };
}

/// How many forks lie between this process and the one that loaded the library.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// A static value that is made on first use, as `LazyLock`'s are, but nobody waits for another thread to make it: of
/// those who come at once each makes one, and the first counts. Making it has no effect but the value.
pub struct Made<T: 'static> {
    place: AtomicPtr<T>,
    make: fn() -> T,
    /// Threads share it where they may share a `T`.
    like: PhantomData<T>,
}

impl<T> Made<T> {
    /// What `make` will make.
    pub const fn new(make: fn() -> T) -> Made<T> {
        Made { place: AtomicPtr::new(std::ptr::null_mut()), make, like: PhantomData }
    }

    #[cold]
    fn first(&self) -> &T {
        let fresh = Box::into_raw(Box::new((self.make)()));
        match self.place.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just published, never freed from now on.
            Ok(_) => unsafe { &*fresh },
            Err(known) => {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: what is published is never freed.
                unsafe { &*known }
            }
        }
    }
}

impl<T> Deref for Made<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: what is published is never freed.
        unsafe { self.place.load(Ordering::Acquire).as_ref() }.unwrap_or_else(|| self.first())
    }
}

/// A static value that threads share under a lock, made on first use. It is one of those that a fork waits for; a child
/// whose parent could not lock it in time has one of its own, as it was made.
pub struct Shared<T: 'static> {
    make: fn() -> T,
    first: Mutex<Option<T>>,
    renewed: AtomicPtr<Mutex<Option<T>>>,
}

/// The value, locked.
pub struct Guard<T: 'static>(MutexGuard<'static, Option<T>>);

impl<T> Shared<T> {
    /// What `make` will make.
    pub const fn new(make: fn() -> T) -> Shared<T> {
        Shared { make, first: Mutex::new(None), renewed: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn current(&'static self) -> &'static Mutex<Option<T>> {
        // SAFETY: what is published is never freed.
        unsafe { self.renewed.load(Ordering::Acquire).as_ref() }.unwrap_or(&self.first)
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&'static self) -> Guard<T> {
        let mut guard = self.current().lock().unwrap_or_else(|e| e.into_inner());
        guard.get_or_insert_with(self.make);
        Guard(guard)
    }
}

impl<T> Deref for Guard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // INVARIANT: whoever locks it makes it.
        self.0.as_ref().expect("a value that was made")
    }
}

impl<T> DerefMut for Guard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // INVARIANT: as above.
        self.0.as_mut().expect("a value that was made")
    }
}

/// What a fork locks.
pub trait Hold: Sync {
    /// Locks it, if it is free by then.
    fn hold(&'static self, until: Instant) -> Option<Box<dyn Any>>;
    /// In a child where nobody will ever unlock it: makes another.
    fn renew(&self);
}

impl<T: Send> Hold for Shared<T> {
    fn hold(&'static self, until: Instant) -> Option<Box<dyn Any>> {
        try_until(self.current(), until).map(|guard| Box::new(guard) as Box<dyn Any>)
    }

    fn renew(&self) {
        self.renewed.store(Box::into_raw(Box::default()), Ordering::Release);
    }
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

/// For whoever has just given up a shared value only to lock it again at once: a thread that forks has it meanwhile.
#[inline]
pub fn give_way() {
    if WAITING.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(2));
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
    match try_until(lock, Instant::now() + LOCK_TIMEOUT) {
        Some(guard) => guard,
        // Not by `panic!`: there is nothing to report about the library.
        None => std::panic::resume_unwind(Box::new(String::from(
            "[fork] Another thread of the parent process was using this object when the process was forked. Wait for \
             it before the fork, or start the process with the spawn method.",
        ))),
    }
}

/// Counts forks from now on, and locks what is in `table`, in its order, for the time of each. The first caller's table
/// counts.
#[cfg(unix)]
pub fn watch(table: &'static [&'static dyn Hold]) {
    use std::sync::OnceLock;
    static TABLE: OnceLock<&'static [&'static dyn Hold]> = OnceLock::new();

    extern "C" fn before() {
        WAITING.fetch_add(1, Ordering::Relaxed);
        let all = TABLE.get().into_iter().flat_map(|t| t.iter().copied());
        // A thread that ends has no lists any more, and no use for them.
        let _ = HELD.try_with(|held| MISSED.try_with(|missed| take(all, held, missed)));
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
    extern "C" fn after() {
        let _ = HELD.try_with(|held| while held.borrow_mut().pop().is_some() {});
        let _ = MISSED.try_with(|missed| missed.borrow_mut().clear());
    }
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        // Threads that forked at the same time are not here.
        WAITING.store(0, Ordering::Relaxed);
        let _ = MISSED.try_with(|missed| missed.borrow().iter().for_each(|m| m.renew()));
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

#[cfg(unix)]
fn take(
    all: impl Iterator<Item = &'static dyn Hold>,
    held: &RefCell<Vec<Box<dyn Any>>>,
    missed: &RefCell<Vec<&'static dyn Hold>>,
) {
    for one in all {
        match one.hold(Instant::now() + LOCK_TIMEOUT) {
            Some(guard) => held.borrow_mut().push(guard),
            None => missed.borrow_mut().push(one),
        }
    }
}

/// There are no forks here.
#[cfg(not(unix))]
pub fn watch(_: &'static [&'static dyn Hold]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_values_are_held_while_they_can_be_had_and_made_anew_otherwise() {
        static FREE: Shared<u32> = Shared::new(|| 1);
        static TAKEN: Shared<Vec<u32>> = Shared::new(|| vec![7]);
        let soon = || Instant::now() + Duration::from_millis(20);
        let held = FREE.hold(soon());
        assert!(held.is_some() && FREE.current().try_lock().is_err());
        drop(held);
        *FREE.lock() += 1;
        assert_eq!(*FREE.lock(), 2);
        let mut guard = TAKEN.lock();
        guard.push(8);
        assert!(std::thread::spawn(move || TAKEN.hold(soon()).is_none()).join().unwrap());
        TAKEN.renew();
        assert_eq!(*TAKEN.lock(), [7]);
        assert!(TAKEN.hold(soon()).is_some());
        assert_eq!(*guard, [7, 8]);
    }

    #[test]
    fn one_of_those_that_are_made_at_once_counts() {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static MADE: Made<u32> = Made::new(|| {
            std::thread::sleep(Duration::from_millis(5));
            NEXT.fetch_add(1, Ordering::Relaxed)
        });
        let threads: Vec<_> =
            (0..8).map(|_| std::thread::spawn(|| std::ptr::from_ref(&*MADE) as usize)).collect();
        let places: Vec<usize> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(places.iter().all(|&p| p == places[0]));
    }
}
