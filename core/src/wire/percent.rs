//! Percent-encoding (RFC 3986, 2.1): [`percent_decode`], [`query_pairs`], and the encoding of what we send.

use alloc::string::String;
use alloc::vec::Vec;

/// Encodes all but the unreserved characters of RFC 3986. A space becomes `%20`, which is right in a query and in a form
/// alike; `+` is right only in one of them.
pub(super) fn encode(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// Undoes the encoding of a part of a path, where a plus is a plus. A `%` without two hexadecimal digits stands for
/// itself; what is no UTF-8 then becomes U+FFFD.
///
/// ```
/// use informer_core::wire::percent_decode;
///
/// assert_eq!(percent_decode("a%3Ab+c%2"), "a:b+c%2");
/// ```
pub fn percent_decode(text: &str) -> String {
    decode(text, b'+')
}

/// The names and values of a query, decoded as [`percent_decode`] does, but a plus is a space. A name without `=` has an
/// empty value; one that comes twice stands there twice.
///
/// ```
/// use informer_core::wire::query_pairs;
///
/// let pairs: Vec<_> = query_pairs("watch&labelSelector=a%20in+(b%2Cc)").collect();
/// assert_eq!(pairs, [("watch".into(), "".into()), ("labelSelector".into(), "a in (b,c)".into())]);
/// ```
pub fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name, b' '), decode(value, b' '))
    })
}

fn decode(text: &str, plus: u8) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = |at: usize| behind.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        rest = behind;
        plain.push(match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                rest = &behind[2..];
                (high * 16 + low) as u8 // two digits are at most 255
            }
            (b'+', ..) => plus,
            (byte, ..) => byte,
        });
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_broken_escape_stands_for_itself() {
        for (text, plain) in [
            ("a%3Db+c%2", "a=b+c%2"),
            ("%zz%C3%A9%e2%82%ac", "%zzé€"),
            ("%", "%"),
            ("%4", "%4"),
            ("%%41", "%A"),
            ("%ff", "\u{fffd}"),
            ("%é1", "%é1"),
        ] {
            assert_eq!(percent_decode(text), plain, "{text}");
        }
    }

    #[test]
    fn queries_are_taken_apart_before_they_are_decoded() {
        let pairs: Vec<_> = query_pairs("&a=%26+%3d=&&b&a=").collect();
        assert_eq!(pairs, [("a".into(), "& ==".into()), ("b".into(), String::new()), ("a".into(), String::new())]);
        assert_eq!(query_pairs("").count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(text in "\\PC{0,20}|[%+&=0-9a-f ]{0,20}") {
            let mut encoded = String::new();
            encode(&mut encoded, &text);
            prop_assert_eq!(&percent_decode(&encoded), &text);
            let pair = alloc::format!("{encoded}={encoded}");
            prop_assert_eq!(query_pairs(&pair).collect::<Vec<_>>(), [(text.clone(), text)]);
        }

        #[test]
        fn any_text_decodes_without_panic(text in "\\PC{0,20}|[%+&=0-9a-fé]{0,20}") {
            let _ = (percent_decode(&text), query_pairs(&text).count());
        }
    }
}
