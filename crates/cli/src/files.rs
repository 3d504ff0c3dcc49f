//! Opening what the user named. In: a path. Out: the file, or one sentence that says why not.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::bail;

/// Opens a file to read it.
pub fn open(path: &Path) -> anyhow::Result<File> {
    let name = path.display();
    match File::open(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{name}: there is no such file"),
        Err(error) => bail!("{name} cannot be opened: {error}"),
    }
}
