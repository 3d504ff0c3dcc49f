//! The README shows what the command prints. `make readme` writes it anew.

mod support;

use std::fs;

use support::{root, run, stdout};

const BEGIN: &str = "<!-- plan:begin (output of the command above) -->\n";
const END: &str = "<!-- plan:end -->";

#[test]
fn the_readme_shows_what_the_command_prints() {
    let shown = stdout(&run(&["plan", "examples/vision_cnn.json", "--batch", "128", "--device", "t4"]));
    let path = root().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n```text\n{shown}```\n\n{END}{after}");
    if std::env::var_os("BRIMFUL_UPDATE_README").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert!(readme == expected, "the README is out of date: run `make readme` and read the difference");
    }
}
