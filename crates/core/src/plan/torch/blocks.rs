//! The blocks that a model repeats: `h.0` to `h.11`, `layer1.0`, `encoder.layers.encoder_layer_3`.
//!
//! In: the model's modules. Out: paths of modules that have parts, and siblings of the same class; of nested ones the
//! outermost. Containers that only hold others (`Sequential`, `ModuleList`) are never blocks themselves.

use std::collections::{BTreeMap, BTreeSet};

use super::request::Module;

const CONTAINERS: [&str; 3] = ["Sequential", "ModuleList", "ModuleDict"];

/// The paths of the blocks, in the order of the modules.
pub fn blocks(modules: &[Module]) -> Vec<String> {
    let parent = |path: &str| path.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
    let parents: BTreeSet<String> =
        modules.iter().filter(|module| !module.path.is_empty()).map(|module| parent(&module.path)).collect();
    let candidate = |module: &&Module| {
        !module.path.is_empty() && parents.contains(&module.path) && !CONTAINERS.contains(&module.class.as_str())
    };
    let mut siblings: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for module in modules.iter().filter(candidate) {
        *siblings.entry((parent(&module.path), &module.class)).or_default() += 1;
    }
    let repeated: Vec<&str> = modules
        .iter()
        .filter(candidate)
        .filter(|module| siblings[&(parent(&module.path), module.class.as_str())] > 1)
        .map(|module| module.path.as_str())
        .collect();
    let known: BTreeSet<&str> = repeated.iter().copied().collect();
    let nested = |path: &str| path.match_indices('.').any(|(dot, _)| known.contains(&path[..dot]));
    repeated.iter().filter(|path| !nested(path)).map(|path| (*path).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(list: &[(&str, &str)]) -> Vec<Module> {
        list.iter()
            .map(|(path, class)| Module { path: (*path).to_owned(), class: (*class).to_owned(), parameters: 0 })
            .collect()
    }

    #[test]
    fn repeated_siblings_with_parts_are_blocks() {
        let found = blocks(&modules(&[
            ("", "GPT2"),
            ("wte", "Embedding"),
            ("h", "ModuleList"),
            ("h.0", "Block"),
            ("h.0.mlp", "Sequential"),
            ("h.0.mlp.0", "Linear"),
            ("h.0.mlp.1", "Inner"),
            ("h.0.mlp.1.a", "Linear"),
            ("h.0.mlp.2", "Inner"),
            ("h.0.mlp.2.a", "Linear"),
            ("h.1", "Block"),
            ("h.1.fc", "Linear"),
            ("h.10", "Block"),
            ("h.10.fc", "Linear"),
            ("head", "Linear"),
        ]));
        assert_eq!(found, ["h.0", "h.1", "h.10"]);
    }

    #[test]
    fn single_modules_leaves_and_containers_are_none() {
        let found = blocks(&modules(&[
            ("features", "Sequential"),
            ("features.0", "Conv2d"),
            ("features.1", "Conv2d"),
            ("classifier", "Sequential"),
            ("classifier.0", "Linear"),
            ("neck", "Neck"),
            ("neck.fc", "Linear"),
        ]));
        assert!(found.is_empty(), "{found:?}");
    }
}
