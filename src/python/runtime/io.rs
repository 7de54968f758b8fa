//! Loading and saving: what a file argument is, which format it has, and Python containers to and from lists
//! of named arrays. The formats are in `crate::io`.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyUnicodeDecodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString, PyTuple};

use super::device::{S, pick};
use crate::core::{Array, Device, Error, default_stream};
use crate::io::gguf::Value;
use crate::io::{Dense, Named, Place, Replacement, Source, gguf, npy, npz, safetensors};
use crate::python::array::PyArray;
use crate::python::array::arguments::{processing, type_name};

/// Bytes that are read from or handed to a file object at once.
const CHUNK: usize = 16 << 20;

/// The path that a string or a `pathlib` object names.
pub(in crate::python) fn path_of(file: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(s) = file.cast::<PyString>() {
        return Ok(Some(s.to_str()?.to_string()));
    }
    if file.is_none() {
        return Err(processing(PyTypeError::new_err("None is no file"), file.py(), "file"));
    }
    let class = file.py().import("pathlib")?.getattr("PurePath")?;
    if file.is_instance(&class)? { file.str()?.extract().map(Some) } else { Ok(None) }
}

fn has(obj: &Bound<'_, PyAny>, names: [&str; 3]) -> PyResult<bool> {
    for n in names {
        if !obj.hasattr(n)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A Python object that is read from.
struct Reader<'a, 'py>(&'a Bound<'py, PyAny>);

impl Read for Reader<'_, '_> {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        self.0.py().check_signals()?; // a reader that is not written in Python does not
        let room = PyByteArray::new(self.0.py(), &vec![0; dst.len().min(CHUNK)]);
        let n: usize = match self.0.call_method1("readinto", (&room,))?.extract::<Option<usize>>()? {
            Some(n) => n,
            None => return Err(io::ErrorKind::WouldBlock.into()),
        };
        let bytes = room.to_vec();
        match bytes.get(..n) {
            Some(got) if n <= dst.len() => dst[..n].copy_from_slice(got),
            _ => return Err(io::Error::other("readinto() returned more bytes than it was asked for")),
        }
        Ok(n)
    }
}

/// A Python object that is written to, from any thread.
struct Writer<'a>(&'a Py<PyAny>);

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let part = &bytes[..bytes.len().min(CHUNK)];
            let n = self.0.bind(py).call_method1("write", (PyBytes::new(py, part),))?;
            // Objects that return nothing are taken to have written everything.
            match n.extract::<Option<usize>>() {
                Ok(n) if n.is_none_or(|n| n <= part.len()) => Ok(n.unwrap_or(part.len())),
                _ => Err(io::Error::other(format!("write() of {} bytes returned {n}", part.len()))),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn read_all(file: &Bound<'_, PyAny>) -> PyResult<Arc<Source>> {
    let mut bytes = Vec::new();
    Reader(file).read_to_end(&mut bytes)?;
    Ok(Source::memory("the given file object", bytes))
}

/// What a file argument of `load` is.
enum Input<'a, 'py> {
    Path(PathBuf),
    Object(&'a Bound<'py, PyAny>),
}

impl Input<'_, '_> {
    /// All bytes from the current position on; `refused` makes the error for files that cannot be opened.
    fn source(&self, refused: impl FnOnce(&Path, io::Error) -> PyErr) -> PyResult<Arc<Source>> {
        match self {
            Input::Path(p) => Source::open(p).map_err(|e| refused(p, e)),
            Input::Object(file) => read_all(file),
        }
    }
}

fn named<'py>(py: Python<'py>, arrays: Named) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, a) in arrays {
        dict.set_item(name, PyArray::new(a))?;
    }
    Ok(dict)
}

fn text(py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(s) => Ok(PyString::new(py, s).into_any().unbind()),
        Err(e) => Err(PyUnicodeDecodeError::new_utf8(py, bytes, e)?.into()),
    }
}

fn value(py: Python<'_>, v: Value) -> PyResult<Py<PyAny>> {
    match v {
        Value::Array(a) => Ok(Py::new(py, PyArray::new(a))?.into_any()),
        Value::Text(t) => text(py, &t),
        Value::Texts(all) => {
            let list = PyList::empty(py);
            for t in all {
                list.append(text(py, &t)?)?;
            }
            Ok(list.into_any().unbind())
        }
    }
}

/// Loads an array (npy) or a dict of arrays (npz, safetensors, gguf) from a file.
///
/// Elements are read when they are needed; from a file object they are taken at once. float64 goes to the CPU
/// unless `stream` is given. Q4_0, Q4_1 and Q8_0 tensors of GGUF become `weight`, `scales` and `biases` of
/// `quantized_matmul`, other quantised ones float16.
///
/// Args:
///     file (str | Path | object): A path, or an object with `read`, `seek` and `tell`; GGUF needs a path.
///     format (str, optional): "npy", "npz", "safetensors" or "gguf". Default: None, that of the extension.
///     return_metadata (bool, optional): Whether to return the metadata of safetensors and gguf too. Default:
///         False.
///
/// Returns:
///     array | dict[str, array] | tuple[dict[str, array], dict]: What the file holds, with `return_metadata`
///         the pair of that and its metadata.
///
/// Raises:
///     RuntimeError: if the file is missing or damaged, at once or when elements are read.
///     ValueError: if the format is unknown, or has no metadata that are asked for.
///
/// >>> import io; f = io.BytesIO(); mx.save(f, mx.array([1, 2])); _ = f.seek(0)
/// >>> mx.load(f, format="npy")
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (file, /, format=None, return_metadata=false, *, stream=None))]
fn load<'py>(
    file: &Bound<'py, PyAny>,
    format: Option<String>,
    return_metadata: bool,
    stream: S,
) -> PyResult<Bound<'py, PyAny>> {
    let py = file.py();
    if file.is_none() {
        return Err(PyTypeError::new_err("[load] Expected a file object, str or pathlib.Path, got None."));
    }
    let path = path_of(file)?;
    if path.is_none() && !has(file, ["readinto", "seek", "tell"])? {
        return Err(PyValueError::new_err(
            "[load] Input must be a file-like object opened in binary mode, or string",
        ));
    }
    let format = match (format, &path) {
        (Some(f), _) => f,
        (None, Some(p)) => extension(p)?,
        (None, None) => extension(&file.getattr("name")?.extract::<String>()?)?,
    };
    let input = match path {
        Some(p) => Input::Path(p.into()),
        None => Input::Object(file),
    };
    let other = if stream.is_none() { Some(default_stream(Device::CPU)) } else { None };
    let place = Place { stream: pick(stream), other };
    if return_metadata && matches!(format.as_str(), "npy" | "npz") {
        let text = format!("[load] metadata not supported for format {format}");
        return Err(PyValueError::new_err(text));
    }
    let failed = |op: &'static str| {
        move |p: &Path, e: io::Error| {
            PyRuntimeError::new_err(format!("[{op}] Failed to open file {}: {e}.", p.display()))
        }
    };
    match format.as_str() {
        "npy" => {
            let a = match &input {
                Input::Object(file) => npy::load_stream(Reader(file), place)?,
                path => npy::load(&path.source(failed("load"))?, place)?,
            };
            Ok(Bound::new(py, PyArray::new(a))?.into_any())
        }
        "npz" => {
            if let Input::Object(file) = input {
                file.call_method1("seek", (0,))?; // a zip archive is read from its end
            }
            let source = input.source(|p, e| {
                PyValueError::new_err(format!("[load_npz] Failed to open zip file {}: {e}.", p.display()))
            })?;
            let arrays = py.detach(|| npz::load(&source, place))?;
            Ok(named(py, arrays)?.into_any())
        }
        "safetensors" => {
            let source = input.source(failed("load_safetensors"))?;
            let (arrays, metadata) = py.detach(|| safetensors::load(&source, place))?;
            let arrays = named(py, arrays)?;
            match return_metadata {
                true => Ok((arrays, metadata).into_pyobject(py)?.into_any()),
                false => Ok(arrays.into_any()),
            }
        }
        "gguf" => {
            let Input::Path(p) = &input else {
                return Err(PyValueError::new_err("[load_gguf] Input must be a string"));
            };
            let source = Source::open(p).map_err(|e| match e.kind() {
                io::ErrorKind::NotFound => {
                    PyValueError::new_err(format!("[load_gguf] Failed to open {}: {e}.", p.display()))
                }
                _ => failed("load_gguf")(p, e),
            })?;
            let (arrays, metadata) = py.detach(|| gguf::load(&source, place))?;
            let arrays = named(py, arrays)?;
            if !return_metadata {
                return Ok(arrays.into_any());
            }
            let dict = PyDict::new(py);
            for (key, v) in metadata {
                dict.set_item(key, value(py, v)?)?;
            }
            Ok((arrays, dict).into_pyobject(py)?.into_any())
        }
        _ => Err(PyValueError::new_err(format!("[load] Unknown file format {format}"))),
    }
}

fn extension(name: &str) -> PyResult<String> {
    match name.rsplit_once('.') {
        Some((_, ext)) => Ok(ext.into()),
        None => Err(PyValueError::new_err("[load] Could not infer file format from extension")),
    }
}

/// Writes to a path, to which the extension is appended if it lacks it, or to a file object.
enum Output {
    Path(PathBuf),
    Object(Py<PyAny>),
}

impl Output {
    fn of(op: &str, file: &Bound<'_, PyAny>, ext: &str) -> PyResult<Output> {
        if let Some(mut p) = path_of(file)? {
            if !p.ends_with(ext) {
                p.push_str(ext);
            }
            return Ok(Output::Path(p.into()));
        }
        if has(file, ["write", "seek", "tell"])? {
            return Ok(Output::Object(file.clone().unbind()));
        }
        Err(PyValueError::new_err(format!("[{op}] Input must be a file-like object, or string")))
    }

    /// Has `write` write the whole file, without holding the interpreter.
    fn write(
        &self,
        py: Python<'_>,
        op: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send,
    ) -> PyResult<()> {
        match self {
            Output::Object(file) => py.detach(|| write(&mut Writer(file))).map_err(raised),
            Output::Path(p) => py.detach(|| {
                let mut file = Replacement::create(p).map_err(|e| refused(op, p, &e))?;
                write(&mut file).and_then(|()| file.commit()).map_err(|e| failed(op, p, e))
            }),
        }
    }
}

fn refused(op: &str, p: &Path, e: &io::Error) -> PyErr {
    PyRuntimeError::new_err(format!("[{op}] Failed to open file {}: {e}.", p.display()))
}

fn failed(op: &str, p: &Path, e: io::Error) -> PyErr {
    let text = format!("[{op}] Failed to write file {}: {e}.", p.display());
    Error::of_io(e, text).into()
}

/// What a writer said that calls Python.
fn raised(e: io::Error) -> PyErr {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(inner) => inner.clone().into(),
        None => e.into(),
    }
}

/// The array that a value of a container must be. MLX raises RuntimeError here.
fn member(op: &str, name: &str, v: &Bound<'_, PyAny>) -> PyResult<Array> {
    match v.cast::<PyArray>() {
        Ok(a) => Ok(a.get().array()),
        Err(_) => Err(PyRuntimeError::new_err(format!(
            "[{op}] Expected an mlx.core.array for '{name}', got {}.",
            type_name(v)
        ))),
    }
}

fn members(op: &str, arrays: &Bound<'_, PyDict>) -> PyResult<Named> {
    let mut out = Named::new();
    for (k, v) in arrays.iter() {
        let Ok(name) = k.cast::<PyString>() else {
            let text = format!("[{op}] Names of arrays must be strings, got {}.", type_name(&k));
            return Err(PyRuntimeError::new_err(text));
        };
        let name = name.to_str()?.to_string();
        let a = member(op, &name, &v)?;
        out.push((name, a));
    }
    Ok(out)
}

/// Evaluates the arrays and pairs their bytes with the names.
fn dense(py: Python<'_>, arrays: Named, column_major: bool) -> PyResult<Vec<(String, Dense)>> {
    let (names, arrays): (Vec<_>, Vec<_>) = arrays.into_iter().unzip();
    let bytes = py.detach(|| Dense::all(&arrays, column_major))?;
    Ok(names.into_iter().zip(bytes).collect())
}

/// Saves an array as an npy file, which NumPy reads too.
///
/// `.npy` is appended to a path that lacks it. An existing file is replaced once the new one is complete.
/// bfloat16, which NumPy does not have, is stored as void elements of two bytes.
///
/// Args:
///     file (str | Path | object): A path, or an object with `write`.
///     arr (array): What is saved.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if the file cannot be written.
///     ValueError: if `file` is something else.
///     TypeError: if `arr` is no array.
///
/// >>> import io; f = io.BytesIO(); mx.save(f, mx.array([1, 2]))
/// >>> f.getvalue()[:6]
/// b'\x93NUMPY'
#[pyfunction]
#[pyo3(signature = (file, arr))]
fn save(file: &Bound<'_, PyAny>, arr: &Bound<'_, PyArray>) -> PyResult<()> {
    let py = file.py();
    let to = Output::of("save", file, ".npy")?;
    let arrays = dense(py, vec![(String::new(), arr.get().array())], true)?;
    to.write(py, "save", |w| arrays.iter().try_for_each(|(_, a)| npy::write(w, a)))
}

fn save_npz(
    op: &'static str,
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    compressed: bool,
) -> PyResult<()> {
    let py = file.py();
    let mut arrays = kwargs.map_or_else(|| Ok(Named::new()), |k| members(op, k))?;
    for (i, v) in args.iter().enumerate() {
        let name = format!("arr_{i}");
        if arrays.iter().any(|(n, _)| *n == name) {
            let text = format!("[{op}] Cannot use un-named variables and keyword {name}");
            return Err(PyValueError::new_err(text));
        }
        let a = member(op, &name, &v)?;
        arrays.push((name, a));
    }
    let path = match path_of(file)? {
        Some(p) if p.ends_with(".npz") => Some(PathBuf::from(p)),
        Some(p) => Some(PathBuf::from(p + ".npz")),
        None => None,
    };
    let Some(path) = path else {
        file.getattr("write")?;
        let object = file.clone().unbind();
        let arrays = dense(py, arrays, true)?;
        return py.detach(|| npz::write_stream(&mut Writer(&object), &arrays, compressed)).map_err(raised);
    };
    // As Python's zipfile: a path that cannot be opened is an OSError of its kind.
    let mut out = Replacement::create(&path).map_err(|e| {
        io::Error::new(e.kind(), format!("[{op}] Failed to open file {}: {e}", path.display()))
    })?;
    let arrays = dense(py, arrays, true)?;
    py.detach(|| {
        npz::write(&mut out, &arrays, compressed)
            .and_then(|()| out.commit())
            .map_err(|e| failed(op, &path, e))
    })
}

/// Saves arrays as the members of an npz file, which NumPy reads too.
///
/// `.npz` is appended to a path that lacks it. An existing file is replaced once the new one is complete.
///
/// Args:
///     file (str | Path | object): A path, or an object with `write`.
///     args (array): Arrays that are named `arr_0`, `arr_1` and so on.
///     kwargs (array): Arrays that are saved under their keywords.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if the file cannot be written.
///     ValueError: if something else than arrays is given, or a name appears twice.
///
/// >>> import io; f = io.BytesIO(); mx.savez(f, mx.array(1), b=mx.array(2))
/// >>> sorted(mx.load(f, format="npz"))
/// ['arr_0', 'b']
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn savez(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    save_npz("savez", file, args, kwargs, false)
}

/// Saves arrays as the compressed members of an npz file, which NumPy reads too.
///
/// As `savez`, with each member deflated: smaller files that take longer to write and to read.
///
/// Args:
///     file (str | Path | object): A path, or an object with `write`.
///     args (array): Arrays that are named `arr_0`, `arr_1` and so on.
///     kwargs (array): Arrays that are saved under their keywords.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if the file cannot be written.
///     ValueError: if something else than arrays is given, or a name appears twice.
///
/// >>> import io; f = io.BytesIO(); mx.savez_compressed(f, a=mx.zeros((1000,)))
/// >>> len(f.getvalue()) < 1000
/// True
#[pyfunction]
#[pyo3(signature = (file, *args, **kwargs))]
fn savez_compressed(
    file: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    save_npz("savez_compressed", file, args, kwargs, true)
}

/// Saves a dict of arrays as a safetensors file.
///
/// `.safetensors` is appended to a path that lacks it. An existing file is replaced once the new one is
/// complete.
///
/// Args:
///     file (str | Path | object): A path, or an object with `write`.
///     arrays (dict[str, array]): Arrays by name.
///     metadata (dict[str, str], optional): Texts to keep beside them. Default: None.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if the file cannot be written, or a dtype (float64) does not exist in the format.
///     ValueError: if `file` or an array is something else.
///
/// >>> import io; f = io.BytesIO(); mx.save_safetensors(f, {"a": mx.array([1])}, {"k": "v"}); _ = f.seek(0)
/// >>> mx.load(f, format="safetensors", return_metadata=True)
/// ({'a': array([1], dtype=int32)}, {'k': 'v'})
#[pyfunction]
#[pyo3(signature = (file, arrays, metadata=None))]
fn save_safetensors(
    file: &Bound<'_, PyAny>,
    arrays: &Bound<'_, PyDict>,
    metadata: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let py = file.py();
    let to = Output::of("save_safetensors", file, ".safetensors")?;
    let metadata: Option<HashMap<String, String>> = match metadata.map(|m| m.extract()) {
        None => None,
        Some(Ok(m)) => Some(m),
        Some(Err(_)) => {
            return Err(PyValueError::new_err(
                "[save_safetensors] Metadata must be a dictionary with string keys and values",
            ));
        }
    };
    let arrays = dense(py, members("save_safetensors", arrays)?, false)?;
    let file = safetensors::Writer::new(arrays, metadata)?;
    to.write(py, "save_safetensors", |w| file.write(w))
}

/// Saves a dict of arrays as a GGUF file, the format of llama.cpp.
///
/// `.gguf` is appended to a path that lacks it.
///
/// Args:
///     file (str | Path): A path.
///     arrays (dict[str, array]): Arrays by name, of dtype float32, float16, int8, int16 or int32.
///     metadata (dict, optional): Values by name: strings, lists of strings, or arrays of at most one axis.
///         Default: None.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if the file cannot be written, or a dtype does not exist in the format.
///     ValueError: if `file`, an array or a value is something else.
///
/// >>> import tempfile, os
/// >>> with tempfile.TemporaryDirectory() as d:
/// ...     mx.save_gguf(os.path.join(d, "m"), {"a": mx.array([1.0])}, {"name": "m"})
/// ...     mx.load(os.path.join(d, "m.gguf"), return_metadata=True)
/// ({'a': array([1], dtype=float32)}, {'name': 'm'})
#[pyfunction]
#[pyo3(signature = (file, arrays, metadata=None))]
fn save_gguf(
    file: &Bound<'_, PyAny>,
    arrays: &Bound<'_, PyDict>,
    metadata: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let py = file.py();
    if path_of(file)?.is_none() {
        return Err(PyValueError::new_err("[save_gguf] Input must be a string"));
    }
    let to = Output::of("save_gguf", file, ".gguf")?;
    let mut pairs = Vec::new();
    for (k, v) in metadata.into_iter().flat_map(|m| m.iter()) {
        let wrong = || {
            PyRuntimeError::new_err(
                "[save_gguf] Metadata must be a dictionary of string keys with values that are strings, lists of \
                 strings or arrays",
            )
        };
        let key: String = k.extract().map_err(|_| wrong())?;
        let value = if let Ok(a) = v.cast::<PyArray>() {
            Value::Array(a.get().array())
        } else if let Ok(s) = v.extract::<String>() {
            Value::Text(s.into_bytes())
        } else if v.is_instance_of::<PyList>() {
            let all: Vec<String> = v.extract().map_err(|_| wrong())?;
            Value::Texts(all.into_iter().map(String::into_bytes).collect())
        } else {
            return Err(wrong());
        };
        pairs.push((key, value));
    }
    let arrays = dense(py, members("save_gguf", arrays)?, false)?;
    let file = py.detach(|| gguf::Writer::new(arrays, &pairs))?;
    to.write(py, "save_gguf", |w| file.write(w))
}

/// Adds the functions.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(load, m)?,
        wrap_pyfunction!(save, m)?,
        wrap_pyfunction!(savez, m)?,
        wrap_pyfunction!(savez_compressed, m)?,
        wrap_pyfunction!(save_safetensors, m)?,
        wrap_pyfunction!(save_gguf, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}
