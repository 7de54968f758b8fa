//! The one error type. A variant stands for the Python exception that MLX raises in the same place;
//! a message reads `[op] what was wrong, expected, got`.

/// Everything that can fail in the library.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Wrong shape, dtype, axis or argument value; Python `ValueError`.
    #[error("{0}")]
    Value(String),
    /// A number that does not fit the integers MLX counts with; Python `OverflowError`.
    #[error("{0}")]
    Overflow(String),
    /// An argument of the wrong kind; Python `TypeError`.
    #[error("{0}")]
    Type(String),
    /// An index out of range; Python `IndexError`.
    #[error("{0}")]
    Index(String),
    /// A failure at run time (driver, file, lost device); Python `RuntimeError`.
    #[error("{0}")]
    Runtime(String),
    /// Memory is exhausted; Python `RuntimeError`, as MLX raises it.
    #[error("[{op}] {}{detail}", wanted(*.bytes))]
    OutOfMemory {
        /// Who asked.
        op: &'static str,
        /// How much was asked for; 0 where a driver does not say.
        bytes: usize,
        /// Limit or driver message, starting with a separator, or empty.
        detail: String,
    },
    /// The user pressed Ctrl-C while the library waited; Python `KeyboardInterrupt`.
    #[error("[eval] Interrupted while waiting for results")]
    Interrupted,
    /// Work was given up before it was begun, because the user pressed Ctrl-C; it can be asked for again. Python
    /// `RuntimeError`.
    #[error("[eval] The computation was dropped after an interrupt; evaluate the array again.")]
    Dropped,
    /// An exception of the caller's own code, on its way through the library.
    #[error("{text}")]
    Foreign {
        /// What it says.
        text: String,
        /// The exception itself.
        exception: Foreign,
    },
    /// Something that has no implementation; Python `NotImplementedError`.
    #[error("{0}")]
    NotImplemented(String),
}

fn wanted(bytes: usize) -> String {
    match bytes {
        0 => "Out of memory".into(),
        n => format!("Unable to allocate {n} bytes"),
    }
}

impl Error {
    /// Adds the operation that memory was asked for.
    pub fn of(mut self, operation: &str) -> Error {
        if let Error::OutOfMemory { detail, .. } = &mut self {
            detail.push_str(&format!(" The operation is {operation}."));
        }
        self
    }
}

/// An exception object that only its own language can read.
#[derive(Clone)]
pub struct Foreign(pub std::sync::Arc<dyn std::any::Any + Send + Sync>);

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Foreign")
    }
}

impl Error {
    /// A reader or writer failed. What code of the caller's said stays what it is; else it is a runtime error with `text`.
    pub fn of_io(e: std::io::Error, text: String) -> Error {
        match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(inner) => inner.clone(),
            None if e.get_ref().is_some() => {
                Error::Foreign { text, exception: Foreign(std::sync::Arc::new(e)) }
            }
            None => Error::Runtime(text),
        }
    }
}

/// Result with the library's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns early with an [`Error`]: `bail!(Value, "[reshape] ... {}", x)`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::core::Error::$kind(format!($($arg)*)))
    };
}
