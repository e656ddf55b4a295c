//! One Rust file as the rules see it: its lines, the names it holds, and for each of its modules
//! what it defines, imports and mentions.
//!
//! The file is read as a row of tokens and not as a syntax tree, because the paths inside a macro
//! call are tokens only. So the reader knows few shapes: attributes, imports, modules, `impl`
//! blocks, the keywords that define an item, and paths of two or more names. It never expands a
//! macro: what stands in the body of a macro belongs to the file of that body.
//!
//! Items under `#[cfg(test)]`, files in a `tests` folder, below `fuzz` or called `*_test.rs` are
//! tests. Everything else is production. Lines count from 1.

use std::{collections::BTreeSet, ops::RangeInclusive};

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Keywords that introduce the name of an item.
#[rustfmt::skip]
const ITEMS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules"];

/// A Rust file.
#[derive(Default)]
pub struct Source {
    /// Its path, relative to the root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Every token in it, so every identifier.
    pub names: BTreeSet<String>,
    /// Every name that an item keyword introduces, those inside functions and tests too.
    pub items: BTreeSet<String>,
    /// The module of the file, then its inline modules, tests apart.
    pub modules: Vec<Module>,
    /// The lines of the items that only tests see.
    tests: Vec<RangeInclusive<usize>>,
    /// The lines of imports and of the signatures that a trait dictates.
    dictated: Vec<RangeInclusive<usize>>,
}

/// The production code of one module.
#[derive(Default)]
pub struct Module {
    /// Its path below the module of the file: empty for that, `/a` for an inline one.
    pub inside: String,
    /// The names of the items it defines.
    pub defined: BTreeSet<String>,
    /// The modules it declares that stand in files of their own.
    pub children: BTreeSet<String>,
    /// What it imports, one name each.
    pub imports: Vec<Mention>,
    /// The paths it spells outside imports.
    pub paths: Vec<Mention>,
    /// The types of its inherent `impl` blocks.
    pub inherent: Vec<Mention>,
}

/// A path and where it stands.
#[derive(Default)]
pub struct Mention {
    /// The line it stands on.
    pub line: usize,
    /// The names of the path; the last one is `*` when all of a module is imported.
    pub path: Vec<String>,
    /// What an import calls it.
    pub name: String,
    /// Whether it is a re-export.
    pub public: bool,
}

/// A token; a delimiter that opens knows the place of the one that closes.
struct Token {
    text: String,
    line: usize,
    close: usize,
}

/// What tokens up to `end` are part of; `module` is `None` in tests.
struct Scope {
    end: usize,
    module: Option<usize>,
    place: Place,
    /// What the next block holds, once a keyword has said so.
    block: Option<Place>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Items,
    Trait,
    Code,
}

impl Source {
    /// Reads a text.
    pub fn new(path: &str, text: &str) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow!("{path}: {error}"))?;
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        let mut source = Self { path: path.to_owned(), text: text.to_owned(), ..Self::default() };
        source.modules.push(Module::default());
        let module = (!source.is_test()).then_some(0);
        let mut scopes =
            vec![Scope { end: tokens.len(), module, place: Place::Items, block: None }];
        let mut at = 0;
        while at < tokens.len() {
            scopes.retain(|scope| scope.end > at);
            at = source.step(&tokens, at, &mut scopes);
        }
        source.names = tokens.into_iter().map(|token| token.text).collect();
        Ok(source)
    }

    /// Whether the whole file is a test.
    pub fn is_test(&self) -> bool {
        let fuzz = self.path.starts_with("fuzz/") || self.path.starts_with("tests/");
        fuzz || self.path.contains("/tests/") || self.path.ends_with("_test.rs")
    }

    /// The lines of production code, without comments and blank lines.
    pub fn production_lines(&self) -> usize {
        self.code(&self.tests).filter(|_| !self.is_test()).count()
    }

    /// The lines that the file is free to write: no comments, imports or dictated signatures.
    pub fn own_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code(&self.dictated)
    }

    /// The crate the file belongs to, by its folder.
    pub fn package(&self) -> &str {
        let mut folders = self.path.split('/');
        folders.find(|folder| !["crates", "lab"].contains(folder)).unwrap_or_default()
    }

    /// The lines that hold code, without some.
    fn code(&self, but: &[RangeInclusive<usize>]) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        lines.filter(|(at, line)| {
            let without = || but.iter().any(|range| range.contains(at));
            !line.is_empty() && !line.starts_with("//") && !without()
        })
    }

    /// Reads what begins at a token; returns where the rest begins.
    fn step(&mut self, tokens: &[Token], at: usize, scopes: &mut Vec<Scope>) -> usize {
        let text = |ahead: usize| tokens.get(at + ahead).map_or("", |token| &token.text);
        let lines = |end: usize| tokens[at].line..=tokens[end - 1].line;
        let scope = scopes.last_mut().expect("invariant: the outermost scope ends with the file");
        let (module, place, block) = (scope.module, scope.place, scope.block);
        let here = module.map(|module| &mut self.modules[module]);
        let part = |end, module, place| Scope { end, module, place, block: None };
        match (text(0), text(1)) {
            ("#", "[") => {
                let after = tokens[at + 1].close + 1;
                let condition = [text(2), text(3), text(4), text(6)];
                let test = matches!(condition, ["cfg", _, "test", _] | ["cfg", _, "all", "test"]);
                if module.is_some() && test {
                    let end = item_end(tokens, after);
                    self.tests.push(lines(end));
                    scopes.push(part(end, None, place));
                }
                return after;
            }
            ("{" | "(" | "[", _) => {
                let unknown = if place == Place::Items { place } else { Place::Code };
                scope.block = block.filter(|_| text(0) != "{");
                scopes.push(part(tokens[at].close, module, block.unwrap_or(unknown)));
            }
            (";", _) => scope.block = None,
            ("use", next) if next != "<" => {
                let end = until(tokens, at, &[";"]);
                self.dictated.push(lines(end));
                if let Some(here) = here {
                    // `pub use` or `pub(crate) use`.
                    let before = at.checked_sub(1).map(|before| &*tokens[before].text);
                    let public = matches!(before, Some("pub" | ")"));
                    here.imports.extend(read_imports(&tokens[at + 1..end], public));
                }
                return end;
            }
            ("mod", name) => {
                self.items.insert(name.to_owned());
                let inline = text(2) == "{";
                let module = module.and_then(|parent| self.module(parent, name, inline));
                scopes.push(part(tokens.get(at + 2).map_or(0, |open| open.close), module, place));
                return at + 3;
            }
            ("impl", _) if place == Place::Items && block.is_none() => {
                let head = &tokens[at + 1..until(tokens, at, &["{"])];
                let mut pairs = head.windows(2);
                let of_trait = pairs.any(|pair| pair[0].text == "for" && pair[1].text != "<");
                scope.block = Some(if of_trait { Place::Trait } else { Place::Code });
                if let (Some(here), false) = (here, of_trait) {
                    here.inherent.extend(read_type(head));
                }
            }
            ("macro_rules", _) => self.define(module, place, text(2)),
            (item, name) if ITEMS.contains(&item) => {
                if item == "fn" && place == Place::Trait {
                    self.dictated.push(lines(until(tokens, at, &[";", "{"])));
                }
                scope.block = Some(if item == "trait" { Place::Trait } else { Place::Code });
                self.define(module, place, name);
            }
            (first, "::") => {
                let (path, end) = read_path(tokens, at);
                let mention = Mention { line: tokens[at].line, path, ..Mention::default() };
                if let (Some(here), true) = (here, first != ">" && mention.path.len() > 1) {
                    here.paths.push(mention);
                }
                return end;
            }
            _ => {}
        }
        at + 1
    }

    fn define(&mut self, module: Option<usize>, place: Place, name: &str) {
        self.items.insert(name.to_owned());
        if let (Some(module), Place::Items) = (module, place) {
            self.modules[module].defined.insert(name.to_owned());
        }
    }

    /// Adds a module to its parent; returns its place when it is an inline one.
    fn module(&mut self, parent: usize, name: &str, inline: bool) -> Option<usize> {
        if !inline {
            self.modules[parent].children.insert(name.to_owned());
            return None;
        }
        let inside = format!("{}/{name}", self.modules[parent].inside);
        self.modules.push(Module { inside, ..Module::default() });
        Some(self.modules.len() - 1)
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let token = |text: &str, line| Token { text: text.to_owned(), line, close: 0 };
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis | Delimiter::None => ("(", ")"),
                };
                let at = tokens.len();
                tokens.push(token(open, line));
                flatten(group.stream(), tokens);
                tokens[at].close = tokens.len();
                tokens.push(token(close, group.span_close().start().line));
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => match tokens.last_mut() {
                Some(before) if before.text == ":" => before.text = "::".to_owned(),
                _ => tokens.push(token(":", line)),
            },
            other => tokens.push(token(&other.to_string(), line)),
        }
    }
}

/// The place after the next of some tokens, at the depth of `from`.
fn until(tokens: &[Token], from: usize, ends: &[&str]) -> usize {
    let mut at = from;
    while at < tokens.len() && !ends.contains(&&*tokens[at].text) {
        at = tokens[at].close.max(at) + 1;
    }
    tokens.len().min(at + 1)
}

/// The place after the item that begins with its visibility or keyword.
fn item_end(tokens: &[Token], from: usize) -> usize {
    let import = tokens[from..].iter().take(5).any(|token| token.text == "use");
    let end = until(tokens, from, if import { &[";"] } else { &[";", "{"] });
    tokens[end - 1].close.max(end - 1) + 1
}

/// The path that begins at a word, and where the rest begins.
fn read_path(tokens: &[Token], at: usize) -> (Vec<String>, usize) {
    let mut path = vec![tokens[at].text.clone()];
    let mut end = at + 1;
    let is_name = |token: &Token| token.text.starts_with(|c: char| c.is_alphabetic() || c == '_');
    while let Some([mark, name]) = tokens.get(end..end + 2)
        && mark.text == "::"
        && is_name(name)
    {
        path.push(name.text.clone());
        end += 2;
    }
    (path, end)
}

/// The type after `impl` and its generics; `None` for the variable of a macro.
fn read_type(head: &[Token]) -> Option<Mention> {
    let mut depth = 0_usize;
    let at = head.iter().position(|token| {
        let outside = depth == 0 && token.text != "<";
        match token.text.as_str() {
            "<" => depth += 1,
            ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        outside
    })?;
    let (path, _) = read_path(head, at);
    let mention = Mention { line: head[at].line, path, ..Mention::default() };
    (head[at].text != "$").then_some(mention)
}

/// The names that an import brings in, groups and renames resolved; the last token is `;`.
fn read_imports(tokens: &[Token], public: bool) -> Vec<Mention> {
    let mut imports = Vec::new();
    let (mut prefixes, mut path, mut name) = (vec![Vec::new()], Vec::new(), None);
    for (at, Token { text, line, .. }) in tokens.iter().enumerate() {
        match text.as_str() {
            "{" => prefixes.push(path.clone()),
            "," | "}" | ";" => {
                let prefix: &Vec<String> = prefixes.last().expect("invariant: groups are balanced");
                if path.len() > prefix.len() || name.is_some() {
                    let called = name.take().or(path.last().cloned()).unwrap_or_default();
                    imports.push(Mention { line: *line, path, name: called, public });
                }
                path = prefix.clone();
                if text == "}" {
                    prefixes.pop();
                    path = prefixes.last().cloned().unwrap_or_default();
                }
            }
            "as" => name = tokens.get(at + 1).map(|name| name.text.clone()),
            "self" if !path.is_empty() => name = path.last().cloned(),
            "::" => {}
            word if name.is_none() => path.push(word.to_owned()),
            _ => {}
        }
    }
    imports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::new(path, text).unwrap()
    }

    #[test]
    fn production_is_what_is_left_without_the_tests() {
        let body = "fn a() {}\n";
        let cases = [
            ("src/a.rs", body.to_owned(), 1),
            ("src/a.rs", format!("{body}#[cfg(test)]\nmod tests {{\n  fn b() {{ }}\n}}\n"), 1),
            ("src/a.rs", format!("{body}#[cfg(test)]\nmod a_test;\n{body}"), 2),
            ("src/a.rs", format!("{body}#[cfg(test)]\nuse a::{{b,\nc}};\n{body}"), 2),
            ("src/a.rs", format!("#[cfg(test)]\n#[path = \"x\"]\nmod t {{\n}}\n{body}"), 1),
            ("src/a.rs", format!("{body}#[cfg(test)]\nconst A: [u8; 2] = [1, 2];\n"), 1),
            ("src/a.rs", format!("#[cfg(all(test, not(loom)))]\nmod t {{\n}}\n{body}"), 1),
            ("src/a.rs", format!("#[cfg(not(test))]\nmod t {{\n}}\n{body}"), 4),
            ("src/a.rs", format!("{body}\n/// #[cfg(test)]\n{body}// b\n"), 2),
            ("src/a.rs", "#[cfg(test)]\nmod t {\n  const A: &str = \"}{\";\n}\n".to_owned(), 0),
            ("src/a_test.rs", body.to_owned(), 0),
            ("crates/a/tests/b.rs", body.to_owned(), 0),
            ("fuzz/a/b.rs", body.to_owned(), 0),
            ("crates/a/benches/b.rs", body.to_owned(), 1),
            ("crates/a/tests_of.rs", body.to_owned(), 1),
        ];
        for (path, text, expected) in cases {
            assert_eq!(source(path, &text).production_lines(), expected, "{path}: {text}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_crate_of_its_folder() {
        let cases = [
            ("crates/base/src/a.rs", "base"),
            ("lab/load/src/a.rs", "load"),
            ("xtask/b.rs", "xtask"),
        ];
        for (path, expected) in cases {
            assert_eq!(source(path, "").package(), expected);
        }
    }

    #[test]
    fn imports_are_read_name_by_name() {
        let cases = [
            ("use a;", "a=a"),
            ("use crate::a::B;", "B=crate::a::B"),
            ("pub(crate) use a::{b, c::{D, E as F}, self};", "+b=a::b +D=a::c::D +F=a::c::E +a=a"),
            ("pub use a::B as _;", "+_=a::B"),
            ("use a::*;", "*=a::*"),
            ("fn f() { use a::b; }", "b=a::b"),
            ("fn f() -> impl A + use<'_> {}", ""),
            ("#[cfg(test)] use a::b;", ""),
            ("m! { use a::b; }", "b=a::b"),
        ];
        for (text, expected) in cases {
            let show = |one: &Mention| {
                let mark = if one.public { "+" } else { "" };
                format!("{mark}{}={}", one.name, one.path.join("::"))
            };
            let source = source("a.rs", text);
            let found: Vec<String> = source.modules[0].imports.iter().map(show).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn definitions_paths_and_blocks_belong_to_their_module() {
        let show = |mentions: &[Mention]| -> Vec<String> {
            mentions.iter().map(|one| one.path.join("::")).collect()
        };
        let cases = [
            ("fn a(b: c::D) -> impl e::F { g::h() }", "a", "c::D e::F g::h", ""),
            ("assert!(a::b(c::D));", "", "a::b c::D", ""),
            ("id! { pub struct A(u32); impl A { fn b() {} } }", "A", "", "A"),
            ("macro_rules! m { ($a:ty) => { impl $a { x::y } impl B {} } }", "m", "x::y", "B"),
            ("impl<T: A<u8>> b::C<T> { fn d() {} const E: u8 = 1; }", "", "b::C", "b::C"),
            ("impl<T> A for b::C where for<'a> T: B<'a> { fn d() {} }", "", "b::C", ""),
            ("trait A { fn b(); type C; } unsafe impl A for B {}", "A", "", ""),
            ("struct A { b: [u8; c::D] } enum E {} static F: u8 = 1;", "A E F", "c::D", ""),
            (
                "fn a() { Vec::<b::C>::new(); <d::E as F>::g(); ::h::i(); }",
                "a",
                "b::C d::E h::i",
                "",
            ),
            ("#[derive(a::B)] pub(in crate::c) fn d() {}", "d", "crate::c", ""),
            ("#[cfg(test)] mod t { fn a() { b::c() } } fn d() {}", "d", "", ""),
            ("mod a { fn b() { c::d() } }", "", "", ""),
        ];
        for (text, defined, paths, inherent) in cases {
            let source = source("a.rs", text);
            let module = &source.modules[0];
            let names: Vec<&str> = module.defined.iter().map(String::as_str).collect();
            assert_eq!(names.join(" "), defined, "{text}");
            assert_eq!(show(&module.paths).join(" "), paths, "{text}");
            assert_eq!(show(&module.inherent).join(" "), inherent, "{text}");
        }
        let source =
            source("a.rs", "mod a; mod b { mod c; fn d() { e::f() } } #[cfg(test)] mod g;");
        assert_eq!(Vec::from_iter(&source.modules[0].children), ["a"]);
        let inner = &source.modules[1];
        assert_eq!((inner.inside.as_str(), inner.children.len()), ("/b", 1));
        assert_eq!(show(&inner.paths), ["e::f"]);
    }
}
