//! The forms of `mon host`.
//!
//! | text | monitors |
//! |---|---|
//! | `10.0.0.1`, `mon.example.org`, `::1` | one, at the default ports of both messengers |
//! | `10.0.0.1:3300` | one; the default ports tell the messenger, any other port is tried with both |
//! | `v2:10.0.0.1:40000/0` | one, at one address |
//! | `[v2:10.0.0.1:3300,v1:10.0.0.1:6789]` | one, at several addresses |
//! | several of these, separated by commas, semicolons or spaces | several |

use std::fmt;
use std::net::IpAddr;

const PORT_V1: u16 = 6789;
const PORT_V2: u16 = 3300;

/// The messenger protocol of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messenger {
    /// The old messenger.
    V1,
    /// msgr2.
    V2,
}

/// One address of a monitor, as it was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonAddr {
    /// The messenger that listens at the address.
    pub messenger: Messenger,
    /// An IP address without brackets, or a name to resolve.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl MonAddr {
    /// The host, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for MonAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messenger = match self.messenger {
            Messenger::V1 => "v1",
            Messenger::V2 => "v2",
        };
        match self.host.contains(':') {
            true => write!(f, "{messenger}:[{}]:{}", self.host, self.port),
            false => write!(f, "{messenger}:{}:{}", self.host, self.port),
        }
    }
}

/// Parses the monitors in a text, each with its addresses, those of msgr2 first. `None` if the text is
/// invalid.
pub(super) fn parse(text: &str) -> Option<Vec<Vec<MonAddr>>> {
    let mut monitors = Vec::new();
    let mut rest = text.trim_start_matches(is_separator);
    while !rest.is_empty() {
        let (mut addresses, after) = parse_monitor(rest)?;
        addresses.sort_by_key(|a| a.messenger != Messenger::V2);
        monitors.push(addresses);
        if !after.is_empty() && !after.starts_with(is_separator) {
            return None;
        }
        rest = after.trim_start_matches(is_separator);
    }
    Some(monitors)
}

fn is_separator(c: char) -> bool {
    matches!(c, ',' | ';') || c.is_whitespace()
}

fn parse_monitor(text: &str) -> Option<(Vec<MonAddr>, &str)> {
    let Some(mut rest) = text.strip_prefix('[').filter(|t| messenger_prefix(t.trim_start()).is_some()) else {
        return parse_address(text, is_separator);
    };
    let mut all = Vec::new();
    loop {
        let (addresses, after) = parse_address(rest.trim_start(), |c| is_separator(c) || c == ']')?;
        all.extend(addresses);
        let after = after.trim_start();
        match after.strip_prefix(']') {
            Some(after) => return Some((all, after)),
            None => rest = after.strip_prefix([',', ';'])?,
        }
    }
}

/// Splits off `v1:` or `v2:`.
fn messenger_prefix(text: &str) -> Option<(Messenger, &str)> {
    text.strip_prefix("v2:")
        .map(|rest| (Messenger::V2, rest))
        .or_else(|| text.strip_prefix("v1:").map(|rest| (Messenger::V1, rest)))
}

fn parse_address(text: &str, ends: impl Fn(char) -> bool) -> Option<(Vec<MonAddr>, &str)> {
    let (messenger, text) = match messenger_prefix(text) {
        Some((messenger, rest)) => (Some(messenger), rest),
        None => (None, text.strip_prefix("any:").unwrap_or(text)),
    };
    let (host, port, after) = parse_host(text, ends)?;
    let at = |messenger, port| MonAddr { messenger, host: host.to_owned(), port };
    let addresses = match (messenger, port) {
        (Some(Messenger::V2), port) => vec![at(Messenger::V2, port.unwrap_or(PORT_V2))],
        (Some(Messenger::V1), port) => vec![at(Messenger::V1, port.unwrap_or(PORT_V1))],
        (None, None) => vec![at(Messenger::V2, PORT_V2), at(Messenger::V1, PORT_V1)],
        (None, Some(PORT_V1)) => vec![at(Messenger::V1, PORT_V1)],
        (None, Some(PORT_V2)) => vec![at(Messenger::V2, PORT_V2)],
        (None, Some(port)) => vec![at(Messenger::V2, port), at(Messenger::V1, port)],
    };
    Some((addresses, after))
}

/// Parses `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT` or a bare `V6`, each with an optional `/NONCE`.
fn parse_host(text: &str, ends: impl Fn(char) -> bool) -> Option<(&str, Option<u16>, &str)> {
    let (host, tail, after) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            let (tail, after) = rest.split_at(rest.find(&ends).unwrap_or(rest.len()));
            (host, tail, after)
        }
        None => {
            let (word, after) = text.split_at(text.find(&ends).unwrap_or(text.len()));
            let colons = word.bytes().filter(|b| *b == b':').count();
            let host_len = word.find(if colons > 1 { ['/', '/'] } else { [':', '/'] }).unwrap_or(word.len());
            let (host, tail) = word.split_at(host_len);
            if colons > 1 {
                host.parse::<std::net::Ipv6Addr>().ok()?;
            }
            (host, tail, after)
        }
    };
    let (port, nonce) = match tail.split_once('/') {
        Some((port, nonce)) => (port, Some(nonce)),
        None => (tail, None),
    };
    nonce.map_or(Some(0), |n| n.parse::<u32>().ok())?;
    let port = match port.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?).filter(|p| *p != 0),
        None if port.is_empty() => None,
        None => return None,
    };
    let valid_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    (!host.is_empty() && host.chars().all(valid_name)).then_some((host, port, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> Vec<String> {
        let monitors = parse(text).unwrap_or_else(|| panic!("{text}"));
        let show = |m: &Vec<MonAddr>| m.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        monitors.iter().map(show).collect()
    }

    #[test]
    fn every_form() {
        assert_eq!(shown("10.0.0.1"), ["v2:10.0.0.1:3300+v1:10.0.0.1:6789"]);
        assert_eq!(
            shown("a.example.org, b;c"),
            ["v2:a.example.org:3300+v1:a.example.org:6789", "v2:b:3300+v1:b:6789", "v2:c:3300+v1:c:6789"]
        );
        assert_eq!(shown("h:6789 h:3300 h:7"), ["v1:h:6789", "v2:h:3300", "v2:h:7+v1:h:7"]);
        assert_eq!(
            shown("[v2:127.0.0.1:40193,v1:127.0.0.1:56397]"),
            ["v2:127.0.0.1:40193+v1:127.0.0.1:56397"]
        );
        assert_eq!(
            shown("[v1:10.0.0.1:6789/0, v2:10.0.0.1:3300/0],[v2:10.0.0.2,v1:10.0.0.2]"),
            ["v2:10.0.0.1:3300+v1:10.0.0.1:6789", "v2:10.0.0.2:3300+v1:10.0.0.2:6789"]
        );
        assert_eq!(
            shown("v2:[::1]:3300/5 [fe80::1]:6789 ::1"),
            ["v2:[::1]:3300", "v1:[fe80::1]:6789", "v2:[::1]:3300+v1:[::1]:6789"]
        );
        assert_eq!(shown("[v2:[::1]:1,v1:[::1]:2]"), ["v2:[::1]:1+v1:[::1]:2"]);
        assert_eq!(shown(" , "), [""; 0]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["[v2:1.2.3.4:1", "h:x", "h:99999", "v2:", "[::1", "h/x", "[::1]3300", "a:b:c", "h&i", "[v2:h]x"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        /// What was understood of any text is understood again in the form that a cluster writes.
        #[test]
        fn any_text_is_parsed_or_refused(text in "[\\[\\]v12:/, a.0-9\u{e4}]{0,40}") {
            if let Some(monitors) = parse(&text) {
                let written = |monitor: &Vec<MonAddr>| {
                    let addresses: Vec<String> = monitor.iter().map(ToString::to_string).collect();
                    format!("[{}]", addresses.join(","))
                };
                let again = monitors.iter().map(written).collect::<Vec<_>>().join(" ");
                prop_assert_eq!(parse(&again), Some(monitors), "{}", again);
            }
        }
    }
}
