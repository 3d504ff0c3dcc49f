//! What is asked once, when the command is set up: `brimful completions` and `brimful man`.
//!
//! In: arguments. Out: [`CompletionsArgs`], [`ManArgs`].

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(brimful completions bash)
  brimful completions bash > ~/.local/share/bash-completion/completions/brimful
  brimful completions zsh > ~/.zfunc/_brimful
  brimful completions fish > ~/.config/fish/completions/brimful.fish
  brimful completions powershell >> $PROFILE

For zsh, put 'fpath+=~/.zfunc' before compinit in ~/.zshrc. The next shell has them.";

const MAN_EXAMPLES: &str = "\
Examples:
  brimful man | man -l -
  brimful man ~/.local/share/man/man1
  man brimful-plan";

/// `brimful completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell that is to read it
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `brimful man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// Write the pages of all commands into this folder [default: the first page, to the terminal]
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}
