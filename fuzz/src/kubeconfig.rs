//! A kubeconfig: no panic on any bytes, and no error ever shows a secret.
//!
//! First byte odd: the rest is a whole file, as it is. First byte even: a kubeconfig is made by a rule, and the rest
//! says what is missing, doubled, or of another type in it, and where it is cut; its secrets hold a word that must not
//! turn up in any error.

use crate::bytes::Bytes;
use informer_runtime::config::Config;
use std::error::Error;
use std::fmt::Write as _;

/// Stands in every secret field, once as it is and once in base64.
const SECRET: &str = "xyzzy-plugh";

/// `SECRET` in base64, without the last group, which depends on what follows.
const SECRET_BASE64: &str = "eHl6enktcGx1";

/// Reads one input.
///
/// # Panics
///
/// If something is wrong.
pub fn run(data: &[u8]) {
    let mut data = Bytes::new(data);
    if data.byte() % 2 == 1 {
        let _ = read(data.rest());
        return;
    }
    let text = make(&mut data);
    for shown in read(text.as_bytes()) {
        assert!(!shown.contains(SECRET) && !shown.contains(SECRET_BASE64), "{shown}\nfor\n{text}");
    }
}

/// Everything that a user may get to see of a file.
fn read(bytes: &[u8]) -> Vec<String> {
    let path = std::env::temp_dir().join(format!("informer-fuzz-{}.kubeconfig", std::process::id()));
    std::fs::write(&path, bytes).expect("write the file");
    let loaded = Config::from_kubeconfig(&path, None);
    let _ = std::fs::remove_file(&path); // a file that stays is no reason to fail
    let mut shown = Vec::new();
    let mut show = |error: &dyn Error| {
        shown.push(format!("{error} {error:?}"));
        let mut source = error.source();
        while let Some(error) = source {
            shown.push(format!("{error} {error:?}"));
            source = error.source();
        }
    };
    match loaded {
        Err(error) => show(&error),
        Ok(config) => {
            let mut errors = vec![config.check().err(), config.authorization(false).err()];
            // Without a CA of its own it would read those of this machine, a hundred times slower and of no interest.
            if bytes.windows(26).any(|window| window == b"certificate-authority-data") {
                errors.push(config.tls_config().err());
            }
            errors.iter().flatten().for_each(|error| show(error));
            shown.push(format!("{config:?}"));
        }
    }
    shown
}

/// A kubeconfig whose fields are by turns right, absent, doubled, or of another type.
fn make(data: &mut Bytes<'_>) -> String {
    let mut text = String::new();
    let secret = format!("\"{SECRET}\"");
    let key = format!("\"{SECRET_BASE64}Z2g=\"");
    let exec = format!("{{\"command\": \"aws\", \"env\": [{{\"name\": \"A\", \"value\": {secret}}}]}}");
    let provider = format!("{{\"name\": \"oidc\", \"config\": {{\"id-token\": {secret}}}}}");
    field(&mut text, data, "", "apiVersion", "\"v1\"");
    field(&mut text, data, "", "current-context", "\"c\"");
    text.push_str("contexts:\n- name: \"c\"\n  context:\n");
    field(&mut text, data, "    ", "cluster", "\"k\"");
    field(&mut text, data, "    ", "user", "\"u\"");
    field(&mut text, data, "    ", "namespace", "\"web\"");
    text.push_str("clusters:\n- name: \"k\"\n  cluster:\n");
    let address = ["\"https://127.0.0.1:6443\"", "\"http://127.0.0.1\"", "\"127.0.0.1\"", "\"https://[::1]/a\""];
    let address = address[data.below(address.len())];
    field(&mut text, data, "    ", "server", address);
    optional(&mut text, data, "    ", "proxy-url", &format!("\"http://u:{SECRET}@p\""));
    optional(&mut text, data, "    ", "tls-server-name", "\"a.example\"");
    optional(&mut text, data, "    ", "insecure-skip-tls-verify", "true");
    optional(&mut text, data, "    ", "certificate-authority-data", "\"bm8=\"");
    text.push_str("users:\n- name: \"u\"\n  user:\n");
    optional(&mut text, data, "    ", "token", &secret);
    optional(&mut text, data, "    ", "password", &secret);
    optional(&mut text, data, "    ", "username", "\"me\"");
    optional(&mut text, data, "    ", "client-key-data", &key);
    optional(&mut text, data, "    ", "client-certificate-data", "\"bm8=\"");
    optional(&mut text, data, "    ", "exec", &exec);
    optional(&mut text, data, "    ", "auth-provider", &provider);
    optional(&mut text, data, "    ", "as", "\"you\"");
    if data.below(4) == 3 {
        let mut cut = usize::from(data.short()) % (text.len() + 1);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
    }
    text
}

/// A field that is not there as a rule.
fn optional(text: &mut String, data: &mut Bytes<'_>, indent: &str, name: &str, value: &str) {
    if data.below(2) == 1 {
        field(text, data, indent, name, value);
    }
}

/// Writing to a string cannot fail.
fn field(text: &mut String, data: &mut Bytes<'_>, indent: &str, name: &str, value: &str) {
    let _ = match data.byte() {
        0..160 => writeln!(text, "{indent}{name}: {value}"),
        160..168 => Ok(()),
        168..176 => writeln!(text, "{indent}{name}: {value}\n{indent}{name}: {value}"),
        176..184 => writeln!(text, "{indent}{name}: [{value}]"),
        184..192 => writeln!(text, "{indent}{name}: {{{value}: {value}}}"),
        192..200 => writeln!(text, "{indent}{name}: null"),
        200..208 => writeln!(text, "{indent}{name}: 7"),
        208..216 => writeln!(text, "{indent}{name}: !!int {value}"),
        216..224 => writeln!(text, "{indent}{name}: !!binary {value}"),
        224..232 => writeln!(text, "{indent}{name}: \"\\q\" {value}"),
        232..240 => writeln!(text, "{indent}{name}: |\n{indent}  {value}\n"),
        240..248 => writeln!(text, "{indent}{name}: &a {value}\n{indent}x: *a"),
        248..=255 => writeln!(text, "\t{name}: {value} {value}"),
    };
}
