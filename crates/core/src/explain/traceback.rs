//! Frames of tracebacks, in every form people paste.
//!
//! In: the lines above (or below) an error's message. Out: frames, outermost first. Read are Python's own form, IPython's old and new one, rich's
//! boxes and pytest's, the traces of native code and Lua's.

use std::borrow::Cow;

use super::sizes::has;

/// Frames that are kept.
const MOST_FRAMES: usize = 80;

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The file, as written; of a library's without what lies before its packages.
    pub file: String,
    /// The function.
    pub function: String,
    /// The line of code, where it is shown.
    pub code: String,
}

/// Whether a frame is of the job's own code, and of no library's.
pub fn is_own(frame: &Frame) -> bool {
    // What a compiler wrote (`/tmp/torchinductor_…`) is not what the user wrote.
    !["site-packages", "dist-packages", "lib/python", "share/lua", "luarocks", "torchinductor", NATIVE]
        .iter()
        .any(|library| has(&frame.file, library))
}

/// The frames of the last traceback in these lines.
pub fn frames(lines_all: &[&str]) -> Vec<Frame> {
    let whole = unwrapped(lines_all);
    let lines_all: &[&str] = &whole.iter().map(|line| &**line).collect::<Vec<_>>();
    let lines = lines_all;
    // Paddle shows the frames of its C++ below those of Python.
    let header = |line: &&str| {
        !line.contains("C++ Traceback")
            && ["Traceback (most recent call last)", "Traceback (innermost last)", "(most recent call first)"]
                .iter()
                .any(|words| line.contains(words))
    };
    let from = lines.iter().rposition(header).map_or(0, |at| at + 1);
    let mut found: Vec<Frame> = Vec::new();
    let lines_above = &lines[from..];
    let mut lines = lines_above.iter().peekable();
    while let Some(line) = lines.next() {
        if let Some(mut frame) = frame(line) {
            if line.contains("File \"") {
                // The interpreter shows the line of code right below.
                if let Some(code) = lines.peek().filter(|next| self::frame(next).is_none()) {
                    frame.code = behind_prefix(line, code).trim().to_owned();
                }
            }
            found.push(frame);
        } else if let Some(code) = marked_code(line) {
            match found.last_mut() {
                Some(last) => code.clone_into(&mut last.code),
                // Cut off above its frame.
                None => found.push(Frame { code: code.to_owned(), ..Frame::default() }),
            }
        }
    }
    let native = found.first().is_some_and(|first| first.file == NATIVE);
    found.retain(|frame| (frame.file == NATIVE) == native);
    // A crash handler shows the innermost first, and so does the trace of a library in C++, unless its numbers fall.
    let turned = from > 0 && lines_all[from - 1].contains("(most recent call first)");
    if if native { !numbers_fall(lines_above) } else { turned } {
        found.reverse();
    }
    // And Lua's.
    if lines_all.iter().any(|line| line.trim() == LUA_TRACE) && found.first().is_some_and(|first| is_lua(&first.file)) {
        found.reverse();
    }
    // The innermost say what there is to say; recursion makes thousands.
    found.drain(..found.len().saturating_sub(MOST_FRAMES));
    for frame in &mut found {
        frame.file.drain(..before_library(&frame.file));
    }
    // What was typed at a prompt stands above.
    if let Some(last) = found.last_mut().filter(|last| last.file == "<stdin>") {
        let typed = lines_all[..from].iter().rev().find_map(|line| line.trim_start().strip_prefix(">>> "));
        last.code = typed.map_or(String::new(), str::to_owned);
    }
    // Cut off above: only the line of code is left, with what the interpreter draws below it.
    if found.is_empty() {
        let mut above = lines_above
            .iter()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .skip_while(|line| line.trim().chars().all(|c| "^~".contains(c)));
        let shown = |line: &&&str| line.starts_with("    ") || is_statement(line);
        let code = above.next().filter(|line| line.len() < 300).filter(shown);
        // A warning shows the code that it is about, too: `x.py:12: FutureWarning: …` stands above it.
        let code = code.filter(|_| !above.next().is_some_and(|line| line.contains("Warning: ")));
        found.extend(code.map(|code| Frame { code: code.trim().to_owned(), ..Frame::default() }));
    }
    found
}

/// Whether a line that was pasted without its margin is code: `x = f(…)`, `return f(…)` or `a.b.f(…)`.
fn is_statement(line: &str) -> bool {
    let name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_.[]".contains(c));
    // A remark behind the code is none of it.
    let line = line.split("  #").find(|code| !code.trim().is_empty()).unwrap_or(line).trim();
    let assigned = line.split_once(" = ").filter(|(left, _)| left.split(", ").all(name)).map(|(_, right)| right);
    let method = Some(line).filter(|line| line.split('(').next().is_some_and(|function| function.contains('.')));
    let value = line.strip_prefix("return ").or(assigned).or(method);
    let called = value.and_then(|value| value.split_once('(')).is_some_and(|(function, _)| name(function));
    called && line.ends_with([')', '(', ','])
}

/// Where a file of a library begins to say what it is of. What lies before are names that a user gave to an environment and to folders: with
/// `/envs/torch/lib/python3.11/site-packages/numpy/core.py` NumPy is no part of PyTorch.
fn before_library(file: &str) -> usize {
    let packages = ["site-packages", "dist-packages"].iter().filter_map(|packages| file.rfind(packages)).max();
    packages.or_else(|| file.rfind("/lib/python")).unwrap_or(0)
}

/// The file of frames that have none.
pub const NATIVE: &str = "<native>";

/// The code below a frame without what a logger writes before both: a time, a host, a process.
fn behind_prefix<'a>(frame: &str, code: &'a str) -> &'a str {
    let prefix = frame.split("File \"").next().unwrap_or("").trim_end();
    let plain = |text: &str| text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
    match code.get(..prefix.len()) {
        Some(start) if !prefix.is_empty() && plain(start) == plain(prefix) => &code[prefix.len()..],
        _ => code,
    }
}

/// A frame is broken into at most this many lines.
const MOST_BREAKS: usize = 3;

/// The lines as they were before a terminal broke a frame in two, or a logger with columns of its own in more: `File`, `"/home/…/adam`,
/// `w.py", line 171, in step`.
fn unwrapped<'a>(lines: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut whole: Vec<Cow<'a, str>> = Vec::with_capacity(lines.len());
    let mut breaks = 0;
    for &line in lines {
        let above = whole.last().filter(|_| breaks < MOST_BREAKS && line.len() < 200);
        let open = above.and_then(|last| broken(last).or_else(|| ends_a_path(last, line).then_some("")));
        match (open, whole.last_mut()) {
            (Some(between), Some(last)) => {
                breaks += 1;
                let last = last.to_mut();
                last.truncate(last.trim_end().len());
                last.push_str(between);
                last.push_str(if between.is_empty() && !line.starts_with("  ") { line } else { line.trim_start() });
            }
            _ => {
                breaks = 0;
                whole.push(Cow::Borrowed(line));
            }
        }
    }
    whole
}

/// Whether a path that fills its line goes on in the next one, as a box breaks it: `/opt/…/modeling.p` and `y:317 in convert`.
fn ends_a_path(line: &str, next: &str) -> bool {
    let line = line.trim();
    let path = line.starts_with('/') || line.get(1..3) == Some(":\\");
    let place = next.trim().split_once(" in ").and_then(|(place, _)| place.rsplit_once(':'));
    let ends = place.is_some_and(|(file, at)| {
        !file.contains([' ', '/', '\\']) && !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_digit())
    });
    path && !line.contains(' ') && line.len() >= LONG_PATH && ends
}

/// A path that fills a line is at least as long.
const LONG_PATH: usize = 40;

/// Whether a frame goes on in the next line, and with what in between.
fn broken(line: &str) -> Option<&'static str> {
    let line = line.trim();
    // A box breaks a path behind one of its folders.
    let path = line.starts_with('/') || line.get(1..3) == Some(":\\");
    if path && line.ends_with(['/', '\\']) && !line.contains(' ') {
        return Some("");
    }
    let quotes = line.matches('"').count();
    match line.strip_prefix("File") {
        Some("") => Some(" "),
        Some(rest) if rest.starts_with(" \"") && quotes == 1 => Some(""),
        Some(rest) if rest.starts_with(" \"") && quotes == 2 && line.ends_with("\",") => Some(" "),
        _ => None,
    }
}

/// `---->  3 code`, rich's `❱ 12  code`, pytest's `>   code`.
fn marked_code(line: &str) -> Option<&str> {
    let line = line.trim_start();
    // Behind the prefix of a launcher.
    let line = line
        .split_once(":  ")
        .filter(|(prefix, _)| prefix.len() < 20 && !prefix.contains(' '))
        .map_or(line, |(_, rest)| rest.trim_start());
    let arrow = || line.trim_start_matches('-').strip_prefix('>').filter(|_| line.starts_with('-'));
    let marked = line.strip_prefix("❱").or_else(arrow);
    if let Some(rest) = marked.map(str::trim_start) {
        // An editor makes a link of the number: `-> [12](vscode-…) code`.
        let linked = rest.strip_prefix('[').and_then(|rest| rest.split_once("](")).and_then(|(number, rest)| {
            rest.split_once(')').filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        let code = linked.map_or(rest, |(_, code)| code);
        return Some(code.trim_start_matches(|c: char| c.is_ascii_digit()).trim());
    }
    let code = line.strip_prefix("> ").or_else(|| line.strip_prefix(">\t")).map(str::trim)?;
    Some(code.trim_start_matches(|c: char| c.is_ascii_digit()).trim())
}

/// A file that a notebook has made a link of, as it is pasted: `[/lib/m.py](https://localhost:8080/#) in step(x)`, `File [~/m.py:12](http://…), in step`.
fn unlinked(line: &str) -> Option<String> {
    let (before, rest) = line.split_once('[').filter(|(before, _)| before.is_empty() || *before == "File ")?;
    let (file, rest) = rest.split_once("](")?;
    let (_, behind) = rest.split_once(')').filter(|(target, _)| target.contains("://"))?;
    Some(format!("{before}{file}{behind}"))
}

fn frame(line: &str) -> Option<Frame> {
    let linked = unlinked(line.trim());
    let trimmed = linked.as_deref().unwrap_or(line.trim());
    // File "x.py", line 3, in forward
    if let Some((_, rest)) = trimmed.split_once("File \"") {
        let (file, rest) = rest.split_once('"')?;
        let function = rest.split_once(" in ").map_or("", |(_, function)| function);
        return Some(Frame { file: file.to_owned(), function: name(function), code: String::new() });
    }
    // @     0x58e5a4  caffe::Net<>::Forward()
    if let Some(rest) = trimmed.strip_prefix("@ ").map(str::trim_start).filter(|rest| rest.starts_with("0x")) {
        let (_, symbol) = rest.split_once(char::is_whitespace)?;
        let symbol = symbol.trim().split('(').next().unwrap_or("");
        let function = symbol.rsplit("::").next().unwrap_or(symbol);
        return Some(Frame { file: NATIVE.to_owned(), function: name(function), code: String::new() });
    }
    if let Some((_, symbol)) = numbered(trimmed) {
        return Some(Frame { file: NATIVE.to_owned(), function: symbol.to_owned(), code: String::new() });
    }
    // File ~/x/module.py:1102, in Module._call_impl(self, *input)      Cell In[5], line 3
    if let Some(rest) = trimmed.strip_prefix("File ") {
        let (place, function) = rest.split_once(", in ").or_else(|| rest.split_once(" in "))?;
        return Some(Frame { file: without_line(place).to_owned(), function: name(function), code: String::new() });
    }
    if trimmed.starts_with("Cell In[") || trimmed.starts_with("Input In [") || trimmed.starts_with("<ipython-input-") {
        return Some(Frame { file: "<cell>".to_owned(), function: "<module>".to_owned(), code: String::new() });
    }
    if let Some(frame) = lua_frame(trimmed) {
        return Some(frame);
    }
    // /path/x.py:12 in forward (rich), path/x.py:12: in forward (pytest), /path/x.py in forward(self, x) (IPython)
    let (place, function) = trimmed.split_once(": in ").or_else(|| trimmed.split_once(" in "))?;
    let place = place.rsplit(char::is_whitespace).next().unwrap_or(place);
    let file = without_line(place);
    let is_file =
        [".py", ".pyx", ".pyc"].iter().any(|end| file.ends_with(end)) && !file.contains(": ") && file.len() < 300;
    is_file.then(|| Frame { file: file.to_owned(), function: name(function), code: String::new() })
}

/// Number and symbol of a frame of C++, of which the innermost is 0, without what the symbol takes: LibTorch's `frame #7: torch::jit::load(…) + 0x7a
/// (0x7f2 in lib.so)`, `#7  Object "lib.so", at 0x7f2, in torch::jit::load(…)`, a debugger's `#7  0x00007f2 in torch::jit::load (…)`.
fn numbered(line: &str) -> Option<(u32, &str)> {
    let rest = line.strip_prefix("frame ").unwrap_or(line).strip_prefix('#')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).filter(|&end| end > 0)?;
    let number = rest[..end].parse().ok()?;
    let rest = rest[end..].trim_start_matches([':', ' ']);
    let symbol = match rest.strip_prefix("Object \"").or_else(|| rest.strip_prefix("0x")) {
        Some(place) => place.split_once(" in ")?.1,
        None if line.starts_with("frame ") => rest,
        None => return None,
    };
    // What is in no namespace that has a name is written in brackets, too.
    let from = symbol.rfind("(anonymous namespace)::").map_or(0, |at| at + "(anonymous namespace)::".len());
    let ends = symbol[from..].find(['(', '<', ' ']).map_or(symbol.len(), |at| from + at);
    (ends > 0).then(|| (number, &symbol[..ends]))
}

/// Whether the first of such frames has a higher number than the last: then it is the outermost.
fn numbers_fall(lines: &[&str]) -> bool {
    let number = |line: &&str| numbered(line.trim()).map(|(number, _)| number);
    let (first, last) = (lines.iter().find_map(number), lines.iter().rev().find_map(number));
    first.zip(last).is_some_and(|(first, last)| first > last)
}

/// What stands above the frames of Lua.
const LUA_TRACE: &str = "stack traceback:";

/// `.../optim/adam.lua:41: in function 'step'`, `main.lua:120: in main chunk`; what was typed at a prompt stands in place of a file:
/// `[string "a = torch.Tensor(4, 4)"]:1: in main chunk`. Functions in C have no file, and their caller says what they are for.
fn lua_frame(line: &str) -> Option<Frame> {
    let (place, called) = line.split_once(": in ")?;
    let file = without_line(place);
    let function = called.strip_prefix("function '").or_else(|| called.strip_prefix("method '"));
    let function = function.or_else(|| called.strip_prefix("upvalue '")).map_or("", |name| name.trim_end_matches('\''));
    let typed = file.strip_prefix("[string \"").and_then(|code| code.strip_suffix("\"]"));
    let code = typed.filter(|code| !code.ends_with("..."));
    let known = is_lua(file) && (code.is_some() || typed.is_none());
    known.then(|| Frame { file: file.to_owned(), function: name(function), code: code.unwrap_or("").to_owned() })
}

fn is_lua(file: &str) -> bool {
    file.len() < 300 && (file.ends_with(".lua") || file.starts_with("[string \""))
}

fn without_line(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((file, line)) if line.bytes().all(|byte| byte.is_ascii_digit()) => file,
        _ => place,
    }
}

fn name(function: &str) -> String {
    let end = function.find(|c: char| c == '(' || c.is_whitespace()).unwrap_or(function.len());
    function[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(String, String, String)> {
        let lines: Vec<&str> = text.lines().collect();
        frames(&lines).into_iter().map(|frame| (frame.file, frame.function, frame.code)).collect()
    }

    fn one(file: &str, function: &str, code: &str) -> (String, String, String) {
        (file.to_owned(), function.to_owned(), code.to_owned())
    }

    #[test]
    fn every_form_is_read() {
        let plain = "x\nTraceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f(x)\n    ~^^^\n  File \"b.py\", line 4, in f\n    g()";
        assert_eq!(of(plain), [one("a.py", "<module>", "f(x)"), one("b.py", "f", "g()")]);
        let old = "<ipython-input-5-ab> in <module>()\n      2 y\n----> 3 f(x)\n\n~/lib/m.py in forward(self, x)\n    10 a\n---> 11     g(x)";
        assert_eq!(of(old), [one("<cell>", "<module>", "f(x)"), one("~/lib/m.py", "forward", "g(x)")]);
        let new = "Cell In[5], line 3\n----> 3 f(x)\nFile ~/lib/m.py:1102, in Module._call_impl(self)\n-> 1102 g(x)";
        assert_eq!(of(new), [one("<cell>", "<module>", "f(x)"), one("~/lib/m.py", "Module._call_impl", "g(x)")]);
        let linked = "[/lib/m.py](https://localhost:8080/#) in forward(self, x)\n---> 11     g(x)\nFile [~/n.py:8](http://10.1.2.3:8888/n.py#line=7), in put(x)\n----> [8](vscode-remote://n.py?line=7) f(x)";
        assert_eq!(of(linked), [one("/lib/m.py", "forward", "g(x)"), one("~/n.py", "put", "f(x)")]);
        let rich = " /lib/m.py:12 in step \n ❱ 12   opt.step() ";
        assert_eq!(of(rich), [one("/lib/m.py", "step", "opt.step()")]);
        let pytest = "lib/m.py:12: in step\n    opt.step()\n>   x.cuda()";
        assert_eq!(of(pytest), [one("lib/m.py", "step", "x.cuda()")]);
    }

    #[test]
    fn a_terminal_may_break_a_file_in_two() {
        let wrapped = "Traceback (most recent call last):\n  File \"C:\\x\\prepare_data_with\n_valid.py\", line 351, in <module>\n    X = np.asarray(X)";
        assert_eq!(of(wrapped), [one("C:\\x\\prepare_data_with_valid.py", "<module>", "X = np.asarray(X)")]);
    }

    #[test]
    fn traces_of_native_code_are_turned_round() {
        let trace = "    @     0x6a6f8e  caffe::SyncedMemory::to_gpu()\n    @     0x6b3962  caffe::Solver<>::Test()\n    @     0x5738c1  train()";
        let functions: Vec<String> = of(trace).into_iter().map(|(_, function, _)| function).collect();
        assert_eq!(functions, ["train", "Test", "to_gpu"]);
    }

    #[test]
    fn numbered_traces_of_native_code_are_read_from_both_ends() {
        let functions = |trace: &str| of(trace).into_iter().map(|(_, function, _)| function).collect::<Vec<_>>();
        let torch = "Exception raised from malloc at ../c10/Allocator.cpp:9 (most recent call first):\n\
                     frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in /lib/libc10.so)\n\
                     frame #1: <unknown function> + 0x302 (0x7f in /lib/libc10_cuda.so)\n\
                     frame #2: torch::jit::load(std::string const&) + 0x7a (0x7f in /lib/libtorch.so)";
        assert_eq!(functions(torch), ["torch::jit::load", "c10::Error::Error"]);
        let falling = "#2    Object \"/bin/fit\", at 0x55, in main\n\
                       #1    Object \"/lib/a.so\", at 0x7f, in torch::(anonymous namespace)::addmm(at::Tensor const&)";
        assert_eq!(functions(falling), ["main", "torch::(anonymous namespace)::addmm"]);
        let debugger =
            "#0  0x00007ffff in raise () from /lib/libc.so.6\n#4  0x0000555 in Net::forward (this=0x0) at net.cc:3";
        assert_eq!(functions(debugger), ["Net::forward", "raise"]);
        assert_eq!(functions("#1 in the list\n#2: fix the frame #3"), Vec::<String>::new());
    }

    #[test]
    fn traces_of_lua_are_turned_round() {
        let trace = "stack traceback:\n\t[C]: in function 'resizeAs'\n\t...share/lua/5.1/fairseq/optim/nag.lua:41: in function 'method'\n\tmain.lua:61: in function 'train'\n\tmain.lua:120: in main chunk\n\t[C]: at 0x00406670";
        let expected = [
            one("main.lua", "", ""),
            one("main.lua", "train", ""),
            one("...share/lua/5.1/fairseq/optim/nag.lua", "method", ""),
        ];
        assert_eq!(of(trace), expected);
        let typed =
            "stack traceback:\n\t[C]: in function 'Tensor'\n\t[string \"a = torch.Tensor(50000, 3)\"]:1: in main chunk";
        assert_eq!(of(typed), [one("[string \"a = torch.Tensor(50000, 3)\"]", "", "a = torch.Tensor(50000, 3)")]);
    }

    #[test]
    fn code_may_be_all_that_was_pasted() {
        assert_eq!(of("X = torch.cuda.FloatTensor(X)\n"), [one("", "", "X = torch.cuda.FloatTensor(X)")]);
        assert_eq!(of("return F.interpolate(x, size)"), [one("", "", "return F.interpolate(x, size)")]);
        let remark = "return engine.run_backward(  # in C++";
        assert_eq!(of(remark), [one("", "", remark)]);
        assert_eq!(of("lr = 0.1 (warm-up)"), []);
        assert_eq!(of("tokens per device = eight (of 8)"), []);
        assert_eq!(of("(devices, tokens) = (8, 1048576)"), []);
    }

    #[test]
    fn prose_is_no_frame() {
        assert_eq!(of("there is a problem in the code\nwhat happened in main.py in all cases: see below"), []);
    }
}
