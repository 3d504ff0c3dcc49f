//! What a job was doing when it failed.
//!
//! In: the frames above an error. Out: a [`Phase`] and the frame that shows it. The innermost frame that says something decides, by tables of
//! words (`words`), by its calls (`calls`) or by its name (`names`); for the passes through the model the outer ones say whether it was training.
//! Where no frame shows it, the job's own lines around the failure may. Else it stays unknown.

mod calls;
mod names;
mod words;

pub use calls::{Moved, creates, keeps_what_it_reads, made_elements, moved, names_training_set};

use super::sizes::{has, has_any};
use super::traceback::{Frame, NATIVE, is_own};
use words::{NATIVE_SYMBOLS, RULES, TOLD, TRAIN};

/// What a job was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the model, reading its weights or moving it to the device.
    LoadModel,
    /// Moving data to the device.
    MoveData,
    /// Reading or preparing data on the host.
    LoadData,
    /// In the model or the loss.
    Forward,
    /// Computing gradients.
    Backward,
    /// In the optimizer.
    Update,
    /// Measuring or predicting beside training.
    Evaluate,
    /// Writing or gathering the model's state.
    Checkpoint,
    /// Compiling.
    Compile,
}

impl Phase {
    /// As a sentence says it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::LoadModel => "while the model was made or moved to the device",
            Phase::MoveData => "while data was moved to the device",
            Phase::LoadData => "while data was read or prepared",
            Phase::Forward => "in the forward pass",
            Phase::Backward => "in the backward pass",
            Phase::Update => "in the optimizer",
            Phase::Evaluate => "in evaluation or prediction",
            Phase::Checkpoint => "while the state was saved or gathered",
            Phase::Compile => "while the step was compiled",
        }
    }
}

/// Where a job failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it was doing.
    pub phase: Phase,
    /// The frame that shows it, in one line.
    pub shown_by: String,
    /// Whether an outer frame belongs to training.
    pub training: bool,
}

/// Frames around one that moves a tensor that are asked for whom.
const NEAR_CALLERS: usize = 2;

/// Only what is told in the last lines counts.
const TOLD_WITHIN: usize = 8;

/// What the job itself said that it was doing, where no frame shows it.
pub fn told(lines: &[&str]) -> Option<Place> {
    let last = lines
        .iter()
        .rev()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty() && !line.starts_with("File ") && line.len() < 300)
        .take(TOLD_WITHIN);
    for line in last {
        let told = TOLD.iter().find(|(_, words)| words.iter().any(|word| has(line, word))).map(|(phase, _)| *phase);
        if let Some(phase) = told.or_else(|| names::of_line(line)) {
            return Some(Place { phase, shown_by: line.chars().take(160).collect(), training: false });
        }
        // What was told before training began is over.
        if names::begins_training(line) {
            return None;
        }
    }
    None
}

/// What those who gave up say right below a failure: `error loading model`, `failed to load all models`.
pub fn told_below(lines: &[&str]) -> Option<Place> {
    // The failure's own line comes first, and is as long as it is.
    let gave_up =
        |(at, line): &(usize, &&str)| has_any(line, &["error", "fail", "unable"]) && (*at == 0 || line.len() < 300);
    // A cache that did not fit was asked for after the model.
    let before_cache = |(_, line): &(usize, &&str)| !has(line, "buffer for kv cache");
    let mut below = lines.iter().enumerate().take(TOLD_WITHIN + 2).take_while(before_cache).filter(gave_up);
    below.find_map(|(_, line)| {
        let phase = names::of_failure(line)?;
        Some(Place { phase, shown_by: line.trim().chars().take(160).collect(), training: false })
    })
}

/// When the line of a failure itself says that it happened: `CUDA out of memory during validation`.
pub fn during(line: &str) -> Option<Place> {
    let phase = names::during(line)?;
    Some(Place { phase, shown_by: line.trim().chars().take(160).collect(), training: false })
}

/// ONNX Runtime names the node that it was running, whoever called it: `Non-zero status code returned while running Conv node`.
pub fn node(line: &str) -> Option<Place> {
    let (_, named) = line.split_once("returned while running ")?;
    let (node, _) = named.split_once(" node.")?;
    let one_word = !node.is_empty() && !node.contains(char::is_whitespace);
    one_word.then(|| Place { phase: Phase::Forward, shown_by: format!("while running {node}"), training: false })
}

/// Libraries that prepare images before a model sees them.
const TRANSFORMS: [&str; 3] = ["torchvision/transforms", "torchvision\\transforms", "albumentations"];

/// Where the frames say a job failed. Reading data is no reason for a full device: it counts on the host only.
pub fn place(frames: &[Frame], on_host: bool) -> Option<Place> {
    let training = trained(frames);
    let known = frames.iter().rev().find_map(|frame| rule(frame, on_host).map(|phase| (phase, frame)));
    // A program that was packed shows no code: what is made on a device there is a model. Markdown takes the underscores away.
    let made = |frame: &&Frame| named(frame, &["__init__", "init"]) && frame.code.is_empty();
    if let Some(frame) = frames.last().filter(made).filter(|_| !on_host && known.is_none()) {
        return Some(Place { phase: Phase::LoadModel, shown_by: shown(frame), training });
    }
    // In evaluation, inside code that nothing here knows.
    let Some((phase, at)) = known else {
        let measures =
            |frame: &&Frame| evaluation(frame) || evaluation_part(frame) || predicts(frame) || evaluates(&frame.code);
        let frame = frames.iter().find(measures)?;
        return Some(Place { phase: Phase::Evaluate, shown_by: shown(frame), training });
    };
    // What prepares images is called like a model is.
    let prepares = |frame: &&Frame| has_any(&frame.file, &TRANSFORMS);
    if let Some(frame) = frames.iter().find(prepares).filter(|_| on_host && phase == Phase::Forward) {
        return Some(Place { phase: Phase::LoadData, shown_by: shown(frame), training });
    }
    let reading = |frame: &&Frame| of_serialization(frame);
    let phase = if phase == Phase::MoveData && frames.iter().any(of_serialization) { Phase::Checkpoint } else { phase };
    // Whoever moves what it is given does so for its caller: `patch_weight_to_device` calls `cast_to_device(tensor)`.
    let by_model =
        |frame: &&Frame| names::of_name(frame.function.rsplit('.').next().unwrap_or("")) == Some(Phase::LoadModel);
    let callers = || frames.iter().rev().skip_while(|frame| *frame != at).skip(1).take(NEAR_CALLERS);
    if let Some(frame) = callers().find(by_model).filter(|_| phase == Phase::MoveData) {
        return Some(Place { phase: Phase::LoadModel, shown_by: shown(frame), training });
    }
    // What reads a checkpoint may be making a model of it.
    let making = |frame: &&Frame| {
        named(frame, &["from_pretrained", "load_model", "load_pretrained_model", "load_checkpoint_and_dispatch"])
            || has(&frame.code, ".from_pretrained(")
            || calls::reads_weights(&frame.code)
            || has(&frame.file, "ops/variables.py")
    };
    // An optimizer's state is no model, whatever the function is called that reads both.
    let of_optimizer = |frame: &Frame| calls::reads_optimizer(&frame.code);
    if let Some(frame) = frames
        .iter()
        .find(making)
        .filter(|_| matches!(phase, Phase::Checkpoint | Phase::Forward | Phase::Compile | Phase::MoveData))
        .filter(|_| !frames.iter().any(of_optimizer))
    {
        return Some(Place { phase: Phase::LoadModel, shown_by: shown(frame), training });
    }
    let saving =
        |frame: &&Frame| frame.function.split('_').any(|part| part == "save") || frame.code.contains(".state_dict()");
    if let Some(frame) =
        frames.iter().find(saving).filter(|_| matches!(phase, Phase::Forward | Phase::LoadModel | Phase::MoveData))
    {
        return Some(Place { phase: Phase::Checkpoint, shown_by: shown(frame), training });
    }
    let copying = |frame: &&Frame| calls::copies_model(&frame.code);
    if let Some(frame) = frames.iter().find(copying).filter(|_| phase == Phase::Checkpoint) {
        return Some(Place { phase: Phase::LoadModel, shown_by: shown(frame), training });
    }
    let restoring = |frame: &&Frame| {
        named(
            frame,
            &[
                "restore", "resume", "restore_checkpoint", "resume_from_checkpoint", "_load_from_checkpoint",
                "resume_training",
            ],
        )
    };
    if let Some(frame) = frames.iter().find(restoring).filter(|_| matches!(phase, Phase::LoadModel | Phase::Update)) {
        return Some(Place { phase: Phase::Checkpoint, shown_by: shown(frame), training });
    }
    // Whoever reads a checkpoint onto a device and never trained makes a model of it: a demonstration, a server.
    let reads = |frame: &&Frame| {
        reading(frame) && named(frame, &["load", "_load", "_legacy_load"]) || frame.code.contains("torch.load(")
    };
    if let Some(frame) =
        frames.iter().find(reads).filter(|_| phase == Phase::Checkpoint && !on_host && !training && !resumes(frames))
    {
        return Some(Place { phase: Phase::LoadModel, shown_by: shown(frame), training });
    }
    let inside_model = matches!(phase, Phase::Forward | Phase::MoveData | Phase::Compile | Phase::LoadData);
    let script = frames.iter().find(|frame| is_own(frame));
    let evaluating = frames.iter().find(|frame| {
        inside_model
            && (evaluation(frame)
                || evaluation_part(frame)
                || (script == Some(*frame) && evaluation_script(frame))
                || ((training || phase == Phase::MoveData) && predicts(frame))
                || evaluates(&frame.code))
    });
    if let Some(frame) = evaluating.filter(|_| phase != Phase::LoadData || training) {
        return Some(Place { phase: Phase::Evaluate, shown_by: shown(frame), training });
    }
    // The code around the optimizer calls the model again (closures), so that what lies inside decides; a model that is
    // called while it is made is being made.
    Some(Place { phase, shown_by: shown(at), training })
}

/// PyTorch's own file that reads and writes what is pickled.
fn of_serialization(frame: &Frame) -> bool {
    has_any(&frame.file, &["torch/serialization", "torch\\serialization"])
}

/// Whether a frame goes on where a job was before. PyTorch restores every tensor that it reads: `default_restore_location`.
fn resumes(frames: &[Frame]) -> bool {
    frames.iter().filter(|frame| !of_serialization(frame)).any(|frame| {
        let named = has_any(&frame.function, &["resume", "restore"]) || frame.function == "checkpoint";
        named || has_any(&frame.code, &["resume", "restore", "optim"])
    })
}

/// Whether a frame belongs to training.
pub fn trained(frames: &[Frame]) -> bool {
    let calls = |frame: &Frame| has_any(&frame.code, &["train(", ".fit(", "train_step("]) || has(&frame.file, "train");
    frames.iter().any(|frame| trains(frame) || calls(frame))
}

/// Whether a function is one of training, by its name.
pub fn trains(frame: &Frame) -> bool {
    named(frame, TRAIN)
}

/// Whether one of the frames is of a library that computes models.
pub fn has_model(frames: &[Frame]) -> bool {
    let libraries = [
        "torch", "tensorflow", "keras", "jax", "flax", "paddle", "mxnet", "transformers", "diffusers", "theano",
        "chainer", "lightning", "onnx", "vllm",
    ];
    frames.iter().any(|frame| has_any(&frame.file, &libraries))
}

/// Whether one of the frames is of a library that grows trees: it has no batches, and holds all rows where it computes.
pub fn grows_trees(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| has_any(&frame.file, &["xgboost/", "xgboost\\", "lightgbm/", "lightgbm\\", "catboost/"]))
}

/// Whether a frame is where a layer of PyTorch's makes its weights.
pub fn makes_layer(frame: &Frame) -> bool {
    has_any(&frame.file, &["nn/modules/", "nn\\modules\\"]) && named(frame, &["__init__"])
}

/// Whether a frame reads or prepares data, wherever that data lies.
pub fn prepares_data(frame: &Frame) -> bool {
    rule(frame, true) == Some(Phase::LoadData)
}

/// Whether a frame is of Python's own that brings something to another process, or of the library that does so with more.
pub fn hands_over(frame: &Frame) -> bool {
    has_any(&frame.file, &["multiprocessing/", "multiprocessing\\", "multiprocess/", "multiprocess\\"])
}

/// Whoever waits for another process does not show what that one did.
const WAITS: [&str; 3] = ["ray.get(", ".result()", ".get_objects("];

fn rule(frame: &Frame, on_host: bool) -> Option<Phase> {
    if has_any(&frame.code, &WAITS) {
        return None;
    }
    let function = frame.function.rsplit('.').next().unwrap_or("");
    // PyTorch moves a model through its modules' own methods.
    if has_any(&frame.file, &["nn/modules/module.py", "nn\\modules\\module.py"])
        && ["<lambda>", "_apply", "convert", "to", "cuda", "half", "float"].contains(&function)
    {
        return Some(Phase::LoadModel);
    }
    if makes_layer(frame) {
        return Some(Phase::LoadModel);
    }
    // Layers of Caffe's: `CuDNNConvolutionLayer<>::Forward_gpu()`.
    if frame.file == NATIVE {
        let of_layer = [("Forward", Phase::Forward), ("Backward", Phase::Backward)];
        if function.contains("::") {
            return NATIVE_SYMBOLS.iter().find(|(_, parts)| has_any(function, parts)).map(|(phase, _)| *phase);
        }
        return of_layer.into_iter().find(|(name, _)| function.starts_with(name)).map(|(_, phase)| phase);
    }
    // Old PyTorch computes any sum in a function called `forward`.
    if has_any(&frame.file, &["autograd/_functions", "autograd/variable.py"]) {
        return None;
    }
    // What is handed to another process is pickled on its way, and no checkpoint.
    if hands_over(frame) {
        return None;
    }
    // Arrays on a device, whose functions are called as models are.
    if has_any(&frame.file, &["cupy/", "cupy\\"]) {
        return None;
    }
    if on_host && has_any(&frame.file, &["transforms", "xgboost/data.py", "lightgbm/basic.py"]) {
        return Some(Phase::LoadData);
    }
    // Measures of a library without models: a loss is an array there.
    let measures = has_any(&frame.file, &["sklearn/metrics", "sklearn\\metrics", "scipy/", "scipy\\"]);
    // The text of a file, whose functions are called as those of a model are.
    if of_text(&frame.file) {
        return (on_host && has(function, "decode")).then_some(Phase::LoadData);
    }
    if reads_pickled_model(&frame.code) {
        return Some(Phase::LoadModel);
    }
    let rules = || RULES.iter().filter(|rule| on_host || rule.phase != Phase::LoadData);
    let by_name =
        rules().find(|rule| rule.function.contains(&function) && (function != "__init__" || makes_model(frame)));
    let by_code = || rules().find(|rule| rule.code.iter().any(|code| mentions(&frame.code, code)));
    let by_file = || rules().find(|rule| rule.file.iter().any(|file| has(&frame.file, file)));
    let named = || {
        let phase = calls::of_code(&frame.code).or_else(|| names::of_name(function));
        phase.filter(|phase| on_host || *phase != Phase::LoadData)
    };
    let file = frame.file.rsplit(['/', '\\']).next().unwrap_or("");
    let of_file = || names::of_name(file).filter(|phase| *phase == Phase::Update);
    // A line of code says more than the function it stands in; a function of a library more than its file.
    let library = has_any(&frame.file, &["site-packages", "dist-packages", "/lib/python"]);
    let found = if library { by_name.or_else(by_code) } else { by_code().or(by_name) };
    let found = found.map(|rule| rule.phase).or_else(named);
    let found = found.or_else(|| by_file().map(|rule| rule.phase)).or_else(of_file);
    let found = found.filter(|phase| !measures || *phase != Phase::Forward);
    // What is moved in a file of weights are weights, and in an optimizer's its state, whatever the variable is called.
    match found {
        Some(Phase::MoveData) if by_file().is_some_and(|rule| rule.phase == Phase::Update) => Some(Phase::Update),
        // Its own copy of the weights is part of its state.
        Some(Phase::LoadModel) if of_file().is_some() => Some(Phase::Update),
        Some(Phase::MoveData) if names::of_weights(file) => Some(Phase::LoadModel),
        // So is what is made on a device: `WhisperModel(name, device="cuda")`.
        Some(Phase::MoveData) if calls::of_code(&frame.code) == Some(Phase::LoadModel) => Some(Phase::LoadModel),
        _ => found,
    }
}

/// Whether a file is of Python's own that make text of bytes, or data of text: `codecs.py`, `<frozen codecs>`, `encodings/cp1252.py`,
/// `json/decoder.py`.
fn of_text(file: &str) -> bool {
    let parts: Vec<&str> = file.rsplit(['/', '\\']).take(3).collect();
    let of_python = |folder: &str| folder.eq_ignore_ascii_case("lib") || folder.starts_with("python3");
    match parts[..] {
        ["<frozen codecs>", ..] => true,
        ["codecs.py", folder, ..] => of_python(folder),
        [_, "encodings", folder] | ["decoder.py" | "encoder.py", "json", folder] => of_python(folder),
        _ => false,
    }
}

/// `model = pickle.load(open(name, "rb"))`: the model and no data.
fn reads_pickled_model(code: &str) -> bool {
    let reads = |value: &str| ["pickle.load(", "joblib.load("].iter().any(|call| value.starts_with(call));
    code.split_once(" = ").is_some_and(|(to, value)| {
        reads(value) && names::words(to.rsplit('.').next().unwrap_or("")).iter().any(|word| word == "model")
    })
}

/// Whether a line of code has this piece, not in the middle of a name: `model(` is not in `prepare_model(`.
fn mentions(code: &str, piece: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let starts_a_name = piece.starts_with(inside);
    code.match_indices(piece).any(|(at, _)| !(starts_a_name && code[..at].ends_with(inside)))
}

fn makes_model(frame: &Frame) -> bool {
    has_any(
        &frame.code,
        &[
            "torch.empty(", "Parameter(", "torch.zeros(", "torch.randn(", "super().__init__", "Linear(", "Conv",
            "Embedding(",
        ],
    )
}

fn named(frame: &Frame, names: &[&str]) -> bool {
    let function = frame.function.rsplit('.').next().unwrap_or("");
    names.contains(&function)
}

/// A name of evaluation: `evaluate`, `eval_step`, `compile_eval`, `validation_epoch_end`, `val_step`; `retrieval` is none.
fn evaluation(frame: &Frame) -> bool {
    let function = frame.function.rsplit('.').next().unwrap_or("");
    names::evaluates(&names::words(function))
}

/// A part of a library that evaluates, whatever its functions are called: `engine/validator.py`, `loops/evaluation_loop.py`; transformers puts the
/// predictions of an evaluation together in `trainer_pt_utils.py`.
fn evaluation_part(frame: &Frame) -> bool {
    let file = frame.file.rsplit(['/', '\\']).next().unwrap_or("");
    ["validator.py", "evaluator.py", "evaluation_loop.py", "validation_loop.py", "trainer_pt_utils.py"].contains(&file)
}

/// A script that is run to evaluate: `eval_segmentation.py`, `tools/evaluate.py`, `tools/test.py`; a file of tests has more of a name.
fn evaluation_script(frame: &Frame) -> bool {
    let file = frame.file.rsplit(['/', '\\']).next().unwrap_or("");
    names::evaluates(&names::words(file)) || file == "test.py"
}

/// A name of prediction: `predict_step`, `sliding_window_inference`.
fn predicts(frame: &Frame) -> bool {
    let function = frame.function.rsplit('.').next().unwrap_or("");
    names::predicts(&names::words(function))
}

/// Training is handed its evaluation data, too.
fn evaluates(code: &str) -> bool {
    calls::calls_evaluation(code) && !has_any(code, &["fit(", "train("])
}

fn shown(frame: &Frame) -> String {
    // A call that goes on below.
    let open = if frame.code.ends_with(['(', ',']) { "…)" } else { "" };
    let code = if frame.code.is_empty() { String::new() } else { format!(": {}{open}", frame.code) };
    let file = frame.file.rsplit(['/', '\\']).next().unwrap_or(&frame.file);
    let text = format!("{file}, in {}{code}", frame.function);
    text.chars().take(160).collect()
}
