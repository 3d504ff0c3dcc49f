//! Convolutions: names, arithmetic and scratch of their kernels, forward and backward.
//!
//! In: geometry. Out: [`ConvAttribute`], which the gradient rule reads. On a CPU the scratch is exact: TensorFlow's kernels
//! take it by formula. On a GPU cuDNN picks an algorithm when it runs: its workspace is bounded, never exact.

use super::math::times;
use crate::bytes::Size;
use crate::model::{DType, Shape, product};
use crate::step::Processor;

/// Kernels of one convolution.
#[derive(Clone, Debug)]
pub(super) struct ConvAttribute {
    pub forward_name: &'static str,
    pub input_name: &'static str,
    pub filter_name: &'static str,
    pub transposed: bool,
    pub work: Size,
    pub input_work: Size,
    pub filter_work: Size,
    pub forward_scratch: Vec<Size>,
    pub input_scratch: Vec<Size>,
    pub filter_scratch: Vec<Size>,
}

/// A convolution seen as one that makes `result` (for a transposed one, `result` is its input).
pub(super) struct Geometry<'a> {
    pub result: &'a Shape,
    pub kernel: &'a [u64],
    /// Channels of the image and of the result.
    pub channels: (u64, u64),
    pub groups: u64,
    pub depthwise: bool,
    pub transposed: bool,
    pub dtype: DType,
    /// Elements of the image per sample, and samples: they decide whether a buffer is worth its size.
    pub image_elements: u64,
    pub batch: u64,
}

/// Working set that TensorFlow's CPU kernels aim at, whatever the machine's cache (conv_grad_filter_ops.cc,
/// conv_grad_input_ops.h: `30LL << 20`).
const WORKING_SET_BYTES: u64 = 30 << 20;
/// Smallest share of work that is worth a thread of its own (conv_grad_input_ops.h: `256LL << 10`).
const THREAD_WORK_BYTES: u64 = 256 << 10;

/// One byte that a kernel moves piecemeal costs as much as this many operations: 1 GB/s against 150 GFLOP/s, as read off
/// the time stamps of TensorFlow's log for transposed operands and scattered writes.
pub(super) const SLOW_BYTE_WORK: u64 = 150;

impl Geometry<'_> {
    pub(super) fn attribute(&self, processor: Processor) -> ConvAttribute {
        let spatial = self.kernel.len();
        let (forward_name, input_name, filter_name) = if self.depthwise {
            ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter")
        } else if spatial == 3 {
            ("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")
        } else {
            ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
        };
        let taps = product(self.kernel);
        let multiply_adds =
            if self.depthwise { taps } else { taps.saturating_mul(self.channels.0 / self.groups.max(1)) };
        let results = self.result.elements();
        let work = times(Size::per_sample(results), multiply_adds.saturating_mul(2));
        let (input_work, filter_work) = self.backward_work(work.per_sample);
        let scratch = match processor {
            Processor::Cpu { threads, cache_bytes } => self.cpu_scratch(threads, cache_bytes),
            Processor::Gpu => self.gpu_scratch(),
        };
        ConvAttribute {
            forward_name,
            input_name,
            filter_name,
            transposed: self.transposed,
            work,
            input_work,
            filter_work,
            forward_scratch: scratch.0,
            input_scratch: scratch.1,
            filter_scratch: scratch.2,
        }
    }

    /// Work per sample of the input's and the filter's gradient. The first packs the transposed filter for each image and
    /// folds columns back (10 GB/s); the second is slow for few output channels. Rates as for [`SLOW_BYTE_WORK`].
    fn backward_work(&self, product_work: u64) -> (Size, Size) {
        let positions = self.result.elements() / self.channels.1.max(1);
        let patch = product(self.kernel).saturating_mul(self.channels.0 / self.groups.max(1));
        let column_bytes = positions.saturating_mul(patch).saturating_mul(self.dtype.bytes());
        let filter_bytes = patch.saturating_mul(self.channels.1).saturating_mul(self.dtype.bytes());
        let input = product_work
            .saturating_add(column_bytes.saturating_mul(SLOW_BYTE_WORK / 10))
            .saturating_add(filter_bytes.saturating_mul(SLOW_BYTE_WORK));
        // Read off the log: 20 GFLOP/s with 16 output channels, 41 with 32, 54 with 64, 139 with 512.
        let filter = product_work.saturating_add(product_work.saturating_mul(80) / self.channels.1.max(1));
        (Size::per_sample(input), Size::per_sample(filter))
    }

    /// Scratch of forward, input gradient and filter gradient on a CPU.
    fn cpu_scratch(&self, threads: u64, cache_bytes: u64) -> (Vec<Size>, Vec<Size>, Vec<Size>) {
        if self.depthwise {
            return (vec![], vec![], vec![]);
        }
        let element = self.dtype.bytes();
        if self.groups > 1 {
            // Keras compiles grouped convolutions with XLA, whose filter gradient is that of the dense filter, twice.
            let dense = product(self.kernel).saturating_mul(self.channels.0).saturating_mul(self.channels.1);
            return (vec![], vec![], vec![Size::fixed(dense.saturating_mul(2 * element))]);
        }
        if self.kernel.len() == 3 {
            // A single volume is not taken in parts.
            let input = self.cpu_scratch_3d(self.batch == 1, cache_bytes);
            return (vec![], input, self.cpu_scratch_3d(false, cache_bytes));
        }
        let positions = self.result.elements() / self.channels.1.max(1);
        let patch = product(self.kernel).saturating_mul(self.channels.0 / self.groups.max(1));
        let columns = positions.saturating_mul(patch);
        let work = columns
            .saturating_add(positions.saturating_mul(self.channels.1))
            .saturating_add(patch.saturating_mul(self.channels.1))
            .max(1);
        let shard = (WORKING_SET_BYTES / element).div_ceil(work);
        let filter = Size::fixed(shard.saturating_mul(columns).saturating_mul(element));
        // The input's gradient takes one image at a time if one is work enough for every thread.
        let alone = work / threads.max(1) >= THREAD_WORK_BYTES / element;
        let images = if alone { 1 } else { shard };
        let input = Size::fixed(images.saturating_mul(columns).saturating_mul(element));
        (vec![], vec![input], vec![filter])
    }

    /// Volumes: columns for as many samples as fill the machine's last-level cache, unless that is more than 25 times the
    /// tensors themselves (conv_grad_ops_3d.cc, `Conv3DCustomBackpropFilterOp`, `Conv3DCustomBackpropInputOp`). The cache is what
    /// Eigen's `l3CacheSize` says, on an AMD processor CPUID's leaf 0x80000006 (Eigen/src/Core/util/Memory.h).
    fn cpu_scratch_3d(&self, alone: bool, cache_bytes: u64) -> Vec<Size> {
        let positions = self.result.elements() / self.channels.1.max(1);
        let patch = product(self.kernel).saturating_mul(self.channels.0 / self.groups.max(1));
        let columns = positions.saturating_mul(patch);
        let results = self.result.elements();
        let filter = patch.saturating_mul(self.channels.1);
        let work = columns.saturating_add(results).saturating_add(filter).max(1);
        let volumes = if alone { 1 } else { (cache_bytes / self.dtype.bytes()).div_ceil(work) };
        let buffer = volumes.saturating_mul(columns);
        let tensors = self.image_elements.saturating_add(results).saturating_mul(self.batch).saturating_add(filter);
        if buffer / tensors.max(1) > 25 { vec![] } else { vec![Size::fixed(buffer.saturating_mul(self.dtype.bytes()))] }
    }

    /// A bound for cuDNN's workspace: the columns of an explicit GEMM for one image, in each direction.
    fn gpu_scratch(&self) -> (Vec<Size>, Vec<Size>, Vec<Size>) {
        let patch = product(self.kernel).saturating_mul(self.channels.0 / self.groups.max(1));
        let positions = self.result.elements() / self.channels.1.max(1);
        let bytes = positions.saturating_mul(patch).saturating_mul(self.dtype.bytes());
        let one = vec![Size::fixed(bytes)];
        if product(self.kernel) == 1 || self.depthwise {
            (vec![], vec![], vec![])
        } else {
            (one.clone(), one.clone(), one)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::MIB;

    /// The scratch of the filter's gradient of a convolution on volumes, in volumes.
    fn volumes(result: [u64; 4], kernel: u64, channels: (u64, u64), image: u64, cache_bytes: u64) -> u64 {
        let geometry = Geometry {
            result: &Shape::new(true, &[1, result[0], result[1], result[2], result[3]]),
            kernel: &[kernel; 3],
            channels,
            groups: 1,
            depthwise: false,
            transposed: false,
            dtype: DType::Float32,
            image_elements: image,
            batch: 16,
        };
        let scratch = geometry.attribute(Processor::Cpu { threads: 2, cache_bytes }).filter_scratch;
        scratch[0].fixed / (4 * result[..3].iter().product::<u64>() * kernel.pow(3) * channels.0)
    }

    /// Those of `grown_volumes`, in TensorFlow's log on a processor with a cache of 384 MiB.
    #[test]
    fn as_many_volumes_are_taken_at_once_as_fill_the_cache() {
        let last = |cache_mib| volumes([32, 32, 32, 1], 3, (24, 1), 32 * 32 * 32 * 24, cache_mib * MIB);
        let middle = |cache_mib| volumes([8, 8, 8, 96], 3, (48, 96), 18 * 18 * 18 * 48, cache_mib * MIB);
        assert_eq!((last(384), middle(384)), (5, 121));
        assert_eq!((last(320), middle(320)), (4, 101));
    }
}
