//! Parses a crate's files into modules, with the items that each defines, imports, and names by a path.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter::Peekable;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream};

use crate::Result;

/// The segments of a path such as `a::b::C`.
pub(super) type Segments = Vec<String>;

/// A crate's files and modules; the first module is its root.
#[derive(Default)]
pub(super) struct Source {
    /// Paths relative to the workspace.
    pub(super) files: Vec<String>,
    pub(super) modules: Vec<Module>,
    /// The files of macros with `#[macro_export]`, by name. Such macros belong to the root module,
    /// wherever they are defined.
    pub(super) macros: BTreeMap<String, usize>,
}

#[derive(Default)]
pub(super) struct Module {
    pub(super) file: usize,
    pub(super) parent: Option<usize>,
    pub(super) children: BTreeMap<String, usize>,
    pub(super) items: BTreeSet<String>,
    pub(super) imports: BTreeMap<String, Import>,
    /// The paths of imports that end in `::*`.
    pub(super) stars: Vec<Segments>,
    /// Paths of two and more segments outside imports.
    pub(super) paths: BTreeSet<Segments>,
    /// Words outside imports that do not follow a `.`.
    pub(super) words: BTreeSet<String>,
}

pub(super) struct Import {
    pub(super) path: Segments,
    /// A `pub use`, which counts for the files that import it from here.
    pub(super) is_export: bool,
}

type Load<'a> = &'a mut dyn FnMut(&str) -> io::Result<String>;
type Tokens = Peekable<token_stream::IntoIter>;

/// Parses the crate with the root file `root`; `load` returns the text of a file.
pub(super) fn read(root: &str, load: Load<'_>) -> Result<Source> {
    let mut reader = Reader { source: Source::default(), load };
    let folder = parent_of(root);
    reader.file(root, &folder, None)?;
    Ok(reader.source)
}

struct Reader<'a> {
    source: Source,
    load: Load<'a>,
}

/// The module and file to which parsed items belong, and the folder of the files of modules declared in
/// it.
struct Place<'a> {
    module: usize,
    file: usize,
    folder: &'a str,
}

impl Reader<'_> {
    /// Parses a file as a module; `folder` contains the files of the modules that it declares.
    fn file(&mut self, file: &str, folder: &str, parent: Option<usize>) -> Result<usize> {
        let text = (self.load)(file).map_err(|error| format!("{file}: {error}"))?;
        let tokens: TokenStream = text.parse().map_err(|error| format!("{file}: {error}"))?;
        self.source.files.push(file.to_owned());
        let place = self.module(self.source.files.len() - 1, folder, parent);
        self.items(tokens, &place)?;
        Ok(place.module)
    }

    fn module<'f>(&mut self, file: usize, folder: &'f str, parent: Option<usize>) -> Place<'f> {
        self.source.modules.push(Module { file, parent, ..Module::default() });
        Place { module: self.source.modules.len() - 1, file, folder }
    }

    fn items(&mut self, tokens: TokenStream, place: &Place<'_>) -> Result<()> {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(attributes) = attributes(&mut tokens) {
            if attributes.is_test {
                skip_item(&mut tokens);
                continue;
            }
            let Some(token) = tokens.next() else { break };
            match word_of(&token).as_str() {
                "mod" => self.declaration(&mut tokens, &attributes, place)?,
                "pub" if is_use(&mut tokens) => self.import(&mut tokens, true, place),
                "use" => self.import(&mut tokens, false, place),
                "macro_rules" => {
                    tokens.next();
                    let name = next_word(&mut tokens);
                    if attributes.is_exported {
                        self.source.macros.insert(name.clone(), place.file);
                    }
                    self.source.modules[place.module].items.insert(name);
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" => {
                    self.definition(&mut tokens, place);
                }
                _ => self.code(token, &mut tokens, place),
            }
        }
        Ok(())
    }

    /// Records the name after the keyword, past words such as `mut` and the `fn` of `const fn`.
    fn definition(&mut self, tokens: &mut Tokens, place: &Place<'_>) {
        while let Some(TokenTree::Ident(word)) = tokens.peek() {
            let word = word.to_string();
            tokens.next();
            if !["mut", "fn", "unsafe", "async", "extern"].contains(&word.as_str()) {
                self.source.modules[place.module].items.insert(word);
                return;
            }
        }
    }

    fn declaration(&mut self, tokens: &mut Tokens, attributes: &Attributes, place: &Place<'_>) -> Result<()> {
        let name = next_word(tokens);
        let own = format!("{}/{name}", place.folder);
        let child = match tokens.next() {
            Some(TokenTree::Group(body)) => {
                let inner = self.module(place.file, &own, Some(place.module));
                self.items(body.stream(), &inner)?;
                inner.module
            }
            _ => self.module_file(&own, attributes.path.as_deref(), place)?,
        };
        self.source.modules[place.module].children.insert(name, child);
        Ok(())
    }

    fn module_file(&mut self, own: &str, path: Option<&str>, place: &Place<'_>) -> Result<usize> {
        if let Some(path) = path {
            let file = format!("{}/{path}", parent_of(&self.source.files[place.file]));
            return self.file(&file, &parent_of(&file), Some(place.module));
        }
        let flat = format!("{own}.rs");
        let file = if (self.load)(&flat).is_ok() { flat } else { format!("{own}/mod.rs") };
        self.file(&file, own, Some(place.module))
    }

    fn import(&mut self, tokens: &mut Tokens, is_export: bool, place: &Place<'_>) {
        let mut leaves = Vec::new();
        use_tree(tokens, &[], &mut leaves);
        let module = &mut self.source.modules[place.module];
        for (path, name) in leaves {
            if name == "*" {
                module.stars.push(path);
            } else {
                // Several traits may be imported as `_`.
                let name = if name == "_" { format!("_ {}", path.join("::")) } else { name };
                module.imports.insert(name, Import { path, is_export });
            }
        }
    }

    /// Parses other code: records its paths and words, including those in groups.
    fn code(&mut self, token: TokenTree, tokens: &mut Tokens, place: &Place<'_>) {
        match token {
            TokenTree::Ident(first) => {
                let mut path = vec![first.to_string()];
                while let Some(next) = next_segment(tokens) {
                    path.push(next);
                }
                let module = &mut self.source.modules[place.module];
                module.words.insert(path[0].clone());
                if path.len() > 1 {
                    module.paths.insert(path);
                }
            }
            TokenTree::Group(group) => self.body(group.stream(), place),
            // A word after a dot is a field or a method.
            TokenTree::Punct(dot) if dot.as_char() == '.' => {
                if matches!(tokens.peek(), Some(TokenTree::Ident(_))) {
                    tokens.next();
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }

    /// Parses code inside braces, brackets or parentheses.
    fn body(&mut self, tokens: TokenStream, place: &Place<'_>) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(attributes) = attributes(&mut tokens) {
            if attributes.is_test {
                skip_member(&mut tokens);
                continue;
            }
            let Some(token) = tokens.next() else { break };
            if word_of(&token) == "use" {
                self.import(&mut tokens, false, place);
            } else {
                self.code(token, &mut tokens, place);
            }
        }
    }
}

/// The attributes of an item that matter here.
#[derive(Default)]
struct Attributes {
    is_test: bool,
    is_exported: bool,
    path: Option<String>,
}

/// Parses attributes; none if there are no more tokens.
fn attributes(tokens: &mut Tokens) -> Option<Attributes> {
    let mut all = Attributes::default();
    while matches!(tokens.peek()?, TokenTree::Punct(hash) if hash.as_char() == '#') {
        tokens.next();
        if matches!(tokens.peek(), Some(TokenTree::Punct(not)) if not.as_char() == '!') {
            tokens.next();
        }
        if let Some(TokenTree::Group(group)) = tokens.peek() {
            let text = group.stream().to_string().replace(' ', "");
            all.is_test |= text == "cfg(test)" || text.starts_with("cfg(all(test,");
            all.is_exported |= text == "macro_export";
            all.path = all.path.or(text.strip_prefix("path=").map(|path| path.trim_matches('"').to_owned()));
            tokens.next();
        }
    }
    Some(all)
}

/// Skips an item of a module: up to its semicolon or past its braces.
fn skip_item(tokens: &mut Tokens) {
    let mut is_import = false;
    for token in tokens.by_ref() {
        is_import |= word_of(&token) == "use";
        match token {
            TokenTree::Punct(end) if end.as_char() == ';' => return,
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace && !is_import => return,
            _ => {}
        }
    }
}

/// Skips a method, field, arm or statement.
fn skip_member(tokens: &mut Tokens) {
    let mut is_function = false;
    for token in tokens.by_ref() {
        is_function |= word_of(&token) == "fn";
        match token {
            TokenTree::Punct(end) if end.as_char() == ';' => return,
            TokenTree::Punct(end) if end.as_char() == ',' && !is_function => return,
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => return,
            _ => {}
        }
    }
}

/// Whether a `use` follows `pub`. Consumes the restriction of `pub`, and the `use` if there is one.
fn is_use(tokens: &mut Tokens) -> bool {
    if matches!(tokens.peek(), Some(TokenTree::Group(within)) if within.delimiter() == Delimiter::Parenthesis)
    {
        tokens.next();
    }
    let is_use = tokens.peek().is_some_and(|token| word_of(token) == "use");
    if is_use {
        tokens.next();
    }
    is_use
}

/// Parses a tree of imports to its end; each leaf is a path and its local name.
fn use_tree(tokens: &mut Tokens, prefix: &[String], leaves: &mut Vec<(Segments, String)>) {
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut is_group = false;
    let mut finish = |path: &mut Segments, name: &mut Option<String>, is_group: &mut bool| {
        if path.len() > prefix.len() && !*is_group {
            if path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = name.take().or_else(|| path.last().cloned()).unwrap_or_default();
            if name == "*" {
                path.pop();
            }
            leaves.push((path.clone(), name));
        }
        *path = prefix.to_vec();
        (*name, *is_group) = (None, false);
    };
    let mut groups = Vec::new();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(end) if end.as_char() == ';' => break,
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                finish(&mut path, &mut name, &mut is_group);
            }
            TokenTree::Punct(star) if star.as_char() == '*' => path.push("*".to_owned()),
            TokenTree::Ident(word) if word == "as" => name = Some(next_word(tokens)),
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Group(group) => {
                groups.push((path.clone(), group.stream()));
                is_group = true;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    finish(&mut path, &mut name, &mut is_group);
    for (path, stream) in groups {
        use_tree(&mut stream.into_iter().peekable(), &path, leaves);
    }
}

/// The next segment of a path, if `::` and a word follow.
fn next_segment(tokens: &mut Tokens) -> Option<String> {
    let mut ahead = tokens.clone();
    for _ in 0..2 {
        match ahead.next()? {
            TokenTree::Punct(colon) if colon.as_char() == ':' => {}
            _ => return None,
        }
    }
    let TokenTree::Ident(word) = ahead.next()? else { return None };
    *tokens = ahead;
    Some(word.to_string())
}

fn next_word(tokens: &mut Tokens) -> String {
    tokens.next().map(|token| word_of(&token)).unwrap_or_default()
}

fn word_of(token: &TokenTree) -> String {
    if let TokenTree::Ident(word) = token { word.to_string() } else { String::new() }
}

fn parent_of(file: &str) -> String {
    Path::new(file).parent().map(|folder| folder.display().to_string()).unwrap_or_default()
}
