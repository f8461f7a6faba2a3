//! The tokens of a label selector.

/// One token and the byte at which it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// The token as it stands in the text; empty at the end.
    pub(super) text: &'a str,
    pub(super) at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A key, a value, `in` or `notin`: which of them, only the place in the grammar says, as a key may be named `in`.
    Word,
    Equal,
    DoubleEqual,
    NotEqual,
    Not,
    Less,
    Greater,
    Open,
    Close,
    Comma,
    End,
}

/// Reads one token after the other, with one of lookahead.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0 }
    }

    /// The next token, which stays the next one.
    pub(super) fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    /// The next token; `End` for ever at the end.
    pub(super) fn next(&mut self) -> Token<'a> {
        let rest = &self.text[self.at..];
        let at = self.at + (rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len());
        let rest = &self.text.as_bytes()[at..];
        let (kind, len) = match rest {
            [] => (Kind::End, 0),
            [b'=', b'=', ..] => (Kind::DoubleEqual, 2),
            [b'=', ..] => (Kind::Equal, 1),
            [b'!', b'=', ..] => (Kind::NotEqual, 2),
            [b'!', ..] => (Kind::Not, 1),
            [b'<', ..] => (Kind::Less, 1),
            [b'>', ..] => (Kind::Greater, 1),
            [b'(', ..] => (Kind::Open, 1),
            [b')', ..] => (Kind::Close, 1),
            [b',', ..] => (Kind::Comma, 1),
            word => {
                let ends = |byte: &u8| b"=!()<>, \t\r\n".contains(byte);
                (Kind::Word, word.iter().position(ends).unwrap_or(word.len()))
            }
        };
        self.at = at + len;
        Token { kind, text: &self.text[at..self.at], at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn tokens(text: &str) -> Vec<(Kind, &str, usize)> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            assert_eq!(lexer.peek(), lexer.peek());
            let token = lexer.next();
            tokens.push((token.kind, token.text, token.at));
            if token.kind == Kind::End {
                return tokens;
            }
        }
    }

    #[test]
    fn the_longest_operator_wins() {
        assert_eq!(
            tokens("a===b"),
            [
                (Kind::Word, "a", 0),
                (Kind::DoubleEqual, "==", 1),
                (Kind::Equal, "=", 3),
                (Kind::Word, "b", 4),
                (Kind::End, "", 5)
            ]
        );
        assert_eq!(tokens("!=!"), [(Kind::NotEqual, "!=", 0), (Kind::Not, "!", 2), (Kind::End, "", 3)]);
    }

    #[test]
    fn spaces_part_words_and_do_nothing_else() {
        assert_eq!(
            tokens(" a\tin\n(é )"),
            [
                (Kind::Word, "a", 1),
                (Kind::Word, "in", 3),
                (Kind::Open, "(", 6),
                (Kind::Word, "é", 7),
                (Kind::Close, ")", 10),
                (Kind::End, "", 11)
            ]
        );
        assert_eq!(tokens(" "), [(Kind::End, "", 1)]);
    }
}
