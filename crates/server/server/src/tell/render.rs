//! Prints replies in the requested format. The default of a daemon is indented JSON.

use loligo_admin::{Admin, Answer, Command, Failure, Request};
use loligo_mon::output::json::Node;
use loligo_mon::output::xml::{self, ITEM, Names};

/// The names of a reply's elements in XML.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    root: &'static str,
    /// The name of the items, if the reply is an array.
    item: &'static str,
    /// The names of the items of arrays within the reply.
    special: &'static [(&'static str, &'static str)],
}

impl Shape {
    pub(crate) const fn of(root: &'static str) -> Self {
        Self { root, item: ITEM, special: &[] }
    }

    pub(crate) const fn list(root: &'static str, item: &'static str) -> Self {
        Self { root, item, special: &[] }
    }

    pub(crate) const fn with(self, special: &'static [(&'static str, &'static str)]) -> Self {
        Self { special, ..self }
    }

    pub(crate) fn print(self, request: &Request, node: &Node) -> String {
        let names = || Names { root: self.root.to_owned(), item: self.item, special: self.special };
        match request.arg("format") {
            Some("json") => node.to_string(),
            Some("xml") => xml::write(node, &names(), false),
            Some("xml-pretty") => xml::write(node, &names(), true) + "\n",
            _ => node.pretty() + "\n",
        }
    }
}

/// A command with a structured reply.
pub(crate) fn shaped(
    prefix: &str,
    help: &str,
    shape: Shape,
    run: impl Fn(&Request) -> Result<Node, Failure> + Send + Sync + 'static,
) -> Command {
    Command::new(prefix, help, move |request| Ok(shape.print(request, &run(request)?)))
}

/// Adds a command with a structured reply and without arguments.
pub(crate) fn add(
    admin: &Admin,
    prefix: &str,
    help: &str,
    shape: Shape,
    run: impl Fn() -> Node + Send + Sync + 'static,
) {
    admin.command(shaped(prefix, help, shape, move |_| Ok(run())));
}

/// Adds a command without arguments that always has the same reply.
pub(crate) fn add_text(admin: &Admin, prefix: &str, help: &str, answer: Result<&'static str, Failure>) {
    let run = move |_: &Request| -> Answer { answer.clone().map(str::to_owned) };
    admin.command(Command::new(prefix, help, run));
}
