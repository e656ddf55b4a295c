//! The arrows inside a crate: between its rooms and between its files.
//!
//! A room is a top-level module, one file or one folder. A folder whose `mod.rs` has a table of
//! rooms is divided into rooms itself. An arrow exists when production code
//! imports or spells a path to something that another file defines; a re-export is followed to the
//! module that defines the thing. `lib.rs` is no room, and the re-exports of a contents page
//! (`lib.rs`, `main.rs`, `mod.rs`) make no arrows: they are the way of an arrow, not its end.
//!
//! A call of a method shows in no path. So an inherent `impl` has to stand in the file that
//! defines its type: then the path to the type shows the arrow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    finding::{Finding, Rule},
    source::{Mention, Module, Source},
    table,
};

/// The head of the first column of a table of rooms.
const HEADING: &str = "room";

/// How many re-exports one name may pass before it is taken for a foreign one.
const HOPS_MAX: usize = 16;

/// The production modules of a crate by their paths from its root: ``, `/a`, `/a/b`.
struct Tree<'a>(BTreeMap<String, (&'a Source, &'a Module)>);

/// A use of one file by another, with the modules that it begins and ends in.
struct Arrow<'a> {
    from: (&'a str, &'a Source),
    to: (&'a str, &'a Source),
    line: usize,
}

/// All findings about the rooms and files of every crate.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let ours = |path: &str| ["crates/", "lab/", "xtask/"].iter().any(|top| path.starts_with(top));
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| ours(&source.path)) {
        let library = source.path.strip_suffix("/lib.rs");
        let main = source.path.strip_suffix("/main.rs");
        let main = main.filter(|folder| !by_path.contains_key(&*format!("{folder}/lib.rs")));
        if let Some(folder) = library.or(main).filter(|folder| folder.ends_with("/src")) {
            findings.extend(check_crate(source, folder, &by_path));
        }
    }
    findings
}

fn check_crate(root: &Source, folder: &str, sources: &BTreeMap<&str, &Source>) -> Vec<Finding> {
    let tree = Tree::read(root, folder, sources);
    let (mut arrows, mut findings) = (Vec::new(), Vec::new());
    for (from, (source, module)) in &tree.0 {
        let contents = ["/lib.rs", "/main.rs", "/mod.rs"];
        let contents = contents.iter().any(|end| source.path.ends_with(end));
        let imports = module.imports.iter().filter(|import| !(contents && import.public));
        let ends = |mention: &Mention| {
            let to = tree.resolve(from, &mention.path, HOPS_MAX)?;
            let apart = to.1.path != source.path;
            apart.then_some(Arrow { from: (from, source), to, line: mention.line })
        };
        arrows.extend(imports.chain(&module.paths).filter_map(ends));
        for Arrow { to: (_, home), line, .. } in module.inherent.iter().filter_map(ends) {
            let message = format!("this impl stands apart from its type: move it to {}", home.path);
            findings.push(Finding::new(Rule::Impl, &source.path, line, message));
        }
    }
    findings.extend(rooms(root, "", &tree, &arrows));
    for (path, (source, _)) in &tree.0 {
        if source.path.ends_with("/mod.rs") && table::exists(&source.text, HEADING) {
            findings.extend(rooms(source, path, &tree, &arrows));
        }
    }
    findings.extend(cycles(&arrows));
    findings
}

impl<'a> Tree<'a> {
    fn read(root: &'a Source, folder: &str, sources: &BTreeMap<&str, &'a Source>) -> Self {
        let mut tree = BTreeMap::new();
        let mut waiting = vec![(String::new(), root)];
        while let Some((path, source)) = waiting.pop() {
            for module in &source.modules {
                let path = format!("{path}{}", module.inside);
                for child in &module.children {
                    let child = format!("{path}/{child}");
                    let file = [".rs", "/mod.rs"].map(|end| format!("{folder}{child}{end}"));
                    let file = file.iter().find_map(|file| sources.get(file.as_str()));
                    waiting.extend(file.map(|file| (child, *file)));
                }
                tree.insert(path, (source, module));
            }
        }
        Self(tree)
    }

    /// The module that defines what a path in module `from` names; `None` for what is foreign and
    /// for a module as such.
    fn resolve(&self, from: &str, path: &[String], hops: usize) -> Option<(&str, &'a Source)> {
        let (mut at, mut names) = (from.to_owned(), path);
        while let [first, rest @ ..] = names {
            match first.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => at.truncate(at.rfind('/').unwrap_or(0)),
                _ => break,
            }
            names = rest;
        }
        let bare = names.len() == path.len();
        for (index, name) in names.iter().enumerate() {
            let (here, (source, module)) = self.0.get_key_value(&at)?;
            let child = format!("{at}/{name}");
            let (rest, defined) = (&names[index + 1..], module.defined.contains(name));
            let import = module.imports.iter().find(|import| import.name == *name && hops > 0);
            // A module and an item may share a name; a module as such is no use of anything.
            if self.0.contains_key(&child) && !(rest.is_empty() && (defined || import.is_some())) {
                at = child;
                continue;
            }
            let ours = defined || index > 0 || !bare;
            let end = ours.then_some((here.as_str(), *source));
            let import = import.filter(|_| !(defined && rest.is_empty()));
            let Some(import) = import else { return end };
            // What is foreign belongs to the module that re-exports it.
            return self.resolve(here, &[&import.path, rest].concat(), hops - 1).or(end);
        }
        None
    }
}

/// Compares the arrows between the rooms in module `inside` with the table in its `page`.
fn rooms(page: &Source, inside: &str, tree: &Tree<'_>, arrows: &[Arrow<'_>]) -> Vec<Finding> {
    let room = |path: &str| path.strip_prefix(inside)?.split('/').nth(1).map(str::to_owned);
    let rooms = tree.0.keys().filter_map(|path| room(path));
    let mut uses: table::Uses = rooms.map(|room| (room, BTreeMap::new())).collect();
    for Arrow { from, to, line } in arrows {
        if let (Some(user), Some(used)) = (room(from.0), room(to.0))
            && user != used
        {
            let place = (from.1.path.clone(), *line);
            uses.entry(user).or_default().entry(used).or_insert(place);
        }
    }
    table::compare(Rule::Rooms, &page.path, &page.text, HEADING, &uses)
}

/// For each group of files that use each other, the shortest cycle through the first of them.
fn cycles(arrows: &[Arrow<'_>]) -> Vec<Finding> {
    let mut graph: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for Arrow { from, to, line } in arrows {
        graph.entry(&from.1.path).or_default().entry(&to.1.path).or_insert(*line);
    }
    let reached: BTreeMap<_, _> = graph.keys().map(|file| (*file, reach(&graph, file))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains_key(to));
    let (mut findings, mut seen) = (Vec::new(), BTreeSet::new());
    for (file, before) in &reached {
        if seen.contains(file) || !before.contains_key(file) {
            continue;
        }
        let group: Vec<&str> = before.keys().copied().filter(|to| reaches(to, file)).collect();
        let (mut steps, mut at) = (Vec::new(), *file);
        while steps.is_empty() || at != *file {
            let from = before[at];
            steps.insert(0, format!("{from}:{} uses {at}", graph[from][at]));
            at = from;
        }
        let message = format!(
            "{} files use each other: {}; move what both ends need into a file of its own",
            group.len(),
            steps.join(", ")
        );
        seen.extend(group);
        findings.push(Finding::new(Rule::Cycle, file, 0, message));
    }
    findings
}

/// Every file reached from `start` by one arrow or more, and the file before it on the way.
fn reach<'a>(
    graph: &BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
    start: &'a str,
) -> BTreeMap<&'a str, &'a str> {
    let mut reached = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(from) = waiting.pop_front() {
        for to in graph.get(from).into_iter().flat_map(BTreeMap::keys) {
            if !reached.contains_key(to) {
                reached.insert(*to, from);
                waiting.push_back(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings about a crate `x`; a text is `path: source`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| {
            Source::new(&format!("crates/x/src/{path}"), text).unwrap()
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let show = |one: Finding| {
            let path = one.path.trim_start_matches("crates/x/src/");
            let message = one.message.replace("crates/x/src/", "");
            format!("{:?} {path}:{}: {message}", one.rule, one.line)
        };
        check(&sources).into_iter().map(show).collect()
    }

    /// A crate of two rooms, of which `a` may use `b`, with a text for `a` and one for `b`.
    fn two(a: &str, b: &str) -> Vec<String> {
        let table = "//! | room | may use | what |\n//! |---|---|---|\n\
                     //! | `a` | `b` | x |\n//! | `b` | nothing | y |\n";
        found(&[
            ("lib.rs", &format!("{table}mod a;\nmod b;\npub use b::{{B, c::C as D}};\n")),
            ("a.rs", a),
            ("b/mod.rs", b),
            ("b/c.rs", "pub struct C;\n"),
        ])
    }

    #[test]
    fn every_way_to_use_a_room_is_an_arrow() {
        let b = "mod c;\npub use c::C;\npub use std::sync::Mutex;\npub use d::d;\n\
                 pub struct B;\nmod d;\n";
        let stale = "Rooms lib.rs:3: a may use b and does not: remove b";
        let cases = [
            ("use crate::b::B;", true),
            ("use crate::b::{self, C as X};", true),
            ("use super::b::{c::{C}};", true),
            ("use crate::D;", true),
            ("use crate::b::Mutex;", true),
            ("use crate::b;\nfn b() { b::B }", true),
            ("use crate::b::d;", true),
            ("use crate::b;\nfn f() { b::d() }", true),
            ("use crate::b as x;\nfn f() { x::B }", true),
            ("fn f() -> crate::b::B { todo() }", true),
            ("fn f() { println!(\"{}\", super::b::X) }", true),
            ("mod i { use super::super::b::B; }", true),
            ("use crate::b;", false),
            ("use b::B;", false),
            ("#[cfg(test)]\nmod tests { use crate::b::B; }", false),
            ("#[cfg(test)]\nuse crate::b::B;", false),
            ("// use crate::b::B;", false),
        ];
        for (text, arrow) in cases {
            let expected = if arrow { vec![] } else { vec![stale.to_owned()] };
            assert_eq!(two(text, b), expected, "{text}");
        }
    }

    #[test]
    fn arrows_and_rows_match() {
        let b = "mod c;\npub struct B;\n";
        let new = two(
            "use crate::b::B;\npub struct A;\n",
            "mod c;\npub struct B(\n[u8; crate::a::A::N]);\n",
        );
        let arrow = "Rooms b/mod.rs:3: b uses a, but may use only []: turn the arrow round, move \
                     the code, or add a in lib.rs";
        let cycle = "Cycle a.rs:0: 2 files use each other: a.rs:1 uses b/mod.rs, b/mod.rs:3 uses \
                     a.rs; move what both ends need into a file of its own";
        assert_eq!(new, [arrow, cycle]);
        let lib = "//! | room | may use |\n//! |---|---|\n//! | `a` | `b`, `gone` |\n\
                   //! | `z` | |\nmod a;\nmod b;\n";
        let wrong =
            found(&[("lib.rs", lib), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")]);
        let expected = [
            "Rooms lib.rs:3: a may use gone and does not: remove gone",
            "Rooms lib.rs:0: b has no row in the table: add | `b` | nothing | |",
            "Rooms lib.rs:4: z does not exist: remove the row",
        ];
        assert_eq!(wrong, expected);
        assert_eq!(two("use crate::b::B;", b), Vec::<String>::new());
    }

    #[test]
    fn a_room_may_be_divided_into_rooms() {
        let table = "//! | room | may use |\n//! |---|---|\n//! | `a` | nothing |\nmod a;\n";
        let inner = "//! | room | may use |\n//! |---|---|\n//! | `b` | nothing |\n\
             //! | `c` | nothing |\nmod b;\nmod c;\n";
        let files = [
            ("lib.rs", table),
            ("a/mod.rs", inner),
            ("a/b.rs", "pub struct B;\n"),
            ("a/c.rs", "use super::b::B;\nfn c(_: B) {}\n"),
        ];
        let arrow = "Rooms a/c.rs:1: c uses b, but may use only []: turn the arrow round, move the \
             code, or add b in a/mod.rs";
        assert_eq!(found(&files), [arrow]);
    }

    #[test]
    fn cycles_inside_a_room_count_and_contents_pages_make_none() {
        let table = "//! | room | may use |\n//! |---|---|\n//! | `a` | nothing |\nmod a;\n";
        let contents = "mod b;\nmod c;\nmod d;\npub(crate) use b::B;\npub use c::C;\n";
        let crate_of = |b: &str, c: &str, d: &str| {
            found(&[
                ("lib.rs", table),
                ("a/mod.rs", contents),
                ("a/b.rs", b),
                ("a/c.rs", c),
                ("a/d.rs", d),
            ])
        };
        let b = "use super::C;\npub struct B;\n";
        let cases = [
            (b, "pub struct C;\n", "", ""),
            (b, "use super::d::D;\npub struct C;\n", "pub struct D;\n", ""),
            (
                b,
                "pub struct C(super::B);\n",
                "use super::{B, C};\n",
                "2 files use each other: a/b.rs:1 uses a/c.rs, a/c.rs:1 uses a/b.rs;",
            ),
            (
                b,
                "use super::d;\n\npub struct C(d::D);\n",
                "use crate::a::B;\npub struct D;\n",
                "3 files use each other: a/b.rs:1 uses a/c.rs, a/c.rs:3 uses a/d.rs, \
                 a/d.rs:1 uses a/b.rs;",
            ),
        ];
        for (b, c, d, expected) in cases {
            let found = crate_of(b, c, d);
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
            assert!(found.iter().all(|one| one.contains(expected)), "{found:?}");
        }
    }

    #[test]
    fn an_impl_stands_with_its_type() {
        let b = "mod c;\npub use c::C;\npub struct B;\n";
        let cases = [
            ("use crate::b::B;\nimpl B {}", "b/mod.rs"),
            ("use crate::b::C;\nimpl<T: A> C<T> {}", "b/c.rs"),
            ("impl crate::D {}", "b/c.rs"),
            ("use crate::b::B;\nm! { impl B { fn f() {} } }", "b/mod.rs"),
            (
                "use crate::b::B;\n#[cfg(target_arch = \"x\")]\nmod i { use super::B; impl B {} }",
                "b/mod.rs",
            ),
            ("use crate::b::B;\nimpl Clone for B {}", ""),
            ("use crate::b::B;\nstruct A(B);\nimpl A {}", ""),
            ("use crate::b::B;\n#[cfg(test)]\nimpl B {}", ""),
        ];
        for (text, home) in cases {
            let found: Vec<String> =
                two(text, b).into_iter().filter(|one| one.contains("Impl")).collect();
            assert_eq!(found.len(), usize::from(!home.is_empty()), "{text}: {found:?}");
            assert!(
                found.iter().all(|one| one.ends_with(&format!("move it to {home}"))),
                "{found:?}"
            );
        }
    }
}
