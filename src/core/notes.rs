//! What ops say about arrays while a function is described in MLX's words (`compile::export::described`): where an op is
//! put together from other primitives than MLX's, a note on its outputs names the op. The graph stays what it is,
//! so derivatives and batches of it are those of its primitives. Nobody listens at other times, which costs a read
//! of a thread's flag.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::array::Array;
use super::dtype::Dtype;
use super::layout::Shape;
use super::stored::Param;

/// What is said about arrays.
pub struct Note {
    /// The op.
    pub name: &'static str,
    /// Its parameters.
    pub params: Vec<Param>,
    /// What it was given.
    pub inputs: Vec<Array>,
    /// Numbers, shapes and dtypes of the arrays that it made.
    pub outputs: Vec<(u64, (Shape, Dtype))>,
}

thread_local! {
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Vec<Arc<Note>>> = const { RefCell::new(Vec::new()) };
}

/// Says which op made arrays, with its parameters and inputs, if somebody listens.
#[inline]
pub fn note(outputs: &[Array], said: impl FnOnce() -> (&'static str, Option<Vec<Param>>, Vec<Array>)) {
    if LISTENING.get() {
        let (name, params, inputs) = said();
        write(outputs, name, params.unwrap_or_default(), inputs);
    }
}

#[cold]
fn write(outputs: &[Array], name: &'static str, params: Vec<Param>, inputs: Vec<Array>) {
    // An op that gives back what it got says nothing new about it.
    if outputs.iter().any(|o| inputs.iter().any(|i| i.same(o))) {
        return;
    }
    let outputs = outputs.iter().map(|o| (o.id(), (o.shape().into(), o.dtype()))).collect();
    NOTES.with_borrow_mut(|n| n.push(Arc::new(Note { name, params, inputs, outputs })));
}

/// What `f` returns, and what ops said on this thread meanwhile.
pub fn listen<T>(f: impl FnOnce() -> T) -> (T, Vec<Arc<Note>>) {
    /// Gives the thread back what it had when `f` ends, however it ends.
    struct Before(bool, Vec<Arc<Note>>);
    impl Drop for Before {
        fn drop(&mut self) {
            LISTENING.set(self.0);
            let before = std::mem::take(&mut self.1);
            NOTES.with_borrow_mut(|n| *n = before);
        }
    }
    let _before = Before(LISTENING.replace(true), NOTES.take());
    let result = f();
    (result, NOTES.take())
}
