//! What is masked, what is not, and that masking twice changes nothing.

use proptest::prelude::*;

use super::*;

fn command(text: &str) -> String {
    let command: Vec<String> = text.split('|').map(str::to_owned).collect();
    mask_command(&command).join("|")
}

#[test]
fn options_lose_their_secrets_and_nothing_else() {
    for (before, after) in [
        ("python|train.py|--batch-size|32|--lr=0.1", "python|train.py|--batch-size|32|--lr=0.1"),
        ("python|t.py|--api-key|abc|--epochs|3", "python|t.py|--api-key|***|--epochs|3"),
        ("python|t.py|--api-key=a,b;c d|x", "python|t.py|--api-key=***|x"),
        ("env|HF_TOKEN=abc|python|t.py", "env|HF_TOKEN=***|python|t.py"),
        (
            "sh|-c|HF_TOKEN=abc python t.py --password hunter2 --lr 1",
            "sh|-c|HF_TOKEN=*** python t.py --password *** --lr 1",
        ),
        ("python|-c|run(api_key=\"abc\", lr=1)", "python|-c|run(api_key=\"***\", lr=1)"),
        ("python|t.py|--tokenizer|gpt2|--max-tokens|512", "python|t.py|--tokenizer|gpt2|--max-tokens|512"),
        ("python|t.py|--use-auth-token|--lr|1", "python|t.py|--use-auth-token|--lr|1"),
        ("python|t.py|--db|postgres://me:pw@host/db", "python|t.py|--db|postgres://me:***@host/db"),
        ("python|t.py|--name|hf_abcdefghijklmnopqrst", "python|t.py|--name|hf_***"),
        ("python|t.py|{\"token\": \"abc\", \"lr\": 1}", "python|t.py|{\"token\": \"***\", \"lr\": 1}"),
        ("curl|-H|Authorization: Bearer abc", "curl|-H|Authorization: Bearer ***"),
        ("curl|-H|X-Api-Key: a/b+c=", "curl|-H|X-Api-Key: ***"),
        ("curl|-u|me:pw|-p|8080", "curl|-u|me:***|-p|8080"),
        ("sshpass|-p|hunter2|ssh|host", "sshpass|-p|***|ssh|host"),
        ("/usr/bin/mysql|-u|me|-phunter2|db", "/usr/bin/mysql|-u|me|-p***|db"),
        ("redis-cli|-a|hunter2|-p|6379", "redis-cli|-a|***|-p|6379"),
        ("docker|login|-u|me|-p|hunter2", "docker|login|-u|me|-p|***"),
        ("docker|run|-p|8080:80|image", "docker|run|-p|8080:80|image"),
        ("srun|-p|gpu|python|t.py", "srun|-p|gpu|python|t.py"),
        ("python|t.py|-p|aG7kQ9zX2mV4bN8cR1tY", "python|t.py|-p|***"),
        ("python|-c|login(password = 'two (words', n=2)", "python|-c|login(password = '***', n=2)"),
        ("sh|-c|x --password=a,b;c&d y", "sh|-c|x --password=*** y"),
    ] {
        assert_eq!(command(before), after);
    }
}

#[test]
fn only_settings_that_matter_are_kept() {
    let environment = [
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("HOME", "/root"),
        ("TF_VAR_x", "y"),
        ("BRIMFUL_KEY", "abc"),
        ("TF_X", "hf_abcdefghijklmnopqrst"),
    ];
    let kept = settings(environment.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(kept, [("BRIMFUL_KEY", "***"), ("CUDA_VISIBLE_DEVICES", "0"), ("TF_X", "hf_***")]);
}

#[test]
fn ordinary_text_stays() {
    for text in [
        "step 10: loss 0.5, key figures follow",
        "the token is read\nfrom a file",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "loading /data/key/file.npy",
        "  File \"a.py\", line 3, in __getitem__\n    return self.cache[key]\nKeyError: 'weights'",
        "at::Key::get(token == other)",
    ] {
        assert_eq!(mask_text(text), text);
    }
}

proptest! {
    #[test]
    fn masking_again_changes_nothing(text in "[ -~\n]{0,80}", words in proptest::collection::vec("(--)?(api_key|lr|token|Bearer|a)[=: ]{0,2}[a-z0-9@:/]{0,20}", 0..6)) {
        let text = format!("{text} {}", words.join(" "));
        let once = mask_text(&text);
        prop_assert_eq!(mask_text(&once), once);
    }

    #[test]
    fn a_secret_behind_its_name_never_stays(secret in "[a-zA-Z0-9]{6,30}", name in "(HF_TOKEN|--api-key|db_password|WANDB_API_KEY)", separator in "(=|: |=\"|\": \")") {
        prop_assume!(!name.contains(&secret) && !["bearer", "basic"].contains(&secret.to_ascii_lowercase().as_str()));
        let masked = mask_text(&format!("run {name}{separator}{secret} --lr 1"));
        prop_assert!(!masked.contains(&secret), "{}", masked);
        let masked = mask_command(&["run".to_owned(), "--token".to_owned(), secret.clone()]);
        prop_assert!(!masked.contains(&secret));
    }
}
