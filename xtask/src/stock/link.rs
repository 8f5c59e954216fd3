//! A network namespace for a cluster's daemons. Clients outside reach the daemons through one link,
//! which tests can cut.

use std::fmt;
use std::net::Ipv4Addr;
use std::process::Command;

use crate::process::{installed, output_of};

/// The reason why there is no namespace.
#[derive(Debug)]
pub(crate) struct NoLink(String);

impl fmt::Display for NoLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no network namespace can be made: {}", self.0)
    }
}

impl std::error::Error for NoLink {}

/// A namespace, and the pair of interfaces that leads into it. The outer interface has the namespace's
/// name.
pub(super) struct Link(String);

impl Link {
    /// Creates a namespace and the link to it.
    ///
    /// # Errors
    /// If there is no program `ip`, or the kernel does not allow it: it needs root, and in a container
    /// the permission to do this.
    pub(super) fn make() -> Result<Self, NoLink> {
        if !installed("ip") {
            return Err(NoLink("there is no program `ip`".to_owned()));
        }
        let taken = ip("-o link")?;
        let free = |n: &u8| !taken.contains(&format!("{}@", name_of(*n)));
        let n = (0..=u8::MAX).find(free).ok_or_else(|| NoLink("256 clusters have one".to_owned()))?;
        let link = Self(name_of(n));
        let name = &link.0;
        // Remove one that an earlier cluster left behind.
        let _ = ip(&format!("netns del {name}"));
        for words in [
            format!("netns add {name}"),
            format!("link add {name} type veth peer name inside netns {name}"),
            format!("addr add {}/30 dev {name}", link.outside()),
            format!("link set {name} up"),
            format!("-n {name} addr add {}/30 dev inside", link.inside()),
            format!("-n {name} link set inside up"),
            format!("-n {name} link set lo up"),
        ] {
            ip(&words)?;
        }
        Ok(link)
    }

    pub(super) fn named(name: &str) -> Self {
        Self(name.to_owned())
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// The words that enter the namespace.
    pub(super) fn enter(&self) -> String {
        format!("ip netns exec {} ", self.0)
    }

    /// The address of the daemons.
    pub(super) fn inside(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number(), 2)
    }

    fn outside(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, self.number(), 1)
    }

    fn number(&self) -> u8 {
        self.0.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Removes both. Daemons that continue in the namespace have no link out of it.
    pub(super) fn remove(&self) {
        // Errors are ignored: either may be gone already.
        let _ = ip(&format!("link del {}", self.0));
        let _ = ip(&format!("netns del {}", self.0));
    }
}

fn ip(words: &str) -> Result<String, NoLink> {
    output_of(Command::new("ip").args(words.split(' '))).map_err(|e| NoLink(e.to_string()))
}

fn name_of(n: u8) -> String {
    format!("stock-{n}")
}
