//! One tensor alone is larger than everything there is.

use super::super::case::Case;
use super::super::phase::{Phase, creates};
use super::super::shapes::written;
use super::super::sign::Resource;
use super::super::sizes::has_any;
use super::super::traceback::{Frame, is_own};
use super::other_process::{SMALL_POOL_BYTES, SMALLEST_DEVICE_BYTES};
use super::{Cause, Claim, Code, said};
use crate::bytes::{GIB, human};

/// No accelerator has this much: asked for at once, it is a mistake in a shape.
const ABSURD_BYTES: u64 = 300 * GIB;

/// An array of as many rows has a row for each sample.
const MANY_SAMPLES: u64 = 10_000;

/// Few accelerators have more.
const RARE_DEVICE_BYTES: u64 = 80 * GIB;

pub(super) const CAUSE: Cause = Cause {
    code: Code::TensorTooLarge,
    name: "tensor_too_large",
    title: "One tensor alone does not fit",
    remedies: &["check_shape", "chunk_computation", "smaller_types", "efficient_attention", "stream_data"],
    page: include_str!("../../../../../docs/causes/tensor_too_large.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if let Some(claim) = said(case, Code::TensorTooLarge, "the size is more than can be addressed") {
        return Some(claim);
    }
    let numbers = &case.numbers;
    if let Some(claim) = all_pairs(case) {
        return Some(claim);
    }
    // A TPU's compiler asks for the whole program at once, and lists its largest parts.
    let wanted =
        if numbers.device.as_deref() == Some("TPU") { numbers.tensor_bytes? } else { numbers.wanted_bytes()? };
    if !case.of_memory() {
        return None;
    }
    // What an evaluation collects grows with its data, and a data set is one: neither is a tensor by mistake.
    let slices =
        |frame: &Frame| frame.function.ends_with("from_tensor_slices") || frame.code.contains("from_tensor_slices(");
    if case.phase() == Some(Phase::Evaluate) || case.failure()?.frames.iter().any(slices) {
        return None;
    }
    if let Some(capacity) = case.numbers.limit_bytes().filter(|&capacity| wanted > capacity && !left_over(case, wanted))
    {
        return Claim::certain(format!(
            "{} were asked for at once, and all there is is {}",
            human(wanted),
            human(capacity)
        ));
    }
    // Many rows are a data set, even if they are large.
    let rows = numbers.shape.as_ref().filter(|shape| shape.len() >= 2).map_or(0, |shape| shape[0]);
    let of_data = case.phase() == Some(Phase::LoadData) && rows >= MANY_SAMPLES;
    let one_hot = case.failure()?.frames.iter().any(makes_one_hot);
    if wanted >= ABSURD_BYTES && !pool_backs_off(case) && !(of_data && one_hot) {
        return Claim::certain(format!("{} were asked for at once: more than any single device has", human(wanted)));
    }
    if let Some(frame) = made_by_hand(case, wanted).filter(|_| wanted >= LARGE_BYTES && !of_data) {
        return Claim::likely(format!("one tensor of {} is made at once ({})", human(wanted), frame.code));
    }
    let free = case.numbers.free_bytes.zip(case.numbers.allocated_bytes).zip(case.numbers.limit_bytes());
    if let Some(((_, allocated), capacity)) =
        free.filter(|((_, allocated), capacity)| wanted > capacity / 2 && *allocated < wanted)
    {
        return Claim::likely(format!(
            "{} were asked for at once, more than half of all {} and more than the {} in use",
            human(wanted),
            human(capacity),
            human(allocated)
        ));
    }
    // A program that is compiled asks for all that it computes at once, and a pool asks the device for its share.
    let at_once = case.of(Resource::GpuMemory)
        && case.place.is_none()
        && !case.saw("xla.breakdown")
        && !has_any(&case.failure()?.text, &["from device", "CUDA_ERROR_OUT_OF_MEMORY"]);
    if at_once && wanted >= RARE_DEVICE_BYTES && case.numbers.limit_bytes().is_none() {
        return Claim::likely(format!("{} were asked for at once: few devices have that", human(wanted)));
    }
    // A column of a table has a row for each sample, and no second dimension.
    let column = numbers.shape.as_ref().is_some_and(|shape| shape.len() == 1)
        && case.failure()?.frames.iter().any(|frame| has_any(&frame.file, &["pandas/", "pandas\\"]));
    let huge_on_host = case.of(Resource::HostMemory) && wanted >= 64 * GIB && rows < MANY_SAMPLES && !column;
    huge_on_host.then(|| Claim::likely(format!("{} were asked for at once: few machines have that", human(wanted))))?
}

/// Whether TensorFlow's pool got what others had left of a device, and any device would have had what was asked for.
fn left_over(case: &Case, wanted: u64) -> bool {
    let pool = case.numbers.limit_bytes().filter(|_| case.saw("tensorflow.at_start"));
    wanted < SMALLEST_DEVICE_BYTES && pool.is_some_and(|pool| pool <= SMALL_POOL_BYTES)
}

/// Whether what was asked for is a pool's own share: refused, it asks for nine tenths, and again (`BFCAllocator::Extend`). No tensor shrinks.
fn pool_backs_off(case: &Case) -> bool {
    let asked: Vec<u64> = case
        .sightings
        .iter()
        .filter(|sighting| sighting.sign.id == "xla.device_alloc")
        .filter_map(|sighting| sighting.numbers.requested_bytes)
        .collect();
    let nine_tenths = |pair: &[u64]| pair[1].abs_diff(pair[0] / 10 * 9) <= pair[0] / 1000;
    asked.len() >= 2 && asked.windows(2).take(4).all(nine_tenths)
}

/// A tensor of this size, written down in the user's code, is no activation.
const LARGE_BYTES: u64 = 4 * GIB;

/// The user's own line that makes a tensor of a given shape: it calls what makes one, or has the sizes that come to what was asked for.
fn made_by_hand(case: &Case, wanted: u64) -> Option<&Frame> {
    let last = case.failure()?.frames.iter().rfind(|frame| is_own(frame))?;
    (creates(&last.code) || written(&last.code, wanted).is_some()).then_some(last)
}

/// Code that makes one entry for each pair of rows.
const PAIRS: &[&str] = &[
    "cdist(", "pdist(", "pairwise", "[:, None", "[None, :", "np.outer(", "torch.outer(", "linear_kernel(",
    "rbf_kernel(", "euclidean_distances(", "cosine_similarity(", "gram_matrix(",
];
/// `x @ x.T`: a product with one's own transpose.
fn squares(code: &str) -> bool {
    let name = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    code.split_once('@').is_some_and(|(left, right)| {
        let left: String = name(&left.trim_end().chars().rev().collect::<String>()).chars().rev().collect();
        let turned = right.trim_start().strip_prefix(&left).unwrap_or("");
        !left.is_empty() && [".T", ".t()", ".mT"].iter().any(|end| turned.starts_with(end))
    })
}

/// Code that makes a column for each class.
const ONE_HOT: [&str; 6] = ["dummies", "one_hot", "onehot", "to_categorical", "np.eye(", "Binarizer"];
/// Whether a frame does so.
fn makes_one_hot(frame: &Frame) -> bool {
    has_any(&frame.code, &ONE_HOT) || has_any(&frame.function, &ONE_HOT)
}

/// A square of fewer rows is small.
const MANY_ROWS: u64 = 8000;

/// A matrix of all pairs grows with the square of the rows: it is the shape that is wrong, not the batch.
pub(super) fn all_pairs(case: &Case) -> Option<Claim> {
    if !case.of_memory() {
        return None;
    }
    let frames = &case.failure()?.frames;
    // A dense one-hot matrix of many classes is square, too, and is data.
    if frames.iter().any(makes_one_hot) {
        return None;
    }
    // Nearly as many columns as rows: a margin more or less, but a square all the same.
    let near =
        |shape: &&[u64]| shape.len() == 2 && shape[0].abs_diff(shape[1]) <= shape[0] / 50 && shape[0] >= MANY_ROWS;
    let square = case.numbers.shape.as_deref().filter(near);
    if let Some([rows, columns]) = square {
        return Claim::likely(format!("a matrix of {rows} × {columns} has an entry for each pair of rows"));
    }
    if let Some(rows) = case.numbers.shape.as_deref().and_then(paired_rows) {
        return Claim::likely(format!(
            "the array has {rows} · {} / 2 elements: one for each pair of {rows} rows",
            rows - 1
        ));
    }
    let frame = frames.iter().rev().take(6).find(|frame| {
        has_any(&frame.code, PAIRS)
            || squares(&frame.code)
            || has_any(&frame.function, &["pdist", "cdist", "pairwise", "distances"])
    })?;
    let half = case.numbers.limit_bytes().map_or(GIB, |limit| limit / 2);
    if case.numbers.wanted_bytes().is_some_and(|bytes| bytes < half) {
        return None;
    }
    Claim::likely(format!("one tensor has an entry for each pair of rows ({})", frame.code))
}

/// How many rows there are where a flat array has one entry for each pair of them: n of n · (n − 1) / 2, as distances are kept for hierarchical
/// clustering. Of a hundred million lengths one in seven thousand is such a number, so that it is hardly ever by chance.
fn paired_rows(shape: &[u64]) -> Option<u64> {
    let [entries] = shape else { return None };
    let twice = u128::from(*entries) * 2;
    let rows = (twice as f64).sqrt() as u128 + 1;
    let exact = [rows - 1, rows, rows + 1].into_iter().find(|rows| rows * rows.saturating_sub(1) == twice)?;
    u64::try_from(exact).ok().filter(|&rows| rows >= MANY_ROWS)
}
