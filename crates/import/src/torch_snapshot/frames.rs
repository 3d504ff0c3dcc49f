//! Stacks to lines of source: which line of the user's own code, and which of a library, asked for memory.
//!
//! In: lists of frames, the innermost first. Out: [`Site`]s, each once. A list that many entries share is looked at once.
//! Left out: all other frames of a stack.

use std::collections::HashMap;

use brimful_core::snapshot::{Line, Site, SiteId};

use super::values::{ContainerId, Kind, Text, Value, Values};

/// Stacks are cut beyond this many frames: the innermost ones matter.
const MAX_FRAMES: usize = 4096;

/// Sites that were seen.
pub(super) struct Sites<'a> {
    values: &'a Values<'a>,
    sites: Vec<Site>,
    ids: HashMap<Site, SiteId>,
    /// By list of frames.
    of_list: HashMap<ContainerId, SiteId>,
    /// By site and list of forward frames.
    of_forward: HashMap<(SiteId, ContainerId), SiteId>,
    kinds: HashMap<Text, FileKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    User,
    /// Python code of a library.
    Library,
    /// Compiled code, or nothing that is known.
    Native,
}

struct Frame {
    file: Text,
    name: Option<Text>,
    line: u64,
}

impl<'a> Sites<'a> {
    pub(super) fn new(values: &'a Values<'a>) -> Sites<'a> {
        let mut sites = Sites {
            values,
            sites: Vec::new(),
            ids: HashMap::new(),
            of_list: HashMap::new(),
            of_forward: HashMap::new(),
            kinds: HashMap::new(),
        };
        // The first one stands for no stack.
        sites.add(Site::default());
        sites
    }

    pub(super) fn finish(self) -> Vec<Site> {
        self.sites
    }

    fn add(&mut self, site: Site) -> SiteId {
        if let Some(id) = self.ids.get(&site) {
            return *id;
        }
        let id = SiteId(self.sites.len() as u32);
        self.sites.push(site.clone());
        self.ids.insert(site, id);
        id
    }

    /// The site of a stack; that of no stack for anything that is none.
    pub(super) fn of_frames(&mut self, frames: Value) -> SiteId {
        let Value::Container(list) = frames else { return SiteId::default() };
        if let Some(id) = self.of_list.get(&list) {
            return *id;
        }
        let site = self.site(list);
        let id = self.add(site);
        self.of_list.insert(list, id);
        id
    }

    fn site(&mut self, list: ContainerId) -> Site {
        let values = self.values;
        let mut site = Site::default();
        let (mut native, mut gradient, mut on_engine) = (None, None, false);
        if values.kind(list) == Kind::Dict {
            return site;
        }
        for value in values.items(list).take(MAX_FRAMES) {
            let Some(frame) = self.frame(value) else { continue };
            match self.kind(frame.file) {
                FileKind::User => {
                    site.user = Some(self.line(&frame));
                    break;
                }
                FileKind::Library if site.library.is_none() => site.library = Some(self.line(&frame)),
                FileKind::Library => {}
                FileKind::Native => {
                    let name = frame.name.map(|name| values.text(name)).unwrap_or_default();
                    let name = short_name(&name);
                    on_engine |= name.contains("torch::autograd::Engine");
                    if gradient.is_none() {
                        gradient = gradient_of(&name);
                    }
                    if native.is_none() && says_what(&name) {
                        native = Some(name);
                    }
                }
            }
        }
        if on_engine && site.user.is_none() {
            site.backward = Some(gradient.unwrap_or_default());
        }
        if site.library.is_none() {
            site.library = native.map(|name| Line { file: name, line: 0, function: String::new() });
        }
        site
    }

    fn frame(&self, value: Value) -> Option<Frame> {
        let Value::Container(id) = value else { return None };
        if self.values.kind(id) != Kind::Dict {
            return None;
        }
        let (mut file, mut name, mut line) = (None, None, 0);
        for (key, value) in self.values.pairs(id) {
            let Value::Text(key) = key else { continue };
            match (self.values.text_bytes(key), value) {
                (b"filename", Value::Text(text)) => file = Some(text),
                (b"name", Value::Text(text)) => name = Some(text),
                (b"line", Value::Int(number)) => line = u64::try_from(number).unwrap_or(0),
                _ => {}
            }
        }
        Some(Frame { file: file?, name, line })
    }

    fn kind(&mut self, file: Text) -> FileKind {
        let values = self.values;
        *self.kinds.entry(file).or_insert_with(|| kind_of(&values.text(file)))
    }

    fn line(&self, frame: &Frame) -> Line {
        let function = frame.name.map(|name| self.values.text(name).into_owned()).unwrap_or_default();
        Line { file: short_path(&self.values.text(frame.file)), line: frame.line, function }
    }

    /// A site of the backward pass, with the line of the forward pass that it belongs to, where PyTorch kept
    /// that as text.
    pub(super) fn with_forward(&mut self, site: SiteId, forward: Value) -> SiteId {
        let Value::Container(list) = forward else { return site };
        if let Some(id) = self.of_forward.get(&(site, list)) {
            return *id;
        }
        let old = self.sites[site.0 as usize].clone();
        let line = if old.user.is_none() { self.last_user_line(list) } else { None };
        let id = line.map_or(site, |line| self.add(Site { user: Some(line), ..old }));
        self.of_forward.insert((site, list), id);
        id
    }

    /// The last line of a traceback that is the user's: tracebacks have the innermost frame last.
    fn last_user_line(&self, list: ContainerId) -> Option<Line> {
        let texts = self.values.items(list).take(MAX_FRAMES).filter_map(|value| match value {
            Value::Text(text) => Some(self.values.text(text)),
            _ => None,
        });
        let lines = texts.filter_map(|text| traceback_line(&text));
        let user = lines.filter(|line| kind_of(&line.file) == FileKind::User).last()?;
        Some(Line { file: short_path(&user.file), ..user })
    }
}

/// Reads `File "train.py", line 12, in forward`.
fn traceback_line(text: &str) -> Option<Line> {
    let (file, rest) = text.split_once("File \"")?.1.split_once('"')?;
    let rest = rest.strip_prefix(", line ")?;
    let (line, rest) = rest.split_once(", in ")?;
    let function = rest.lines().next().unwrap_or("").to_owned();
    Some(Line { file: file.to_owned(), line: line.parse().ok()?, function })
}

/// Folders of PyTorch's own Python code, for checkouts that are not installed.
const TORCH_PARTS: [&str; 14] = [
    "nn/", "optim/", "autograd/", "utils/", "cuda/", "amp/", "distributed/", "fx/", "_dynamo/", "_inductor/",
    "_functorch/", "_ops.py", "_tensor.py", "functional.py",
];

fn kind_of(file: &str) -> FileKind {
    let python = file.ends_with(".py") || file.ends_with(".ipynb") || file.starts_with("<ipython") || file == "<stdin>";
    if !python {
        return FileKind::Native;
    }
    let installed = ["site-packages/", "dist-packages/", "site-packages\\", "/lib/python3", "\\lib\\"];
    let of_torch = file.match_indices("torch/").any(|(at, _)| {
        let own_folder = at == 0 || file.as_bytes()[at - 1] == b'/';
        own_folder && TORCH_PARTS.iter().any(|part| file[at + "torch/".len()..].starts_with(part))
    });
    if of_torch || file.starts_with("<frozen") || installed.iter().any(|folder| file.contains(folder)) {
        FileKind::Library
    } else {
        FileKind::User
    }
}

/// A library's file from its package on; a user's file as it is.
fn short_path(file: &str) -> String {
    let after = |folder: &str| file.rfind(folder).map(|at| file[at + folder.len()..].to_owned());
    after("site-packages/").or_else(|| after("dist-packages/")).unwrap_or_else(|| file.to_owned())
}

/// Whether a compiled function says what was done: not the allocator, the dispatcher or the recording itself.
fn says_what(name: &str) -> bool {
    const PLUMBING: [&str; 18] = [
        "create_out", "structured_", "unwind", "CapturedTraceback", "gather", "CUDACachingAllocator", "c10::", "empty",
        "Allocator", "_start", "Py", "wrapper_", "Dispatcher", "Redispatch", "std::", "alloc", "clone", "??",
    ];
    name.contains("::") && !PLUMBING.iter().any(|part| name.contains(part))
}

/// The gradient that a compiled function belongs to: `AddmmBackward0` of `AddmmBackward0_apply_functional`.
fn gradient_of(name: &str) -> Option<String> {
    let part = name.split("::").find(|part| part.contains("Backward"))?;
    let digits = part.find("Backward")? + "Backward".len();
    let end = part[digits..].find(|c: char| !c.is_ascii_digit()).map_or(part.len(), |length| digits + length);
    Some(part[..end].to_owned())
}

/// A compiled function's name without its arguments.
fn short_name(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let end = name.find(['(', '<']).unwrap_or(name.len());
    name[..end].trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart() {
        for file in ["/home/me/train.py", "train.py", "/home/me/torch/train.py", "/tmp/ipykernel_7/12.py", "<stdin>"] {
            assert_eq!(kind_of(file), FileKind::User, "{file}");
        }
        for file in [
            "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py",
            "/usr/lib/python3.11/runpy.py",
            "/src/pytorch/torch/nn/functional.py",
            "torch/_tensor.py",
            "/opt/venv/site-packages/transformers/trainer.py",
        ] {
            assert_eq!(kind_of(file), FileKind::Library, "{file}");
        }
        for file in ["??", "CUDACachingAllocator.cpp", "/pytorch/aten/src/ATen/native/Linear.cpp", ""] {
            assert_eq!(kind_of(file), FileKind::Native, "{file}");
        }
        assert_eq!(short_path("/x/site-packages/torch/nn/functional.py"), "torch/nn/functional.py");
    }

    #[test]
    fn lines_of_a_traceback_are_read() {
        let line = traceback_line("  File \"net.py\", line 12, in forward\n    return f(x)\n").unwrap();
        assert_eq!((line.file.as_str(), line.line, line.function.as_str()), ("net.py", 12, "forward"));
        assert_eq!(traceback_line("no such thing"), None);
    }

    #[test]
    fn compiled_functions_that_do_something_are_told_from_plumbing() {
        assert!(says_what("torch::autograd::generated::AddmmBackward0::apply"));
        assert!(!says_what("c10::cuda::CUDACachingAllocator::Native::malloc") && !says_what("main"));
        let gradient = gradient_of("torch::autograd::generated::AddmmBackward0_apply_functional");
        assert_eq!((gradient.as_deref(), gradient_of("at::mm")), (Some("AddmmBackward0"), None));
        assert_eq!(short_name("at::native::add_out(at::Tensor)"), "at::native::add_out");
        assert_eq!(short_name("at::(anonymous namespace)::copy<long>(int)"), "at::copy");
    }
}
