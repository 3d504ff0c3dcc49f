//! Which names sound like a secret. In: the name of an option, a setting or a field. Out: [`Name`].

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Its value is masked.
    Secret,
    /// Its value is masked if it looks like one: `--tokenizer`, `--max-tokens`, `--keypoints`.
    Doubtful,
    /// Its value is shown.
    Plain,
}

/// Wherever they stand in a name.
const SECRET: [&str; 9] =
    ["SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "API_KEY", "PRIVATE_KEY", "AUTHORIZATION"];
/// At the end of one of its parts.
const SECRET_PARTS: [&str; 7] = ["KEY", "TOKEN", "PASS", "PAT", "AUTH", "PWD", "PIN"];
/// Anywhere, if the value agrees.
const DOUBTFUL: [&str; 4] = ["KEY", "TOKEN", "AUTH", "COOKIE"];
/// Ends in one of the parts and is none.
const HARMLESS: [&str; 7] = ["MONKEY", "TURKEY", "BYPASS", "COMPASS", "HOTKEY", "KEYPASS", "OLDPWD"];

/// Judges a name.
pub fn kind_of(name: &str) -> Name {
    let name = name.trim_matches('-').replace(['-', '.'], "_").to_ascii_uppercase();
    let ends = |part: &str| match part {
        "PAT" | "PASS" | "AUTH" => false,
        _ => SECRET_PARTS.iter().any(|end| part.ends_with(end) && *end != "PIN"),
    };
    let is_secret_part = |part: &str| !HARMLESS.contains(&part) && (ends(part) || SECRET_PARTS.contains(&part));
    // The shell's own folder.
    let is_folder = name == "PWD";
    if SECRET.iter().any(|word| name.contains(word)) || !is_folder && name.split('_').any(is_secret_part) {
        Name::Secret
    } else if DOUBTFUL.iter().any(|word| name.contains(word)) {
        Name::Doubtful
    } else {
        Name::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        for name in [
            "HF_TOKEN", "--api-key", "wandb.apikey", "AWS_SECRET_ACCESS_KEY", "db_password", "mytoken",
            "Authorization", "MYSQL_PWD", "--pin",
        ] {
            assert_eq!(kind_of(name), Name::Secret, "{name}");
        }
        for name in ["--tokenizer", "--max-tokens", "keyboard", "AUTHOR"] {
            assert_eq!(kind_of(name), Name::Doubtful, "{name}");
        }
        for name in ["--batch-size", "PATH", "lr", "compass", "--path", "", "PWD", "OLDPWD", "--pinned", "spin"] {
            assert_eq!(kind_of(name), Name::Plain, "{name}");
        }
    }
}
