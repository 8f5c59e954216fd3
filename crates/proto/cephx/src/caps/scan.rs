//! The scanner for the words of capabilities.

use std::net::IpAddr;
use std::str::FromStr;

/// The text is not a valid capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("capability '{text}': {expected} expected at '{at}'")]
pub struct CapsError {
    /// The whole text.
    pub text: String,
    /// The expected element.
    pub expected: &'static str,
    /// The rest of the text at which parsing stopped.
    pub at: String,
}

/// Scans a text from left to right, skipping spaces before each element.
pub(super) struct Scanner<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut scanner = Self { text, rest: text };
        scanner.skip_spaces();
        scanner
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn error(&self, expected: &'static str) -> CapsError {
        CapsError { text: self.text.to_owned(), expected, at: self.rest.to_owned() }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Consumes a character, and the spaces after it.
    pub(super) fn symbol(&mut self, symbol: char) -> bool {
        let found = self.rest.strip_prefix(symbol);
        if let Some(rest) = found {
            self.rest = rest;
            self.skip_spaces();
        }
        found.is_some()
    }

    /// Consumes a character if a digit follows directly.
    pub(super) fn symbol_before_digit(&mut self, symbol: char) -> bool {
        let rest = self.rest.strip_prefix(symbol);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) && self.symbol(symbol)
    }

    /// Consumes the next word if it is `keyword`.
    pub(super) fn keyword(&mut self, keyword: &str) -> bool {
        let found = word_of(self.rest) == keyword;
        if found {
            self.advance(keyword.len());
        }
        found
    }

    /// Consumes `keyword=VALUE` or `keyword VALUE`.
    pub(super) fn setting(&mut self, keyword: &str) -> Result<Option<String>, CapsError> {
        if !self.keyword(keyword) {
            return Ok(None);
        }
        self.symbol('=');
        self.string().map(Some)
    }

    /// Returns the next word without consuming it.
    pub(super) fn peek_word(&self) -> &'a str {
        word_of(self.rest)
    }

    /// Consumes the word that [`Scanner::peek_word`] returned.
    pub(super) fn take_word(&mut self) {
        self.advance(word_of(self.rest).len());
    }

    /// Consumes a word or a quoted string; a quoted string may be empty.
    pub(super) fn string(&mut self) -> Result<String, CapsError> {
        self.string_without_spaces_after().inspect(|_| self.skip_spaces())
    }

    /// Like [`Scanner::string`], and also consumes an asterisk that follows directly. Returns whether
    /// there was one.
    pub(super) fn pattern(&mut self) -> Result<(String, bool), CapsError> {
        if self.symbol('*') {
            return Ok((String::new(), true));
        }
        let text = self.string_without_spaces_after()?;
        let starred = self.rest.starts_with('*');
        self.rest = &self.rest[usize::from(starred)..];
        self.skip_spaces();
        Ok((text, starred))
    }

    /// Consumes a network such as `10.0.0.0/8`.
    pub(super) fn network(&mut self) -> Result<Network, CapsError> {
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '/' | '[' | ']');
        let len = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let network = self.rest[..len].parse().map_err(|()| self.error("a network such as 10.0.0.0/8"))?;
        self.advance(len);
        Ok(network)
    }

    fn string_without_spaces_after(&mut self) -> Result<String, CapsError> {
        for quote in ['"', '\''] {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                let (inside, after) = rest.split_once(quote).ok_or_else(|| self.error("a closing quote"))?;
                self.rest = after;
                return Ok(inside.to_owned());
            }
        }
        let word = word_of(self.rest);
        if word.is_empty() {
            return Err(self.error("a name"));
        }
        self.rest = &self.rest[word.len()..];
        Ok(word.to_owned())
    }

    fn advance(&mut self, len: usize) {
        self.rest = &self.rest[len..];
        self.skip_spaces();
    }
}

fn word_of(text: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    &text[..text.find(|c| !is_part(c)).unwrap_or(text.len())]
}

/// A network to which a capability is restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    ip: IpAddr,
    prefix_len: u32,
}

impl Network {
    /// Whether the network contains an address. No network contains an unknown address.
    pub fn contains(&self, addr: Option<IpAddr>) -> bool {
        match (self.ip, addr) {
            (IpAddr::V4(net), Some(IpAddr::V4(ip))) => {
                same_prefix(net.to_bits().into(), ip.to_bits().into(), 32, self.prefix_len)
            }
            (IpAddr::V6(net), Some(IpAddr::V6(ip))) => {
                same_prefix(net.to_bits(), ip.to_bits(), 128, self.prefix_len)
            }
            _ => false,
        }
    }
}

/// Whether two numbers of `bits` bits agree in their first `prefix_len` bits.
fn same_prefix(a: u128, b: u128, bits: u32, prefix_len: u32) -> bool {
    (a ^ b).checked_shr(bits - prefix_len).unwrap_or(0) == 0
}

impl FromStr for Network {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (ip, prefix_len) = text.split_once('/').ok_or(())?;
        let ip: IpAddr = ip.trim_matches(['[', ']']).parse().map_err(|_| ())?;
        let prefix_len = prefix_len.parse().map_err(|_| ())?;
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        if prefix_len > longest { Err(()) } else { Ok(Self { ip, prefix_len }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let contains =
            |network: &str, ip: &str| network.parse::<Network>().unwrap().contains(ip.parse().ok());
        assert!(contains("10.0.0.0/8", "10.9.8.7"));
        assert!(!contains("10.0.0.0/8", "11.9.8.7"));
        assert!(contains("0.0.0.0/0", "11.9.8.7"));
        assert!(contains("fd00::/16", "fd00:1::2"));
        assert!(contains("::/0", "fd00:1::2"));
        assert!(!contains("::/0", "10.0.0.1"));
        assert!(!contains("10.0.0.1/32", "not an address"));
        assert!("10.0.0.0/33".parse::<Network>().is_err());
        assert!("10.0.0.0".parse::<Network>().is_err());
    }
}
