//! What a program that exists runs on: whose libraries it loads, and what it talks to.

/// The libraries that a program loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Libs {
    Ours,
    Stock,
}

impl Libs {
    pub(super) const ALL: [Self; 2] = [Self::Ours, Self::Stock];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "Loligo's libraries",
            Self::Stock => "Ceph's libraries",
        }
    }
}

/// What a program talks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Peer {
    Server,
    Cluster,
}

impl Peer {
    pub(super) const ALL: [Self; 2] = [Self::Server, Self::Cluster];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "Loligo's server",
            Self::Cluster => "a stock cluster",
        }
    }
}
