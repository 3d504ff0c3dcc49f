//! Everything a log said, in one place: what the causes look at.
//!
//! In: sightings in the order of the log. Out: the failure that counts, what ran out, its figures, and where the job was. Nothing here knows
//! causes.

use super::growth::Growth;
use super::outlived::Outlived;
use super::phase::{Phase, Place};
use super::remedies::For;
use super::shapes;
use super::sign::{Numbers, Resource, Sign, Weight};
use super::signs::talk::is_sentence;
use super::sizes::has_any;
use super::traceback::Frame;

/// A sign in a line of the log.
#[derive(Clone)]
pub struct Sighting {
    /// Which.
    pub sign: &'static Sign,
    /// The number of its line.
    pub line: u64,
    /// The number of the last line that says the same, word for word.
    pub last_line: u64,
    /// What the line says.
    pub text: String,
    /// Its figures.
    pub numbers: Numbers,
    /// The frames above it.
    pub frames: Vec<Frame>,
    /// What they say.
    pub place: Option<Place>,
}

/// A log, read.
pub struct Case {
    /// All that was seen, in the order of the log.
    pub sightings: Vec<Sighting>,
    /// The failure that counts: an index into the sightings.
    pub primary: Option<usize>,
    /// What ran out.
    pub resource: Option<Resource>,
    /// The figures of that failure, filled up from what was said around it.
    pub numbers: Numbers,
    /// Where the job was.
    pub place: Option<Place>,
    /// What grew from line to line.
    pub growth: Option<Growth>,
}

/// Denials that explain what only looks like memory, and those that every failure may bring along.
const STRONG_DENIALS: [&str; 12] = [
    "cuda.assert", "cuda.illegal", "cuda.versions", "api.quota", "triton.resources", "scheduler.time",
    "scheduler.preempted", "allocator.nothing", "kubernetes.probe", "machine.preempted", "job.timed_out",
    "system.forbidden",
];

/// Those of them after which every call fails: a job that a scheduler took away may run out of memory when it is started again.
const LASTING: [&str; 5] = ["cuda.assert", "cuda.illegal", "cuda.versions", "api.quota", "triton.resources"];

/// No machine has as much: an exbibyte.
const MOST_BYTES: u64 = 1 << 60;

impl Case {
    /// Puts the sightings together.
    pub fn new(sightings: Vec<Sighting>, growth: Option<Growth>) -> Case {
        let primary = primary(&sightings);
        let mut case = Case { primary, resource: None, numbers: Numbers::default(), place: None, growth, sightings };
        let Some(first) = case.failure() else { return case };
        let mut numbers = first.numbers.clone();
        let same = |other: &&Sighting| {
            other.sign.weight != Weight::Warning
                // A container's limit is not what its node has.
                && !(is_eviction(first) && other.sign.id == "kubernetes.figures")
                && (other.sign.resource == first.sign.resource
                    || (other.sign.weight == Weight::Context && other.sign.resource.is_none()))
        };
        for other in case.sightings.iter().filter(same) {
            numbers.fill(&other.numbers);
        }
        // A driver that counts below zero says that nearly all of 2^64 bytes are free.
        numbers.free_bytes = numbers.free_bytes.filter(|&bytes| bytes < MOST_BYTES);
        numbers.capacity_bytes = numbers.capacity_bytes.filter(|&bytes| bytes < MOST_BYTES);
        numbers.process_bytes = numbers.process_bytes.filter(|&bytes| bytes < MOST_BYTES);
        // What a shape comes to is what was asked for, where nothing else says it.
        if let (Some(shape), Some(dtype)) = (&numbers.shape, &numbers.dtype) {
            numbers.tensor_bytes = numbers.tensor_bytes.or_else(|| shapes::tensor_bytes(shape, dtype));
        }
        numbers.requested_bytes =
            numbers.requested_bytes.or(numbers.tensor_bytes.filter(|_| first.numbers.shape.is_some()));
        // The code that asked may say the shape, too.
        if let (None, Some(requested)) = (&numbers.shape, numbers.requested_bytes) {
            numbers.shape = first.frames.iter().rev().take(2).find_map(|frame| shapes::written(&frame.code, requested));
        }
        let mut resource = first.sign.resource;
        // TensorFlow and XLA say the same of a CPU.
        if resource == Some(Resource::GpuMemory)
            && numbers.device.as_deref().is_some_and(|device| device.to_ascii_uppercase().contains("CPU"))
        {
            resource = Some(Resource::HostMemory);
        }
        let rank = |sighting: &&Sighting| {
            !matches!(sighting.sign.weight, Weight::Symptom)
                && sighting.sign.resource == first.sign.resource
                && sighting.place.is_some()
        };
        // Whoever notices that a process was killed does not show what that process did.
        let vanished = first.sign.weight == Weight::Symptom
            && !["tensorflow.", "xla.exhausted"].iter().any(|program| first.sign.id.starts_with(program));
        case.place = first
            .place
            .clone()
            .filter(|_| !vanished)
            .or_else(|| case.sightings.iter().find(rank).and_then(|sighting| sighting.place.clone()))
            // A title says when it was, and leaves to the message what ran out.
            .or_else(|| case.sightings.iter().find(|seen| is_title(seen)).and_then(|seen| seen.place.clone()))
            // The frames around a program of Java's are of whoever called it.
            .filter(|_| first.sign.id != "java.heap");
        case.numbers = numbers;
        case.resource = resource;
        case
    }

    /// The failure that counts.
    pub fn failure(&self) -> Option<&Sighting> {
        self.primary.map(|index| &self.sightings[index])
    }

    /// Whether a sign was seen.
    pub fn saw(&self, id: &str) -> bool {
        self.seen(id).is_some()
    }

    /// The first sighting of a sign.
    pub fn seen(&self, id: &str) -> Option<&Sighting> {
        self.sightings.iter().find(|sighting| sighting.sign.id == id)
    }

    /// What the job was doing.
    pub fn phase(&self) -> Option<Phase> {
        self.place.as_ref().map(|place| place.phase)
    }

    /// Whether the failure that counts is of this resource.
    pub fn of(&self, resource: Resource) -> bool {
        self.resource == Some(resource)
    }

    /// Whether memory of any kind ran out.
    pub fn of_memory(&self) -> bool {
        matches!(self.resource, Some(Resource::GpuMemory | Resource::HostMemory))
    }

    /// What the job was written with, where the log shows it: Keras on JAX is both.
    pub fn frameworks(&self) -> Vec<For> {
        let Some(failure) = self.failure() else { return Vec::new() };
        let of_frames = |seen: &Sighting| seen.frames.iter().rev().find_map(|frame| program(&frame.file));
        let raised = |seen: &Sighting| program(&seen.text).or_else(|| of_frames(seen));
        // XLA's pool is TensorFlow's, and warns under its name below JAX as well: the error that it ends in knows better.
        let pool = ["tensorflow.pool", "xla."].iter().any(|id| failure.sign.id.starts_with(id));
        let after = |seen: &&Sighting| seen.line > failure.line && seen.sign.weight >= Weight::Symptom;
        let ended = self.sightings.iter().rev().filter(after).find_map(raised).filter(|_| pool);
        let said = program(failure.sign.id).or_else(|| program(&failure.text)).or_else(|| of_frames(failure));
        let keras = |seen: &Sighting| seen.frames.iter().any(|frame| has_any(&frame.file, &["/keras/"]));
        match ended.or(said) {
            Some(For::Jax) if self.sightings.iter().any(keras) => vec![For::Keras, For::Jax],
            found => found.into_iter().collect(),
        }
    }

    /// The denial that counts, if no failure outweighs it.
    pub fn denial(&self) -> Option<&Sighting> {
        self.failure().filter(|failure| failure.sign.weight == Weight::Denial)
    }
}

/// The framework that a name, a message or a path is of.
fn program(text: &str) -> Option<For> {
    match text {
        text if has_any(text, &["jax", "xla_python", "flax", "XlaRuntimeError"]) => Some(For::Jax),
        text if has_any(text, &["tensorflow", "keras"]) => Some(For::Keras),
        text if has_any(text, &["torch", "c10", "alloc_cpu.cpp", "lightning", "vllm"]) => Some(For::Torch),
        _ => None,
    }
}

/// Lines within which a pool says what it was asked for, after the device refused it.
const POOL_FOLLOWS: u64 = 3;

/// A page that explains an error shows a frame of it at most.
const TRACED: usize = 2;

/// Whether a line only names memory that ran out, in a list or a title: without a figure or the form of an error.
fn is_mention(sighting: &Sighting) -> bool {
    let memory = matches!(sighting.sign.resource, Some(Resource::GpuMemory | Resource::HostMemory));
    let reported = has_any(&sighting.text, &["error", "exception", "what()", "fatal", "abort", "terminat", "killed"]);
    memory && !reported && sighting.sign.cause.is_none() && sighting.numbers.count() == 0
}

/// Whether Kubernetes evicted a pod because its node was short of memory.
pub fn is_eviction(sighting: &Sighting) -> bool {
    ["kubernetes.evicted", "kubernetes.evicts"].contains(&sighting.sign.id)
}

/// Whether a line is a report's title that names no device, and says when it happened.
fn is_title(sighting: &Sighting) -> bool {
    sighting.sign.id == "anybody.host" && sighting.text.starts_with("# ")
}

/// Whether a person says in general words that the host's memory ran out.
fn is_opinion(sighting: &Sighting) -> bool {
    sighting.sign.id == "anybody.host" && sighting.numbers.count() == 0 && is_sentence(&sighting.text)
}

/// Whether an error is no consequence of one before it: what a process says that lost another one, or was given nothing by it, is.
fn is_of_its_own(error: &str) -> bool {
    let own = ["KeyError", "IndexError", "FileNotFoundError", "ImportError", "ModuleNotFoundError", "NameError"];
    let own_too =
        ["SyntaxError", "ZeroDivisionError", "AssertionError", "ValueError", "PermissionError", "NotImplementedError"];
    own.iter().chain(&own_too).any(|name| error.starts_with(name))
}

/// The failure that counts. An allocator that ran out says more than a process that was killed or a handle that was not made, whatever came
/// last; of several, the one with figures, and of those the first: the others follow from it.
fn primary(sightings: &[Sighting]) -> Option<usize> {
    let strong = |sighting: &Sighting| STRONG_DENIALS.contains(&sighting.sign.id);
    let outlived = Outlived::new(sightings);
    let for_pool = |refused: &Sighting| {
        sightings.iter().any(|pool| {
            let asked = pool.sign.id == "xla.exhausted" && pool.numbers.requested_bytes.is_some();
            pool.line > refused.line
                && (asked || (pool.sign.id == "tensorflow.pool" && pool.line - refused.line <= POOL_FOLLOWS))
        })
    };
    // TensorRT goes on without kernels that found no room, as long as there are others.
    let built_until = sightings.iter().rfind(|sighting| sighting.sign.id == "tensorrt.built").map(|built| built.line);
    let of_builder = |sighting: &Sighting| {
        sighting.sign.id.starts_with("tensorrt.") || has_any(&sighting.text, &["[TRT]", "Cuda Runtime (out of memory)"])
    };
    let resumed = sightings.iter().any(|sighting| sighting.sign.id == "dask.resumed");
    let timed_out = sightings.iter().any(|sighting| sighting.sign.id == "launcher.kill");
    let assertion = sightings.iter().position(|sighting| LASTING.contains(&sighting.sign.id));
    let other_error_after = |mention: &Sighting| {
        let ends = |other: &&Sighting| other.sign.id == "python.other" && !other.frames.is_empty();
        let last = sightings.iter().rfind(|other| other.sign.weight >= Weight::Symptom);
        last.filter(ends).is_some_and(|other| {
            // Where nothing stands above a line, the frames below it are read, which are of that error.
            let apart = mention.frames.is_empty() || mention.frames == other.frames;
            apart && other.line > mention.last_line && is_of_its_own(&other.text)
        })
    };
    let document = sightings.iter().any(|sighting| sighting.sign.id.starts_with("document."));
    let thread = sightings.iter().any(|sighting| sighting.sign.id == "change.thread");
    let headings = |id: &str| {
        let mut texts: Vec<&str> = sightings.iter().filter(|seen| seen.sign.id == id).map(|seen| &*seen.text).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.len()
    };
    // One such heading may stand in a report; two are those of a page that explains.
    let explains = headings("document.article");
    let article = explains >= 1 && explains + headings("article.part") >= 2;
    let told_of = |sighting: &Sighting| {
        let figures = sighting.numbers.requested_bytes.is_some() || sighting.numbers.shape.is_some();
        // Where nothing stands above a line, the frames below it are read, which are of another error.
        let lent = |other: &Sighting| other.line > sighting.last_line && other.frames == sighting.frames;
        let traced = !sighting.frames.is_empty() && !sightings.iter().any(lent);
        let said = document || (thread && is_sentence(&sighting.text));
        let told = (said && !figures && !traced) || (article && sighting.frames.len() < TRACED);
        told && sighting.sign.weight != Weight::Denial
    };
    let kills = ["shell.killed", "process.killed", "process.exit_code"];
    let killed = sightings.iter().any(|other| kills.contains(&other.sign.id));
    let reported = sightings.iter().any(|other| {
        other.sign.weight == Weight::Failure && !is_mention(other) && !told_of(other) && !outlived.has(other)
    });
    let score = |index: usize, sighting: &Sighting| -> Option<(u32, usize)> {
        let after_assertion = assertion.is_some_and(|at| at < index);
        let class = match sighting.sign.weight {
            _ if outlived.has(sighting) || outlived.was_ended(sighting) => return None,
            // A list of changes or a request speaks of failures of others.
            _ if told_of(sighting) => return None,
            _ if built_until.is_some_and(|line| sighting.line < line) && of_builder(sighting) => return None,
            _ if timed_out && sighting.sign.id == "gunicorn.killed" => return None,
            _ if resumed && ["dask.paused", "dask.near_limit"].contains(&sighting.sign.id) => return None,
            // What is only mentioned gives way to the error that a traceback ends in.
            Weight::Failure if is_mention(sighting) && other_error_after(sighting) => 25,
            // And to a report, which has figures or the form of an error.
            Weight::Failure if is_mention(sighting) && reported => 44,
            // What a person calls it gives way to what killed the process.
            Weight::Failure if killed && is_opinion(sighting) => 39,
            // General words give way to whoever knows the program, and to what explains them.
            Weight::Failure if sighting.sign.id.starts_with("anybody.") && after_assertion => 20,
            Weight::Failure
                if sighting.sign.id.starts_with("anybody.") && sighting.numbers.requested_bytes.is_none() =>
            {
                // What a program says, before what a person says of it.
                45 + u32::from(has_any(&sighting.text, &["what()", "Error", "error:", "fail"]))
            }
            Weight::Failure if sighting.sign.id.starts_with("anybody.") => 65,
            // A pool that asks the device for more asks for much more than it was asked for.
            Weight::Failure if sighting.sign.id == "xla.device_alloc" && for_pool(sighting) => 66,
            Weight::Failure if sighting.numbers.requested_bytes.is_some() || sighting.numbers.shape.is_some() => 70,
            Weight::Failure if sighting.sign.id == "kernel.cgroup_kill" => 69,
            // An assertion on the device makes every later call fail, in whatever words.
            Weight::Failure if after_assertion && sighting.sign.id == "cuda.out_of_memory" => 20,
            Weight::Failure if sighting.sign.cause.is_some() => 62,
            // The head of a notebook's traceback has the exception's name alone; what it says stands below.
            Weight::Failure if sighting.text.contains("Traceback (most recent call last)") => 59,
            Weight::Failure => 60,
            Weight::Denial if strong(sighting) => 50,
            Weight::Symptom if sighting.sign.cause.is_some() => 41,
            // A process that is gone says less than one that was killed.
            Weight::Symptom if sighting.sign.resource.is_none() => 38,
            Weight::Symptom => 40,
            Weight::Denial => 30,
            Weight::Context | Weight::Warning => return None,
        };
        Some((class, sightings.len() - index))
    };
    let scored = sightings.iter().enumerate().filter_map(|(index, sighting)| Some((score(index, sighting)?, index)));
    scored.max().map(|(_, index)| index)
}
