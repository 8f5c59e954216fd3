//! Finds tests that assert nothing: whatever the code under test does, short of a panic of its own, they
//! pass.
//!
//! A test has a verdict if it asserts (`assert…!`, `prop_assert…!`, `panic!`, `unreachable!`, `expect_err`,
//! `unwrap_err`), if it gives something a time to come (`timeout` with `expect` or `unwrap`), or if a
//! function or constant that it names has one: of its crate's test code, or of code that tests of several
//! crates share. Functions are known by name alone, so a test may be taken for a better one than it is,
//! never for a worse. Where a macro makes tests of functions that it is given, each call of it is a test.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::Result;

/// Files whose functions are for tests of several crates.
const SHARED: [&str; 5] = ["fuzz/", "tests/", "/fuzz", "/conformance", "/testing"];

/// A function or constant.
struct Item {
    name: String,
    /// All words of its body.
    words: BTreeSet<String>,
    is_test: bool,
}

impl Item {
    fn asserts(&self) -> bool {
        let is_verdict = |word: &String| {
            let macros = ["assert", "debug_assert", "prop_assert"];
            macros.iter().any(|start| word.starts_with(start))
                || ["panic", "unreachable", "expect_err", "unwrap_err"].contains(&word.as_str())
        };
        let has = |word: &str| self.words.contains(word);
        self.words.iter().any(is_verdict) || (has("timeout") && (has("expect") || has("unwrap")))
    }
}

/// The functions and constants that may give a test its verdict, by name.
type Helpers<'a> = BTreeMap<&'a str, Vec<&'a Item>>;

/// Adds to `found` the tests of these files, given by path and text, that assert nothing.
pub(crate) fn check(files: &[(String, String)], found: &mut Vec<String>) -> Result<()> {
    let mut crates: BTreeMap<&str, Vec<(&str, Item)>> = BTreeMap::new();
    let mut parsed: Vec<(&String, TokenStream)> = Vec::new();
    let mut makers = Makers::new();
    for (path, text) in files {
        let tokens: TokenStream = text.parse().map_err(|error| format!("{path}: {error}"))?;
        add_makers(tokens.clone(), &mut makers);
        parsed.push((path, tokens));
    }
    for (path, tokens) in parsed {
        let mut items = Vec::new();
        read(tokens, is_for_tests(path), &makers, &mut items);
        crates.entry(home(path)).or_default().extend(items.into_iter().map(|item| (path.as_str(), item)));
    }
    let shared = || crates.get("").into_iter().flatten();
    for items in crates.values() {
        let mut helpers = Helpers::new();
        for (_, item) in items.iter().chain(shared()) {
            helpers.entry(&item.name).or_default().push(item);
        }
        for (path, test) in items.iter().filter(|(_, item)| item.is_test && !has_verdict(item, &helpers)) {
            found.push(format!("{path}: the test {} asserts nothing", test.name));
        }
    }
    Ok(())
}

/// Returns the folder of a file's crate; an empty one for files that tests of several crates share.
fn home(path: &str) -> &str {
    if SHARED
        .iter()
        .any(|shared| if shared.starts_with('/') { path.contains(shared) } else { path.starts_with(shared) })
    {
        return "";
    }
    ["/src/", "/tests/", "/benches/"]
        .iter()
        .find_map(|folder| path.split_once(folder))
        .map_or(path, |(home, _)| home)
}

fn is_for_tests(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || home(path).is_empty()
}

fn has_verdict(test: &Item, helpers: &Helpers<'_>) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![test];
    while let Some(item) = waiting.pop() {
        if item.asserts() {
            return true;
        }
        for word in item.words.iter().filter(|word| seen.insert(word.as_str())) {
            waiting.extend(helpers.get(word.as_str()).into_iter().flatten());
        }
    }
    false
}

/// The macros that make tests.
type Makers = BTreeSet<String>;

/// Adds the macros whose templates have a test that asserts nothing itself.
fn add_makers(tokens: TokenStream, makers: &mut Makers) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "macro_rules" => {
                let (_, name, body) = (tokens.next(), tokens.next(), tokens.next());
                if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) = (name, body) {
                    let text = body.stream().to_string().replace(' ', "");
                    let has_test = text.contains("#[test") || text.contains("#[tokio::test");
                    if has_test && !text.contains("assert") {
                        makers.insert(name.to_string());
                    }
                }
            }
            TokenTree::Group(group) => add_makers(group.stream(), makers),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Adds the functions and constants of test code, wherever they are defined.
fn read(tokens: TokenStream, is_test_code: bool, makers: &Makers, items: &mut Vec<Item>) {
    let mut attributes: Vec<String> = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                if let Some(TokenTree::Group(group)) = tokens.peek()
                    && group.delimiter() == Delimiter::Bracket
                {
                    attributes.push(group.stream().to_string().replace(' ', ""));
                    tokens.next();
                }
            }
            TokenTree::Ident(word) if word == "fn" || word == "const" || word == "static" => {
                let Some(TokenTree::Ident(name)) = tokens.next_if(is_name) else { continue };
                let is = |wanted: &str| attributes.iter().any(|attribute| attribute.starts_with(wanted));
                let is_test = word == "fn" && (is("test") || is("tokio::test")) && !is("should_panic");
                let mut words = BTreeSet::new();
                for part in tokens.by_ref() {
                    match part {
                        TokenTree::Punct(end) if end.as_char() == ';' => break,
                        TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                            words_of(body.stream(), &mut words);
                            read(body.stream(), is_test_code || is_test, makers, items);
                            break;
                        }
                        part => words_of(part.into(), &mut words),
                    }
                }
                if is_test || is_test_code {
                    items.push(Item { name: name.to_string(), words, is_test });
                }
                attributes.clear();
            }
            TokenTree::Ident(word) if makers.contains(&word.to_string()) => {
                let is_mark =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == '!');
                let is_call = tokens.next_if(is_mark).is_some();
                // Without the mark it is the definition, or an import.
                if let Some(TokenTree::Group(group)) = tokens.next_if(|t| matches!(t, TokenTree::Group(_)))
                    && is_call
                {
                    let mut words = BTreeSet::new();
                    words_of(group.stream(), &mut words);
                    items.push(Item { name: format!("{word}!{group}"), words, is_test: true });
                }
            }
            TokenTree::Group(group) => {
                let is_cfg_test = attributes
                    .iter()
                    .any(|attribute| attribute == "cfg(test)" || attribute.starts_with("cfg(all(test,"));
                read(group.stream(), is_test_code || is_cfg_test, makers, items);
                if group.delimiter() == Delimiter::Brace {
                    attributes.clear();
                }
            }
            TokenTree::Punct(end) if end.as_char() == ';' => attributes.clear(),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Whether the word after `fn`, `const` or `static` is the name of what is defined.
fn is_name(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Ident(word) if !["fn", "mut", "unsafe", "async", "move"].iter().any(|no| word == no))
}

fn words_of(tokens: TokenStream, words: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                words.insert(word.to_string());
            }
            TokenTree::Group(group) => words_of(group.stream(), words),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let mut found = Vec::new();
        check(&files, &mut found).expect("Rust");
        found
    }

    #[test]
    fn a_test_that_asserts_nothing_is_found() {
        let texts = [
            "#[test] fn t() { let _ = parse(x); }",
            "#[tokio::test(start_paused = true)] async fn t() { run().await.expect(\"it runs\"); }",
            "proptest! { #[test] fn t(a in any::<u8>()) { let _ = parse(a); } }",
            // What the product asserts is no verdict of the test.
            "fn parse(x: u8) { assert!(x > 0); } #[cfg(test)] mod tests { #[test] fn t() { parse(1); } }",
        ];
        for text in texts {
            assert_eq!(
                found(&[("crates/a/b/src/x.rs", text)]),
                ["crates/a/b/src/x.rs: the test t asserts nothing"]
            );
        }
    }

    #[test]
    fn a_macro_that_makes_tests_is_no_test_and_its_calls_are() {
        let both = "macro_rules! both { ($test:ident) => { #[test] fn one() { super::$test(1); } }; }";
        let file = |call: &str, body: &str| format!("{both} use x::both; {call} fn look() {{ {body} }}");
        let found = |text: &str| found(&[("crates/a/b/tests/x.rs", text)]);
        assert_eq!(found(&file("both!(look);", "assert!(true);")), [""; 0]);
        let nothing = "crates/a/b/tests/x.rs: the test both!(look) asserts nothing";
        assert_eq!(found(&file("both!(look);", "parse();")), [nothing]);
    }

    #[test]
    fn verdicts_are_the_test_s_or_its_helpers() {
        let texts = [
            "#[test] fn t() { assert_eq!(1, 1); }",
            "#[test] #[should_panic] fn t() { run(); }",
            "#[test] fn t() { [1].map(one); } fn one(x: u8) { two(x) } fn two(x: u8) { assert!(x > 0); }",
            "#[test] fn t() { timeout(LONG, told).await.expect(\"told\"); }",
            "#[test] fn t() { TARGETS.run(); } const TARGETS: T = T { run: one }; fn one() { panic!() }",
            "#[test] fn t() { a::fuzz::whole(); }",
        ];
        let shared = ("crates/a/a/src/fuzz.rs", "pub fn whole() { assert!(true); }");
        for text in texts {
            assert_eq!(found(&[("crates/a/b/tests/x.rs", text), shared]), [""; 0], "{text}");
        }
    }
}
