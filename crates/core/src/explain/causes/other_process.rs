//! Another process, or another framework in the same one, holds the device's memory.

use super::super::case::{Case, Sighting};
use super::super::phase::{made_elements, makes_layer};
use super::super::sign::{Resource, Weight};
use super::super::sizes::{after, has_any, size_after};
use super::super::traceback::Frame;
use super::{Cause, Claim, Code, said};
use crate::bytes::{GIB, MIB, human};

/// What a process has outside the allocator: the context and loaded kernels, rarely more.
pub(super) const OUTSIDE_ALLOCATOR_BYTES: u64 = 2 * GIB;

/// TensorFlow takes what it finds: a pool as small as this was left over by somebody.
pub(super) const SMALL_POOL_BYTES: u64 = GIB;

pub(super) const CAUSE: Cause = Cause {
    code: Code::OtherProcess,
    name: "other_process",
    title: "Another process holds the memory",
    remedies: &["free_memory", "other_device", "memory_growth", "limit_per_process"],
    page: include_str!("../../../../../docs/causes/other_process.md"),
    judge,
};

fn judge(case: &Case) -> Option<Claim> {
    if !case.of(Resource::GpuMemory) {
        return None;
    }
    if let Some(claim) = said(case, Code::OtherProcess, NO_CONTEXT) {
        return Some(claim);
    }
    if no_context(case) {
        return Claim::likely(NO_CONTEXT);
    }
    if let Some(claim) = watched(case) {
        return Some(claim);
    }
    if let Some(frame) = small_weight(case) {
        return Claim::likely(format!(
            "not even the weights of one small layer could be made (in {}): the device was full before",
            frame.file.rsplit(['/', '\\']).next().unwrap_or(&frame.file)
        ));
    }
    let numbers = &case.numbers;
    let small = |limit: &u64| {
        (*limit <= SMALL_POOL_BYTES && case.saw("tensorflow.at_start"))
            || (*limit <= SMALL_POOL_BYTES / 2 && case.saw("tensorflow.dump"))
    };
    if let Some(limit) = numbers.limit_bytes().filter(small) {
        return Claim::likely(format!("when this job began, TensorFlow got only {} of the device", human(limit)));
    }
    if let Some((counted_on, wanted)) = refused(case) {
        return Claim::likely(format!(
            "TensorFlow's pool counted on {} that were free when it was made, and the device had not even {} of them",
            human(counted_on),
            human(wanted)
        ));
    }
    if let Some((counted_on, wanted)) = backed_off(case) {
        return Claim::likely(format!(
            "the pool asked the device for {}, for less and less, and in the end had not even {}: somebody else has it",
            human(counted_on),
            human(wanted)
        ));
    }
    if let Some(claim) = empty(case) {
        return Some(claim);
    }
    // A context is made before anything else: a title may have said the same before it.
    let bare = numbers.requested_bytes.is_none() && numbers.shape.is_none();
    if let Some(seen) = case.seen("cuda.primary_context").filter(|_| bare) {
        let claim = Claim::certain("not even a context could be made on the device: it was full before this job began");
        return claim.map(|claim| Claim { lines: vec![seen.line], ..claim });
    }
    if let Some(claim) = shown_before(case).or_else(|| shown_after(case)).or_else(|| shown_beside(case)) {
        return Some(claim);
    }
    if let Some(claim) = outside_pool(case) {
        return Some(claim);
    }
    if first_use(case) {
        return Claim::likely("it failed in what PyTorch sets up when the device is first used: it was full before");
    }
    if let Some((elements, code)) = few_elements(case) {
        return Claim::likely(format!(
            "not even {elements} element{} could be put on the device ({code}): it was full before",
            if elements == 1 { "" } else { "s" }
        ));
    }
    let at_start = case.failure().is_some_and(|failure| failure.sign.id == "vllm.free_at_start");
    if let Some((free, capacity)) =
        numbers.free_bytes.zip(numbers.limit_bytes()).filter(|(free, all)| at_start && *free < all / 2)
    {
        return Claim::likely(format!("when this job began, only {} of {} were free", human(free), human(capacity)));
    }
    let capacity = numbers.limit_bytes()?;
    if let Some(free) = numbers.free_at_start_bytes.filter(|&free| free < capacity / 2) {
        return Claim::likely(format!("when this job began, only {} of {} were free", human(free), human(capacity)));
    }
    let own = numbers.reserved_bytes.or(numbers.allocated_bytes).or(numbers.process_bytes);
    let (count, others) = others(case);
    let needed = numbers.requested_bytes.unwrap_or(0).saturating_sub(numbers.free_bytes.unwrap_or(0));
    if others >= capacity / 8 && others >= needed {
        let of_most = own.is_some_and(|own| others >= own) || others >= capacity / 4;
        let because = format!(
            "{} of {} are held by {count} other process{}; the request needed {} more",
            human(others),
            human(capacity),
            if count == 1 { "" } else { "es" },
            human(needed)
        );
        return if of_most { Claim::certain(because) } else { Claim::possible(because) };
    }
    // What is allocated says nothing of what a pool keeps: only with that does the rest belong to somebody else.
    let (own, free) = (numbers.reserved_bytes.or(numbers.process_bytes)?, numbers.free_bytes?);
    if !numbers.others.is_empty() || numbers.process_bytes.is_some() {
        return None;
    }
    let unaccounted = capacity.saturating_sub(own).saturating_sub(free).saturating_sub(OUTSIDE_ALLOCATOR_BYTES / 2);
    // Where a place shows what the job itself needed, less than this is not why it failed.
    let share = if case.place.is_some() { 5 } else { 8 };
    (unaccounted >= capacity / share && unaccounted >= needed).then(|| {
        Claim::likely(format!(
            "of {} this job holds {} and {} are free: about {} belong to somebody else",
            human(capacity),
            human(own),
            human(free),
            human(unaccounted)
        ))
    })?
}

const NO_CONTEXT: &str = "not even a context could be made on the device: it was full before this job began";

/// Lines within which a trace names the call that failed.
const TRACE_LINES: u64 = 4;

/// Whether CUDA refused to make a context.
fn no_context(case: &Case) -> bool {
    let failure = case.failure().filter(|failure| failure.sign.weight == Weight::Failure);
    let near = |seen: &Sighting, line: u64| seen.sign.id == "cuda.context" && seen.line.abs_diff(line) <= TRACE_LINES;
    failure.is_some_and(|failure| case.sightings.iter().any(|seen| near(seen, failure.line)))
}

/// What `brimful run` read of the device, where it was the device that refused, not a share that the job was given.
fn watched(case: &Case) -> Option<Claim> {
    let said = case.seen("brimful.others").filter(|_| case.saw("xla.device_alloc"))?;
    let others = size_after(&said.text, "other processes hold ")?;
    let all = size_after(&said.text, " of the ")?;
    let claim =
        Claim::certain(format!("the job was watched: other processes held {} of {}", human(others), human(all)));
    claim.filter(|_| others >= all / 2).map(|claim| Claim { lines: vec![said.line], ..claim })
}

/// Layers of PyTorch's whose weights take kilobytes to a few megabytes.
const SMALL_LAYERS: [&str; 3] = ["conv.py", "batchnorm.py", "normalization.py"];

/// The frame that makes the weights of a small layer, where CUDA itself refused: PyTorch's pool says what it asked for.
fn small_weight(case: &Case) -> Option<&Frame> {
    let failure = case.failure().filter(|failure| failure.sign.id == "cuda.out_of_memory")?;
    let made = failure.frames.last().filter(|frame| makes_layer(frame))?;
    has_any(&made.file, &SMALL_LAYERS).then_some(made)
}

/// Files of PyTorch's that run when a device is used for the first time, and ask it for next to nothing.
const FIRST_USE: [&str; 3] = ["THCTensorRandom.cu", "THCGeneral.c", "CUDAGeneratorImpl.cpp"];

/// Functions that set a device up, or are the first to use it, and ask it for next to nothing.
const SETS_UP: [&str; 4] = ["_lazy_init", "init", "set_device", "mem_get_info"];

/// Whether CUDA refused what is needed to use a device at all.
fn first_use(case: &Case) -> bool {
    let Some(failure) = case.failure() else { return false };
    let sets_up = |frame: &Frame| {
        has_any(&frame.file, &["torch/cuda/random.py", "torch\\cuda\\random.py"])
            || (has_any(&frame.file, &["torch/cuda/", "torch\\cuda\\"]) && SETS_UP.contains(&frame.function.as_str()))
    };
    has_any(&failure.text, &FIRST_USE)
        || (failure.sign.id == "cuda.out_of_memory" && failure.frames.last().is_some_and(sets_up))
}

/// A tensor of at most this many elements fits into the smallest piece that PyTorch takes from a device.
const FEW_ELEMENTS: u64 = 1 << 18;

/// The line of code that makes a tensor of a few elements, where CUDA itself refused, and how many they are.
fn few_elements(case: &Case) -> Option<(u64, &str)> {
    let failure = case.failure().filter(|failure| failure.numbers.requested_bytes.is_none())?;
    // Through this one PyTorch makes the first tensor of a device.
    let last = failure.frames.iter().rfind(|frame| frame.function != "_lazy_new")?;
    let elements = made_elements(&last.code).filter(|elements| *elements <= FEW_ELEMENTS)?;
    ["cuda.out_of_memory", "torch.device_oom"].contains(&failure.sign.id).then_some((elements, last.code.as_str()))
}

/// No device that models are trained on has less: a pool that is made first has most of it.
pub(super) const SMALLEST_DEVICE_BYTES: u64 = 3 * GIB;

/// An empty pool that had not even what any device would have had. Where it may have more than that, it asked the device in vain.
fn empty(case: &Case) -> Option<Claim> {
    let failed = case.failure()?.line;
    let bar = case.seen("tensorflow.empty_pool").filter(|bar| bar.line.abs_diff(failed) <= 2)?;
    let wanted = case.numbers.requested_bytes.filter(|&wanted| wanted <= SMALLEST_DEVICE_BYTES / 2)?;
    let claim = match case.numbers.limit_bytes() {
        None => Claim::likely(format!(
            "the pool was empty, and had not even {}: there was hardly more of the device left when it was made",
            human(wanted)
        )),
        Some(limit) if case.numbers.allocated_bytes == Some(0) && limit >= wanted => Claim::likely(format!(
            "the pool may have {} and had nothing in use, and the device had not even {} for it",
            human(limit),
            human(wanted)
        )),
        Some(_) => None,
    };
    claim.map(|claim| Claim { lines: vec![bar.line], ..claim })
}

/// What lies on a Mac's device beside PyTorch's pool, as its message says: another framework, or what Metal keeps. It counts where the request would have
/// fitted without it, and it is no small part.
fn outside_pool(case: &Case) -> Option<Claim> {
    let outside = size_after(&case.failure()?.text, "other allocations:")?;
    let (limit, own) = (case.numbers.limit_bytes()?, case.numbers.allocated_bytes?);
    let fits = own.saturating_add(case.numbers.requested_bytes?) <= limit;
    (outside >= limit / 4 && fits).then(|| {
        Claim::likely(format!(
            "of the {} that PyTorch may use, {} are held outside its allocator, and {} in it",
            human(limit),
            human(outside),
            human(own)
        ))
    })?
}

/// A device that `nvidia-smi` showed nearly full before the job was started.
fn shown_before(case: &Case) -> Option<Claim> {
    let failed = case.failure()?.line;
    let started = case.sightings.iter().rfind(|seen| seen.sign.id == "shell.python" && seen.line < failed)?;
    let rows: Vec<_> =
        case.sightings.iter().filter(|seen| seen.sign.id == "cuda.smi" && seen.line < started.line).collect();
    let chosen =
        ["--device ", "--gpu ", "--gpu_id ", "--device=", "--gpu=", "VISIBLE_DEVICES=", "cuda:"].iter().find_map(
            |option| after(&started.text, option)?.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok(),
        );
    let row = rows.get(chosen.unwrap_or(0))?;
    let (used, all) = in_use(row)?;
    let claim =
        Claim::likely(format!("nvidia-smi showed {} of {} in use before the job was started", human(used), human(all)));
    claim.filter(|_| used >= all / 4 * 3).map(|claim| Claim { lines: vec![row.line], ..claim })
}

/// The device, where there is but one, that `nvidia-smi` shows half full when the job had ended and a shell had the terminal again.
fn shown_after(case: &Case) -> Option<Claim> {
    let failed = case.failure().filter(|failure| failure.numbers.requested_bytes.is_none())?.line;
    let asked = case.sightings.iter().find(|seen| seen.sign.id == "shell.smi" && seen.line > failed)?;
    let mut rows = case.sightings.iter().filter(|seen| seen.sign.id == "cuda.smi" && seen.line > asked.line);
    let row = rows.next().filter(|_| rows.next().is_none())?;
    let (used, all) = in_use(row)?;
    let claim =
        Claim::likely(format!("nvidia-smi showed {} of {} in use when the job had ended", human(used), human(all)));
    claim.filter(|_| used >= all / 2).map(|claim| Claim { lines: vec![row.line], ..claim })
}

/// The first device, full in a table of `nvidia-smi` that was pasted with an error of CUDA's own. PyTorch's pool says what it was asked for: where nothing
/// does, the pool had nothing yet, and what fills the device is not this job's.
fn shown_beside(case: &Case) -> Option<Claim> {
    case.failure()
        .filter(|failure| failure.sign.id == "cuda.out_of_memory" && failure.numbers.requested_bytes.is_none())?;
    // Where the job's command is shown, what stands before it was seen before.
    let row = case.seen("cuda.smi").filter(|_| !case.saw("shell.python"))?;
    let (used, all) = in_use(row)?;
    let claim = Claim::likely(format!(
        "nvidia-smi showed {} of {} in use, and CUDA refused this job before its allocator had anything",
        human(used),
        human(all)
    ));
    claim.filter(|_| used >= all / 10 * 9).map(|claim| Claim { lines: vec![row.line], ..claim })
}

/// What a row of `nvidia-smi` says is in use, and all there is.
fn in_use(row: &Sighting) -> Option<(u64, u64)> {
    let (before, _) = row.text.split_once("MiB / ")?;
    let used = before.rsplit([' ', '|']).next()?.parse::<u64>().ok()?.saturating_mul(MIB);
    Some((used, size_after(&row.text, "MiB / ")?))
}

/// A pool that still counts on as much has not filled the device itself.
const COUNTED_ON_BYTES: u64 = GIB;

/// What a pool of TensorFlow's asked the device for in vain, and the little that it needed. It never asks for more than what it found free when it
/// was made, less what it has taken since: what is missing was taken by somebody else.
fn refused(case: &Case) -> Option<(u64, u64)> {
    let pool = case.failure().filter(|failure| failure.sign.id == "tensorflow.pool")?;
    let wanted = pool.numbers.requested_bytes?;
    let asked = case.sightings.iter().filter(|sighting| sighting.sign.id == "xla.device_alloc");
    let just_before = asked.filter(|asked| asked.line < pool.line && pool.line - asked.line <= 2);
    let counted_on = just_before.filter_map(|asked| asked.numbers.requested_bytes).max()?;
    let filled = case.numbers.allocated_bytes.zip(case.numbers.limit_bytes()).is_some_and(|(used, all)| used > all / 2);
    (counted_on >= COUNTED_ON_BYTES && wanted <= counted_on / 64 && !filled).then_some((counted_on, wanted))
}

/// The least share of a device that is one: three quarters of a few megabytes are what a full one shows as free.
const LEAST_SHARE_BYTES: u64 = 64 * MIB;

/// What JAX's pool asked the device for when it was made, and the little that it then did not have. Refused, it asks for nine tenths, and again; a
/// pool that got anything in the end has more than a thousandth of it.
fn backed_off(case: &Case) -> Option<(u64, u64)> {
    let failure = case.failure().filter(|failure| failure.sign.id == "xla.exhausted")?;
    let wanted = failure.numbers.requested_bytes?;
    let asked = case.sightings.iter().filter(|seen| seen.sign.id == "xla.device_alloc" && seen.line < failure.line);
    let asked: Vec<u64> = asked.filter_map(|seen| seen.numbers.requested_bytes).collect();
    let shrinks = asked.len() >= 2 && asked.windows(2).all(|pair| pair[1] < pair[0]);
    let first = asked.first().copied()?;
    (shrinks && first >= LEAST_SHARE_BYTES && wanted <= first / 1024).then_some((first, wanted))
}

/// How many other processes there are, and what they hold. In a container PyTorch cannot tell which one is itself: the one that holds what this job
/// reserved is. Where all of them and this job together would hold more than there is, one of them must be it, however much it has outside the
/// allocator (NCCL's buffers, captured graphs).
fn others(case: &Case) -> (usize, u64) {
    let numbers = &case.numbers;
    let own = numbers.reserved_bytes.or(numbers.allocated_bytes).unwrap_or(0);
    let listed = numbers.others.iter().fold(0u64, |sum, process| sum.saturating_add(process.bytes));
    let taken = numbers.capacity_bytes.unwrap_or(u64::MAX).saturating_sub(numbers.free_bytes.unwrap_or(0));
    // Figures are rounded.
    let counted_twice = own > 0 && listed.saturating_add(own) > taken.saturating_add(taken / 50);
    let outside = |bytes: u64| bytes.checked_sub(own).filter(|_| numbers.process_bytes.is_none());
    let own_entry = (0..numbers.others.len())
        .filter_map(|index| Some((outside(numbers.others[index].bytes)?, index)))
        .filter(|(outside, _)| counted_twice || *outside <= OUTSIDE_ALLOCATOR_BYTES)
        .min()
        .map(|(_, index)| index);
    let others = numbers.others.iter().enumerate().filter(|(index, _)| Some(*index) != own_entry);
    others.fold((0, 0), |(count, sum), (_, process)| (count + 1, process.bytes.saturating_add(sum)))
}
