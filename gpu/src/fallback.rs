//! What takes the slow way is told.

use mlx_sys::{Dtype, Packing, Quantized};

/// Packings that no kernel takes, and that were told of. Every packing that the supported files can hold has a kernel
/// today, so a line here means that a new format came in without one.
#[derive(Debug, Default)]
pub(crate) struct WithoutKernel(Vec<(Packing, Dtype)>);

impl WithoutKernel {
    /// One log line for each packing.
    pub(crate) fn tell(&mut self, quantized: &Quantized) {
        let kind = (quantized.packing, quantized.scales.dtype());
        if self.0.contains(&kind) {
            return;
        }
        self.0.push(kind);
        let (Packing { bits, group_size }, scales) = kind;
        tracing::warn!(
            bits,
            group_size,
            scales = %scales,
            "no CPU kernel takes this packing: its products are MLX's own, which are slow"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use mlx_sys::{Activations, Array};
    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::*;
    use crate::layers::Matrix;

    /// Counts warnings, as a log would show them.
    #[derive(Default)]
    struct Warnings(AtomicU32);

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let fields: Vec<_> = event.fields().map(|field| field.name()).collect();
            assert_eq!(fields, ["message", "bits", "group_size", "scales"]);
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    /// With biases of another type than the scales, which no kernel reads.
    fn mixed(bits: i32) -> Quantized {
        let matrix =
            Array::arange(0.0, 2048.0, 1.0, Dtype::F32).unwrap().sin().unwrap().reshape(&[32, 64]).unwrap();
        let mut quantized = Quantized::quantize(&matrix, Packing { group_size: 32, bits }).unwrap();
        quantized.biases = quantized.biases.astype(Dtype::F16).unwrap();
        quantized
    }

    #[test]
    fn a_packing_without_a_kernel_is_told_once_and_stays_as_it_is() {
        let warnings = Arc::new(Warnings::default());
        tracing::subscriber::with_default(Arc::clone(&warnings), || {
            let mut without = WithoutKernel::default();
            for bits in [4, 4, 8, 4, 8] {
                let Matrix::Quantized(quantized) =
                    Matrix::Quantized(mixed(bits)).packed(Activations::Int16).unwrap()
                else {
                    panic!("a kernel took it");
                };
                without.tell(&quantized);
            }
        });
        assert_eq!(warnings.0.load(Ordering::Relaxed), 2);
    }
}
