//! Answers in the format that is asked for. A daemon that is told something writes indented JSON where
//! nothing else is said.

use loligo_admin::{Admin, Answer, Command, Failure, Request};
use loligo_mon::output::json::Node;
use loligo_mon::output::xml::{self, ITEM, Names};

/// What a command's answer is called in XML.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    root: &'static str,
    /// The items, if it is an array.
    item: &'static str,
    /// Names of items of arrays in it.
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

/// A command whose answer has a structure.
pub(crate) fn shaped(
    prefix: &str,
    help: &str,
    shape: Shape,
    run: impl Fn(&Request) -> Result<Node, Failure> + Send + Sync + 'static,
) -> Command {
    Command::new(prefix, help, move |request| Ok(shape.print(request, &run(request)?)))
}

/// Adds a command whose answer has a structure, and that takes nothing.
pub(crate) fn add(
    admin: &Admin,
    prefix: &str,
    help: &str,
    shape: Shape,
    run: impl Fn() -> Node + Send + Sync + 'static,
) {
    admin.command(shaped(prefix, help, shape, move |_| Ok(run())));
}

/// Adds a command that takes nothing and has always the same answer.
pub(crate) fn add_text(admin: &Admin, prefix: &str, help: &str, answer: Result<&'static str, Failure>) {
    let run = move |_: &Request| -> Answer { answer.clone().map(str::to_owned) };
    admin.command(Command::new(prefix, help, run));
}
