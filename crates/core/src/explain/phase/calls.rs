//! What a line of code does, by its calls: `ref_model.to(device)` moves a model, `features.to(device)` data.
//!
//! In: a line of code. Out: a [`Phase`], and what is moved or made. Calls are found by their brackets; what they are called on and named is read as
//! words. Code that goes over several lines is known by its first.

use super::Phase;
use super::names::{DATA, MODEL, OPTIMIZER, WEIGHTS, any, evaluates, of_words, words};

/// A call in a line of code: `self.model` and `to` of `self.model.to(device)`.
struct Call<'a> {
    receiver: &'a str,
    method: &'a str,
}

/// Calls that are looked at in one line.
const MOST_CALLS: usize = 16;

fn calls(code: &str) -> impl Iterator<Item = Call<'_>> {
    code.match_indices('(').take(MOST_CALLS).filter_map(|(at, _)| {
        let head = &code[..at];
        let start = head
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
            .map_or(0, |before| before + head[before..].chars().next().map_or(1, char::len_utf8));
        let dotted = &head[start..];
        let (receiver, method) = dotted.rsplit_once('.').unwrap_or(("", dotted));
        (!method.is_empty()).then_some(Call { receiver, method })
    })
}

/// Whether a line of code calls an evaluation. Python's own `eval`, a model's change of mode and MLX, which computes nothing before
/// (`mx.eval(loss)`), are none.
pub(super) fn calls_evaluation(code: &str) -> bool {
    let bare = |call: &Call<'_>| call.method == "eval" && call.receiver.is_empty() && !code.contains(',');
    let lazy = |call: &Call<'_>| call.receiver == "mx";
    calls(code).any(|call| evaluates(&words(call.method)) && !bare(&call) && !lazy(&call))
}

/// What the calls in a line of code do. A class that is called makes one of its kind.
pub(super) fn of_code(code: &str) -> Option<Phase> {
    if code.starts_with("raise ") {
        return None;
    }
    calls(code).find_map(|call| {
        let receiver = words(call.receiver);
        let method = words(call.method);
        let steps = call.method == "step" && (any(&receiver, OPTIMIZER) || any(&receiver, &["opt", "scaler"]));
        if steps {
            return Some(Phase::Update);
        }
        if ["to", "cuda", "half", "float", "bfloat16", "xpu", "npu"].contains(&call.method) {
            let moves = call.method == "cuda" || (call.method == "to" && names_a_device(code));
            let model = any(&receiver, MODEL) || (moves && (any(&receiver, WEIGHTS) || moves_what_it_makes(code)));
            return if model { Some(Phase::LoadModel) } else { moves.then_some(Phase::MoveData) };
        }
        let class = call.method.starts_with(char::is_uppercase);
        if class && any(&method, MODEL) {
            return Some(Phase::LoadModel);
        }
        if class && any(&method, DATA) {
            return Some(Phase::LoadData);
        }
        // What is loaded may stand beside the call: `sd = load(args.weights)`.
        if call.method == "load" {
            let line = words(code);
            let of_models = any(&receiver, &["spacy", "hub", "jit", "onnx"]);
            let weights = of_models || any(&line, WEIGHTS) || any(&line, &["model", "dict"]);
            return if weights { Some(Phase::LoadModel) } else { of_words(&line) };
        }
        // Data that is written down is no checkpoint: `pickle.dump(features, file)`.
        if ["dump", "dumps", "save"].contains(&call.method)
            && ["pickle", "joblib", "np", "numpy", "json"].contains(&call.receiver)
        {
            let line = words(code);
            let model = any(&line, MODEL) || any(&line, WEIGHTS);
            return Some(if any(&line, DATA) && !model { Phase::LoadData } else { Phase::Checkpoint });
        }
        of_words(&method)
    })
}

/// Whether a line of code moves an object of a class that it makes: `Segmenter(classes).cuda()`, `nn.Linear(8, 2).to(device)`. Tensors and batches
/// are made that way, too.
fn moves_what_it_makes(code: &str) -> bool {
    let data = ["tensor", "variable", "batch", "array", "data", "image", "input", "inputs"];
    let class =
        |call: &Call<'_>| call.method.starts_with(char::is_uppercase) && call.method.contains(char::is_lowercase);
    let made = calls(code).next().filter(class).is_some_and(|call| {
        let named = words(call.method);
        !any(&named, &data) && !any(&named, DATA)
    });
    made && [").cuda(", ").to(", ").half(", ").xpu("].iter().any(|moved| code.contains(moved))
}

/// Whether a line of code reads the state of an optimizer: `optimizer.load_state_dict(torch.load(path))`, `torch.load("optim.pt")`.
pub(super) fn reads_optimizer(code: &str) -> bool {
    any(&words(code), OPTIMIZER) && calls(code).any(|call| ["load", "load_state_dict"].contains(&call.method))
}

/// Whether a line of code reads a model's weights from a file that it calls so: `torch.load("pytorch_model.bin")`. A checkpoint has more, and whoever
/// resumes has trained before.
pub(super) fn reads_weights(code: &str) -> bool {
    let line = words(code);
    let more = ["resume", "checkpoint", "ckpt", "best", "last", "latest", "epoch"];
    code.contains("torch.load(")
        && any(&line, &["model", "models", "weights", "pretrained"])
        && !any(&line, &more)
        && !any(&line, OPTIMIZER)
}

/// Whether a line of code makes a second model of one, to go on beside it: `self.ema = deepcopy(model)`. The best so far is a checkpoint.
pub(super) fn copies_model(code: &str) -> bool {
    let Some((to, made)) = code.split_once(" = ") else { return false };
    let second = any(&words(to), &["ema", "teacher", "target", "ref", "reference", "momentum", "average", "averaged"]);
    second && made.contains("deepcopy(") && !made.contains("state_dict(")
}

/// Functions of NumPy's kind that make an array of a shape.
const CREATES: &[&str] = &[
    "ones", "zeros", "full", "eye", "empty", "rand", "randn", "randint", "normal", "uniform", "random", "arange",
    "linspace", "meshgrid",
];

/// Whether a line of code makes an array of a shape that it says itself.
pub fn creates(code: &str) -> bool {
    calls(code).next().is_some_and(|call| CREATES.contains(&call.method) && !call.receiver.is_empty())
}

/// How many elements an array has that a line of code makes, where it writes all its sizes down: 6 of `torch.zeros(2, 3).cuda()`
/// and of `nn.Linear(2, 3).cuda()`.
pub fn made_elements(code: &str) -> Option<u64> {
    let known = ["ones", "zeros", "full", "empty", "rand", "randn", "arange"];
    let call = calls(code).next().filter(|call| !call.receiver.is_empty())?;
    let (_, inside) = code.split_once(&format!("{}(", call.method))?;
    let class = call.method.ends_with("Tensor");
    let of_numbers = class || ["tensor", "as_tensor"].contains(&call.method);
    if let Some(count) = listed_numbers(inside).filter(|_| of_numbers) {
        return Some(count);
    }
    // A layer that is written down has as many weights.
    let layer = call.method == "Linear";
    if !class && !layer && !known.contains(&call.method) {
        return None;
    }
    let sizes = inside.trim_start_matches(['(', '[']).split([')', ']']).next()?;
    let of = |size: &str| size.trim().parse::<u64>().ok();
    let positional = sizes.split(',').filter(|size| !size.contains('=') && !size.trim().is_empty());
    let sizes: Option<Vec<u64>> = positional.map(of).collect();
    let product = |sizes: Vec<u64>| sizes.iter().fold(1u64, |product, &size| product.saturating_mul(size));
    sizes.filter(|sizes| !sizes.is_empty()).map(product)
}

/// How many numbers a list has that is written down: 2 of `[0.5, 1], device="cuda")`.
fn listed_numbers(text: &str) -> Option<u64> {
    let list = text.trim_start().strip_prefix('[')?.split(']').next()?;
    let all: Option<Vec<f64>> = list.split(',').map(|number| number.trim().parse().ok()).collect();
    all.map(|numbers| numbers.len() as u64)
}

/// Whether a line of code reads something that is no model, and keeps it beside what it read before: `scans.append(load_scan(path))`,
/// `[read(path) for path in paths]`.
pub fn keeps_what_it_reads(code: &str) -> bool {
    let all: Vec<Call<'_>> = calls(code).collect();
    let reads = |call: &Call<'_>| any(&words(call.method), &["load", "read"]);
    let listed = code.contains('[') && code.contains(" for ") && code.contains(" in ");
    let appended = all.windows(2).any(|two| ["append", "extend"].contains(&two[0].method) && reads(&two[1]));
    let model = any(&words(code), MODEL) || any(&words(code), WEIGHTS);
    !model && (appended || (listed && all.iter().any(reads)))
}

/// What a line of code moves to a device, as far as its names tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// All of the data: a data set, a graph, the features of every row.
    Data,
    /// Something of a step.
    Batch,
    /// Names that are given to both: `data`, `images`, `X`.
    Either,
}

/// Functions that take what they move as their argument.
const TAKES: &[&str] = &[
    "tensor", "as_tensor", "constant", "convert_to_tensor", "from_tensor_slices", "array", "asarray", "device_put",
    "to_tensor", "FloatTensor", "Variable", "from_pandas", "DataFrame", "to_device",
];
const WHOLE: &[&str] = &[
    "dataset", "dataframe", "features", "feats", "adj", "adjacency", "graph", "edge", "edges", "all", "full", "corpus",
    "train", "training", "whole", "nodes", "replay", "memory", "table", "frame", "df", "embeddings",
];
const OF_A_STEP: &[&str] =
    &["batch", "minibatch", "input", "inputs", "target", "targets", "img", "image", "noise", "latents", "prompt"];

/// What a line of code moves to a device, if it does.
pub fn moved(code: &str) -> Option<Moved> {
    let moves = calls(code).any(|call| {
        let to = ["to", "cuda", "copy_to"].contains(&call.method) && (call.method != "to" || names_a_device(code));
        let device = ["jnp", "jax", "cp", "cupy", "cudf", "tf", "paddle"];
        let on_device = device.iter().any(|&library| call.receiver.split('.').next() == Some(library));
        to || (TAKES.contains(&call.method) && (on_device || names_a_device(code))) || call.method == "device_put"
    });
    let said = words(code);
    if !moves || any(&said, MODEL) {
        return None;
    }
    Some(match () {
        () if any(&said, OF_A_STEP) => Moved::Batch,
        () if any(&said, WHOLE) => Moved::Data,
        () => Moved::Either,
    })
}

/// Whether a line of code names all rows that a model is trained with: `x_train`, `train_labels`.
pub fn names_training_set(code: &str) -> bool {
    let of_train = |word: &String| ["train", "training"].contains(&word.as_str());
    let rows = |word: &String| {
        ["x", "y", "data", "set", "images", "labels", "features", "inputs", "targets"].contains(&word.as_str())
    };
    let names = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(words);
    names.into_iter().any(|name| name.iter().any(of_train) && name.iter().any(rows))
}

fn names_a_device(code: &str) -> bool {
    any(&words(code), &["device", "cuda", "gpu", "xpu", "npu", "mps", "dev"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_say_what_they_do_to_whom() {
        assert_eq!(of_code("ref_model.to(device)"), Some(Phase::LoadModel));
        assert_eq!(of_code("param.data = param.to(device)"), Some(Phase::LoadModel));
        assert_eq!(of_code("batch = batch.to(device)"), Some(Phase::MoveData));
        assert_eq!(of_code("y = logits.to(torch.float32)"), None);
        assert_eq!(of_code("netG_opt.step()"), Some(Phase::Update));
        assert_eq!(of_code("obs = env.step(action)"), None);
        assert_eq!(of_code("sd = paddle.load(opts.weights)"), Some(Phase::LoadModel));
        assert_eq!(of_code("optimizer = DeepSpeedZeroOptimizer_Stage3("), Some(Phase::Update));
        assert_eq!(of_code("train_set = TrainDataset(patches[train_ind, ...])"), Some(Phase::LoadData));
        assert_eq!(of_code("pickle.dump(features, file, protocol=4)"), Some(Phase::LoadData));
        assert_eq!(of_code("pickle.dump(model, file)"), Some(Phase::Checkpoint));
        assert_eq!(of_code("pickle.dump(result, file)"), Some(Phase::Checkpoint));
    }

    #[test]
    fn weights_are_known_by_the_name_of_their_file() {
        assert!(reads_weights("sd = torch.load('pytorch_model.bin', map_location='cpu')"));
        assert!(reads_weights("net.weights = torch.load(path)"));
        assert!(!reads_weights("state = torch.load(path)"));
        assert!(!reads_weights("checkpoint = torch.load('model_best.pth')"));
        assert!(!reads_weights("model = build(path)"));
    }

    #[test]
    fn sizes_that_are_written_down_are_counted() {
        assert_eq!(made_elements("x = torch.zeros(1).cuda()"), Some(1));
        assert_eq!(made_elements("y = torch.rand((2, 3), device=\"cuda\")"), Some(6));
        assert_eq!(made_elements("z = torch.empty(4, 8, device='cuda')"), Some(32));
        assert_eq!(made_elements("z = torch.zeros(batch, 8).cuda()"), None);
        assert_eq!(made_elements("z = torch.zeros(x.size(0)).cuda()"), None);
        assert_eq!(made_elements("z = torch.zeros_like(x)"), None);
        assert_eq!(made_elements("torch.cuda.FloatTensor([1])"), Some(1));
        assert_eq!(made_elements("x = torch.cuda.FloatTensor(2, 3)"), Some(6));
        assert_eq!(made_elements("x = torch.tensor([0.5, 1, 2], device='cuda')"), Some(3));
        assert_eq!(made_elements("x = torch.tensor(rows, device='cuda')"), None);
        assert_eq!(made_elements("x = torch.tensor([rows, 1], device='cuda')"), None);
    }

    #[test]
    fn what_is_read_and_kept_grows() {
        assert!(keeps_what_it_reads("scan_list.append(loadScan(args, id, scan, scale))"));
        assert!(keeps_what_it_reads("volumes = [read_volume(path) for path in paths]"));
        assert!(!keeps_what_it_reads("losses.append(self.compute_loss(pred, target))"));
        assert!(!keeps_what_it_reads("models.append(load_model(path))"));
        assert!(!keeps_what_it_reads("scan = load_scan(path)"));
    }

    #[test]
    fn rows_to_train_with_are_named() {
        assert!(names_training_set("run(net, x_train, y_train, epochs)"));
        assert!(names_training_set("fit(trainImages, labels)"));
        assert!(!names_training_set("trainer.train(x, y)"));
    }

    #[test]
    fn what_is_moved_has_a_name() {
        assert_eq!(moved("features = features.to(device)"), Some(Moved::Data));
        assert_eq!(moved("x = jnp.array(x_train)"), Some(Moved::Data));
        assert_eq!(moved("inputs, targets = inputs.cuda(), targets.cuda()"), Some(Moved::Batch));
        assert_eq!(moved("data = data.to(args.device)"), Some(Moved::Either));
        assert_eq!(moved("self.unet.to(device)"), None);
        assert_eq!(moved("y = y.to(torch.float32)"), None);
    }
}
