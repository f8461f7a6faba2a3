//! [`Token`]: the continue token of a paged list, in the real server's form.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Where a list goes on, and at which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// `None` (-1 on the wire) is the latest version, with which an expired token goes on.
    pub(crate) version: Option<u64>,
    /// The first key that was not sent, relative to the namespace or cluster that is listed. It ends with a NUL, so
    /// that it is the smallest key after the last one sent.
    pub(crate) start: String,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    #[serde(default)]
    v: &'a str,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl Token {
    pub(crate) fn encode(&self) -> String {
        let rv = self.version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX));
        let wire = Wire { v: "meta.k8s.io/v1", rv, start: format!("/{}", self.start) };
        URL_SAFE_NO_PAD.encode(serde_json::to_string(&wire).expect("strings and numbers are always JSON"))
    }

    pub(crate) fn decode(text: &str) -> Result<Self, String> {
        const INVALID: &str = "invalid continue token: continue key is not valid";
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|error| format!("{INVALID}: {error}"))?;
        let wire: Wire<'_> = serde_json::from_slice(&json).map_err(|error| format!("{INVALID}: {error}"))?;
        if wire.v != "meta.k8s.io/v1" {
            return Err(format!("{INVALID}: server does not recognize this encoded version {}", wire.v));
        }
        if wire.rv == 0 {
            return Err(format!("{INVALID}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if start.is_empty() {
            return Err(format!("{INVALID}: encoded start key empty (version meta.k8s.io/v1)"));
        }
        if start.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(format!("{INVALID}: {}", wire.start));
        }
        Ok(Token { version: u64::try_from(wire.rv).ok(), start: start.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_that_of_the_real_server() {
        let token = Token { version: Some(228), start: "default/g-7bzv4\0".into() };
        let text = token.encode();
        let json = String::from_utf8(URL_SAFE_NO_PAD.decode(&text).unwrap()).unwrap();
        assert_eq!(json, r#"{"v":"meta.k8s.io/v1","rv":228,"start":"/default/g-7bzv4\u0000"}"#);
        assert_eq!(Token::decode(&text), Ok(token));
    }

    #[test]
    fn broken_tokens_are_named() {
        for json in ["{}", "nope", r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#, r#"{"v":"meta.k8s.io/v1","rv":1}"#] {
            let error = Token::decode(&URL_SAFE_NO_PAD.encode(json)).unwrap_err();
            assert!(error.starts_with("invalid continue token: continue key is not valid"), "{error}");
        }
        assert!(Token::decode("garbage!").is_err());
        assert!(Token::decode(&Token { version: None, start: "../x".into() }.encode()).is_err());
    }
}
