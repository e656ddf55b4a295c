//! How an answer looks: colours where a terminal shows them, and characters that it has.

/// Clears a terminal.
pub(super) const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// What a text means at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
    /// Less important than the rest.
    Dim,
}

/// What the output can show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    /// Whether it has colours.
    pub(super) colours: bool,
    /// Whether it has more than ASCII.
    pub(super) unicode: bool,
    /// Whether it is a screen that can be cleared.
    pub(super) clears: bool,
}

impl Style {
    /// That of an output, by what it is and by the environment.
    pub(super) fn of(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| is_set(name));
        let locale = locale.and_then(&variable).unwrap_or_default().to_ascii_uppercase();
        let clears = is_terminal && !is_dumb;
        let colours = clears && !is_set("NO_COLOR");
        Self { colours, clears, unicode: locale.contains("UTF-8") || locale.contains("UTF8") }
    }

    /// `text` in the colour of its tone.
    pub(super) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.colours || text.is_empty() => return text.to_owned(),
            Tone::Good => "32",
            Tone::Warn => "33",
            Tone::Bad => "31",
            Tone::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// What points from a primary to its copies.
    pub(super) fn arrow(self) -> &'static str {
        if self.unicode { "\u{2192}" } else { "->" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_that_wants_them() {
        let style = |is_terminal, set: &[(&str, &str)]| {
            Style::of(is_terminal, |name| {
                set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
            })
        };
        type Set = &'static [(&'static str, &'static str)];
        let cases: [(bool, Set, bool, bool); 6] = [
            (true, &[], true, false),
            (true, &[("LANG", "de_DE.UTF-8")], true, true),
            (true, &[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")], true, false),
            (true, &[("NO_COLOR", "1"), ("LC_CTYPE", "C.utf8")], false, true),
            (true, &[("NO_COLOR", ""), ("TERM", "dumb")], false, false),
            (false, &[("LANG", "C.UTF-8")], false, true),
        ];
        for (is_terminal, set, colours, unicode) in cases {
            let style = style(is_terminal, set);
            assert_eq!((style.colours, style.unicode), (colours, unicode), "{set:?}");
        }
        assert_eq!(style(true, &[]).paint(Tone::Bad, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(style(false, &[]).paint(Tone::Bad, "no"), "no");
    }
}
