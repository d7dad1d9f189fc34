//! The one error type of the crate.

/// Why an operation on arrays failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// MLX (or one of our primitives) threw; the text is its own message.
    #[error("{0}")]
    Mlx(String),
    /// An array holds another type than the one asked for.
    #[error("the array holds {found}, not {wanted}")]
    Dtype {
        /// What the array holds.
        found: crate::Dtype,
        /// What the caller wanted.
        wanted: crate::Dtype,
    },
    /// The array has another number of elements than the call needs.
    #[error("{found} elements where {wanted} are needed")]
    Size {
        /// What the array or the data has.
        found: usize,
        /// What is needed.
        wanted: usize,
    },
    /// This machine, or this build, has no kernels of an instruction set.
    #[error("no instruction set {name}: this machine runs {available}")]
    InstructionSet {
        /// What was asked for.
        name: String,
        /// The names that there are, best first.
        available: String,
    },
}

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<cxx::Exception> for Error {
    fn from(exception: cxx::Exception) -> Self {
        Self::Mlx(exception.what().to_owned())
    }
}
