//! A model file, read without its weights.
//!
//! In: a path. Out: bytes for the importer, at most about 130 MiB however large the file is. Of an archive only the texts
//! are taken over; every other entry keeps its name, by which the importer recognises foreign archives, and loses its
//! content. Of any other file the importer gets as much as it would accept, and one byte more.

use std::io::{Cursor, Read, Seek, Write};
use std::path::Path;

use anyhow::{Context, bail};
use brimful_import::{Document, ImportError};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::files;

/// The most that is read of a text. The importer accepts 64 MiB and says so itself when there is more.
const MAX_TEXT: u64 = (64 << 20) + 1;
/// The entries of an archive that the importer reads.
const TEXTS: [&str; 2] = ["config.json", "metadata.json"];
/// More entries than any model's archive has.
const MAX_ENTRIES: usize = 100_000;

/// Reads and parses a model file.
pub fn read(path: &Path) -> anyhow::Result<Document> {
    let bytes = bytes(path)?;
    brimful_import::read(&bytes).with_context(|| path.display().to_string())
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    let mut file = files::open(path)?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        // Keras 3 loads a SavedModel for inference only.
        let (what, advice) = match path.join("saved_model.pb").exists() {
            true => ("a TensorFlow SavedModel", "save the model itself with model.save('model.keras'), not its export"),
            false => ("a folder", "load it in Keras and save it with model.save('model.keras')"),
        };
        bail!("{name} is {what}, not a Keras 3 model: {advice}");
    }
    let mut start = Vec::new();
    (&mut file).take(4).read_to_end(&mut start).with_context(|| format!("{name} cannot be read"))?;
    if start.starts_with(b"PK") {
        let archive = file.rewind().map_err(|error| unreadable("the archive", &error));
        return archive.and_then(|()| without_weights(file)).with_context(|| name.to_string());
    }
    // What was read is put in front again: a pipe cannot go back.
    let rest = file.take(MAX_TEXT - start.len() as u64);
    let mut bytes = Vec::new();
    Cursor::new(start).chain(rest).read_to_end(&mut bytes).with_context(|| format!("{name} cannot be read"))?;
    Ok(bytes)
}

/// The archive with its texts, and nothing in all other entries.
fn without_weights(file: impl Read + Seek) -> Result<Vec<u8>, ImportError> {
    let mut archive = ZipArchive::new(file).map_err(|error| unreadable("the archive", &error))?;
    // A name that is not text is none that the importer looks for.
    let names: Vec<String> = archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect();
    if names.len() > MAX_ENTRIES {
        let limit = format!("{MAX_ENTRIES} entries");
        return Err(ImportError::TooLarge { what: "the archive".to_owned(), limit });
    }
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for name in &names {
        writer.start_file(name.as_str(), stored).map_err(|error| unreadable(name, &error))?;
        if TEXTS.contains(&name.as_str()) {
            let entry = archive.by_name(name).map_err(|error| unreadable(name, &error))?;
            let mut text = Vec::new();
            // Bytes are counted: what the directory says about sizes is not believed.
            entry.take(MAX_TEXT).read_to_end(&mut text).map_err(|error| unreadable(name, &error))?;
            writer.write_all(&text).map_err(|error| unreadable(name, &error))?;
        }
    }
    let written = writer.finish().map_err(|error| unreadable("the archive", &error))?;
    Ok(written.into_inner())
}

fn unreadable(entry: &str, reason: &dyn std::fmt::Display) -> ImportError {
    ImportError::Archive { entry: entry.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with these entries.
    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in entries {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn only_texts_are_taken_over() {
        let weights = vec![7; 1 << 20];
        let whole = archive(&[("model.weights.h5", &weights), ("config.json", b"{}"), ("assets/data.pkl", b"x")]);
        let light = without_weights(Cursor::new(whole)).unwrap();
        assert!(light.len() < 1000, "{}", light.len());
        let mut light = ZipArchive::new(Cursor::new(light)).unwrap();
        let mut text = String::new();
        light.by_name("config.json").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}");
        assert_eq!(light.by_name("model.weights.h5").unwrap().size(), 0);
        assert_eq!(light.len(), 3);
    }

    #[test]
    fn a_text_that_unpacks_without_end_is_cut() {
        let whole = archive(&[("config.json", &vec![b' '; 80 << 20])]);
        assert!(whole.len() < 1 << 20);
        let light = without_weights(Cursor::new(whole)).unwrap();
        assert!((MAX_TEXT..MAX_TEXT + 1000).contains(&(light.len() as u64)));
    }

    #[test]
    fn an_archive_cut_short_says_so() {
        let whole = archive(&[("config.json", b"{}")]);
        let error = without_weights(Cursor::new(&whole[..whole.len() / 2])).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}
