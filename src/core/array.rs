//! `Array`: a cheap handle to a graph node. Shape and dtype are known at once; layout and storage after
//! evaluation. Dropping is a loop, so a chain of a million ops is freed without deep recursion.

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use smallvec::{SmallVec, smallvec};

use super::device::Stream;
use super::dtype::Dtype;
use super::error::{Error, Result};
use super::event::{Event, check_interrupt};
use super::layout::{LARGEST_ELEMENT, Layout, Shape, Strides, checked_size, size_of};
use super::primitive::{Primitive, PrimitiveRef};
use super::storage::Storage;
use super::{failure, fork, husks, lines};

/// Handle to a (possibly not yet computed) array.
#[derive(Clone)]
pub struct Array(Arc<Inner>);

/// Bytes of an evaluated array.
#[derive(Clone)]
pub struct Data {
    /// Strides in elements.
    pub strides: Strides,
    /// First element, in elements.
    pub offset: i64,
    /// The bytes.
    pub storage: Arc<Storage>,
}

/// Where evaluation puts what it made. What a failed run left behind is passed over, for `data` lends
/// references: the next run gets a slot of its own.
#[derive(Default)]
struct Slot {
    data: OnceLock<Data>,
    next: OnceLock<Box<Slot>>,
}

impl Slot {
    fn last(&self) -> &Slot {
        let mut slot = self;
        while let Some(next) = slot.next.get() {
            slot = next;
        }
        slot
    }
}

struct Inner {
    id: u64,
    shape: Shape,
    dtype: Dtype,
    slot: Slot,
    link: Mutex<Link>,
    /// The address of the link's event, to be compared without the lock.
    awaited: AtomicPtr<Event>,
    tracer: AtomicBool,
    /// What the last walk of `eval` that came here left (see [`Array::level`]).
    mark: AtomicU64,
}

/// Bits of a mark that hold the level.
const LEVEL_BITS: u32 = 24;

#[derive(Default)]
struct Link {
    node: Option<Arc<Node>>,
    position: usize,
    event: Option<Arc<Event>>,
}

/// What a node reads; most have one to four.
pub type Inputs = SmallVec<[Array; 4]>;

/// A primitive applied to inputs; shared by all its outputs.
pub struct Node {
    /// The operation.
    pub primitive: PrimitiveRef,
    /// What it reads.
    pub inputs: Inputs,
    /// Where it runs.
    pub stream: Stream,
    /// The outputs, where it may have several.
    siblings: Option<Box<Siblings>>,
}

struct Siblings {
    specs: Vec<(Shape, Dtype)>,
    outputs: OnceLock<Vec<Weak<Inner>>>,
}

impl Node {
    /// Asks for the memory of a node that will be read soon.
    #[inline]
    pub fn ask_for(node: &Arc<Node>) {
        lines::ask_for_all(Arc::as_ptr(node));
    }

    /// Whether arrays other than the one it was reached by may be its outputs.
    pub fn has_siblings(&self) -> bool {
        self.siblings.as_ref().is_some_and(|s| s.specs.len() > 1)
    }

    /// Whether an array is one of several outputs.
    pub fn is_sibling(&self, a: &Array) -> bool {
        let outputs = self.siblings.as_ref().and_then(|s| s.outputs.get());
        outputs.is_some_and(|all| all.iter().any(|o| ptr::eq(o.as_ptr(), Arc::as_ptr(&a.0))))
    }
}

/// Fails for shapes that no array has: whatever the dtype, their elements can be counted and reached.
fn checked(op: &str, shape: &[i64]) -> Result<()> {
    checked_size(op, shape, LARGEST_ELEMENT).map(|_| ())
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Array {
    /// Every array comes from here; `shape` passed [`checked`].
    fn make(shape: Shape, dtype: Dtype, link: Link) -> Array {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (tracer, mark) = (AtomicBool::new(false), AtomicU64::new(0));
        Array(Arc::new(Inner {
            id,
            shape,
            dtype,
            slot: Slot::default(),
            link: Mutex::new(link),
            awaited: AtomicPtr::new(ptr::null_mut()),
            tracer,
            mark,
        }))
    }

    /// An evaluated array over existing bytes.
    pub fn from_data(layout: Layout, dtype: Dtype, storage: Arc<Storage>) -> Result<Array> {
        checked("array", &layout.shape)?;
        let a = Array::make(layout.shape, dtype, Link::default());
        let _ = a.0.slot.data.set(Data { strides: layout.strides, offset: layout.offset, storage });
        Ok(a)
    }

    /// The single output of a primitive.
    pub fn lazy(
        shape: impl Into<Shape>,
        dtype: Dtype,
        primitive: impl Primitive,
        inputs: impl Into<Inputs>,
        stream: Stream,
    ) -> Result<Array> {
        Array::single(shape.into(), dtype, PrimitiveRef::new(primitive), inputs.into(), stream)
    }

    /// The single output of a primitive, of the shape of `a`: nothing about it can be wrong.
    pub fn like(
        a: &Array,
        dtype: Dtype,
        primitive: impl Primitive,
        inputs: impl Into<Inputs>,
        stream: Stream,
    ) -> Array {
        Array::only(Shape::from_slice(&a.0.shape), dtype, PrimitiveRef::new(primitive), inputs.into(), stream)
    }

    /// The single output of a primitive that is held already. This is the path of nearly every op.
    pub fn single(
        shape: Shape,
        dtype: Dtype,
        primitive: PrimitiveRef,
        inputs: Inputs,
        stream: Stream,
    ) -> Result<Array> {
        checked(primitive.name(), &shape)?;
        Ok(Array::only(shape, dtype, primitive, inputs, stream))
    }

    fn only(shape: Shape, dtype: Dtype, primitive: PrimitiveRef, inputs: Inputs, stream: Stream) -> Array {
        let traced = inputs.iter().any(Array::is_tracer);
        let node = Arc::new(Node { primitive, inputs, stream, siblings: None });
        let a = Array::make(shape, dtype, Link { node: Some(node), position: 0, event: None });
        if traced {
            a.set_tracer(true);
        }
        a
    }

    /// All outputs of a primitive that other nodes share.
    pub fn lazy_shared(
        mut specs: Vec<(Shape, Dtype)>,
        primitive: PrimitiveRef,
        inputs: Vec<Array>,
        stream: Stream,
    ) -> Result<SmallVec<[Array; 1]>> {
        if specs.len() != 1 {
            return Array::lazy_many(specs, primitive, inputs, stream).map(SmallVec::from);
        }
        let (shape, dtype) = specs.remove(0);
        Ok(smallvec![Array::single(shape, dtype, primitive, inputs.into(), stream)?])
    }

    /// All outputs of a primitive.
    pub fn lazy_many(
        specs: Vec<(Shape, Dtype)>,
        primitive: impl Into<PrimitiveRef>,
        inputs: Vec<Array>,
        stream: Stream,
    ) -> Result<Vec<Array>> {
        let primitive = primitive.into();
        specs.iter().try_for_each(|(shape, _)| checked(primitive.name(), shape))?;
        let traced = inputs.iter().any(Array::is_tracer);
        let siblings = Box::new(Siblings { specs: specs.clone(), outputs: OnceLock::new() });
        let inputs = inputs.into();
        let node = Arc::new(Node { primitive, inputs, stream, siblings: Some(siblings) });
        let outs: Vec<Array> = specs
            .into_iter()
            .enumerate()
            .map(|(position, (shape, dtype))| {
                let link = Link { node: Some(node.clone()), position, event: None };
                let a = Array::make(shape, dtype, link);
                a.set_tracer(traced);
                a
            })
            .collect();
        if let Some(s) = &node.siblings {
            let _ = s.outputs.set(outs.iter().map(|a| Arc::downgrade(&a.0)).collect());
        }
        Ok(outs)
    }

    /// A placeholder of the same shape and dtype without data or inputs (used to stand for a dropped
    /// sibling during evaluation, and by tracing).
    pub fn placeholder(shape: impl Into<Shape>, dtype: Dtype) -> Result<Array> {
        let shape = shape.into();
        checked("array", &shape)?;
        Ok(Array::make(shape, dtype, Link::default()))
    }

    /// A placeholder that looks like the array.
    pub fn stand_in(&self) -> Array {
        Array::make(self.0.shape.clone(), self.0.dtype, Link::default())
    }

    /// Process-wide unique number of the node.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Dimensions.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        &self.0.shape
    }

    /// One dimension; negative axes count from the end. Panics out of range, like slice indexing.
    #[inline]
    pub fn dim(&self, axis: i64) -> i64 {
        let n = self.ndim() as i64;
        self.0.shape[(if axis < 0 { axis + n } else { axis }) as usize]
    }

    /// Element type.
    #[inline]
    pub fn dtype(&self) -> Dtype {
        self.0.dtype
    }

    /// Number of axes.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.0.shape.len()
    }

    /// Number of elements.
    #[inline]
    pub fn size(&self) -> usize {
        size_of(&self.0.shape)
    }

    /// Bytes of the elements.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.size() * self.0.dtype.size()
    }

    /// Whether both handles name one node.
    #[inline]
    pub fn same(&self, other: &Array) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Asks for the memory of an array that will be looked at soon.
    #[inline]
    pub fn ask_for(&self) {
        lines::ask_for_all(Arc::as_ptr(&self.0));
    }

    /// Asks for what tells where the bytes of an array are, if it has some.
    #[inline]
    pub fn ask_for_storage(&self) {
        if let Some(data) = self.0.slot.data.get() {
            lines::ask_for_all(Arc::as_ptr(&data.storage));
        }
    }

    /// The same for what a device knows of them.
    #[inline]
    pub fn ask_for_block(&self) {
        if let Some(data) = self.0.slot.data.get() {
            data.storage.ask_for_block();
        }
    }

    /// Lets go of what the array holds, bytes and event, if nobody else holds the array. Returns its node.
    pub(super) fn empty(&mut self) -> Option<Option<Arc<Node>>> {
        let inner = Arc::get_mut(&mut self.0)?;
        let link = std::mem::take(inner.link.get_mut().unwrap_or_else(|e| e.into_inner()));
        drop((std::mem::take(&mut inner.slot), link.event));
        Some(link.node)
    }

    /// Whether nobody else holds this node, so that its bytes may be overwritten.
    #[inline]
    pub fn is_unshared(&self) -> bool {
        self.handles() == 1
    }

    /// How many handles to this node there are.
    #[inline]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// How many handles to outputs of the node that computes this array there are.
    pub fn handles_of(&self, node: &Node) -> usize {
        match node.siblings.as_ref().and_then(|s| s.outputs.get()) {
            Some(all) => all.iter().map(Weak::strong_count).sum(),
            None => self.handles(),
        }
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        fork::lock(&self.0.link)
    }

    /// The node that computes this array, until it is evaluated and detached.
    pub fn node(&self) -> Option<Arc<Node>> {
        self.link().node.clone()
    }

    /// Which output of its node this is.
    pub fn position(&self) -> usize {
        self.link().position
    }

    /// Gives a failed output its node back, so that evaluation can be tried again. Memory that the run had
    /// put there before it failed holds no result.
    pub fn attach(&self, node: Arc<Node>) {
        let slot = self.0.slot.last();
        if slot.data.get().is_some() {
            let _ = slot.next.set(Box::default());
        }
        self.link().node = Some(node);
    }

    /// Forgets how the array was computed. Returns the node so that the caller decides when inputs die.
    pub fn detach(&self) -> Option<Arc<Node>> {
        self.link().node.take()
    }

    /// Every output of the node that computes this array; dropped siblings are replaced by placeholders.
    pub fn outputs_of(&self, node: &Node) -> SmallVec<[Array; 1]> {
        match &node.siblings {
            None => smallvec![self.clone()],
            Some(s) => s
                .outputs
                .get()
                .into_iter()
                .flatten()
                .zip(&s.specs)
                .map(|(w, (shape, dtype))| match w.upgrade() {
                    Some(i) => Array(i),
                    None => Array::make(shape.clone(), *dtype, Link::default()),
                })
                .collect(),
        }
    }

    /// Puts an event into the array's link, which is locked. Returns the one that was there.
    fn replace_event(&self, link: &mut Link, event: Option<Arc<Event>>) -> Option<Arc<Event>> {
        let address = event.as_ref().map_or(ptr::null(), Arc::as_ptr);
        self.0.awaited.store(address.cast_mut(), Ordering::Release);
        std::mem::replace(&mut link.event, event)
    }

    /// Marks the array as scheduled on a CPU stream, or as no longer so.
    pub fn set_event(&self, event: Option<Arc<Event>>) {
        let mut link = self.link();
        let old = self.replace_event(&mut link, event);
        drop(link);
        drop(old);
    }

    /// Evaluation of the array begins: the node is taken off it, unless a transform still needs the graph. `event`
    /// is that of the CPU stream, if it runs on one.
    pub fn begin(&self, event: Option<&Arc<Event>>) {
        let keep = self.is_tracer();
        let mut link = self.link();
        let node = if keep { None } else { link.node.take() };
        let old = event.and_then(|e| self.replace_event(&mut link, Some(e.clone())));
        drop(link);
        drop((node, old));
    }

    /// Takes back [`Array::begin`]: the array is not computed, only `node` knows how.
    pub fn leave(&self, node: Arc<Node>) {
        let mut link = self.link();
        let old = (link.node.replace(node), self.replace_event(&mut link, None));
        drop(link);
        drop(old);
    }

    /// Whether an event computes the array that is not `own`.
    #[inline]
    pub fn awaits_besides(&self, own: Option<&Arc<Event>>) -> bool {
        let awaited = self.0.awaited.load(Ordering::Acquire).cast_const();
        !awaited.is_null() && !own.is_some_and(|own| ptr::eq(awaited, Arc::as_ptr(own)))
    }

    /// Whether it is this event that computes the array.
    #[inline]
    pub fn awaits(&self, own: &Arc<Event>) -> bool {
        ptr::eq(self.0.awaited.load(Ordering::Acquire), Arc::as_ptr(own))
    }

    /// The event of the work on another thread that will produce the data, if it was scheduled.
    pub fn event(&self) -> Option<Arc<Event>> {
        self.link().event.clone()
    }

    /// Whether layout and storage are known (GPU work may still be running on them).
    pub fn has_data(&self) -> bool {
        self.0.slot.last().data.get().is_some()
    }

    /// Whether nothing needs scheduling: data is there or on its way. Work that failed can be tried again.
    pub fn is_scheduled(&self) -> bool {
        self.unscheduled().is_none()
    }

    /// What `eval` has to run for this array: `None` where data is there or on its way, `Some(None)` where nothing can
    /// make it.
    pub fn unscheduled(&self) -> Option<Option<Arc<Node>>> {
        if self.has_data() {
            return None;
        }
        let link = self.link();
        match &link.event {
            Some(e) if !e.failed() => None,
            _ => Some(link.node.clone()),
        }
    }

    /// Levels beyond it read as this one.
    pub const LAST_LEVEL: u32 = (1 << LEVEL_BITS) - 1;

    /// The level that walk number `walk` gave the array, if it came here. Of all threads one walks at a time.
    #[inline]
    pub fn level(&self, walk: u64) -> Option<u32> {
        let mark = self.0.mark.load(Ordering::Relaxed);
        (mark >> LEVEL_BITS == walk).then_some(mark as u32 & Array::LAST_LEVEL)
    }

    /// Gives the array a level. Walks are numbered from 1.
    #[inline]
    pub fn set_level(&self, walk: u64, level: u32) {
        let level = u64::from(level.min(Array::LAST_LEVEL));
        self.0.mark.store(walk << LEVEL_BITS | level, Ordering::Relaxed);
    }

    /// Layout and storage. Fails when the array was never evaluated.
    pub fn data(&self) -> Result<&Data> {
        self.0
            .slot
            .last()
            .data
            .get()
            .ok_or_else(|| Error::Runtime("[eval] Attempting to use an array that was not evaluated.".into()))
    }

    /// Gives an output its layout and storage; called once, by evaluation.
    pub fn set_data(&self, strides: Strides, offset: i64, storage: Arc<Storage>) {
        let _ = self.0.slot.last().data.set(Data { strides, offset, storage });
    }

    /// Shape, strides and offset of an evaluated array.
    pub fn layout(&self) -> Result<Layout> {
        let d = self.data()?;
        let (shape, strides) = (Shape::from_slice(&self.0.shape), Strides::from_slice(&d.strides));
        Ok(Layout { shape, strides, offset: d.offset })
    }

    /// As [`Array::wait`], and fails with what else failed on the stream that another thread computes it on, if
    /// nobody was told of that.
    pub fn wait_for_stream(&self) -> Result<()> {
        self.wait_event_for_stream()?;
        self.wait()
    }

    /// As [`Array::wait_event`], and as [`Array::wait_for_stream`].
    pub fn wait_event_for_stream(&self) -> Result<()> {
        self.heard(true, &mut check_interrupt)
    }

    /// As [`Array::wait_event`] for those who are told of no other error than that of the array.
    pub fn wait_event_alone(&self) -> Result<()> {
        self.heard(false, &mut check_interrupt)
    }

    /// As [`Array::wait_event_alone`]; calls `between` ever so often, whose error ends the wait.
    pub fn wait_event_alone_with(&self, between: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.heard(false, between)
    }

    fn heard(&self, others: bool, between: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(event) = self.event() else { return Ok(()) };
        let result = self.wait_event_with(between);
        match (&result, event.stream) {
            (Err(Error::Interrupted | Error::Dropped), _) => result,
            (Ok(()), _) if !others => result,
            // Told by one error, nobody has to hear of another.
            (_, stream) => {
                let earlier = failure::take(stream);
                result.and(earlier)
            }
        }
    }

    /// Waits until scheduled work on this array is finished; does not schedule anything.
    pub fn wait(&self) -> Result<()> {
        self.wait_event()?;
        self.set_event(None);
        self.data()?.storage.wait()
    }

    /// Waits only for a CPU event, so that `data` can be read; device work may go on.
    pub fn wait_event(&self) -> Result<()> {
        self.wait_event_with(&mut check_interrupt)
    }

    /// As [`Array::wait_event`]; calls `between` ever so often, whose error ends the wait.
    pub fn wait_event_with(&self, between: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        match self.event().map(|e| e.wait_with(between)).transpose()? {
            // Done before another task of the batch failed: a failed array has got its node back.
            Some(Err(_)) if self.has_data() && self.node().is_none() => Ok(()),
            Some(result) => result,
            None => Ok(()),
        }
    }

    /// Whether a transform is recording this array; its graph is then kept by evaluation. Marks left over
    /// from a finished transform count for nothing.
    #[inline]
    pub fn is_tracer(&self) -> bool {
        self.0.tracer.load(Ordering::Relaxed) && Tracing::on()
    }

    /// Starts or stops recording.
    pub fn set_tracer(&self, on: bool) {
        self.0.tracer.store(on, Ordering::Relaxed);
    }

    /// Host address of the first element after waiting and, on a discrete GPU, downloading.
    pub fn host_ptr(&self) -> Result<*const u8> {
        self.wait()?;
        let d = self.data()?;
        let base = d.storage.host_ptr()?;
        // SAFETY: the offset lies inside the storage by construction of layouts.
        Ok(unsafe { base.offset(d.offset as isize * self.0.dtype.size() as isize) })
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "array#{}({:?}, {})", self.0.id, self.0.shape, self.0.dtype)
    }
}

thread_local! {
    // How many transforms are recording on this thread.
    static TRACING: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Keeps tracer marks alive on this thread until dropped.
pub struct Tracing(());

impl Tracing {
    /// A transform starts recording.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Tracing {
        TRACING.with(|t| t.set(t.get() + 1));
        Tracing(())
    }

    /// Whether a transform is recording on this thread.
    #[inline]
    pub fn on() -> bool {
        TRACING.get() > 0
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        TRACING.with(|t| t.set(t.get() - 1));
    }
}

thread_local! {
    // Nodes waiting to be freed by the outermost drop of this thread.
    static GRAVE: RefCell<(bool, Vec<Arc<Node>>)> = const { RefCell::new((false, Vec::new())) };
}

/// Frees a node without recursion into its inputs' nodes.
pub fn drop_iteratively(node: Arc<Node>) {
    let mut node = Some(node);
    let owner = GRAVE.try_with(|g| {
        let mut g = g.borrow_mut();
        if g.0 {
            g.1.extend(node.take());
            false
        } else {
            g.0 = true;
            true
        }
    });
    if !matches!(owner, Ok(true)) {
        return;
    }
    while let Some(n) = node.take() {
        husks::node(n);
        node = GRAVE.with(|g| g.borrow_mut().1.pop());
    }
    GRAVE.with(|g| g.borrow_mut().0 = false);
}

impl Drop for Inner {
    fn drop(&mut self) {
        let link = self.link.get_mut().unwrap_or_else(|e| e.into_inner());
        if let Some(node) = link.node.take() {
            drop_iteratively(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::device::{Device, new_stream};
    use crate::core::testing::Id;

    #[test]
    fn a_million_nodes_are_freed_without_recursion() {
        let s = new_stream(Device::CPU);
        let mut a = Array::placeholder(&[4i64][..], Dtype::F32).unwrap();
        for _ in 0..1_000_000 {
            a = Array::lazy(&[4i64][..], Dtype::F32, Id, vec![a], s).unwrap();
        }
        drop(a);
    }

    #[test]
    fn no_constructor_lets_a_wrong_shape_through() {
        let s = new_stream(Device::CPU);
        for shape in [&[1i64 << 31][..], &[0, 1 << 30, 1 << 30, 16], &[-1], &[1 << 30, 1 << 30, 4]] {
            assert!(Array::placeholder(shape, Dtype::Bool).is_err());
            assert!(Array::lazy(shape, Dtype::Bool, Id, vec![], s).is_err());
            let specs = vec![(Shape::from_slice(&[2]), Dtype::Bool), (shape.into(), Dtype::Bool)];
            assert!(Array::lazy_many(specs, PrimitiveRef::new(Id), vec![], s).is_err());
        }
    }
}
