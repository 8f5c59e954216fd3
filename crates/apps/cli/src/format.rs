//! The output formats.

use clap::ValueEnum;

/// The values of `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatName {
    /// For people.
    #[default]
    #[value(aliases = ["text", "table"])]
    Plain,
    /// For programs.
    Json,
    /// The same over several lines.
    JsonPretty,
    /// As Ceph's programs write XML; for commands that talk to a cluster.
    Xml,
    /// The same over several lines.
    XmlPretty,
    /// For Prometheus; only `lockstat` has it.
    Prometheus,
    /// A page with charts; only `contend` has it.
    Html,
}

/// The output format of all commands but `lockstat` and `contend`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Json,
    JsonPretty,
    Xml,
    XmlPretty,
}

impl FormatName {
    /// Returns the format for a command that talks to a cluster; `None` for a format that only other
    /// commands have.
    pub(crate) fn of_client(self, pretty: bool) -> Option<Format> {
        Some(match (self, pretty) {
            (Self::Plain, _) => Format::Plain,
            (Self::Json, false) => Format::Json,
            (Self::Json | Self::JsonPretty, _) => Format::JsonPretty,
            (Self::Xml, false) => Format::Xml,
            (Self::Xml | Self::XmlPretty, _) => Format::XmlPretty,
            (Self::Prometheus | Self::Html, _) => return None,
        })
    }
}
