//! Settings changed from outside: `--set LAYER.ATTR=VALUE`.
//!
//! In: what the user asked for and the layers there are. Out: [`Overrides`], looked up by layer path and setting. A layer or
//! setting that does not exist is an error that names the closest ones.

use super::Override;
use super::config::{Kind, LayerDef, Net};
use super::json::{self, Json};
use super::policy::{self, Policy};
use crate::error::{ImportError, Result};

/// Resolved overrides.
#[derive(Default)]
pub(super) struct Overrides {
    /// Path, setting, value.
    entries: Vec<(String, String, Json)>,
}

impl Overrides {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn get(&self, path: &str, key: &str) -> Option<&Json> {
        // The last one given wins.
        self.entries.iter().rev().find(|(layer, attr, _)| layer == path && attr == key).map(|(_, _, value)| value)
    }

    pub(super) fn resolve(asked: &[Override], net: &Net) -> Result<Overrides> {
        if asked.is_empty() {
            return Ok(Overrides::default());
        }
        let mut layers = Vec::new();
        list(net, "", &mut layers);
        let mut entries = Vec::new();
        for change in asked {
            let value = value(&change.value);
            if change.attr == "dtype" && policy::name(&value).and_then(|name| Policy::named(&name)).is_none() {
                return Err(ImportError::UnknownPolicy { policy: change.value.clone() });
            }
            let matches = find(&change.layer, &layers);
            if matches.is_empty() {
                let names = layers.iter().map(|(path, _)| path.as_str());
                let near = near(&change.layer, names, "the model has no such name");
                return Err(ImportError::UnknownLayer { layer: change.layer.clone(), attr: change.attr.clone(), near });
            }
            for (path, def) in matches {
                let input = def.class == "InputLayer";
                let known = def.config.get(&change.attr).is_some()
                    || (input && ["shape", "batch_shape"].contains(&change.attr.as_str()))
                    || ["trainable", "dtype"].contains(&change.attr.as_str());
                if !known {
                    let names = def.config.as_object().unwrap_or_default().iter().map(|(key, _)| key.as_str());
                    let near = near(&change.attr, names, "it has no settings");
                    return Err(ImportError::UnknownAttribute {
                        layer: path.clone(),
                        class: def.class.clone(),
                        attr: change.attr.clone(),
                        near,
                    });
                }
                let value = match &value {
                    // Lists may be written without brackets, and a list of one without a comma.
                    Json::Int(_) if change.attr.ends_with("shape") => Json::Array(vec![value.clone()]),
                    _ => value.clone(),
                };
                entries.push((path.clone(), change.attr.clone(), value));
            }
        }
        Ok(Overrides { entries })
    }
}

type Listed<'n> = Vec<(String, &'n LayerDef)>;

/// Every layer with its path, as the builder will name it.
fn list<'n>(net: &'n Net, prefix: &str, layers: &mut Listed<'n>) {
    net.layers.iter().for_each(|layer| list_layer(layer, prefix, &layer.name, layers));
}

fn list_layer<'n>(layer: &'n LayerDef, prefix: &str, name: &str, layers: &mut Listed<'n>) {
    let path = super::build::join(prefix, name);
    if let Kind::Net(net) = &layer.kind {
        list(net, &path, layers);
    }
    let both = layer.inner.iter().any(|(key, _)| *key == "backward_layer");
    for (key, inner) in &layer.inner {
        if layer.class == "Bidirectional" && *key == "layer" {
            list_layer(inner, &path, &direction("forward_", &inner.name), layers);
            // Files that hold one layer mean it in both directions.
            if !both {
                list_layer(inner, &path, &direction("backward_", &inner.name), layers);
            }
        } else {
            list_layer(inner, &path, &inner.name, layers);
        }
    }
    layers.push((path, layer));
}

/// The name of a layer of `Bidirectional` in one direction: Keras writes the direction before the name, once.
pub(super) fn direction(direction: &str, name: &str) -> String {
    format!("{direction}{}", name.strip_prefix(direction).unwrap_or(name))
}

/// The layers that a name or path means: a whole path, else all layers of that name.
fn find<'l, 'n>(asked: &str, layers: &'l Listed<'n>) -> Vec<(&'l String, &'n LayerDef)> {
    let matching = |test: &dyn Fn(&str, &LayerDef) -> bool| -> Vec<(&'l String, &'n LayerDef)> {
        layers.iter().filter(|(path, def)| test(path, def)).map(|(path, def)| (path, *def)).collect()
    };
    let exact = matching(&|path, _| path == asked);
    if !exact.is_empty() {
        return exact;
    }
    // The user's name of a layer of `Bidirectional` is without the direction.
    let plain = |name: &str| ["forward_", "backward_"].iter().any(|way| name.strip_prefix(way) == Some(asked));
    let named = matching(&|path, def| def.name == asked || path.rsplit('/').next().is_some_and(plain));
    if !named.is_empty() {
        return named;
    }
    if asked == "input" {
        // Inputs of nested models take their shape from the call.
        return matching(&|path, def| def.class == "InputLayer" && !path.contains('/'));
    }
    Vec::new()
}

/// Reads a value as people type it.
fn value(text: &str) -> Json {
    let text = text.trim();
    if let Ok(json) = json::parse(text.as_bytes(), "value") {
        return json;
    }
    match text {
        "None" => return Json::Null,
        "True" => return Json::Bool(true),
        "False" => return Json::Bool(false),
        _ => {}
    }
    let inside = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let inside = inside.trim_end_matches(',').replace("None", "null");
    match json::parse(format!("[{inside}]").as_bytes(), "value") {
        Ok(list) => list,
        Err(_) => Json::Str(text.into()),
    }
}

/// The closest names, for an error.
fn near<'a>(asked: &str, names: impl Iterator<Item = &'a str>, none: &str) -> String {
    let mut scored: Vec<(usize, &str)> = names.map(|name| (distance(asked, name), name)).collect();
    scored.sort();
    scored.dedup();
    let close: Vec<String> = scored.iter().take(4).map(|(_, name)| format!("'{name}'")).collect();
    if close.is_empty() { none.to_owned() } else { format!("the closest are {}", close.join(", ")) }
}

/// Edits between two names; a name that contains the other is close.
fn distance(a: &str, b: &str) -> usize {
    if !a.is_empty() && b.contains(a) {
        return 1;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let edit = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = edit.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_people_type_them() {
        let ints = |items: &[i64]| Json::Array(items.iter().map(|&item| Json::Int(item)).collect());
        assert_eq!(value("64"), Json::Int(64));
        assert_eq!(value("[3, 3]"), ints(&[3, 3]));
        assert_eq!(value("128,128,3"), ints(&[128, 128, 3]));
        assert_eq!(value("(5,)"), ints(&[5]));
        assert_eq!(value("same"), Json::Str("same".into()));
        assert_eq!(value("True"), Json::Bool(true));
        assert_eq!(value("None, 3"), Json::Array(vec![Json::Null, Json::Int(3)]));
    }
}
