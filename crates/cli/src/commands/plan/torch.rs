//! `brimful plan train.py:make_model` and `brimful plan config.json`: PyTorch models, which only Python can make.
//!
//! In: what names the model, and the options. Out: the report that `brimful.torch.command` writes in the user's Python, and
//! its exit code. Here the options are checked and passed on; nothing is planned.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::args::{FrameworkName, PlanArgs, PlanFormat, Precision};
use crate::exit::Exit;
use crate::output::Output;
use crate::python::Python;

/// More than any model's configuration has.
const MAX_CONFIG: u64 = 16 << 20;

/// Where a PyTorch model comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// A name in a Python file or module.
    Code {
        /// `train.py` or `package.module`.
        from: String,
        /// `make_model`.
        name: String,
    },
    /// A configuration of transformers.
    Config(PathBuf),
}

impl Source {
    /// What a model's path names, if it is a PyTorch model.
    pub fn of(path: &Path) -> anyhow::Result<Option<Source>> {
        if path.is_file() {
            if path.extension().is_some_and(|extension| extension == "py") {
                let file = path.display();
                bail!("{file} is a Python file: say what in it makes the model, such as {file}:make_model");
            }
            let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
            return Ok((json && is_config(path)).then(|| Source::Config(path.to_owned())));
        }
        let config = path.join("config.json");
        if config.is_file() && is_config(&config) {
            return Ok(Some(Source::Config(config)));
        }
        Ok(path.to_str().and_then(code))
    }
}

/// `train.py:make_model` or `package.module:make_model`, taken apart.
fn code(text: &str) -> Option<Source> {
    let (from, name) = text.rsplit_once(':')?;
    let named = |text: &str| text.split('.').all(is_identifier);
    let fits = named(name) && (from.ends_with(".py") || named(from));
    fits.then(|| Source::Code { from: from.to_owned(), name: name.to_owned() })
}

fn is_identifier(text: &str) -> bool {
    let start = text.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
    start && text.chars().all(|each| each.is_alphanumeric() || each == '_')
}

/// Whether a text is a configuration of transformers. A file that cannot be read is for others to name.
fn is_config(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_CONFIG).read_to_end(&mut text));
    let value = read.ok().and_then(|_| serde_json::from_slice::<Value>(&text).ok());
    value
        .is_some_and(|value| value.get("model_type").is_some_and(Value::is_string) && value.get("class_name").is_none())
}

/// Plans in the user's Python and writes the report.
pub fn run(args: &PlanArgs, source: &Source, output: &Output) -> anyhow::Result<Exit> {
    refuse_what_makes_no_sense(args, source)?;
    let mut request = json!({
        "inputs": args.inputs,
        "batch": args.batch,
        "seq": args.seq,
        "optimizer": args.optimizer,
        "loss": args.loss,
        "precision": args.precision.map(Precision::policy),
        "device": args.device,
        "memory": args.memory,
        "inference": args.inference,
        "accumulate": args.accumulate,
        "compile": args.compile,
        "checkpointing": args.checkpointing,
        "format": match args.format {
            PlanFormat::Text => "text",
            PlanFormat::Json => "json",
            PlanFormat::Html => "html",
        },
        "width": output.width(),
        "colour": output.colour(),
    });
    let mut variables = Vec::new();
    match source {
        Source::Code { from, name } => {
            request["from"] = json!(from);
            request["name"] = json!(name);
        }
        Source::Config(path) => {
            let path =
                path.to_str().with_context(|| format!("{} is not a name in UTF-8: rename it", path.display()))?;
            request["config"] = json!(path);
            // A configuration is all there is to read: nothing is fetched.
            variables.push(("HF_HUB_OFFLINE", "1"));
        }
    }
    Python::choose().run("brimful.torch.command", &request, &variables, output)
}

fn refuse_what_makes_no_sense(args: &PlanArgs, source: &Source) -> anyhow::Result<()> {
    let model = args.model.display();
    if args.framework.is_some_and(|name| name != FrameworkName::Torch) {
        bail!("{model} is a PyTorch model: leave --framework out");
    }
    if !args.set.is_empty() {
        bail!("--set is for Keras files: change {model} itself");
    }
    if args.precision == Some(Precision::Float64) {
        bail!("--precision float64 is for Keras files: make the model in float64 and leave --precision out");
    }
    if args.inference {
        let given = [
            ("--optimizer", args.optimizer.is_some()),
            ("--loss", args.loss.is_some()),
            ("--accumulate", args.accumulate.is_some()),
            ("--checkpointing", args.checkpointing),
        ];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            bail!("{option} makes no sense with --inference, which has no backward pass: leave one of them out");
        }
    }
    if matches!(source, Source::Code { .. }) {
        if args.seq.is_some() {
            bail!(
                "--seq is for a config.json of transformers: give the shape itself, such as --input input_ids=512:int64"
            );
        }
        if args.checkpointing {
            bail!("--checkpointing is for a config.json of transformers: turn checkpointing on in {model} itself");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_a_file_or_a_module_and_a_name() {
        let parts = |text| match code(text) {
            Some(Source::Code { from, name }) => Some((from, name)),
            _ => None,
        };
        let pair = |from: &str, name: &str| Some((from.to_owned(), name.to_owned()));
        assert_eq!(parts("train.py:make_model"), pair("train.py", "make_model"));
        assert_eq!(parts("a b/c-d.py:Net.small"), pair("a b/c-d.py", "Net.small"));
        assert_eq!(parts("package.models:resnet"), pair("package.models", "resnet"));
        for other in
            ["model.keras", "train.py", "train.py:", "train.py:2x", "C:\\model.keras", "a/b:c", ":name", "x:y z"]
        {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn a_configuration_has_a_model_type_and_no_class_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            (Source::of(&file).unwrap().is_some(), Source::of(folder.path()).unwrap().is_some())
        };
        assert_eq!(read(r#"{"model_type": "llama"}"#), (true, true));
        for other in ["", "[]", r#"{"class_name": "Functional", "config": {}}"#, r#"{"model_type": 3}"#] {
            assert_eq!(read(other), (false, false), "{other}");
        }
        let script = folder.path().join("train.py");
        std::fs::write(&script, "").unwrap();
        assert!(Source::of(&script).unwrap_err().to_string().contains("train.py:make_model"));
    }
}
