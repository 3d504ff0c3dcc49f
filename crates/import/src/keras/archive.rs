//! What a file is, by its first bytes, and the text inside a `.keras` archive or an `.h5` file.
//!
//! In: bytes. Out: the model's configuration and, from an archive or an `.h5` file, the Keras version. Weights are never read: their shapes
//! follow from the configuration. What an archive's directory says about sizes is not believed: bytes are counted.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::hdf5;
use super::json::{self, Json};
use crate::error::{ImportError, Result};

/// The most of `config.json` that is read. The largest known (a 1000-layer model) has 3 MiB.
const MAX_CONFIG: usize = 64 << 20;
/// The most of `metadata.json` that is read.
const MAX_METADATA: usize = 1 << 20;

/// A file's texts.
pub(super) struct Texts {
    pub(super) config: Json,
    /// The name of the text in errors.
    pub(super) entry: &'static str,
    pub(super) keras_version: Option<String>,
}

/// Recognises a file and parses its texts.
pub(super) fn read(bytes: &[u8]) -> Result<Texts> {
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return read_zip(bytes);
    }
    if bytes.starts_with(hdf5::SIGNATURE) {
        return read_hdf5(bytes);
    }
    if let Some((kind, advice)) = foreign(bytes) {
        return Err(ImportError::Foreign { kind, advice });
    }
    let start = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii_start();
    if !start.starts_with(b"{") && !start.starts_with(b"\"") {
        return Err(ImportError::Unrecognised { found: describe(bytes) });
    }
    if bytes.len() > MAX_CONFIG {
        return Err(ImportError::TooLarge { what: "the model's JSON".to_owned(), limit: "64 MiB".to_owned() });
    }
    let mut config = json::parse(bytes, "the file")?;
    // json.dump(model.to_json(), file) is a common slip: the text arrives quoted.
    if let Json::Str(text) = &config {
        config = json::parse(text.as_bytes(), "the quoted text in the file")?;
    }
    let keras_version = config.get("keras_version").and_then(Json::as_str).map(str::to_owned);
    Ok(Texts { config, entry: "the model's JSON", keras_version })
}

fn read_zip(bytes: &[u8]) -> Result<Texts> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| archive_error("the archive", &error))?;
    let names = |archive: &ZipArchive<Cursor<&[u8]>>, what: &str| {
        let mut all = archive.file_names().filter_map(std::result::Result::ok);
        all.any(|name| name == what || name.ends_with(&format!("/{what}")))
    };
    if archive.index_for_name("config.json").is_none() {
        if names(&archive, "data.pkl") {
            return Err(ImportError::Foreign { kind: "a PyTorch checkpoint", advice: NAME_CODE });
        }
        if names(&archive, "saved_model.pb") {
            return Err(ImportError::Foreign { kind: "a zipped TensorFlow SavedModel", advice: REBUILD });
        }
        if names(&archive, "model.weights.h5") {
            return Err(ImportError::Foreign { kind: "a weights file", advice: SAVE_WHOLE });
        }
        return Err(ImportError::Unrecognised { found: "a zip archive without config.json".to_owned() });
    }
    let config = entry(&mut archive, "config.json", MAX_CONFIG, "64 MiB")?;
    let config = json::parse(&config, "config.json")?;
    let mut keras_version = None;
    if archive.index_for_name("metadata.json").is_some() {
        let metadata = entry(&mut archive, "metadata.json", MAX_METADATA, "1 MiB")?;
        let metadata = json::parse(&metadata, "metadata.json")?;
        keras_version = metadata.get("keras_version").and_then(Json::as_str).map(str::to_owned);
    }
    Ok(Texts { config, entry: "config.json", keras_version })
}

/// Keras 2's usual file, which Keras 3 still writes: what `.keras` archives have in files of their own stands in attributes.
fn read_hdf5(bytes: &[u8]) -> Result<Texts> {
    let Some(texts) = hdf5::root_texts(bytes) else {
        return Err(ImportError::Foreign { kind: "an HDF5 file (.h5)", advice: RESAVE });
    };
    let text = |name: &str| texts.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let Some(config) = text("model_config") else {
        return Err(ImportError::Foreign {
            kind: "an HDF5 file without a model's configuration, such as weights alone",
            advice: SAVE_WHOLE,
        });
    };
    if config.len() > MAX_CONFIG {
        return Err(ImportError::TooLarge { what: "model_config".to_owned(), limit: "64 MiB".to_owned() });
    }
    let mut config = json::parse(config, "model_config")?;
    if let (Json::Object(entries), Some(training)) = (&mut config, text("training_config")) {
        let mut training = json::parse(training, "training_config")?;
        let optimizer = training.take("optimizer_config").unwrap_or(Json::Null);
        if let Json::Object(settings) = &mut training {
            settings.push(("optimizer".into(), optimizer));
        }
        entries.push(("compile_config".into(), training));
    }
    let keras_version = text("keras_version").and_then(|text| std::str::from_utf8(text).ok()).map(str::to_owned);
    Ok(Texts { config, entry: "model_config", keras_version })
}

fn entry(archive: &mut ZipArchive<Cursor<&[u8]>>, name: &str, limit: usize, limit_text: &str) -> Result<Vec<u8>> {
    let file = archive.by_name(name).map_err(|error| archive_error(name, &error))?;
    let mut text = Vec::new();
    let read = file.take(limit as u64 + 1).read_to_end(&mut text);
    if text.len() > limit {
        return Err(ImportError::TooLarge { what: name.to_owned(), limit: limit_text.to_owned() });
    }
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(ImportError::Archive { entry: name.to_owned(), reason: error.to_string() }),
    }
}

fn archive_error(entry: &str, error: &ZipError) -> ImportError {
    ImportError::Archive { entry: entry.to_owned(), reason: error.to_string() }
}

const RESAVE: &str = "load it in Keras and save it again with model.save('model.keras')";

const SAVE_WHOLE: &str = "it holds no layers; save the whole model with model.save('model.keras')";

/// A SavedModel has lost its layers: Keras 3 loads it for inference only.
const REBUILD: &str = "save the model itself with model.save('model.keras'), not its export";

/// Weights alone do not say what is computed with them: PyTorch's plans are of code.
const NAME_CODE: &str = "it holds weights but no graph of layers; name the code that makes the model, such as \
                         train.py:make_model, or a config.json of transformers";

/// Files of other kinds that people have at hand, by their first bytes.
fn foreign(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    // A pickle of protocol 2 or later, which torch.save wrote before it wrote zip archives.
    if bytes.len() > 2 && bytes[0] == 0x80 && (2..=5).contains(&bytes[1]) {
        return Some(("a Python pickle, such as an old PyTorch checkpoint", NAME_CODE));
    }
    // SavedModel: field 1 (schema version 1) and field 2 (meta_graphs), or the latter alone.
    let start = &bytes[..bytes.len().min(4096)];
    if bytes.starts_with(b"\x08\x01\x12") || (bytes.len() > 8 && bytes[0] == 0x12 && start.contains(&0)) {
        return Some(("a TensorFlow SavedModel", REBUILD));
    }
    // ONNX: field 1 (ir_version, a small varint), then field 2 (producer_name) or 8 (opset) of ModelProto.
    if bytes.len() > 4 && bytes[0] == 0x08 && bytes[1] < 32 && matches!(bytes[2], 0x12 | 0x1a | 0x22 | 0x3a | 0x42) {
        return Some((
            "a protocol buffer, such as an ONNX or TensorFlow graph",
            "give the Keras model itself, saved with model.save('model.keras')",
        ));
    }
    if bytes.len() > 8 && &bytes[4..8] == b"TFL3" {
        return Some(("a TensorFlow Lite model", "it is for inference only; give the Keras model it was made from"));
    }
    if bytes.len() > 9 && bytes[8] == b'{' && bytes[1..8].iter().rev().take(4).all(|&byte| byte == 0) {
        return Some(("a safetensors file", NAME_CODE));
    }
    None
}

/// The start of a file in words.
fn describe(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    let start = &bytes[..bytes.len().min(12)];
    match std::str::from_utf8(start) {
        Ok(text) if text.chars().all(|c| !c.is_control() || c.is_whitespace()) => {
            format!("text that starts with '{}'", text.trim().replace(['\n', '\r', '\t'], " "))
        }
        _ => {
            let hex: Vec<String> = start.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("bytes {}", hex.join(" "))
        }
    }
}
