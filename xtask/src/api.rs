//! `cargo xtask api`: lists the public API of the crates that others may build on (`docs/api/CRATE.txt`), so
//! that a change of it is seen in a review.
//!
//! The lists are taken from the pages that `cargo doc` writes: tools that compare APIs need the compiler's
//! unstable JSON, and a stable compiler has to do here. Another release of the compiler may phrase a
//! declaration differently; the lists are compared only by the release that wrote them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::process::{cargo, output_of, succeed, workspace};

/// The crates whose API is listed.
const CRATES: [&str; 9] =
    ["lockstat", "lane", "logring", "types", "cluster", "rados", "cache", "stripe", "rbd"];

/// Differences that are shown for each crate.
const SHOWN: usize = 20;

/// The arguments of `cargo xtask api`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Writes the lists; otherwise compares them with the code.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.write {
        return check();
    }
    document()?;
    let compiler = compiler()?;
    fs::create_dir_all(folder())?;
    for name in CRATES {
        fs::write(list_of(name), format!("{}{}", head(name, &compiler), api_of(name)?))?;
    }
    Ok(())
}

/// Compares the lists with the code.
///
/// # Errors
/// A list is missing, or differs from the code.
pub(crate) fn check() -> Result<()> {
    let compiler = compiler()?;
    let mut found = Vec::new();
    let mut is_documented = false;
    for name in CRATES {
        let list = fs::read_to_string(list_of(name))
            .map_err(|e| format!("{}: {e}: cargo xtask api --write", list_of(name).display()))?;
        let Some(listed) = list.strip_prefix(&head(name, &compiler)) else {
            println!("left out: public API of {name}: another compiler than {compiler} wrote its list");
            continue;
        };
        if !is_documented {
            document()?;
            is_documented = true;
        }
        let api = api_of(name)?;
        if api != listed {
            found.push(format!("the public API of {name} has changed:\n{}", difference(listed, &api)));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nif it is meant: cargo xtask api --write", found.join("\n")).into())
}

fn folder() -> PathBuf {
    workspace().join("docs/api")
}

fn list_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.txt"))
}

fn head(name: &str, compiler: &str) -> String {
    format!("# The public API of loligo-{name}, by {compiler}: cargo xtask api --write\n")
}

/// The compiler's name and release, such as `rustc 1.95`.
fn compiler() -> Result<String> {
    let told = output_of(std::process::Command::new("rustc").arg("--version"))?;
    let release = told.split_whitespace().nth(1).and_then(|release| release.rsplit_once('.'));
    Ok(format!("rustc {}", release.ok_or("rustc does not tell its release")?.0))
}

fn document() -> Result<()> {
    succeed(cargo().args(["doc", "--workspace", "--no-deps", "--lib", "--quiet"]))
}

/// The lines that only one of two texts has.
fn difference(listed: &str, api: &str) -> String {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (listed.lines().collect(), api.lines().collect());
    let gone = old.difference(&new).map(|line| format!("  - {}\n", line.trim()));
    let added = new.difference(&old).map(|line| format!("  + {}\n", line.trim()));
    let all: Vec<String> = gone.chain(added).collect();
    let more = all.len().saturating_sub(SHOWN);
    let shown: String = all.into_iter().take(SHOWN).collect();
    if more > 0 { format!("{shown}  and {more} more lines\n") } else { shown }
}

/// Reads the API of a crate from its pages.
fn api_of(name: &str) -> Result<String> {
    let root = workspace().join("target/doc").join(format!("loligo_{name}"));
    let read = |page: &Path| fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()));
    let all = read(&root.join("all.html"))?;
    let mut api = String::new();
    let mut modules = BTreeSet::from([String::new()]);
    for link in between(main_of(&all), "<li><a href=\"", "\"") {
        let (module, file) = link.rsplit_once('/').unwrap_or(("", link));
        modules.insert(module.to_owned());
        let mut words = file.trim_end_matches(".html").splitn(2, '.');
        let (kind, item) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = if module.is_empty() {
            item.to_owned()
        } else {
            format!("{}::{item}", module.replace('/', "::"))
        };
        api += &format!("{kind} {path}\n");
        for line in lines_of(&read(&root.join(link))?) {
            api += &format!("    {line}\n");
        }
    }
    for module in modules {
        let page = read(&root.join(&module).join("index.html"))?;
        for export in between(main_of(&page), "<code>pub use ", "</code>") {
            api += &format!("pub use {} in {}\n", plain(export), module.replace('/', "::"));
        }
    }
    Ok(api)
}

/// The part of a page that describes its item.
fn main_of(page: &str) -> &str {
    page.split_once("<section id=\"main-content\"").map_or(page, |(_, main)| main)
}

/// What an item's page declares, a line for each: the item, its methods, its traits.
fn lines_of(page: &str) -> Vec<String> {
    let main = main_of(page);
    let mut lines: Vec<String> =
        between(main, "<pre class=\"rust item-decl\"><code>", "</code></pre>").take(1).map(plain).collect();
    for section in main.split("<h2 id=\"").skip(1) {
        let id = section.split('"').next().unwrap_or_default();
        match id {
            "implementations" => {
                lines.extend(between(section, "<h4 class=\"code-header\">", "</h4>").map(plain));
            }
            "trait-implementations" => {
                lines.extend(between(section, "<h3 class=\"code-header\">", "</h3>").map(plain));
            }
            // Of the traits that the compiler implements, those that a change may take away unseen.
            "synthetic-implementations" => {
                let not = between(section, "<h3 class=\"code-header\">", "</h3>").map(plain);
                lines.extend(not.filter(|line| line.contains("!Send ") || line.contains("!Sync ")));
            }
            _ => {}
        }
    }
    lines
}

/// The texts between each `start` and the next `end`.
fn between<'a>(text: &'a str, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(start).skip(1).filter_map(move |rest| rest.split_once(end).map(|(inner, _)| inner))
}

/// The text of a piece of a page, on one line.
fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text += before;
        // A folded list has a title, which is no part of the declaration.
        rest = if tag.starts_with("summary") { tag.split_once("</summary>") } else { tag.split_once('>') }
            .map_or("", |(_, after)| after);
    }
    text += rest;
    for (name, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        text = text.replace(name, character);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_from_its_page() {
        let page = "<h2 id=\"implementations\">outside</h2><section id=\"main-content\" class=\"content\">\
            <pre class=\"rust item-decl\"><code>pub struct Lane&lt;T&gt; {\n    <details><summary><span>Show 2 fields\
            </span></summary>pub a: <a href=\"x\">u64</a>,\n    /* private fields */\n}</code></pre>\
            <h2 id=\"implementations\" class=\"x\">Implementations</h2><h3 class=\"code-header\">impl Lane</h3>\
            <h4 class=\"code-header\">pub fn <a href=\"#new\">new</a>(\n    a: &amp;'static str,\n) -&gt; Self</h4>\
            <h2 id=\"trait-implementations\"></h2><h3 class=\"code-header\">impl&lt;T&gt; Drop for Lane&lt;T&gt;</h3>\
            <h4 class=\"code-header\">fn drop(&amp;mut self)</h4><h2 id=\"synthetic-implementations\"></h2>\
            <h3 class=\"code-header\">impl&lt;T&gt; Send for Lane&lt;T&gt;</h3>\
            <h3 class=\"code-header\">impl&lt;T&gt; !Sync for Lane&lt;T&gt;</h3>";
        assert_eq!(
            lines_of(page),
            [
                "pub struct Lane<T> { pub a: u64, /* private fields */ }",
                "pub fn new( a: &'static str, ) -> Self",
                "impl<T> Drop for Lane<T>",
                "impl<T> !Sync for Lane<T>"
            ]
        );
    }

    #[test]
    fn what_is_gone_and_what_is_new_is_shown() {
        let shown = difference("struct A\n    pub fn a()\n", "struct A\n    pub fn b()\n");
        assert_eq!(shown, "  - pub fn a()\n  + pub fn b()\n");
        let many: String = (0..30).map(|number| format!("fn f{number}\n")).collect();
        assert!(difference("", &many).ends_with("  and 10 more lines\n"));
    }
}
