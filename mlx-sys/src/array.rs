//! The array handle: making, reading and evaluating arrays.

use std::marker::PhantomData;

use cxx::{CxxVector, UniquePtr};

use crate::bridge::ffi;
use crate::dtype::{bytes_of, bytes_of_mut};
use crate::{Dtype, Element, Error, Result};

/// A node of MLX's lazy graph: a shape, a type and, once evaluated, a buffer. Cloning copies the handle, not the data.
///
/// Arrays are born and die on the thread that calls MLX: MLX keeps command encoders and default streams thread-local,
/// so an array can be neither sent to another thread nor shared with one.
///
/// ```
/// let array = mlx_sys::Array::scalar(1.0_f32).unwrap();
/// let local = move || array.size();
/// assert_eq!(local(), 1);
/// ```
///
/// ```compile_fail,E0277
/// let array = mlx_sys::Array::scalar(1.0_f32).unwrap();
/// let sent = move || array.size();
/// assert_eq!(std::thread::spawn(sent).join().unwrap(), 1);
/// ```
pub struct Array {
    raw: UniquePtr<ffi::MlxArray>,
    _not_send_nor_sync: PhantomData<*const ()>,
}

/// Does not compile when `Array` becomes `Send` or `Sync`: a second impl then applies, and the calls are ambiguous.
const _: () = {
    trait AmbiguousIfSend<A> {
        fn check() {}
    }
    trait AmbiguousIfSync<A> {
        fn check() {}
    }
    struct Yes;
    impl<T> AmbiguousIfSend<()> for T {}
    impl<T: Send> AmbiguousIfSend<Yes> for T {}
    impl<T> AmbiguousIfSync<()> for T {}
    impl<T: Sync> AmbiguousIfSync<Yes> for T {}
    let _ = <Array as AmbiguousIfSend<_>>::check;
    let _ = <Array as AmbiguousIfSync<_>>::check;
};

/// Memory that an array borrows from Rust until the last handle to it is gone.
pub(crate) struct HostBuffer(Box<dyn AsRef<[u8]> + Send>);

impl HostBuffer {
    pub(crate) fn address(&self) -> usize {
        (*self.0).as_ref().as_ptr().addr()
    }
}

struct Elements<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        bytes_of(&self.0)
    }
}

impl Array {
    pub(crate) fn wrap(raw: Result<UniquePtr<ffi::MlxArray>, cxx::Exception>) -> Result<Self> {
        Ok(Self::own(raw?))
    }

    pub(crate) fn own(raw: UniquePtr<ffi::MlxArray>) -> Self {
        Self { raw, _not_send_nor_sync: PhantomData }
    }

    pub(crate) fn raw(&self) -> &ffi::MlxArray {
        &self.raw
    }

    /// A copy of `data` with `shape`.
    pub fn from_slice<T: Element>(data: &[T], shape: &[i32]) -> Result<Self> {
        Self::from_bytes(bytes_of(data), shape, T::DTYPE)
    }

    /// A copy of little-endian `bytes`, which must have exactly the size of `shape` in `dtype`.
    pub fn from_bytes(bytes: &[u8], shape: &[i32], dtype: Dtype) -> Result<Self> {
        Self::wrap(ffi::from_bytes(bytes, shape, dtype.code()))
    }

    /// Takes `data` over; where the backend can use host memory (the CPU can), nothing is copied.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: &[i32]) -> Result<Self> {
        Self::from_owner(Elements(data), shape, T::DTYPE)
    }

    /// An array over the bytes of `owner` (a mapped file, say), which lives until the last handle is gone. Nothing is
    /// copied where the backend can use host memory and the bytes are aligned for `dtype`. MLX never writes to them.
    ///
    /// `owner` must give the same bytes at the same address on every call.
    pub fn from_owner<O>(owner: O, shape: &[i32], dtype: Dtype) -> Result<Self>
    where
        O: AsRef<[u8]> + Send + 'static,
    {
        let owner: Box<dyn AsRef<[u8]> + Send> = Box::new(owner);
        let bytes = (*owner).as_ref();
        let aligned = bytes.as_ptr().addr().is_multiple_of(dtype.size());
        let wanted = byte_len(shape, dtype);
        if wanted != Some(bytes.len()) || !aligned || bytes.is_empty() {
            // The copying road also words the error.
            return Self::from_bytes(bytes, shape, dtype);
        }
        Self::wrap(ffi::from_host(Box::new(HostBuffer(owner)), shape, dtype.code()))
    }

    /// An array of no dimension.
    pub fn scalar<T: Element>(value: T) -> Result<Self> {
        Self::from_slice(&[value], &[])
    }

    /// `value` everywhere.
    pub fn full<T: Element>(shape: &[i32], value: T) -> Result<Self> {
        let value = Self::scalar(value)?;
        Self::wrap(ffi::full(shape, value.raw(), T::DTYPE.code()))
    }

    /// Zero everywhere.
    pub fn zeros(shape: &[i32], dtype: Dtype) -> Result<Self> {
        let value = Self::scalar(0_u8)?;
        Self::wrap(ffi::full(shape, value.raw(), dtype.code()))
    }

    /// Memory that nobody has written. The pages of a large array stay virtual until they are written.
    /// Reading an element before something wrote it gives an arbitrary value.
    pub fn uninit(shape: &[i32], dtype: Dtype) -> Result<Self> {
        Self::wrap(ffi::uninit(shape, dtype.code()))
    }

    /// `start`, `start + step`, … below `stop`.
    pub fn arange(start: f64, stop: f64, step: f64, dtype: Dtype) -> Result<Self> {
        Self::wrap(ffi::arange(start, stop, step, dtype.code()))
    }

    /// Length of each axis.
    #[must_use]
    pub fn shape(&self) -> &[i32] {
        ffi::shape_of(&self.raw)
    }

    /// Length of `axis`; a negative axis counts from the last.
    ///
    /// # Panics
    /// When the array has no such axis.
    #[must_use]
    pub fn dim(&self, axis: i32) -> i32 {
        let shape = self.shape();
        let index = if axis < 0 { shape.len() as i32 + axis } else { axis };
        shape[index as usize]
    }

    /// Number of axes.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Number of elements.
    #[must_use]
    pub fn size(&self) -> usize {
        ffi::size_of(&self.raw)
    }

    /// Bytes of all elements.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.size() * self.dtype().size()
    }

    /// Type of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        Dtype::from_code(ffi::dtype_of(&self.raw)).expect("no function of this crate makes another type")
    }

    /// True when the value is computed and can be read without waiting.
    #[must_use]
    pub fn is_available(&self) -> bool {
        ffi::available(&self.raw)
    }

    /// Evaluates, and waits for the value.
    pub fn wait(&self) -> Result<()> {
        Ok(ffi::wait(&self.raw)?)
    }

    /// Evaluates and copies all elements out, in row-major order.
    ///
    /// # Errors
    /// When the array does not hold `T`: there is no silent conversion.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype(T::DTYPE)?;
        let mut out = vec![T::default(); self.size()];
        ffi::read_bytes(&self.raw, bytes_of_mut(&mut out))?;
        Ok(out)
    }

    /// Evaluates and copies the raw bytes out, in row-major order, whatever the type.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = vec![0; self.nbytes()];
        ffi::read_bytes(&self.raw, &mut out)?;
        Ok(out)
    }

    /// Evaluates and copies all elements of a bool array out.
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        self.expect_dtype(Dtype::Bool)?;
        Ok(self.to_bytes()?.into_iter().map(|byte| byte != 0).collect())
    }

    /// Evaluates an array of one element.
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec()?.as_slice() {
            [value] => Ok(*value),
            values => Err(Error::Size { found: values.len(), wanted: 1 }),
        }
    }

    fn expect_dtype(&self, wanted: Dtype) -> Result<()> {
        let found = self.dtype();
        if found == wanted { Ok(()) } else { Err(Error::Dtype { found, wanted }) }
    }
}

impl Clone for Array {
    fn clone(&self) -> Self {
        Self::own(ffi::clone_handle(&self.raw))
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({} {:?})", self.dtype(), self.shape())
    }
}

fn byte_len(shape: &[i32], dtype: Dtype) -> Option<usize> {
    let mut bytes = dtype.size();
    for &dim in shape {
        bytes = bytes.checked_mul(usize::try_from(dim).ok()?)?;
    }
    Some(bytes)
}

pub(crate) fn list(arrays: &[&Array]) -> UniquePtr<CxxVector<ffi::MlxArray>> {
    let mut list = CxxVector::new();
    for array in arrays {
        ffi::push(list.pin_mut(), array.raw());
    }
    list
}

pub(crate) fn unlist(list: &CxxVector<ffi::MlxArray>) -> Vec<Array> {
    list.iter().map(|raw| Array::own(ffi::clone_handle(raw))).collect()
}

/// Computes `arrays` and waits for them.
pub fn eval(arrays: &[&Array]) -> Result<()> {
    Ok(ffi::eval(&list(arrays))?)
}

/// Starts to compute `arrays` and returns; reading one of them waits for it.
pub fn async_eval(arrays: &[&Array]) -> Result<()> {
    Ok(ffi::async_eval(&list(arrays))?)
}
