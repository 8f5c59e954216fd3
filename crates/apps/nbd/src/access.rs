//! Access control: the clients that may use a device.

use std::fmt;
use std::str::FromStr;

/// The identity of a client that TLS has proved. A client without TLS has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The user name of the client's pre-shared key: `psk:USER`.
    SharedKey(Vec<u8>),
    /// The SHA-256 of the DER of the client's certificate, as `openssl x509 -fingerprint -sha256` prints
    /// it: `sha256:HEX`.
    Certificate([u8; 32]),
}

/// The clients that may use a device; by default every client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Option<Vec<Identity>>);

impl Allowed {
    /// Allows only `identities`; an empty list allows no client.
    pub fn only(identities: Vec<Identity>) -> Self {
        Self(Some(identities))
    }

    /// Returns whether clients need an identity.
    pub fn is_bound(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether `client` may use the device.
    pub fn contains(&self, client: Option<&Identity>) -> bool {
        match (&self.0, client) {
            (None, _) => true,
            (Some(these), Some(client)) => these.contains(client),
            (Some(_), None) => false,
        }
    }
}

impl FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is neither psk:USER nor sha256:HEX, a certificate's fingerprint");
        if let Some(user) = text.strip_prefix("psk:").filter(|user| !user.is_empty()) {
            return Ok(Self::SharedKey(user.as_bytes().to_vec()));
        }
        let hex = text.strip_prefix("sha256:").ok_or_else(wrong)?;
        let digits: Option<Vec<u8>> = hex
            .chars()
            .filter(|digit| *digit != ':')
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(wrong)?;
        let mut sum = [0; 32];
        for (byte, pair) in sum.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
        Ok(Self::Certificate(sum))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedKey(user) => write!(f, "psk:{}", String::from_utf8_lossy(user)),
            Self::Certificate(sum) => {
                f.write_str("sha256:")?;
                sum.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_read_as_they_are_written() {
        let sum = "sha256:".to_owned() + &"0f".repeat(32);
        for text in ["psk:alice", "psk:a:b", &sum] {
            assert_eq!(text.parse::<Identity>().expect(text).to_string(), text);
        }
        let colons = "sha256:".to_owned() + &["0F"; 32].join(":");
        assert_eq!(colons.parse::<Identity>(), sum.parse());
        for text in ["", "psk:", "alice", "sha256:00", &("sha256:".to_owned() + &"0g".repeat(32))] {
            assert!(text.parse::<Identity>().is_err(), "{text}");
        }
    }

    #[test]
    fn who_is_not_named_may_not() {
        let alice = Identity::SharedKey(b"alice".to_vec());
        let bob = Identity::SharedKey(b"bob".to_vec());
        let only = Allowed::only(vec![alice.clone()]);
        assert!(only.contains(Some(&alice)) && !only.contains(Some(&bob)) && !only.contains(None));
        assert!(Allowed::default().contains(None) && !Allowed::only(Vec::new()).contains(Some(&alice)));
    }
}
