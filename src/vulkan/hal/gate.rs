//! Who may call the driver of a device, or see its memory: whoever has a [`Driver`]. A device that was lost is destroyed when
//! nobody has one any more (see `reclaim`). Its Rust side stays for the life of the process, some kilobytes, so that
//! whatever refers to it still learns that it was lost; raw handles are nothing but numbers then.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// The driver's side of the device is gone, or goes.
const CLOSED: u64 = 1 << 63;
/// A [`Driver`] for calls.
const CALL: u64 = 1;
/// A [`Driver`] of memory that the host sees.
const MEMORY: u64 = 1 << 32;

/// The driver's functions of a device, with a count of those who may call them.
pub(crate) struct Gate {
    raw: ash::Device,
    /// Calls in the low half, memory in the high half.
    drivers: AtomicU64,
}

/// The driver's functions of a device that is not destroyed while this lives.
pub(crate) struct Driver<'a> {
    gate: &'a Gate,
    weight: u64,
}

impl Gate {
    pub fn new(raw: ash::Device) -> Gate {
        Gate { raw, drivers: AtomicU64::new(0) }
    }

    /// The driver, for calls; none where the device was destroyed.
    #[inline]
    pub fn enter(&self) -> Option<Driver<'_>> {
        self.take(CALL)
    }

    /// The driver, for as long as the host may see memory of the device.
    #[inline]
    pub fn keep_memory(&self) -> Option<Driver<'_>> {
        self.take(MEMORY)
    }

    #[inline]
    fn take(&self, weight: u64) -> Option<Driver<'_>> {
        let before = self.drivers.fetch_add(weight, Ordering::Acquire);
        let driver = Driver { gate: self, weight };
        (before & CLOSED == 0).then_some(driver)
    }

    /// Whether somebody keeps memory that the host sees.
    pub fn keeps_memory(&self) -> bool {
        self.drivers.load(Ordering::Relaxed) & !CLOSED >= MEMORY
    }

    /// Lets nobody in any more; whether nobody is within a call. For the end of the process.
    pub fn shut(&self) -> bool {
        self.drivers.fetch_or(CLOSED, Ordering::AcqRel) & (MEMORY - 1) == 0
    }

    /// Lets nobody in any more, if nobody is in: the driver's functions for those who destroy the device.
    pub fn close(&self) -> Option<&ash::Device> {
        let closed = self.drivers.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Relaxed);
        closed.is_ok().then_some(&self.raw)
    }
}

impl Deref for Driver<'_> {
    type Target = ash::Device;

    #[inline]
    fn deref(&self) -> &ash::Device {
        &self.gate.raw
    }
}

impl Drop for Driver<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.drivers.fetch_sub(self.weight, Ordering::Release);
    }
}
