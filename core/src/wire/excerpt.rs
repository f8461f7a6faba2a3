//! [`excerpt`]: the beginning of a foreign body, fit for a log line.

use alloc::string::String;
use core::fmt::Write;

/// Bytes of a foreign body that an error quotes: a line of text, not a page of HTML (B022).
pub(crate) const EXCERPT_BYTES: usize = 200;

/// The first [`EXCERPT_BYTES`] bytes of `body`, on one line: control characters escaped, invalid UTF-8 replaced, `…`
/// at the end if something was cut off.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let body = body.trim_ascii();
    let head = &body[..body.len().min(EXCERPT_BYTES)];
    let is_cut = head.len() < body.len();
    let mut text = String::with_capacity(head.len() + 3);
    let mut chunks = head.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                let _ = write!(text, "{}", character.escape_default()); // a String takes everything
            } else {
                text.push(character);
            }
        }
        // A character that we cut in two ourselves is not the server's fault.
        let is_ours = is_cut && chunks.peek().is_none() && chunk.invalid().len() < 4;
        if !chunk.invalid().is_empty() && !is_ours {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    if is_cut {
        text.push('…');
    }
    text
}

/// Cuts `text` to at most `bytes`, between two characters, and marks the cut.
pub(crate) fn clip(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let mut end = bytes;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_the_rest_is_kept() {
        assert_eq!(excerpt(b" <p>\x1b[31m\r\nno\0pe</p>\n"), "<p>\\u{1b}[31m\\r\\nno\\u{0}pe</p>");
        assert_eq!(excerpt("grüße".as_bytes()), "grüße");
        assert_eq!(excerpt(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        let mut body = alloc::vec![b'a'; EXCERPT_BYTES - 1];
        body.extend("üü".bytes());
        let text = excerpt(&body);
        assert_eq!(text.len(), EXCERPT_BYTES - 1 + "…".len());
        assert!(text.ends_with("a…"));
        let mut text = String::from("aü");
        clip(&mut text, 2);
        assert_eq!(text, "a…");
    }
}
