//! The manual of causes: the pages of `docs/causes`, which are part of the command.
//!
//! In: a code. Out: its page, as it stands in the documentation, or as JSON.

use anyhow::anyhow;
use brimful_core::explain::causes::{self, Cause};
use serde_json::json;

use crate::args::Format;

/// One line for each cause.
pub fn list(format: Format) -> anyhow::Result<String> {
    // The registry stands in the order of judgement; people look for the commonest first.
    let mut known: Vec<&Cause> = causes::REGISTRY.iter().collect();
    known.sort_by_key(|cause| cause.code);
    if format == Format::Json {
        let all: Vec<_> = known.into_iter().map(described).collect();
        return Ok(serde_json::to_string_pretty(&json!({ "schema": 1, "causes": all }))? + "\n");
    }
    let width = known.iter().map(|cause| cause.name.len()).max().unwrap_or(0);
    let lines = known.iter().map(|cause| format!("{:width$}  {}\n", cause.name, cause.title));
    Ok(lines.collect::<String>()
        + "\nbrimful explain --cause CODE shows how each looks, how one knows it and how it is fixed.\n")
}

/// One page.
pub fn page(code: &str, format: Format) -> anyhow::Result<String> {
    let asked = code.trim().to_ascii_lowercase().replace('-', "_");
    let cause = causes::by_name(&asked)
        .ok_or_else(|| anyhow!("'{code}' is not a cause: 'brimful explain --list' shows the codes"))?;
    if format == Format::Json {
        let mut described = described(cause);
        described["page"] = json!(cause.page);
        return Ok(serde_json::to_string_pretty(&described)? + "\n");
    }
    Ok(cause.page.to_owned())
}

fn described(cause: &Cause) -> serde_json::Value {
    json!({ "code": cause.name, "title": cause.title, "remedies": cause.remedies })
}
