//! The functions of an MPI library, and its life from MPI_Init_thread to MPI_Finalize. Handles are pointers in Open MPI
//! and integers in the family of MPICH (MPI ABI initiative); a register holds either. Which it is, symbols tell that
//! only Open MPI has. Calls come from several threads, one at a time.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::core::event::check_interrupt;
use crate::core::{Dtype, Error, Result, env};
use crate::distributed::mpi::LIBNAME;
use crate::distributed::reduce::accumulate;
use crate::distributed::{Outcome, Reduction, lock, timeout};

const NAMES: [&str; 4] = ["libmpi.so", "libmpi.so.40", "libmpich.so.12", "libmpi.so.12"];
/// MPI_THREAD_SERIALIZED: one thread at a time.
const SERIALIZED: c_int = 2;

pub type Handle = usize;
pub type Buffer = *mut c_void;
type Reducer = extern "C" fn(Buffer, Buffer, *mut c_int, Buffer);

/// What is called.
pub struct Functions {
    initialized: unsafe extern "C" fn(*mut c_int) -> c_int,
    query_thread: unsafe extern "C" fn(*mut c_int) -> c_int,
    init_thread: unsafe extern "C" fn(*mut c_int, Buffer, c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    op_create: unsafe extern "C" fn(Reducer, c_int, *mut Handle) -> c_int,
    type_contiguous: unsafe extern "C" fn(c_int, Handle, *mut Handle) -> c_int,
    type_commit: unsafe extern "C" fn(*mut Handle) -> c_int,
    type_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub duplicate: unsafe extern "C" fn(Handle, *mut Handle, *mut Handle) -> c_int,
    pub split: unsafe extern "C" fn(Handle, c_int, c_int, *mut Handle) -> c_int,
    pub set_errhandler: unsafe extern "C" fn(Handle, Handle) -> c_int,
    pub allreduce: unsafe extern "C" fn(Buffer, Buffer, c_int, Handle, Handle, Handle, *mut Handle) -> c_int,
    pub allgather:
        unsafe extern "C" fn(Buffer, c_int, Handle, Buffer, c_int, Handle, Handle, *mut Handle) -> c_int,
    pub reduce_scatter:
        unsafe extern "C" fn(Buffer, Buffer, c_int, Handle, Handle, Handle, *mut Handle) -> c_int,
    pub send: unsafe extern "C" fn(Buffer, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int,
    pub recv: unsafe extern "C" fn(Buffer, c_int, Handle, c_int, c_int, Handle, *mut Handle) -> c_int,
    test: unsafe extern "C" fn(*mut Handle, *mut c_int, Buffer) -> c_int,
}

/// An open library.
pub struct Mpi {
    name: String,
    call: Functions,
    pub world: Handle,
    pub byte: Handle,
    pub errors_return: Handle,
    pub in_place: Buffer,
    status_ignore: Buffer,
    state: Mutex<State>,
}

// SAFETY: the pointers are constants of the library, which nobody follows.
unsafe impl Send for Mpi {}
// SAFETY: as above; calls are made under the lock of the state.
unsafe impl Sync for Mpi {}

/// What is made once MPI runs.
#[derive(Clone, Copy)]
struct Made {
    /// By size in bytes: 1, 2, 4, 8.
    types: [Handle; 4],
    /// By dtype and reduction.
    ops: [[Handle; 3]; Dtype::ALL.len()],
}

#[derive(Default)]
struct State {
    made: Option<Made>,
    /// Asks the thread that called MPI_Init_thread to finalize; none where another user of MPI does that.
    end: Option<Sender<Sender<()>>>,
    /// Why MPI is not called any more.
    broken: Option<String>,
    /// Operations that were started and are not done.
    under_way: usize,
}

const HOWS: [Reduction; 3] = [Reduction::Sum, Reduction::Max, Reduction::Min];

extern "C" fn reduce<const DTYPE: usize, const HOW: usize>(
    from: Buffer,
    into: Buffer,
    count: *mut c_int,
    _: Buffer,
) {
    let dtype = Dtype::ALL[DTYPE];
    // SAFETY: MPI calls this with `count` elements of the type that goes with the operation, of the dtype's size.
    unsafe {
        let bytes = usize::try_from(*count).unwrap_or(0) * dtype.size();
        let from = std::slice::from_raw_parts(from.cast::<u8>(), bytes);
        accumulate(HOWS[HOW], dtype, std::slice::from_raw_parts_mut(into.cast(), bytes), from);
    }
}

const fn reducers<const DTYPE: usize>() -> [Reducer; 3] {
    [reduce::<DTYPE, 0>, reduce::<DTYPE, 1>, reduce::<DTYPE, 2>]
}

/// By dtype and reduction.
const REDUCERS: [[Reducer; 3]; Dtype::ALL.len()] = [
    reducers::<0>(),
    reducers::<1>(),
    reducers::<2>(),
    reducers::<3>(),
    reducers::<4>(),
    reducers::<5>(),
    reducers::<6>(),
    reducers::<7>(),
    reducers::<8>(),
    reducers::<9>(),
    reducers::<10>(),
    reducers::<11>(),
    reducers::<12>(),
    reducers::<13>(),
];

/// The library of MLX_MPI_LIBNAME, or the first that is there: MPICH's before Open MPI's where MPICH's mpirun started
/// this process.
pub fn mpi() -> Option<&'static Mpi> {
    static OPENED: OnceLock<Option<Mpi>> = OnceLock::new();
    let open_any = || {
        if let Some(name) = LIBNAME.text() {
            return open(&name.to_string_lossy());
        }
        let mpich = env::foreign("PMI_RANK") && !env::foreign("OMPI_COMM_WORLD_SIZE");
        let order = if mpich { [2, 3, 0, 1] } else { [0, 1, 2, 3] };
        order.iter().find_map(|&i: &usize| open(NAMES[i]))
    };
    OPENED.get_or_init(open_any).as_ref()
}

fn open(name: &str) -> Option<Mpi> {
    // SAFETY: the user's own MPI library; what it runs when it is loaded is what every MPI program runs. Its plugins
    // look for its symbols, so they are global.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }.ok()?;
    // SAFETY: the address of a symbol, which lives as long as the library; that is never closed.
    let address = |n: &[u8]| unsafe { library.get::<Buffer>(n) }.ok().map(|s| s.into_raw() as usize);
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: the signature in `Functions` is that of the MPI standard, with handles in registers.
            *unsafe { library.get(concat!($name, "\0").as_bytes()) }.ok()?
        };
    }
    let call = Functions {
        initialized: function!("MPI_Initialized"),
        query_thread: function!("MPI_Query_thread"),
        init_thread: function!("MPI_Init_thread"),
        finalize: function!("MPI_Finalize"),
        error_string: function!("MPI_Error_string"),
        op_create: function!("MPI_Op_create"),
        type_contiguous: function!("MPI_Type_contiguous"),
        type_commit: function!("MPI_Type_commit"),
        type_free: function!("MPI_Type_free"),
        rank: function!("MPI_Comm_rank"),
        size: function!("MPI_Comm_size"),
        duplicate: function!("MPI_Comm_idup"),
        split: function!("MPI_Comm_split"),
        set_errhandler: function!("MPI_Comm_set_errhandler"),
        allreduce: function!("MPI_Iallreduce"),
        allgather: function!("MPI_Iallgather"),
        reduce_scatter: function!("MPI_Ireduce_scatter_block"),
        send: function!("MPI_Isend"),
        recv: function!("MPI_Irecv"),
        test: function!("MPI_Test"),
    };
    let open_mpi =
        [&b"ompi_mpi_comm_world\0"[..], b"ompi_mpi_byte\0", b"ompi_mpi_errors_return\0"].map(address);
    let (world, byte, errors_return, in_place, status_ignore) = match open_mpi {
        [Some(world), Some(byte), Some(errors)] => (world, byte, errors, 1, 0),
        // The constants of the common ABI of MPICH and its relatives.
        _ => (0x4400_0000, 0x4c00_010d, 0x5400_0001, usize::MAX, 1),
    };
    std::mem::forget(library);
    let (in_place, status_ignore) = (in_place as Buffer, status_ignore as Buffer);
    let (name, state) = (name.to_string(), Mutex::default());
    Some(Mpi { name, call, world, byte, errors_return, in_place, status_ignore, state })
}

/// Waits for a word of MPI's own thread; none when the time is over.
fn wait<T>(told: &Receiver<T>, timeout: Option<Duration>) -> Result<Option<T>> {
    let begin = Instant::now();
    while timeout.is_none_or(|p| begin.elapsed() < p) {
        match told.recv_timeout(Duration::from_millis(50)) {
            Ok(word) => return Ok(Some(word)),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => check_interrupt()?,
        }
    }
    Ok(None)
}

impl Mpi {
    fn text(&self, code: c_int) -> String {
        let (mut text, mut length): ([c_char; 2048], _) = ([0; 2048], 0);
        // SAFETY: more room than MPI_MAX_ERROR_STRING of any library; the last byte stays zero.
        unsafe {
            (self.call.error_string)(code, text.as_mut_ptr(), &mut length);
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        }
    }

    fn checked(&self, code: c_int) -> Outcome {
        if code == 0 { Ok(()) } else { Err(format!("MPI failed: {}", self.text(code))) }
    }

    /// Calls a function of MPI. A failure ends its use.
    pub fn call(&self, f: impl FnOnce(&Functions) -> c_int) -> Outcome {
        self.turn(&mut lock(&self.state), f)
    }

    fn turn(&self, state: &mut State, f: impl FnOnce(&Functions) -> c_int) -> Outcome {
        match &state.broken {
            Some(why) => Err(format!("MPI cannot be used any more since it failed: {why}")),
            None => self.checked(f(&self.call)).inspect_err(|why| state.broken = Some(why.clone())),
        }
    }

    /// Starts an operation that does not block: its request.
    pub fn start(&self, f: impl FnOnce(&Functions, *mut Handle) -> c_int) -> Outcome<Handle> {
        let mut request = 0;
        let mut state = lock(&self.state);
        self.turn(&mut state, |call| f(call, &mut request))?;
        state.under_way += 1;
        Ok(request)
    }

    /// Whether an operation is done. One that is must not be asked for again.
    pub fn done(&self, request: &mut Handle) -> Outcome<bool> {
        let mut done = 0;
        let mut state = lock(&self.state);
        // SAFETY: a request of `start` that is not done; the status is the library's word for "none".
        self.turn(&mut state, |call| unsafe { (call.test)(request, &mut done, self.status_ignore) })?;
        state.under_way -= usize::from(done != 0);
        Ok(done != 0)
    }

    /// MPI is not called any more.
    pub fn give_up(&self, why: &str) {
        lock(&self.state).broken.get_or_insert_with(|| why.into());
    }

    /// What was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of elements of a dtype.
    pub fn kind(&self, dtype: Dtype) -> Handle {
        lock(&self.state).made.map_or(0, |m| m.types[dtype.size().trailing_zeros() as usize])
    }

    /// A reduction of elements of a dtype.
    pub fn op(&self, how: Reduction, dtype: Dtype) -> Handle {
        let how = HOWS.iter().position(|&h| h == how).unwrap_or(0);
        lock(&self.state).made.map_or(0, |m| m.ops[dtype as usize][how])
    }

    /// Runs MPI, unless it runs already.
    pub fn ensure(&'static self) -> Result<()> {
        let failed = |why: String| Error::Runtime(format!("[mpi] {}: {why}", self.name));
        if lock(&self.state).made.is_some() {
            return Ok(());
        }
        let mut running = 0;
        // SAFETY: may be called at any time.
        self.call(|call| unsafe { (call.initialized)(&mut running) }).map_err(failed)?;
        let mut given = 0;
        let mut end = None;
        if running != 0 {
            // SAFETY: another user of MPI in this process has started it.
            self.call(|call| unsafe { (call.query_thread)(&mut given) }).map_err(failed)?;
        } else {
            let (asks, started) = self.begin().map_err(|e| failed(e.to_string()))?;
            let started = wait(&started, Some(timeout())).inspect_err(|_| self.give_up("interrupted"))?;
            let seconds = timeout().as_secs_f64();
            let none = || {
                Err(format!("MPI_Init_thread did not end within {seconds} s: not all processes called it"))
            };
            given = started.unwrap_or_else(none).map_err(|why| {
                self.give_up(&why);
                failed(why)
            })?;
            end = Some(asks);
        }
        if given < SERIALIZED {
            return Err(failed("MPI was started without support of several threads".into()));
        }
        let made = self.make().map_err(failed)?;
        let mut state = lock(&self.state);
        (state.made, state.end) = (Some(made), end);
        Ok(())
    }

    /// A thread that starts MPI, tells the level of threads, and finalizes once it is asked to: both are one thread's
    /// work, and starting may last for ever.
    fn begin(&'static self) -> std::io::Result<(Sender<Sender<()>>, Receiver<Outcome<c_int>>)> {
        let (tell, told) = mpsc::channel();
        let (ask, asked) = mpsc::channel::<Sender<()>>();
        let run = move || {
            let mut given = 0;
            let null = std::ptr::null_mut();
            // SAFETY: called once, before anything else of MPI; null arguments are allowed.
            let code = unsafe { (self.call.init_thread)(null, null.cast(), SERIALIZED, &mut given) };
            let _ = tell.send(self.checked(code).map(|()| given));
            if let Ok(done) = asked.recv() {
                // SAFETY: nothing is called any more.
                unsafe { (self.call.finalize)() };
                let _ = done.send(());
            }
        };
        std::thread::Builder::new().name("mlx-mpi".into()).spawn(run)?;
        Ok((ask, told))
    }

    fn make(&self) -> Outcome<Made> {
        let mut made = Made { types: [0; 4], ops: [[0; 3]; Dtype::ALL.len()] };
        for (i, kind) in made.types.iter_mut().enumerate() {
            // SAFETY: a place for the result; the byte type is the library's own.
            self.call(|call| unsafe { (call.type_contiguous)(1 << i, self.byte, kind) })?;
            // SAFETY: a type that was just made.
            self.call(|call| unsafe { (call.type_commit)(kind) })?;
        }
        for (op, reducer) in made.ops.iter_mut().flatten().zip(REDUCERS.into_iter().flatten()) {
            // SAFETY: `reduce` has the signature of MPI_User_function; it commutes.
            self.call(|call| unsafe { (call.op_create)(reducer, 1, op) })?;
        }
        Ok(made)
    }

    /// Finalizes, where all that was started is done; that waits for the other processes. Elsewhere mpirun sees a
    /// process that ended without it, and ends the others.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        let usable = state.broken.is_none() && state.under_way == 0;
        let Some(ask) = state.end.take().filter(|_| usable) else { return };
        for kind in state.made.iter_mut().flat_map(|m| &mut m.types) {
            // SAFETY: a type that no operation needs any more; MPICH complains of those that are left.
            unsafe { (self.call.type_free)(kind) };
        }
        state.broken = Some("it has ended".into());
        drop(state);
        let (tell, told) = mpsc::channel();
        if ask.send(tell).is_ok() {
            let _ = wait(&told, None);
        }
    }
}
