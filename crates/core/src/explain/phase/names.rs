//! What a name says: `create_faster_rcnn_eval_model` makes a model, and `_configure_zero_optimizer` an optimizer, whoever wrote them.
//!
//! In: the name of a function, or a line of a job's output. Out: a [`Phase`]. A name is read as words, of which one says what is done
//! and another what it is done to; only what both say together counts. Names that say nothing of this kind give nothing.

use super::Phase;
use crate::explain::signs::talk::is_own;

/// What holds weights.
pub(super) const MODEL: &[&str] = &[
    "model", "models", "net", "network", "unet", "vae", "encoder", "decoder", "transformer", "generator",
    "discriminator", "pipe", "pipeline", "module", "modules", "backbone", "llm", "bert", "llama", "clip", "layer",
    "layers", "teacher", "student", "ema", "controlnet", "lora", "critic", "actor", "submodule", "submodules",
];
/// Weights themselves.
pub(super) const WEIGHTS: &[&str] = &[
    "weight", "weights", "param", "params", "parameter", "parameters", "checkpoint", "ckpt", "variables", "pretrained",
    "shard", "shards", "safetensors", "tensors",
];
/// What makes a model, reads it or brings it to where it computes.
const MAKES: &[&str] = &[
    "load", "init", "initialize", "build", "create", "make", "move", "patch", "convert", "materialize", "prepare",
    "setup", "instantiate", "cast", "construct", "dispatch", "loading", "creating", "building", "initializing",
    "instantiating", "converting", "quantizing", "dequantize", "merge", "partially", "initializer", "reset",
];
/// What data is called when it is all of it.
pub(super) const DATA: &[&str] = &[
    "data", "dataset", "datasets", "images", "samples", "features", "corpus", "records", "frames", "examples", "rows",
    "table", "csv", "hdf5", "dataframe", "sentences", "embeddings", "patches", "tiles", "volumes", "annotations",
    "dataloader", "loader", "trainset", "trainloader",
];
/// What reads or prepares it.
const READS: &[&str] = &[
    "load", "read", "prepare", "preprocess", "process", "parse", "extract", "collect", "build", "create", "make",
    "get", "convert", "import", "tokenize", "augment", "generate", "loading", "reading", "preparing", "preprocessing",
    "processing", "parsing", "extracting", "collecting", "tokenizing", "caching", "generating", "creating", "building",
    "converting", "encode",
];
pub(super) const OPTIMIZER: &[&str] = &["optimizer", "optimizers", "optimiser", "optim", "adam", "adamw", "adafactor"];
const SAVES: &[&str] = &["save", "saving", "dump", "consolidate", "export", "checkpointing", "writing"];
/// Passes that a serving engine makes to see what is left, or to warm up.
const REHEARSES: &[&str] = &["profile", "warmup", "warm", "dummy", "capture", "determine"];
const REHEARSED: &[&str] = &["run", "model", "memory", "graph", "graphs", "blocks"];
const EVALUATES: &[&str] = &[
    "eval", "evaluate", "evaluation", "evaluator", "validate", "validation", "val", "valid", "evaluating",
    "validating", "metrics",
];
/// Words that speak of evaluation beside these: `test_step`, `prediction_loop`, `TestAll`.
const TESTS: &[&str] = &["test", "prediction", "inference"];
const PARTS: &[&str] = &["step", "loop", "epoch", "batch", "all"];

/// The words of a name, in small letters: `DeepSpeedZeroOptimizer_Stage3` is deep, speed, zero, optimizer, stage.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut last = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        // The last capital of several begins the next word: `VAEDecode`.
        let ends_capitals = last.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase());
        let begins = letter.is_uppercase() && (last.is_lowercase() || ends_capitals);
        let joins = letter.is_alphabetic() && last.is_alphabetic() && !begins;
        if letter.is_alphabetic() {
            match found.last_mut().filter(|_| joins) {
                Some(word) => word.extend(letter.to_lowercase()),
                None => found.push(letter.to_lowercase().collect()),
            }
        }
        last = letter;
    }
    found
}

pub(super) fn any(words: &[String], of: &[&str]) -> bool {
    words.iter().any(|word| of.contains(&word.as_str()))
}

/// What a function of this name does.
pub(super) fn of_name(name: &str) -> Option<Phase> {
    of_words(&words(name))
}

pub(super) fn of_words(words: &[String]) -> Option<Phase> {
    let model = any(words, MODEL) || any(words, WEIGHTS);
    if any(words, OPTIMIZER) {
        return Some(Phase::Update);
    }
    if any(words, SAVES) && (model || words.len() == 1 || any(words, &["state", "all", "sharded"])) {
        return Some(Phase::Checkpoint);
    }
    if any(words, REHEARSES) && any(words, REHEARSED) {
        return Some(Phase::Forward);
    }
    if evaluates(words) {
        return None;
    }
    // Of what is got, set and added, only this is a model for sure: `get_model`, `add_weight`.
    let got = any(words, &["get", "set", "add"]) && any(words, &["model", "weight", "weights", "variable"]);
    // JAX's programs keep weights and the optimizer's state in one: `init_train_state`.
    let train_state = any(words, &["train", "training"]) && any(words, &["state"]);
    if (any(words, MAKES) && (model || train_state)) || got {
        return Some(Phase::LoadModel);
    }
    // Whoever replaces a layer's own: `xformers_attention_forward`, `forward_features`.
    if any(words, &["forward"]) {
        return Some(Phase::Forward);
    }
    // What goes in and out of a step is a batch.
    let passed = any(words, &["input", "inputs", "output", "outputs", "batch"]);
    (any(words, READS) && any(words, DATA) && !passed).then_some(Phase::LoadData)
}

/// Whether a file is one of weights: `weights.py`, `checkpoint_loader.py`.
pub(super) fn of_weights(file: &str) -> bool {
    any(&words(file), &["weight", "weights", "checkpoint", "ckpt", "pretrained", "safetensors"])
}

/// What is validated before it is used: `_validate_data`, `validate_params`, `check_and_validate_args`.
const CHECKED: &[&str] = &[
    "data", "input", "inputs", "param", "params", "parameters", "arg", "args", "arguments", "kwargs", "config",
    "options", "shape", "dtype", "array", "arrays", "schema", "names",
];

/// Whether words speak of evaluation. Cross-validation trains, a split for validation only sorts, what validates its input computes nothing, and
/// the actions of a policy are evaluated to train it.
pub(super) fn evaluates(words: &[String]) -> bool {
    let tests = any(words, TESTS) && any(words, PARTS);
    let checks = any(words, &["validate"]) && any(words, CHECKED);
    (any(words, EVALUATES) || tests) && !checks && !any(words, &["cross", "split", "train", "action", "actions"])
}

/// Whether words speak of prediction alone: `fit_predict` fits first.
pub(super) fn predicts(words: &[String]) -> bool {
    let predicts = any(words, &["predict", "prediction", "infer", "inference"]) || words == ["test", "on", "batch"];
    predicts && !any(words, &["fit"])
}

/// What a line of a job's own output says it is doing: `Loading checkpoint shards`, `Saving model`, `predicting case_0002`.
pub(super) fn of_line(line: &str) -> Option<Phase> {
    let plain = line.split_whitespace().filter(|word| !word.contains(['/', '\\', '=', '(']));
    let said: Vec<String> = plain.flat_map(words).take(MOST_WORDS).collect();
    let said = said.as_slice();
    let doing = |of: &[&str]| said.iter().any(|word| word.ends_with("ing") && of.contains(&word.as_str()));
    // Whoever says `I am testing this` tries something out.
    let measures: &[&str] = if is_own(line) {
        &["evaluating", "validating", "predicting", "inferencing"]
    } else {
        &["evaluating", "validating", "predicting", "inferencing", "testing"]
    };
    if any(said, measures) || (doing(MAKES) && evaluates(said)) {
        return Some(Phase::Evaluate);
    }
    let model = any(said, MODEL) || any(said, WEIGHTS);
    if any(said, &["saving", "checkpointing", "writing"]) && model {
        return Some(Phase::Checkpoint);
    }
    if (doing(MAKES) || any(said, &["loader"])) && model {
        return Some(Phase::LoadModel);
    }
    (doing(READS) && any(said, DATA)).then_some(Phase::LoadData)
}

/// Whether a line of a job's own output says that training began: `Training`, `***** Running training *****`, `[0.6 s] train & add`, `Epoch 1/20`.
pub(super) fn begins_training(line: &str) -> bool {
    let said: Vec<String> = line.split_whitespace().flat_map(words).take(3).collect();
    any(&said, &["training", "train", "epoch"])
}

/// What a message says could not be done: `unable to load model`, `failed to create instance of model`, `Exception during initialization`.
pub(super) fn of_failure(line: &str) -> Option<Phase> {
    let said: Vec<String> = words(line).into_iter().take(4 * MOST_WORDS).collect();
    let model = any(&said, &["model", "models", "weights", "checkpoint", "engine", "session"]);
    // What an engine computes in is made beside the weights, by an allocator of its own: `failed to allocate compute buffers`.
    if any(&said, &["compute", "gallocr"]) && any(&said, &["buffer", "buffers"]) {
        return Some(Phase::Forward);
    }
    // A server rehearses its largest batch: `Unable to warmup model`.
    if any(&said, &["warmup", "warm"]) && any(&said, &["model"]) {
        return Some(Phase::Forward);
    }
    // A cache of keys and values grows with the context, not with the model.
    if any(&said, &["kv", "context"]) {
        return None;
    }
    let makes = any(&said, &["load", "loading", "create", "creating", "initialize", "initializing", "initialization"]);
    (makes && (model || said.windows(2).any(|two| two == ["during", "initialization"]))).then_some(Phase::LoadModel)
}

/// When people say that it happened: `out of memory during validation`, `at eval stage`, `when saving the checkpoint`.
pub(super) fn during(line: &str) -> Option<Phase> {
    const WHEN: [&str; 8] = ["during", "at", "in", "while", "when", "upon", "after", "of"];
    let said = words(line);
    // `model.predict throws OOM`, `the predict function fails`: what is called says it.
    let calls = |two: &[String]| two == ["model", "predict"] || two == ["predict", "function"];
    if said.windows(2).any(calls) {
        return Some(Phase::Evaluate);
    }
    // `checkpointing causes an OOM`, `a state dict runs into one`: what does it stands before.
    let does = |two: &[String], nouns: &[&str]| {
        nouns.contains(&&*two[0])
            && ["causes", "leads", "throws", "gives", "fails", "runs", "crashes"].contains(&&*two[1])
    };
    if said.windows(2).any(|two| does(two, &["checkpointing", "saving", "dict"])) {
        return Some(Phase::Checkpoint);
    }
    if said.windows(2).any(|two| does(two, &["validation", "evaluation", "inference"])) {
        return Some(Phase::Evaluate);
    }
    let times = said.iter().enumerate().filter(|(_, word)| WHEN.contains(&word.as_str()));
    times.map(|(at, _)| said[at + 1..].iter().filter(|word| !SKIPPED.contains(&word.as_str()))).find_map(|mut next| {
        match next.next()?.as_str() {
            "validation" | "validating" | "validate" | "evaluation" | "evaluating" | "evaluate" | "eval"
            | "testing" => Some(Phase::Evaluate),
            "saving" | "checkpointing" => Some(Phase::Checkpoint),
            "checkpoint" if next.next()? == "saving" => Some(Phase::Checkpoint),
            _ => None,
        }
    })
}

/// Words between the time and what was done then: `when trying to validate`, `during the start of validation`.
const SKIPPED: [&str; 9] = ["the", "model", "trying", "to", "start", "starting", "of", "running", "doing"];

/// Words of a line that count: what comes later is detail.
const MOST_WORDS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_words() {
        assert_eq!(words("DeepSpeedZeroOptimizer_Stage3"), ["deep", "speed", "zero", "optimizer", "stage"]);
        assert_eq!(words("_move_model_to_device"), ["move", "model", "to", "device"]);
        assert_eq!(of_name("_configure_zero_optimizer"), Some(Phase::Update));
        assert_eq!(of_name("patch_weight_to_device"), Some(Phase::LoadModel));
        assert_eq!(of_name("create_faster_rcnn_eval_model"), None);
        assert_eq!(of_name("determine_available_memory"), Some(Phase::Forward));
        assert_eq!(of_name("get_model"), Some(Phase::LoadModel));
        assert_eq!(of_name("get_device_module"), None);
        assert_eq!(of_name("train_model"), None);
    }

    #[test]
    fn evaluation_has_many_names() {
        let evaluation = |name: &str| evaluates(&words(name));
        assert!(["val_one_epoch", "TestAll", "run_eval_harness", "validation_step"].into_iter().all(evaluation));
        assert!(
            !["cross_validation", "train_validation_split", "retrieval", "test_something", "_validate_data"]
                .into_iter()
                .any(evaluation)
        );
        assert!(predicts(&words("sliding_window_inference")) && !predicts(&words("fit_predict")));
    }

    #[test]
    fn failures_say_what_could_not_be_made() {
        assert_eq!(
            of_failure("llama_model_load: error loading model: unable to allocate backend buffer"),
            Some(Phase::LoadModel)
        );
        assert_eq!(of_failure("panicked at 'Unable to warmup model: Generation(…)'"), Some(Phase::Forward));
        assert_eq!(of_failure("llama_new_context: failed to allocate compute buffers"), Some(Phase::Forward));
        assert_eq!(
            of_failure("ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 9"),
            Some(Phase::Forward)
        );
        assert_eq!(
            of_failure("llama_init_from_model: failed to initialize: failed to allocate buffer for kv cache"),
            None
        );
    }

    #[test]
    fn lines_say_what_is_being_done() {
        assert_eq!(of_line("predicting dataset6_0002_data"), Some(Phase::Evaluate));
        assert_eq!(of_line("Loading checkpoint shards:  3%"), Some(Phase::LoadModel));
        assert_eq!(of_line("saving: /data/nnUNet_preprocessed/case_31.npz"), None);
        assert_eq!(of_line("- **Node Type:** UNETLoader"), Some(Phase::LoadModel));
        assert_eq!(of_line("creating eval model"), Some(Phase::Evaluate));
        assert_eq!(of_line("epoch 3: validation loss 0.31"), None);
        assert!(begins_training("***** Running training *****") && begins_training("Epoch 1/20"));
        assert!(!begins_training("Loading checkpoint shards of the training run"));
    }
}
