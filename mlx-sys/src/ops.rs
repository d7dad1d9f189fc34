//! Operations of MLX's own. All are lazy: they build the graph, and fail where shapes or types do not fit.

use crate::array::{Array, list, unlist};
use crate::bridge::ffi::{self, Along, Binary, Fold, Layout, Unary};
use crate::{Dtype, Result};

macro_rules! unary {
    ($($name:ident => $op:ident: $doc:literal),* $(,)?) => {
        impl Array {$(
            #[doc = $doc]
            pub fn $name(&self) -> Result<Array> {
                Array::wrap(ffi::unary(Unary::$op, self.raw()))
            }
        )*}
    };
}

unary! {
    abs => Abs: "Absolute value.",
    contiguous => Contiguous: "The same values in row-major order without gaps.",
    copy => Copy: "A copy with a buffer of its own.",
    cos => Cos: "Cosine.",
    erf => Erf: "Error function.",
    exp => Exp: "Exponential.",
    floor => Floor: "The largest integer not above each element.",
    isnan => IsNan: "True where an element is not a number.",
    log => Log: "Natural logarithm.",
    log1p => Log1p: "Natural logarithm of one plus each element.",
    logical_not => LogicalNot: "True where an element is zero.",
    negative => Negative: "Each element with the other sign.",
    reciprocal => Reciprocal: "One over each element.",
    rsqrt => Rsqrt: "One over the square root.",
    sigmoid => Sigmoid: "Logistic function.",
    sin => Sin: "Sine.",
    sqrt => Sqrt: "Square root.",
    square => Square: "Each element times itself.",
    stop_gradient => StopGradient: "The same values, cut off from differentiation.",
    tanh => Tanh: "Hyperbolic tangent.",
}

macro_rules! binary {
    ($($name:ident => $op:ident: $doc:literal),* $(,)?) => {
        impl Array {$(
            #[doc = $doc]
            pub fn $name(&self, other: &Array) -> Result<Array> {
                Array::wrap(ffi::binary(Binary::$op, self.raw(), other.raw()))
            }
        )*}
    };
}

binary! {
    add => Add: "Sum, element by element.",
    bitwise_and => BitwiseAnd: "Bitwise and.",
    bitwise_xor => BitwiseXor: "Bitwise exclusive or.",
    divide => Divide: "Quotient; integers become f32.",
    equal => Equal: "True where equal.",
    floor_divide => FloorDivide: "Quotient rounded down.",
    greater => Greater: "True where `self` is greater.",
    greater_equal => GreaterEqual: "True where `self` is greater or equal.",
    left_shift => LeftShift: "Bits shifted to the left.",
    less => Less: "True where `self` is less.",
    less_equal => LessEqual: "True where `self` is less or equal.",
    logaddexp => LogAddExp: "Logarithm of the sum of exponentials.",
    logical_and => LogicalAnd: "True where both are not zero.",
    logical_or => LogicalOr: "True where one of both is not zero.",
    matmul => Matmul: "Matrix product over the last two axes.",
    maximum => Maximum: "The greater, element by element.",
    minimum => Minimum: "The lesser, element by element.",
    multiply => Multiply: "Product, element by element.",
    not_equal => NotEqual: "True where not equal.",
    power => Power: "`self` to the power of `other`.",
    remainder => Remainder: "Remainder with the sign of `other`.",
    right_shift => RightShift: "Bits shifted to the right.",
    subtract => Subtract: "Difference, element by element.",
}

/// Whether a folded axis stays, with length one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// The axis stays, with length one.
    Keep,
    /// The axis is dropped.
    Drop,
}

macro_rules! folds {
    ($($name:ident => $op:ident: $doc:literal),* $(,)?) => {
        impl Array {$(
            #[doc = $doc]
            pub fn $name(&self, axis: i32, folded: Axis) -> Result<Array> {
                Array::wrap(ffi::fold(Fold::$op, self.raw(), axis, folded == Axis::Keep))
            }
        )*}
    };
}

folds! {
    all => All: "True where all elements along `axis` are.",
    any => Any: "True where one element along `axis` is.",
    argmax => ArgMax: "Index (u32) of the first greatest element along `axis`.",
    argmin => ArgMin: "Index (u32) of the first least element along `axis`.",
    logsumexp => LogSumExp: "Logarithm of the sum of exponentials along `axis`.",
    max => Max: "Greatest element along `axis`.",
    mean => Mean: "Mean along `axis`.",
    min => Min: "Least element along `axis`.",
    sum => Sum: "Sum along `axis`.",
}

/// Which running sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// From the start, each element included in its own sum.
    Inclusive,
    /// From the start, each element excluded from its own sum.
    Exclusive,
    /// From the end, each element included.
    ReverseInclusive,
    /// From the end, each element excluded.
    ReverseExclusive,
}

macro_rules! layouts {
    ($($name:ident($numbers:ident) => $op:ident: $doc:literal),* $(,)?) => {
        impl Array {$(
            #[doc = $doc]
            pub fn $name(&self, $numbers: &[i32]) -> Result<Array> {
                Array::wrap(ffi::layout(Layout::$op, self.raw(), $numbers))
            }
        )*}
    };
}

layouts! {
    broadcast_to(shape) => BroadcastTo: "Repeats axes of length one, without a copy.",
    expand_dims(axes) => ExpandDims: "Adds axes of length one at these places of the result.",
    reshape(shape) => Reshape: "Another shape of the same size; one axis may be -1.",
    squeeze(axes) => Squeeze: "Drops these axes, whose length must be one.",
    transpose(axes) => Transpose: "Axes in another order.",
}

impl Array {
    /// Softmax along `axis`, computed in f32.
    pub fn softmax(&self, axis: i32) -> Result<Array> {
        Array::wrap(ffi::along(Along::Softmax, self.raw(), axis))
    }

    /// Ascending order along `axis`, stable.
    pub fn sort(&self, axis: i32) -> Result<Array> {
        Array::wrap(ffi::along(Along::Sort, self.raw(), axis))
    }

    /// Indices (u32) that sort along `axis`, stable.
    pub fn argsort(&self, axis: i32) -> Result<Array> {
        Array::wrap(ffi::along(Along::ArgSort, self.raw(), axis))
    }

    /// Indices (u32) such that the `kth` is at its sorted place and all before it are not greater.
    pub fn argpartition(&self, kth: i32, axis: i32) -> Result<Array> {
        Array::wrap(ffi::argpartition(self.raw(), kth, axis))
    }

    /// The `k` greatest elements along `axis`, in no order.
    pub fn topk(&self, k: i32, axis: i32) -> Result<Array> {
        Array::wrap(ffi::topk(self.raw(), k, axis))
    }

    /// Running sum along `axis`.
    pub fn cumsum(&self, axis: i32, scan: Scan) -> Result<Array> {
        let reverse = matches!(scan, Scan::ReverseInclusive | Scan::ReverseExclusive);
        let inclusive = matches!(scan, Scan::Inclusive | Scan::ReverseInclusive);
        Array::wrap(ffi::cumsum(self.raw(), axis, reverse, inclusive))
    }

    /// The values converted to `dtype`.
    pub fn astype(&self, dtype: Dtype) -> Result<Array> {
        Array::wrap(ffi::astype(self.raw(), dtype.code()))
    }

    /// The bytes read as `dtype`; the last axis changes its length with the element's size.
    pub fn view(&self, dtype: Dtype) -> Result<Array> {
        Array::wrap(ffi::view(self.raw(), dtype.code()))
    }

    /// `self + a·b`.
    pub fn addmm(&self, a: &Array, b: &Array) -> Result<Array> {
        Array::wrap(ffi::addmm(self.raw(), a.raw(), b.raw()))
    }

    /// `x` where `self` is true, else `y`.
    pub fn where_(&self, x: &Array, y: &Array) -> Result<Array> {
        Array::wrap(ffi::where_(self.raw(), x.raw(), y.raw()))
    }

    /// Axes `start` to `end` (inclusive) as one axis.
    pub fn flatten(&self, start: i32, end: i32) -> Result<Array> {
        Array::wrap(ffi::flatten(self.raw(), start, end))
    }

    /// Two axes exchanged.
    pub fn swapaxes(&self, first: i32, second: i32) -> Result<Array> {
        Array::wrap(ffi::swapaxes(self.raw(), first, second))
    }

    /// Pieces along `axis`, cut before each index of `at`.
    pub fn split(&self, at: &[i32], axis: i32) -> Result<Vec<Array>> {
        Ok(unlist(&*ffi::split(self.raw(), at, axis)?))
    }

    /// Elements from `start` to `stop` by `strides`, one number an axis.
    pub fn slice(&self, start: &[i32], stop: &[i32], strides: &[i32]) -> Result<Array> {
        Array::wrap(ffi::slice(self.raw(), start, stop, strides))
    }

    /// A copy in which the box from `start` to `stop` holds `update`.
    pub fn slice_update(&self, update: &Array, start: &[i32], stop: &[i32]) -> Result<Array> {
        Array::wrap(ffi::slice_update(self.raw(), update.raw(), start, stop))
    }

    /// Slices at `indices` along `axis`. An index out of range is not checked and reads outside the array.
    pub fn take(&self, indices: &Array, axis: i32) -> Result<Array> {
        Array::wrap(ffi::take(self.raw(), indices.raw(), axis))
    }

    /// Elements at `indices`, which has this array's shape but for `axis`.
    pub fn take_along_axis(&self, indices: &Array, axis: i32) -> Result<Array> {
        Array::wrap(ffi::take_along_axis(self.raw(), indices.raw(), axis))
    }

    /// A copy with `values` at `indices` along `axis`.
    pub fn put_along_axis(&self, indices: &Array, values: &Array, axis: i32) -> Result<Array> {
        Array::wrap(ffi::put_along_axis(self.raw(), indices.raw(), values.raw(), axis))
    }

    /// A copy in which row `indices[i]` of the first axis is `updates[i]`.
    pub fn set_rows(&self, indices: &Array, updates: &Array) -> Result<Array> {
        Array::wrap(ffi::scatter_rows(self.raw(), indices.raw(), updates.raw(), false))
    }

    /// A copy in which `updates[i]` is added to row `indices[i]` of the first axis; rows may repeat.
    pub fn add_rows(&self, indices: &Array, updates: &Array) -> Result<Array> {
        Array::wrap(ffi::scatter_rows(self.raw(), indices.raw(), updates.raw(), true))
    }
}

/// Arrays one after the other along `axis`.
pub fn concatenate(arrays: &[&Array], axis: i32) -> Result<Array> {
    Array::wrap(ffi::concatenate(&list(arrays), axis))
}

/// Arrays of one shape beside each other along a new `axis`.
pub fn stack(arrays: &[&Array], axis: i32) -> Result<Array> {
    Array::wrap(ffi::stack(&list(arrays), axis))
}
